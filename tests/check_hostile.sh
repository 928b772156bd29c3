#!/bin/bash
# Hostile programs and data files: deep nesting, huge inputs, binary data.  Each
# ends in reasonable time with status 0 or 1, for any `ulimit -s`.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/fuzz/seeds/csv"
ulimit -c 0
bad=0

rep() { # rep N TEXT: prints the text N times
  [ "$1" -gt 0 ] || return 0
  printf "%$1s" '' | sed "s/ /$2/g"
}

# Runs `axon VERB p.axn`.  EXPECTED is `error` (status 1), `fine` (status 0) or
# `any` (either).
ends() { # ends EXPECTED VERB
  got=0
  timeout 60 "$AXON" "$2" p.axn >out 2>err </dev/null || got=$?
  case $got in
  0) [ "$1" != error ] && return ;;
  1) [ "$1" != fine ] && grep -q '^error' err && return ;;
  esac
  echo "status $got, expected $1: axon $2 of $name" && bad=1
  head -c 300 err
}

# Repeats OPEN and CLOSE around MIDDLE.  Nesting far beyond the limit is an
# error.  Nesting below the limit is checked, formatted and run.
nest() { # nest NAME BEFORE OPEN MIDDLE CLOSE AFTER
  for depth in ${depths:-200000 1990 900}; do
    name="$1, $depth times"
    expected=any
    [ "$depth" = 200000 ] && expected=error
    {
      printf '%s' "$2"
      rep "$depth" "$3"
      printf '%s' "$4"
      rep "$depth" "$5"
      printf '%s\n' "$6"
    } >p.axn
    ends "$expected" check
    [ "$depth" = 900 ] && ends any run
    [ "$depth" = 1990 ] && ends any fmt
  done
}

nest parentheses 'val x = ' '(' 1 ')' ''
nest brackets 'val x = ' '[' 1 ']' ''
nest pairs 'val x = ' '(1, ' 1 ')' ''
nest records 'val x = ' '{a = ' 1 '}' ''
nest fn 'val x = ' 'fn y => ' 1 '' ''
nest applied 'val x = ' '(fn y => y) (' 1 ')' ''
nest let 'val x = ' 'let val y = 1 in ' 1 ' end' ''
nest 'let within let' 'val x = ' 'let val y = ' 1 ' in y end' ''
nest if 'val x = ' 'if true then ' 1 ' else 2' ''
nest else 'val x = ' 'if true then 2 else ' 1 '' ''
nest case 'val x = ' 'case 1 of y => ' 1 '' ''
nest for 'val x = ' 'for i < 1 => ' 1 '' ''
nest '+' 'val x = 1' ' + 1' '' '' ''
nest '+ to the right' 'val x = ' '1 + (' 1 ')' ''
nest '::' 'val x = ' '1 :: ' '[]' '' ''
nest '|>' 'val x = 1' ' |> (fn x => x)' '' '' ''
nest '>>' 'val x = (fn x => x)' ' >> (fn x => x)' '' '' ''
nest andalso 'val x = true' ' andalso true' '' '' ''
nest not 'val x = ' 'not (' true ')' ''
nest minus 'val x = ' '-(' 1 ')' ''
nest 'pattern' 'fun f ' '(' x ')' ' = 1'
nest 'pattern of pairs' 'fun f ' '(_, ' x ')' ' = 1'
nest 'pattern of conses' 'fun f (' 'x :: ' y '' ') = 1'
nest 'type' 'val x : ' '(' i64 ')' ' = 1'
nest 'type of functions' 'fun f (x : ' 'i64 -> ' i64 '' ') = x'
nest 'type of lists' 'fun f (x : ' '(' i64 ') list' ') = x'
nest 'size' 'fun f (x : f32[' '(' n ')' ']) = x'
nest 'sum of sizes' 'fun f (x : f32[n' ' + n' '' '' ']) = x'
nest 'product of sizes' 'fun f (x : f32[n' ' * n' '' '' ']) = x'
nest 'power of sums' 'fun f (x : f32[' '(n + m) * ' 1 '' ']) = x'
nest 'quotient of sizes' 'fun f (x : f32[' '(1 + ' n ') \/ 2' ']) = x'
nest 'access' 'fun f x = x' '.a' '' '' ''
nest 'index' 'fun f x = x' '[0]' '' '' ''
nest 'application' 'fun f g = g' ' 1' '' '' ''
nest 'type of for' 'val x = ' 'for i < 2 => ' 'sum (for j < 2 => i + j)' '' ''

nest 'list' 'val x = ' 'list [' 1 ']' ''
nest 'in a call' 'fun f g = ' 'g (' 1 ')' ''
depths='200000 150' nest 'tensor of conditions' 'val x = ' \
  '[if true then ' 1 ' else 2]' ''
