" What editing Axon is like: comments, indentation by two, `:make`.
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1

setlocal commentstring=(*\ %s\ *)
setlocal comments=s1:(*,mb:*,ex:*)
setlocal expandtab shiftwidth=2 softtabstop=2 autoindent
setlocal suffixesadd=.axn
let &l:include = '^\s*import\s*"'
setlocal makeprg=axon\ check\ -q\ --color=never\ %:S
" error[E0301]: what is wrong, and below it the place
setlocal errorformat=%E%trror[%*[EW]%n]:\ %m,%W%tarning[%*[EW]%n]:\ %m,%C%*[^╭]╭─\ %f:%l:%c,%C%.%#

let b:undo_ftplugin = 'setlocal commentstring< comments< expandtab<'
      \ . ' shiftwidth< softtabstop< autoindent< suffixesadd< include<'
      \ . ' makeprg< errorformat<'
