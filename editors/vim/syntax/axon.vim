" Colours for Axon.  The words are those of lexer/keywords.def and
" primitives/dtypes.def: tests/check_editors.sh compares them.
if exists('b:current_syntax')
  finish
endif

syntax keyword axonDeclare and datatype do fun import open type val
syntax keyword axonKeyword as case end fn given in let of op with
syntax keyword axonConditional if then else
syntax keyword axonRepeat for
syntax keyword axonSpecial lift list new
syntax keyword axonBoolean true false
syntax keyword axonType bool u8 i8 i32 i64 f16 bf16 f32 f64 f8_e4m3 f8_e5m2 f4_e2m1 f8_e8m0
syntax keyword axonType int string unit key dim shape axis keep
syntax keyword axonTodo TODO FIXME XXX contained

syntax match axonConstructor /\<[A-Z][A-Za-z0-9_']*/
syntax match axonTypeVar /'[a-z][A-Za-z0-9_]*/
syntax match axonLabel /[~?][a-z_][A-Za-z0-9_']*:\?/
syntax match axonNumber /\<\d\+\>/
syntax match axonNumber /\<0[xX]\x\+\>/
syntax match axonFloat /\<\d\+\.\d\+\%([eE][-+]\?\d\+\)\?/
syntax match axonFloat /\<\d\+[eE][-+]\?\d\+/
syntax match axonFunction /\%(\<\%(fun\|and\)\s\+\)\@<=[a-z_][A-Za-z0-9_']*/
syntax match axonOperator /|>\|>>\|=>\|->!\?\|::\|[-+*\/%@^<>=!&|]/

syntax match axonEscape /\\\%([nrt0\\"]\|x\x\x\|u{\x\+}\)/ contained
syntax region axonString start=/"/ skip=/\\./ end=/"/ end=/$/ contains=axonEscape
syntax region axonComment start=/(\*/ end=/\*)/ contains=axonComment,axonTodo,axonExample
syntax match axonExample /^\s*\(>>>\|\.\.\.\) .*$/ contained
syntax match axonFirstLine /\%^#!.*/

syntax sync minlines=200

highlight default link axonDeclare Keyword
highlight default link axonKeyword Keyword
highlight default link axonConditional Conditional
highlight default link axonRepeat Repeat
highlight default link axonSpecial Keyword
highlight default link axonBoolean Boolean
highlight default link axonType Type
highlight default link axonTypeVar Type
highlight default link axonConstructor Constant
highlight default link axonLabel Label
highlight default link axonNumber Number
highlight default link axonFloat Float
highlight default link axonFunction Function
highlight default link axonOperator Operator
highlight default link axonString String
highlight default link axonEscape SpecialChar
highlight default link axonComment Comment
highlight default link axonExample SpecialComment
highlight default link axonFirstLine PreProc
highlight default link axonTodo Todo

let b:current_syntax = 'axon'
