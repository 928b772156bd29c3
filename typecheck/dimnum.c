/* Integers of any size: int64 until that overflows, then limbs in the arena,
 * by GMP's mpn_ functions.  A value that fits in int64 is always small, so
 * equal values have equal representations. */
#include "diminternal.h"

#include <ctype.h>
#include <gmp.h>
#include <string.h>

_Static_assert(sizeof(mp_limb_t) == 8 && GMP_NAIL_BITS == 0,
               "limbs are 64 bits");

typedef struct View { /* a magnitude */
  const mp_limb_t *at;
  mp_size_t len;
  bool negative;
  mp_limb_t own;
} View;

static void view(View *v, Num a) {
  if (a.limbs) {
    v->at = a.limbs;
    v->len = a.len;
    v->negative = a.negative;
    return;
  }
  v->negative = a.small < 0;
  v->own = v->negative ? -(mp_limb_t)a.small : (mp_limb_t)a.small;
  v->at = &v->own;
  v->len = v->own != 0;
}

static mp_limb_t *limbs_new(DimCtx *cx, mp_size_t len) {
  if (len > DIM_MAX_LIMBS)
    dim_too_big(cx);
  return NEW_ARRAY(cx->arena, mp_limb_t, len ? len : 1);
}

static Num normal(const mp_limb_t *at, mp_size_t len, bool negative) {
  while (len && !at[len - 1])
    len--;
  if (!len)
    return num_of(0);
  mp_limb_t top = (mp_limb_t)1 << 63;
  if (len == 1 && at[0] < top)
    return num_of(negative ? -(int64_t)at[0] : (int64_t)at[0]);
  if (len == 1 && at[0] == top && negative)
    return num_of(INT64_MIN);
  return (Num){.limbs = at, .len = (uint32_t)len, .negative = negative};
}

static int view_cmp(const View *a, const View *b) {
  if (a->len != b->len)
    return a->len < b->len ? -1 : 1;
  return a->len ? mpn_cmp(a->at, b->at, a->len) : 0;
}

int num_cmp(Num a, Num b) {
  if (!a.limbs && !b.limbs)
    return (a.small > b.small) - (a.small < b.small);
  int sa = num_sign(a), sb = num_sign(b);
  if (sa != sb)
    return sa < sb ? -1 : 1;
  View va, vb;
  view(&va, a);
  view(&vb, b);
  int order = view_cmp(&va, &vb);
  return sa < 0 ? -order : order;
}

/* |a| + |b|, or |a| - |b| where |a| >= |b|. */
static Num magnitudes(DimCtx *cx, const View *a, const View *b, bool add,
                      bool negative) {
  if (a->len < b->len) {
    const View *other = a;
    a = b;
    b = other;
  }
  if (!a->len)
    return num_of(0);
  mp_limb_t *at = limbs_new(cx, a->len + 1);
  if (!b->len)
    mpn_copyi(at, a->at, a->len);
  else if (add)
    at[a->len] = mpn_add(at, a->at, a->len, b->at, b->len);
  else
    mpn_sub(at, a->at, a->len, b->at, b->len);
  return normal(at, a->len + 1, negative);
}

Num num_add(DimCtx *cx, Num a, Num b) {
  int64_t sum;
  if (!a.limbs && !b.limbs && !__builtin_add_overflow(a.small, b.small, &sum))
    return num_of(sum);
  View va, vb;
  view(&va, a);
  view(&vb, b);
  if (va.negative == vb.negative)
    return magnitudes(cx, &va, &vb, true, va.negative);
  if (view_cmp(&va, &vb) >= 0)
    return magnitudes(cx, &va, &vb, false, va.negative);
  return magnitudes(cx, &vb, &va, false, vb.negative);
}

Num num_neg(DimCtx *cx, Num a) {
  if (!a.limbs && a.small != INT64_MIN)
    return num_of(-a.small);
  if (!a.limbs) {
    mp_limb_t *at = limbs_new(cx, 1);
    at[0] = (mp_limb_t)1 << 63;
    return normal(at, 1, false);
  }
  return normal(a.limbs, a.len, !a.negative);
}

Num num_abs(DimCtx *cx, Num a) {
  return num_sign(a) < 0 ? num_neg(cx, a) : a;
}

Num num_sub(DimCtx *cx, Num a, Num b) {
  int64_t difference;
  if (!a.limbs && !b.limbs &&
      !__builtin_sub_overflow(a.small, b.small, &difference))
    return num_of(difference);
  return num_add(cx, a, num_neg(cx, b));
}

