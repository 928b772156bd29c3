/* Integers of any size: int64 until that overflows, then limbs in the arena,
   computed by GMP's mpn_ functions.  A value that fits in int64 always has the
   small form, so equal values have equal representations. */
#include "internal.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <ctype.h>
#include <gmp.h>
#include <string.h>

_Static_assert(sizeof(mp_limb_t) == 8 && GMP_NAIL_BITS == 0,
               "limbs are 64 bits");

typedef struct Magnitude {
  const mp_limb_t *limbs;
  mp_size_t len;
  bool negative;
  mp_limb_t inline_limb;
} Magnitude;

static void magnitude_of(Magnitude *v, BigInt a) {
  if (a.limbs) {
    v->limbs = a.limbs;
    v->len = bigint_limb_count(a);
    v->negative = a.small < 0;
    return;
  }
  v->negative = a.small < 0;
  v->inline_limb = v->negative ? -(mp_limb_t)a.small : (mp_limb_t)a.small;
  v->limbs = &v->inline_limb;
  v->len = v->inline_limb != 0;
}

static mp_limb_t *limbs_new(DimCtx *cx, mp_size_t len) {
  if (len > DIM_MAX_LIMBS)
    dim_limit_exceeded(cx);
  cx->has_wide_numbers = true;
  return NEW_ARRAY(cx->arena, mp_limb_t, len ? len : 1);
}

static BigInt normalize(const mp_limb_t *at, mp_size_t len, bool negative) {
  while (len && !at[len - 1])
    len--;
  if (!len)
    return bigint_of(0);
  mp_limb_t top = (mp_limb_t)1 << 63;
  if (len == 1 && at[0] < top)
    return bigint_of(negative ? -(int64_t)at[0] : (int64_t)at[0]);
  if (len == 1 && at[0] == top && negative)
    return bigint_of(INT64_MIN);
  return (BigInt){.small = negative ? -len : len, .limbs = at};
}

static int magnitude_cmp(const Magnitude *a, const Magnitude *b) {
  if (a->len != b->len)
    return a->len < b->len ? -1 : 1;
  return a->len ? mpn_cmp(a->limbs, b->limbs, a->len) : 0;
}

int bigint_cmp_wide(BigInt a, BigInt b) {
  int sa = bigint_sign(a), sb = bigint_sign(b);
  if (sa != sb)
    return sa < sb ? -1 : 1;
  Magnitude va, vb;
  magnitude_of(&va, a);
  magnitude_of(&vb, b);
  int order = magnitude_cmp(&va, &vb);
  return sa < 0 ? -order : order;
}

/* Adds magnitudes, or subtracts them; subtraction requires |a| >= |b|. */
static BigInt add_magnitudes(DimCtx *cx, const Magnitude *a, const Magnitude *b,
                             bool add, bool negative) {
  if (a->len < b->len) {
    const Magnitude *other = a;
    a = b;
    b = other;
  }
  if (!a->len)
    return bigint_of(0);
  mp_limb_t *at = limbs_new(cx, a->len + 1);
  if (!b->len)
    mpn_copyi(at, a->limbs, a->len);
  else if (add)
    at[a->len] = mpn_add(at, a->limbs, a->len, b->limbs, b->len);
  else
    mpn_sub(at, a->limbs, a->len, b->limbs, b->len);
  return normalize(at, a->len + 1, negative);
}

BigInt bigint_add_wide(DimCtx *cx, BigInt a, BigInt b) {
  Magnitude va, vb;
  magnitude_of(&va, a);
  magnitude_of(&vb, b);
  if (va.negative == vb.negative)
    return add_magnitudes(cx, &va, &vb, true, va.negative);
  if (magnitude_cmp(&va, &vb) >= 0)
    return add_magnitudes(cx, &va, &vb, false, va.negative);
  return add_magnitudes(cx, &vb, &va, false, vb.negative);
}

BigInt bigint_neg(DimCtx *cx, BigInt a) {
  if (!a.limbs && a.small != INT64_MIN)
    return bigint_of(-a.small);
  if (!a.limbs) {
    mp_limb_t *at = limbs_new(cx, 1);
    at[0] = (mp_limb_t)1 << 63;
    return normalize(at, 1, false);
  }
  return normalize(a.limbs, bigint_limb_count(a), a.small > 0);
}

BigInt bigint_abs(DimCtx *cx, BigInt a) {
  return bigint_sign(a) < 0 ? bigint_neg(cx, a) : a;
}

BigInt bigint_sub(DimCtx *cx, BigInt a, BigInt b) {
  int64_t difference;
  if (!a.limbs && !b.limbs &&
      !__builtin_sub_overflow(a.small, b.small, &difference))
    return bigint_of(difference);
  return bigint_add(cx, a, bigint_neg(cx, b));
}

BigInt bigint_mul_wide(DimCtx *cx, BigInt a, BigInt b) {
  Magnitude va, vb;
  magnitude_of(&va, a);
  magnitude_of(&vb, b);
  if (!va.len || !vb.len)
    return bigint_of(0);
  bool negative = va.negative != vb.negative;
  mp_limb_t *at = limbs_new(cx, va.len + vb.len);
  if (va.len >= vb.len)
    mpn_mul(at, va.limbs, va.len, vb.limbs, vb.len);
  else
    mpn_mul(at, vb.limbs, vb.len, va.limbs, va.len);
  return normalize(at, va.len + vb.len, negative);
}

