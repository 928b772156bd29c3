-- Neovim with the server, as a user has it: run by tests/check_editors.sh as
--   nvim --headless -u NONE -S tests/editors/nvim.lua
-- What is wrong is written to the file that $RESULT names; an empty file says
-- that all is well.
local root = vim.env.AXON_ROOT
local wrong = {}

local function check(ok, what, got)
  if not ok then
    table.insert(wrong, what .. ": " .. vim.inspect(got))
  end
end

local function finish()
  vim.fn.writefile(wrong, vim.env.RESULT)
  vim.cmd("qall!")
end

-- Waits until f gives something, and gives it; meanwhile the editor goes on,
-- as it does for a person.  In the coroutine below.
local function await(what, f)
  local me = coroutine.running()
  local timer = vim.loop.new_timer()
  local left = 1000
  timer:start(0, 20, vim.schedule_wrap(function()
    if timer:is_closing() then
      return
    end
    left = left - 1
    local ok, got = pcall(f)
    if not ok or got or left == 0 then
      timer:close()
      coroutine.resume(me, ok and got)
    end
  end))
  local got = coroutine.yield()
  check(got, "waited in vain for " .. what, got)
  return got
end

local function keys(text)
  vim.api.nvim_feedkeys(
    vim.api.nvim_replace_termcodes(text, true, false, true), "t", false)
end

local function run()
  vim.opt.runtimepath:append(root .. "/editors/nvim")
  require("axon").setup({ cmd = { vim.env.AXON, "lsp" } })
  -- what Neovim does when it starts with the folder on its path
  vim.cmd("filetype plugin on")
  vim.cmd("syntax on")
  vim.cmd("runtime! ftdetect/axon.lua")
  vim.cmd("edit model.axn")
  check(vim.bo.filetype == "axon", "file type", vim.bo.filetype)
  check(vim.bo.commentstring == "(* %s *)", "comments", vim.bo.commentstring)

  -- colours
  local function colour(line, column)
    local id = vim.fn.synID(line, column, 1)
    return vim.fn.synIDattr(id, "name")
  end
  for _, c in ipairs({
    { 1, 1, "axonComment" }, { 2, 1, "axonDeclare" }, { 2, 5, "axonFunction" },
    { 3, 3, "axonKeyword" }, { 3, 28, "axonLabel" }, { 6, 19, "axonFloat" },
    { 6, 6, "" },
  }) do
    check(colour(c[1], c[2]) == c[3], "colour at " .. c[1] .. ":" .. c[2],
      colour(c[1], c[2]))
  end
  for word in vim.gsplit(vim.env.KEYWORDS, " ") do
    vim.fn.setline(9, " " .. word .. " ")
    local name = colour(9, 2)
    check(name:match("^axon") and name ~= "axonType", "colour of " .. word,
      name)
  end
  vim.cmd("undo 0")

  -- the server
  local client = await("a client", function()
    local all = vim.lsp.get_active_clients()
    return all[1] and all[1].initialized and all[1]
  end)
  if not client then
    return
  end
  check(vim.bo.omnifunc == "v:lua.vim.lsp.omnifunc", "omnifunc",
    vim.bo.omnifunc)

  local function ask(method, line, column, more)
    vim.api.nvim_win_set_cursor(0, { line, column })
    local params = vim.lsp.util.make_position_params()
    params = vim.tbl_extend("force", params, more or {})
    local all, err = vim.lsp.buf_request_sync(0, method, params, 20000)
    check(all, method, err)
    local _, answer = next(all or {})
    return answer and answer.result
  end

  -- diagnostics
  local found = await("diagnostics", function()
    local all = vim.diagnostic.get(0)
    return #all > 0 and all
  end)
  check(#found == 1 and found[1].code == "E0301", "diagnostic", found)
  check(found[1].lnum == 6 and found[1].severity == 1, "its place", found)

  -- hover, in the window that a person sees
  vim.api.nvim_win_set_cursor(0, { 2, 4 })
  vim.lsp.buf.hover()
  local hover = await("hover", function()
    for _, w in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(w).relative ~= "" then
        local b = vim.api.nvim_win_get_buf(w)
        local text = table.concat(vim.api.nvim_buf_get_lines(b, 0, -1, false),
          "\n")
        vim.api.nvim_win_close(w, true)
        return text
      end
    end
  end)
  check(hover:find("softmax : 'a[...s, n] -> 'a[...s, n]", 1, true),
    "hover", hover)
  check(hover:find("exponentials of x", 1, true), "doc in hover", hover)

  -- definition
  vim.api.nvim_win_set_cursor(0, { 6, 8 })
  vim.lsp.buf.definition()
  await("definition", function()
    local at = vim.api.nvim_win_get_cursor(0)
    return at[1] == 2 and at[2] == 4
  end)

  -- signature, uses
  local uses = ask("textDocument/references", 2, 4,
    { context = { includeDeclaration = true } })
  check(uses and #uses == 2, "uses", uses)

  -- completion by omnifunc, as a person types
  vim.api.nvim_buf_set_lines(0, 7, 8, false, { "val z = softm" })
  vim.api.nvim_win_set_cursor(0, { 8, 9 })
  keys("A<C-x><C-o>")
  await("completion", function()
    return vim.fn.getline(8) == "val z = softmax"
  end)
  keys(" y<Esc>")
  await("the rest of the line", function()
    return vim.fn.getline(8) == "val z = softmax y"
      and vim.api.nvim_get_mode().mode == "n"
  end)
  local answer = ask("textDocument/completion", 8, 10)
  local labels = {}
  for _, item in ipairs(answer.items) do
    labels[item.label] = item
  end
  check(labels.softmax and labels.sort, "completion", vim.tbl_keys(labels))
  local called = ask("textDocument/signatureHelp", 8, 16)
  check(called.signatures[1].label:find("softmax : ", 1, true), "signature",
    called)

  -- rename
  vim.api.nvim_win_set_cursor(0, { 2, 4 })
  vim.lsp.buf.rename("weights")
  await("rename", function()
    return vim.fn.getline(8) == "val z = weights y"
  end)
  check(vim.fn.getline(2) == "fun weights x =", "rename", vim.fn.getline(2))

  -- a code action: a misspelt name
  vim.fn.setline(8, "val z = wieghts y")
  await("the diagnostic of a name", function()
    for _, d in ipairs(vim.diagnostic.get(0)) do
      if d.code == "E0312" then
        return true
      end
    end
  end)
  vim.api.nvim_win_set_cursor(0, { 8, 10 })
  vim.ui.select = function(actions, _, choose)
    choose(actions[1])
  end
  vim.lsp.buf.code_action({ context = { only = { "quickfix" } } })
  await("the fix", function()
    return vim.fn.getline(8) == "val z = weights y"
  end)

  -- layout
  vim.fn.setline(8, "val   z=weights   y")
  if vim.lsp.buf.format then
    vim.lsp.buf.format({ timeout_ms = 20000 })
  else
    vim.lsp.buf.formatting_sync(nil, 20000)
  end
  check(vim.fn.getline(8) == "val z = weights y", "layout", vim.fn.getline(8))

  -- the end
  client.stop()
  await("the server's end", function()
    return client.is_stopped()
  end)
end

vim.schedule(function()
  coroutine.wrap(function()
    local ok, err = xpcall(run, debug.traceback)
    check(ok, "error", err)
    finish()
  end)()
end)