nest 'condition' 'val x = ' 'if ' true ' then true else false' ''
nest 'case within case' 'val x = ' 'case ' 1 ' of y => y' ''
nest 'index in index' 'fun f x = ' 'x.[' 0 ']' ''
depths='200000 150' nest 'range in index' 'fun f x = ' 'x.[1:' 0 ']' ''
nest 'record with' 'fun f x = ' '{x with a = ' 1 '}' ''
nest 'joined text' 'val x = "a"' ' ^ "a"' '' '' ''
nest '@' 'fun f x = x' ' @ x' '' '' ''
nest 'let fun' 'val x = ' 'let fun f y = y in ' 1 ' end' ''
nest 'fn of patterns' 'val f = ' 'fn (y, _) => ' 1 '' ''
nest 'annotation' 'val x = ' '(' 1 ' : i64)' ''
nest 'argument with label' 'fun f g = ' 'g ~x:(' 1 ')' ''
nest 'pattern of records' 'fun f ' '{a = ' x '}' ' = 1'
nest 'pattern of tensors' 'fun f ' '[' x ']' ' = 1'
nest 'pattern of lists' 'fun f ' 'list [' x ']' ' = 1'
nest 'pattern of annotations' 'fun f ' '(' x ' : i64)' ' = 1'
nest 'pattern of constructors' 'fun f ' '(Some ' x ')' ' = 1'
nest 'type of pairs' 'val x : ' '(i64 * ' i64 ')' ' = 1'
nest 'product of types' 'val x : i64' ' * i64' '' '' ' = 1'
nest 'type of records' 'val x : ' '{a : ' i64 '}' ' = 1'
nest 'type of lift' 'fun f (x : ' 'lift(n, ' "'a" ')' ') = x'
nest 'list list' 'val x : i64' ' list' '' '' ' = 1'
nest 'appended axes' 'fun f (x : f32[' '...join(s, ' ...t ')' ']) = x'
nest 'minimum' 'fun f (x : f32[' 'min(n, ' m ')' ']) = x'
nest 'minus size' 'fun f (x : f32[' '-' n '' ']) = x'
nest 'remainder' 'fun f (x : f32[n' ' % m' '' '' ']) = x'
nest 'constructor of type' 'datatype t = A of ' '(' i64 ')' ''
nest 'minus signs' 'val x = ' '- ' 1 '' ''

# Repeats PART 700 times without nesting.
many() { # many NAME BEFORE PART AFTER
  name="many $1"
  { printf '%s' "$2" && rep 700 "$3" && printf '%s\n' "$4"; } >p.axn
  ends any check
  ends any fmt
}

many 'case of many' 'val x = case 1 of 0 => 0' ' | 1 => 1' ''
many 'clauses' 'fun f 0 = 0' ' | f 1 = 1' ''
many 'functions of one fun' 'fun f x = 1' ' and g x = f x' ''
many 'constructors' 'datatype t = A' ' | A' ''
many 'parameters' 'fun f' ' x' ' = 1'
many 'sequence' 'val x = (1' '; 1' ')'
many 'axes' 'fun f (x : f32[n' ', n' ']) = x'
many 'facts' 'fun f (x : f32[n]) given 1 <= n' ', 1 <= n' ' = x'
many 'fields' 'val x = {a = 1' ', a = 1' '}'

# Nested comments, unbalanced brackets, and long inputs without nesting.
name=comments
{ rep 200000 '(\* ' && rep 200000 ' \*)' && echo 'val x = 1'; } >p.axn
ends any check
name='open comments'
rep 200000 '(\* ' >p.axn
ends error check
name='open brackets'
{ echo -n 'val x = ' && rep 200000 '['; } >p.axn
ends error check
name='closed brackets'
{ echo -n 'val x = ' && rep 200000 ']'; } >p.axn
ends error check
name='mixed brackets'
{ echo -n 'val x = ' && rep 100000 '([{' && rep 100000 ')]}'; } >p.axn
ends error check
name='many values'
rep 5000 'val x = 1\n' >p.axn
ends fine check
name='many errors'
rep 5000 'val x = y\n' >p.axn
ends error check
name='a long list'
{ echo -n 'val x = [1' && rep 20000 ', 1' && echo ']'; } >p.axn
ends any run
name='a long name'
{ echo -n 'val x' && rep 200000 a && echo ' = 1'; } >p.axn
ends any check
name='a long number'
{ echo -n 'val x = ' && rep 200000 9; } >p.axn
ends error check
name='a long text'
{ echo -n 'val x = "' && rep 200000 'a' && echo '"'; } >p.axn
ends fine run
name='a text without end'
{ echo -n 'val x = "' && rep 200000 'a'; } >p.axn
ends error check

