autocmd BufRead,BufNewFile *.axn setfiletype axon
