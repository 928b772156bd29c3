# Is what was written what is wanted, but for the last digits of fractions?
#
#     awk -f tests/close.awk WANTED GOT
#
# Backends add up in different orders, so that numbers with a point or an
# exponent may differ, by
#
#     1e-5 of the largest such number between the same outermost brackets
#     (of itself, outside of brackets)
#     + one unit of the last digit, of numbers shown with four or more.
#
# All other text is to be the same: whole numbers, words, nan and inf; a run of
# blanks is as one blank.  Status 1, and the first place, where it is not so.

# Cuts a file into texts and numbers: text[0] number[1] text[1] ...; number k
# stands in line[k], and belongs to group[k].  Returns how many there are.
function cut(file, text, number, line, group,    s, n, gap, word, at, more) {
  n = depth = groups = at = 0
  text[0] = ""
  while ((more = (getline s < file)) > 0) {
    at++
    s = s "\n"
    while (match(s, /[A-Za-z_0-9.]+([eE][-+][0-9]+)?/)) {
      word = substr(s, RSTART, RLENGTH)
      gap = substr(s, 1, RSTART - 1)
      s = substr(s, RSTART + RLENGTH)
      brackets(gap)
      if (word !~ /^[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?$/ || word !~ /[.eE]/) {
        text[n] = text[n] gap word
        continue
      }
      if (gap ~ /-$/) {
        word = "-" word
        gap = substr(gap, 1, length(gap) - 1)
      }
      text[n] = text[n] gap
      number[++n] = word
      line[n] = at
      group[n] = depth > 0 ? groups : ++groups
      text[n] = ""
    }
    brackets(s)
    text[n] = text[n] s
  }
  if (more < 0)
    fail("cannot read " file)
  close(file)
  for (at = 0; at <= n; at++)
    gsub(/[ \t]+/, " ", text[at])
  return n
}

# Each outermost pair is a group.
function brackets(s,    opens) {
  while (match(s, /[][]/)) {
    opens = substr(s, RSTART, 1) == "["
    s = substr(s, RSTART + 1)
    if (opens && depth++ == 0)
      groups++
    else if (!opens && depth > 0)
      depth--
  }
}

function fail(message) {
  print message
  failed = 1
  exit 1
}

function size(x) {
  return x < 0 ? -x : x
}

# One unit of it; 0: there are too few.
function last_digit(x,    mantissa, power, point) {
  mantissa = x
  power = 0
  if (match(x, /[eE]/)) {
    mantissa = substr(x, 1, RSTART - 1)
    power = substr(x, RSTART + 1) + 0
  }
  sub(/^-/, "", mantissa)
  if (length(mantissa) < 5)
    return 0
  point = index(mantissa, ".")
  if (point)
    power -= length(mantissa) - point
  return exp(power * log(10))
}

function least(x, y) {
  return x < y ? x : y
}

BEGIN {
  n = cut(ARGV[1], want_text, want, want_line, want_group)
  m = cut(ARGV[2], got_text, got, got_line, got_group)
  for (k = 1; k <= n; k++)
    if (size(want[k] + 0) > largest[want_group[k]])
      largest[want_group[k]] = size(want[k] + 0)
  for (k = 0; k <= n && k <= m; k++) {
    if (want_text[k] != got_text[k])
      fail("after line " (k ? want_line[k] : 1) ": the text differs")
    if (k == n || k == m)
      break
    most = 1e-5 * largest[want_group[k + 1]] + \
           1.001 * least(last_digit(want[k + 1]), last_digit(got[k + 1]))
    if (size(want[k + 1] - got[k + 1]) > most)
      fail("line " want_line[k + 1] ": " got[k + 1] " is too far from " \
           want[k + 1])
  }
  if (n != m)
    fail(m " fractions, wanted " n)
  exit failed
}
