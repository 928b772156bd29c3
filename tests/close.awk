# Compares two outputs, with a tolerance for fractions.
#
#     awk -f tests/close.awk EXPECTED ACTUAL
#
# Backends add in different orders.  So numbers with a point or an exponent may
# differ.  The tolerance is the sum of
#
#     1e-5 times the largest such number in the same outermost brackets
#     (outside of brackets: the number itself), and
#     one unit of the last digit, if the number has at least four digits.
#
# All other text must be equal: integers, words, nan and inf.  A sequence of
# blanks equals one blank.  Prints the first difference; the status is then 1.

# Splits a file into text and numbers: text[0] number[1] text[1] ...  Number k
# is in line line[k] and in group group[k].  Returns the number of numbers.
function split_file(file, text, number, line, group,    s, n, gap, word, at, more) {
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

# Each outermost pair of brackets is a group.
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

function absolute(x) {
  return x < 0 ? -x : x
}

# One unit of the last digit of x; 0 if x has less than four digits.
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

function min(x, y) {
  return x < y ? x : y
}

BEGIN {
  n = split_file(ARGV[1], expected_text, expected, expected_line,
                 expected_group)
  m = split_file(ARGV[2], got_text, got, got_line, got_group)
  for (k = 1; k <= n; k++)
    if (absolute(expected[k] + 0) > largest[expected_group[k]])
      largest[expected_group[k]] = absolute(expected[k] + 0)
  for (k = 0; k <= n && k <= m; k++) {
    if (expected_text[k] != got_text[k])
      fail("after line " (k ? expected_line[k] : 1) ": the text differs")
    if (k == n || k == m)
      break
    tolerance = 1e-5 * largest[expected_group[k + 1]] + \
                1.001 * min(last_digit(expected[k + 1]), \
                            last_digit(got[k + 1]))
    if (absolute(expected[k + 1] - got[k + 1]) > tolerance)
      fail("line " expected_line[k + 1] ": " got[k + 1] " is too far from " \
           expected[k + 1])
  }
  if (n != m)
    fail(m " fractions, expected " n)
  exit failed
}
