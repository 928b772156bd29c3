vim.api.nvim_create_autocmd({ "BufRead", "BufNewFile" }, {
  pattern = "*.axn",
  callback = function()
    vim.bo.filetype = "axon"
  end,
})