# Small programs with large types.
name='pairs of pairs'
{
  echo 'val x0 = 1'
  for i in {1..600}; do echo "val x$i = (x$((i - 1)), 1)"; done
} >p.axn
ends any run
name='pairs doubled'
{
  echo 'fun f0 x = (x, x)'
  for i in {1..40}; do echo "fun f$i x = f$((i - 1)) (f$((i - 1)) x)"; done
} >p.axn
ends any check

# Invalid UTF-8 and control characters.
name='no UTF-8'
for bytes in '\xff' '\xc0\x80' '\xed\xa0\x80' '\xf5\x80\x80\x80' '\xe2\x82' \
  '\x80' '\0' '\x01' '\x7f' '\xef\xbf\xbe'; do
  for text in "val x = $bytes" "val x = \"$bytes\"" "(* $bytes *) val x = 1" \
    "val x$bytes = 1" "$bytes" "val x = \"$bytes"; do
    printf '%b' "$text\n" >p.axn
    name="bytes $text"
    ends any check
    ends any fmt
  done
done
name='random bytes'
for seed in 1 2 3 4 5; do
  awk -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < 20000; i++)
    printf "%c", int(rand() * 255) + 1 }' >p.axn
  ends any check
done
name='zeros'
head -c 200000 /dev/zero >p.axn
ends error check
name='nothing'
: >p.axn
ends fine run

# Devices, folders and missing files as programs.
for verb in check run fmt test; do
  for file in /dev/zero /dev/null . nothing.axn /proc/self/mem; do
    got=0
    timeout 300 "$AXON" "$verb" "$file" >out 2>err </dev/null || got=$?
    [ "$got" -le 1 ] || { echo "status $got: axon $verb $file" && bad=1; }
  done
  got=0
  timeout 300 "$AXON" "$verb" - >out 2>err </dev/zero || got=$?
  [ "$got" = 1 ] || { echo "status $got: axon $verb - </dev/zero" && bad=1; }
done

# Named pipes that nobody writes, wherever a file is read.
mkfifo pipe.axn pipe.onnx pipe.json pipe.npy pipe.gguf
mkdir piped
mkfifo piped/config.json piped/tokenizer.json piped/model.safetensors
echo 'do print (read_text "pipe.json")' >text.axn
echo 'import "./pipe" as p' >imports.axn
echo 'do print 1' >one.axn
for words in 'check pipe.axn' 'run pipe.axn' 'fmt pipe.axn' 'test pipe.axn' \
  'run imports.axn' 'run text.axn' 'run --schedules pipe.json one.axn' \
  'check pipe.onnx' 'import pipe.onnx' 'embed piped x' \
  'serve piped' 'serve pipe.gguf' 'generate pipe.gguf x'; do
  got=0
  # shellcheck disable=SC2086
  timeout -k 1 20 "$AXON" $words >out 2>&1 </dev/null || got=$?
  [ "$got" = 1 ] && grep -q 'it is not a regular file' out ||
    { echo "status $got: axon $words: $(head -n 3 out)" && bad=1; }
done
[ "$("$AXON" run <(echo 'do print 1') 2>&1)" = 1 ] ||
  { echo 'a program in /dev/fd' && bad=1; }
ln -s /dev/zero zero.npy
mkdir folder.npy

# The programs below must run within little memory.  (The 512 MB of the stack
# are only reserved.)
ulimit -S -v "${MEMORY:-1500000}"

# Many equations between sizes, and types that double.
for last in 5 200; do
  awk -v last="$last" 'BEGIN {
    printf "fun f"
    for (i = 0; i < 200; i++) printf " (a%d : f32[n%d])", i, i
    for (i = 0; i < 198; i++)
      printf "%s n%d + n%d == n%d + %s%d", (i ? "," : " given"), i, i + 1,
        (i * 7 + 3) % 200, (last > 5 ? "n" : ""), (i * 11 + 5) % last
    print " = a0"
  }' >p.axn || bad=1
  name="equations $last"
  ends fine check
done
name='types that double'
{
  echo 'fun f0 x = x'
  for i in {1..24}; do echo "fun f$i x = (f$((i - 1)) x, f$((i - 1)) x)"; done
} >p.axn
ends error check
grep -q E0324 err || { echo "no limit named: $name" && bad=1; }

# Decompression bombs: small files that are large in memory.  The error names
# the limit and the setting that raises it.  Raising it helps.  Files with a
# usual compression ratio are loaded.
python3 - <<'end' || { echo 'cannot write the bombs' && bad=1; }
import json, os, struct, zlib