Num num_mul(DimCtx *cx, Num a, Num b) {
  int64_t product;
  if (!a.limbs && !b.limbs &&
      !__builtin_mul_overflow(a.small, b.small, &product))
    return num_of(product);
  View va, vb;
  view(&va, a);
  view(&vb, b);
  if (!va.len || !vb.len)
    return num_of(0);
  bool negative = va.negative != vb.negative;
  mp_limb_t *at = limbs_new(cx, va.len + vb.len);
  if (va.len >= vb.len)
    mpn_mul(at, va.at, va.len, vb.at, vb.len);
  else
    mpn_mul(at, vb.at, vb.len, va.at, va.len);
  return normal(at, va.len + vb.len, negative);
}

/* Truncated quotient and remainder of magnitudes. */
static void divide_views(DimCtx *cx, const View *a, const View *b, Num *q,
                         Num *r) {
  if (view_cmp(a, b) < 0) {
    mp_limb_t *copy = limbs_new(cx, a->len);
    if (a->len)
      mpn_copyi(copy, a->at, a->len);
    *q = num_of(0);
    *r = normal(copy, a->len, false);
    return;
  }
  mp_limb_t *qp = limbs_new(cx, a->len - b->len + 1);
  mp_limb_t *rp = limbs_new(cx, b->len);
  mpn_tdiv_qr(qp, rp, 0, a->at, a->len, b->at, b->len);
  *q = normal(qp, a->len - b->len + 1, false);
  *r = normal(rp, b->len, false);
}

void num_divide(DimCtx *cx, Num a, Num b, Num *q, Num *r) {
  if (!a.limbs && !b.limbs && !(a.small == INT64_MIN && b.small == -1) &&
      b.small != INT64_MIN) {
    int64_t quotient = a.small / b.small, rest = a.small % b.small;
    if (rest < 0) {
      quotient += b.small < 0 ? 1 : -1;
      rest += b.small < 0 ? -b.small : b.small;
    }
    *q = num_of(quotient);
    *r = num_of(rest);
    return;
  }
  View va, vb;
  view(&va, a);
  view(&vb, b);
  divide_views(cx, &va, &vb, q, r);
  if (va.negative) {
    *q = num_neg(cx, *q);
    if (num_sign(*r)) {
      *q = num_sub(cx, *q, num_of(1));
      *r = num_sub(cx, num_abs(cx, b), *r);
    }
  }
  if (vb.negative)
    *q = num_neg(cx, *q);
}

static uint64_t small_gcd(uint64_t a, uint64_t b) {
  while (b > 1) {
    uint64_t r = a % b;
    a = b;
    b = r;
  }
  return b ? 1 : a;
}

Num num_gcd(DimCtx *cx, Num a, Num b) {
  a = num_abs(cx, a);
  b = num_abs(cx, b);
  if (!a.limbs && !b.limbs)
    return num_of((int64_t)small_gcd((uint64_t)a.small, (uint64_t)b.small));
  while (num_sign(b)) { /* Euclid */
    Num q, r;
    num_divide(cx, a, b, &q, &r);
    a = b;
    b = r;
  }
  return a;
}

uint32_t num_hash(Num a) {
  uint64_t h = (uint64_t)a.small * 0x9E3779B97F4A7C15u;
  for (uint32_t i = 0; a.limbs && i < a.len; i++)
    h = (h ^ a.limbs[i]) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 32) ^ (a.negative ? 0x55u : 0);
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  return isalpha((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
}

Num num_parse(DimCtx *cx, const char *text) {
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
    if (digit < base && (count || digit)) /* others are separators */
      digits[count++] = (unsigned char)digit;
  }
  if (!count)
    return num_of(0);
  if (count / 16 + 2 > DIM_MAX_LIMBS)
    dim_too_big(cx);
  mp_limb_t *at = limbs_new(cx, (mp_size_t)(count / 16 + 2));
  mp_size_t used = mpn_set_str(at, digits, count, base);
  return normal(at, used, negative);
}

const char *num_text(DimCtx *cx, Num a) {
  if (!a.limbs)
    return arena_printf(cx->arena, "%lld", (long long)a.small);
  mp_limb_t *copy = limbs_new(cx, a.len); /* mpn_get_str destroys it */
  mpn_copyi(copy, a.limbs, a.len);
  char *text = arena_alloc(cx->arena, (size_t)a.len * 20 + 3);
  char *at = text;
  if (a.negative)
    *at++ = '-';
  size_t len = mpn_get_str((unsigned char *)at, 10, copy, a.len);
  for (size_t i = 0; i < len; i++)
    at[i] = (char)(at[i] + '0');
  if (len > 1 && at[0] == '0') /* mpn_get_str may give a leading zero */
    memmove(at, at + 1, len--);
  at[len] = 0;
  return text;
}
