-- Axon in Neovim: starts `axon lsp`, one server for each workspace.
local M = {}

local options -- as given to setup; nil: not called
local clients = {} -- root -> id, for Neovim 0.7, which has no vim.lsp.start

-- Colours and comments are Vim's, in the folder beside this one.
local here = debug.getinfo(1, "S").source:sub(2)
local vim_folder = vim.fn.fnamemodify(here, ":p:h:h:h") .. "/vim"

local function keys(_, buffer)
  local function map(key, f)
    vim.keymap.set("n", key, f, { buffer = buffer })
  end
  map("K", vim.lsp.buf.hover)
  map("gd", vim.lsp.buf.definition)
  map("gr", vim.lsp.buf.references)
  map("<leader>rn", vim.lsp.buf.rename)
  map("<leader>ca", vim.lsp.buf.code_action)
  map("<leader>f", function()
    if vim.lsp.buf.format then
      vim.lsp.buf.format()
    else
      vim.lsp.buf.formatting()
    end
  end)
end

local function root_of(buffer)
  local path = vim.api.nvim_buf_get_name(buffer)
  local git = vim.fn.finddir(".git", vim.fn.fnamemodify(path, ":p:h") .. ";")
  if git ~= "" then
    return vim.fn.fnamemodify(git, ":p:h:h")
  end
  return vim.fn.fnamemodify(path, ":p:h")
end

local function config_of(root)
  return {
    name = "axon",
    cmd = options.cmd or { "axon", "lsp" },
    root_dir = root,
    on_attach = function(client, buffer)
      vim.bo[buffer].omnifunc = "v:lua.vim.lsp.omnifunc"
      local attach = options.on_attach or keys
      attach(client, buffer)
    end,
  }
end

-- Called for each buffer of the file type.
function M.attach(buffer)
  if not options then
    return
  end
  if buffer == 0 then
    buffer = vim.api.nvim_get_current_buf()
  end
  local root = root_of(buffer)
  local config = config_of(root)
  if vim.lsp.start then
    vim.lsp.start(config, { bufnr = buffer })
    return
  end
  config.on_exit = function()
    clients[root] = nil
  end
  clients[root] = clients[root] or vim.lsp.start_client(config)
  if clients[root] then
    vim.lsp.buf_attach_client(buffer, clients[root])
  end
end

function M.setup(given)
  options = given or {}
  if not vim.o.runtimepath:find(vim_folder, 1, true) then
    vim.opt.runtimepath:append(vim_folder)
  end
end

return M