/* Truncated quotient and remainder of magnitudes. */
static void divide_magnitudes(DimCtx *cx, const Magnitude *a,
                              const Magnitude *b, BigInt *q, BigInt *r) {
  if (magnitude_cmp(a, b) < 0) {
    mp_limb_t *copy = limbs_new(cx, a->len);
    if (a->len)
      mpn_copyi(copy, a->limbs, a->len);
    *q = bigint_of(0);
    *r = normalize(copy, a->len, false);
    return;
  }
  mp_limb_t *qp = limbs_new(cx, a->len - b->len + 1);
  mp_limb_t *rp = limbs_new(cx, b->len);
  mpn_tdiv_qr(qp, rp, 0, a->limbs, a->len, b->limbs, b->len);
  *q = normalize(qp, a->len - b->len + 1, false);
  *r = normalize(rp, b->len, false);
}

void bigint_divide(DimCtx *cx, BigInt a, BigInt b, BigInt *q, BigInt *r) {
  if (!a.limbs && !b.limbs && !(a.small == INT64_MIN && b.small == -1) &&
      b.small != INT64_MIN) {
    int64_t quotient = a.small / b.small, rest = a.small % b.small;
    if (rest < 0) {
      quotient += b.small < 0 ? 1 : -1;
      rest += b.small < 0 ? -b.small : b.small;
    }
    *q = bigint_of(quotient);
    *r = bigint_of(rest);
    return;
  }
  Magnitude va, vb;
  magnitude_of(&va, a);
  magnitude_of(&vb, b);
  divide_magnitudes(cx, &va, &vb, q, r);
  if (va.negative) {
    *q = bigint_neg(cx, *q);
    if (bigint_sign(*r)) {
      *q = bigint_sub(cx, *q, bigint_of(1));
      *r = bigint_sub(cx, bigint_abs(cx, b), *r);
    }
  }
  if (vb.negative)
    *q = bigint_neg(cx, *q);
}

static uint64_t small_gcd(uint64_t a, uint64_t b) {
  while (b > 1) {
    uint64_t r = a % b;
    a = b;
    b = r;
  }
  return b ? 1 : a;
}

BigInt bigint_gcd(DimCtx *cx, BigInt a, BigInt b) {
  if (bigint_is(a, 1) || bigint_is(b, 1))
    return bigint_of(1);
  a = bigint_abs(cx, a);
  b = bigint_abs(cx, b);
  if (!a.limbs && !b.limbs)
    return bigint_of((int64_t)small_gcd((uint64_t)a.small, (uint64_t)b.small));
  while (bigint_sign(b)) { /* Euclid's algorithm */
    BigInt q, r;
    bigint_divide(cx, a, b, &q, &r);
    a = b;
    b = r;
  }
  return a;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  return isalpha((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
}

BigInt bigint_parse(DimCtx *cx, const char *text) {
  bool negative = *text == '-';
  text += negative;
  int base = 10;
  if (text[0] == '0' && text[1]) {
    int letter = tolower((unsigned char)text[1]);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    text += base == 10 ? 0 : 2;
  }
  size_t len = strlen(text), count = 0;
  unsigned char *digits = arena_alloc(cx->arena, len + 1);
  for (size_t i = 0; i < len; i++) {
    int digit = digit_of(text[i]);
    if (digit < base && (count || digit)) /* other characters are separators */
      digits[count++] = (unsigned char)digit;
  }
  if (!count)
    return bigint_of(0);
  if (count / 16 + 2 > DIM_MAX_LIMBS)
    dim_limit_exceeded(cx);
  mp_limb_t *at = limbs_new(cx, (mp_size_t)(count / 16 + 2));
  mp_size_t used = mpn_set_str(at, digits, count, base);
  return normalize(at, used, negative);
}

/* Faster than printf: types of models contain thousands of numbers. */
static const char *int64_text(Arena *arena, int64_t n) {
  char digits[24];
  size_t at = sizeof digits;
  uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
  do
    digits[--at] = (char)('0' + rest % 10);
  while (rest /= 10);
  if (n < 0)
    digits[--at] = '-';
  return arena_strndup(arena, digits + at, sizeof digits - at);
}

const char *bigint_text(DimCtx *cx, BigInt a) {
  if (!a.limbs)
    return int64_text(cx->arena, a.small);
  uint32_t count = bigint_limb_count(a);
  mp_limb_t *copy = limbs_new(cx, count); /* mpn_get_str overwrites it */
  mpn_copyi(copy, a.limbs, count);
  char *text = arena_alloc(cx->arena, (size_t)count * 20 + 3);
  char *at = text;
  if (a.small < 0)
    *at++ = '-';
  size_t len = mpn_get_str((unsigned char *)at, 10, copy, count);
  for (size_t i = 0; i < len; i++)
    at[i] = (char)(at[i] + '0');
  if (len > 1 && at[0] == '0') /* mpn_get_str may produce a leading zero */
    memmove(at, at + 1, len--);
  at[len] = 0;
  return text;
}
