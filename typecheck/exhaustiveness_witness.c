/* The text of a witness pattern in a warning. */
#include "typecheck/exhaustiveness_witness.h"
#include "support/buffer.h"
#include "support/intern.h"

typedef enum WitnessContext {
  CONTEXT_ANY,
  CONTEXT_LEFT_OF_CONS,
  CONTEXT_ATOM
} WitnessContext;

static void print_witness(Buffer *b, const WitnessPattern *h,
                          WitnessContext place);

static void print_parts(Buffer *b, const WitnessPattern *h) {
  for (uint32_t i = 0; i < h->count; i++) {
    if (i)
      buffer_puts(b, ", ");
    print_witness(b, h->parts[i], CONTEXT_ANY);
  }
}

static void print_record(Buffer *b, const WitnessPattern *h) {
  uint32_t shown = 0;
  buffer_putc(b, '{');
  for (uint32_t i = 0; i < h->count; i++) {
    if (h->parts[i]->kind == CP_WILD)
      continue;
    buffer_printf(b, "%s%s = ", shown++ ? ", " : "", h->labels[i]->text);
    print_witness(b, h->parts[i], CONTEXT_ANY);
  }
  if (h->has_more || shown < h->count)
    buffer_puts(b, shown ? ", ..." : "...");
  buffer_putc(b, '}');
}

static bool ends_in_nil(const WitnessPattern *h) {
  while (h->kind == CP_CONS)
    h = h->parts[1];
  return h->kind == CP_LIST;
}

static void print_cons(Buffer *b, const WitnessPattern *h,
                       WitnessContext place) {
  if (ends_in_nil(h)) {
    buffer_puts(b, "list [");
    for (const WitnessPattern *at = h; at->kind == CP_CONS; at = at->parts[1]) {
      if (at != h)
        buffer_puts(b, ", ");
      print_witness(b, at->parts[0], CONTEXT_ANY);
    }
    buffer_putc(b, ']');
    return;
  }
  if (place != CONTEXT_ANY)
    buffer_putc(b, '(');
  for (; h->kind == CP_CONS; h = h->parts[1]) {
    print_witness(b, h->parts[0], CONTEXT_LEFT_OF_CONS);
    buffer_puts(b, " :: ");
  }
  print_witness(b, h, CONTEXT_ANY);
  if (place != CONTEXT_ANY)
    buffer_putc(b, ')');
}

static void print_con(Buffer *b, const WitnessPattern *h,
                      WitnessContext place) {
  bool paren = h->count && place == CONTEXT_ATOM;
  if (paren)
    buffer_putc(b, '(');
  buffer_puts(b, h->text);
  if (h->count) {
    buffer_putc(b, ' ');
    print_witness(b, h->parts[0], CONTEXT_ATOM);
  }
  if (paren)
    buffer_putc(b, ')');
}

static void print_shape(Buffer *b, const WitnessPattern *h) {
  const char *between = "";
  buffer_putc(b, '[');
  for (uint32_t i = 0; i <= h->count; i++) {
    if (h->has_more && i == h->front) {
      buffer_printf(b, "%s...", between);
      between = ", ";
    }
    if (i == h->count)
      break;
    buffer_puts(b, between);
    print_witness(b, h->parts[i], CONTEXT_ANY);
    between = ", ";
  }
  buffer_putc(b, ']');
}

static void print_witness(Buffer *b, const WitnessPattern *h,
                          WitnessContext place) {
  switch (h->kind) {
  case CP_NUM:
  case CP_STRING:
    buffer_puts(b, h->text);
    return;
  case CP_BOOL:
    buffer_puts(b, h->has_more ? "false" : "true");
    return;
  case CP_CON:
    print_con(b, h, place);
    return;
  case CP_TUPLE:
    buffer_putc(b, '(');
    print_parts(b, h);
    buffer_putc(b, ')');
    return;
  case CP_RECORD:
    print_record(b, h);
    return;
  case CP_LIST:
    buffer_puts(b, "list []");
    return;
  case CP_CONS:
    print_cons(b, h, place);
    return;
  case CP_SHAPE:
    print_shape(b, h);
    return;
  case CP_WILD:
  case CP_VAR:
  case CP_AS:
    break;
  }
  buffer_putc(b, '_');
}

void witness_print(Buffer *b, const WitnessPattern *h, bool curried) {
  if (!curried || h->kind != CP_TUPLE) {
    print_witness(b, h, CONTEXT_ANY);
    return;
  }
  for (uint32_t i = 0; i < h->count; i++) {
    if (i)
      buffer_putc(b, ' ');
    print_witness(b, h->parts[i], CONTEXT_ATOM);
  }
}