def deflate(data, flush=zlib.Z_FULL_FLUSH):
    z = zlib.compressobj(9, zlib.DEFLATED, -15)
    return z.compress(data) + z.flush(flush)

def npz(path, megabytes, body=None, crc=None):
    """Writes a tensor of u8: zeros, or the body (1 MiB) repeated."""
    mega = bytes(1 << 20) if body is None else body
    size = megabytes << 20
    head = "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % size
    head = head.ljust(117) + "\n"
    head = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode()
    packed = deflate(head) + deflate(mega) * megabytes
    packed += deflate(b"", zlib.Z_FINISH)
    crc = zlib.crc32(head)
    for _ in range(megabytes if megabytes < 100 else 0):
        crc = zlib.crc32(mega, crc)
    about = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc, len(packed),
                        size + len(head), 5, 0)
    local = b"PK\3\4" + about + b"x.npy"
    central = b"PK\1\2\x14\0" + about + bytes(14) + b"x.npy"
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(central),
                      len(local) + len(packed), 0)
    open(path, "wb").write(local + packed + central + end)

def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data +
            struct.pack(">I", zlib.crc32(kind + data)))

def png(path, side):
    rows = zlib.compressobj(9)
    packed = b"".join(rows.compress(bytes(side + 1)) for _ in range(side))
    packed += rows.flush()
    if len(packed) * 1032 < side * side:
        packed += bytes(side * side // 1000)
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" +
        chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
        chunk(b"IDAT", packed) + chunk(b"IEND", b""))

npz("bomb.npz", 1024)
npz("small.npz", 8)
npz("usual.npz", 8, os.urandom(1 << 19) * 2)
png("small.png", 3000)
claim = struct.pack(">IIBBBBB", 30000, 30000, 8, 0, 0, 0, 0)
open("bomb.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", claim) +
    chunk(b"IDAT", zlib.compress(bytes(1 << 20)) + bytes(1000000)) +
    chunk(b"IEND", b""))
names = {"__metadata__": {str(i): "" for i in range(300000)}}
text = json.dumps(dict(names, x={"dtype": "U8", "shape": [1],
                                 "data_offsets": [0, 1]})).encode()
open("bomb.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + b"1")
end
bomb() { # bomb EXPECTED FILE RANK [LIMIT]
  name="$2, limit ${4:-default}"
  echo "do print (sum (load \"$2\" : u8[${3}]))" >p.axn
  AXON_FILE_LIMIT=${4-} ends "$1" run
  [ "$1" = fine ] || grep -q "\"$2\": .* limit of " err ||
    { echo "no limit named: $name" && bad=1; }
  [ "$1" = fine ] || grep -q 'AXON_FILE_LIMIT=[0-9]*[MG] ' err ||
    { echo "no hint in the error: $name" && bad=1; }
}
for file in bomb.npz bomb.png small.npz small.png bomb.safetensors; do
  [ "$(stat -c %s $file)" -lt 6000000 ] || { echo "$file is large" && bad=1; }
done
bomb error bomb.npz n
bomb error bomb.png 'h, w, c'
bomb fine small.npz n
bomb error small.npz n 4M
bomb fine small.npz n 9M
bomb fine usual.npz n 4M
bomb fine small.png 'h, w, c'
bomb error small.png 'h, w, c' 4M
bomb fine small.png 'h, w, c' 16M
bomb fine bomb.safetensors n
bomb error bomb.safetensors n 4M
bomb fine bomb.safetensors n 128M
cp "$here/tests/fuzz/seeds/pth/hostile_shared_tensors.pth" bomb.pth
bomb error bomb.pth n 64M
rm -f ./*.npz ./*.png ./*.safetensors ./*.pth

# Fuzzer seeds, special files and truncated files as data: the result is an
# error or a tensor.
name='hostile data'
rm -f -- *.csv
for file in "$here"/tests/fuzz/seeds/*/*.{npy,npz,png,csv,safetensors,pth,pt} \
  pipe.npy zero.npy folder.npy /dev/zero; do
  echo "do print (load \"$file\" : f32[...s])" >p.axn
  name="loading $file"
  ends any run
done
for file in "$here"/tests/fuzz/seeds/*/[!h]*.{npy,npz,png,safetensors,pth}; do
  size=$(stat -c %s "$file")
  for part in 0 3 7; do
    cut=cut$part.${file##*.}
    head -c $((size * part / 8)) "$file" >"$cut"
    echo "do print (load \"$cut\" : f32[...s])" >p.axn
    name="$part eighths of $file"
    ends error run
  done
done
exit "$bad"
