/* Schedules and nests as text. */
#include "kernel/nest.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include <ctype.h>
#include <string.h>

static const char *const step_words[NEST_STEP_COUNT] = {
#define STEP(name, word, help) word,
#include "kernel/steps.def"
#undef STEP
};

static const char *const step_syntax[NEST_STEP_COUNT] = {
#define STEP(name, word, help) help,
#include "kernel/steps.def"
#undef STEP
};

static const char *const tail_words[NEST_TAIL_COUNT] = {
    [TAIL_LESS] = "less",     [TAIL_PEEL] = "peel",   [TAIL_IF] = "if",
    [TAIL_MASK] = "mask",     [TAIL_CLAMP] = "clamp", [TAIL_SHIFT] = "shift",
    [TAIL_SPREAD] = "spread",
};

const char *const nest_operand_words[NEST_OPERAND_COUNT] = {
    [NEST_LEFT] = "left",
    [NEST_RIGHT] = "right",
};

/* ---- schedules ---- */

static void print_piece(Buffer *out, const Nest *n, NestPiece p) {
  buffer_printf(out, "i%u", n->names[p.axis]);
  if (p.piece)
    buffer_printf(out, ".%u", p.piece);
}

static void print_step(Buffer *out, const Nest *n, const NestStep *s) {
  buffer_puts(out, step_words[s->kind]);
  for (uint32_t j = 0; j < s->piece_count; j++) {
    buffer_puts(out, j ? ", " : " ");
    print_piece(out, n, s->pieces[j]);
  }
  if (s->kind == STEP_TILE)
    buffer_printf(out, " %lld%s", (long long)s->number,
                  s->is_argument ? " argument" : "");
  if (s->kind == STEP_PACK)
    buffer_printf(out, " %s", nest_operand_words[s->number]);
  if (s->tail != TAIL_LESS)
    buffer_printf(out, " %s", tail_words[s->tail]);
}

void nest_print_schedule(Buffer *out, const Nest *n, uint32_t from) {
  for (uint32_t j = from; j < n->steps.len; j++) {
    if (j > from)
      buffer_puts(out, "; ");
    print_step(out, n, &n->steps.at[j]);
  }
}

typedef struct ScheduleParser {
  const Nest *nest;
  const char *text;
  uint32_t at, token; /* token: beginning of the last token */
} ScheduleParser;

static void skip_blanks(ScheduleParser *p) {
  while (isspace((unsigned char)p->text[p->at]))
    p->at++;
  p->token = p->at;
}

static bool take(ScheduleParser *p, char c) {
  skip_blanks(p);
  if (p->text[p->at] != c)
    return false;
  p->at++;
  return true;
}

/* Takes one of `count` words. */
static bool take_word(ScheduleParser *p, const char *const *words,
                      uint32_t count, uint32_t *found) {
  skip_blanks(p);
  uint32_t len = 0;
  while (islower((unsigned char)p->text[p->at + len]))
    len++;
  for (uint32_t j = 0; j < count; j++)
    if (len && strlen(words[j]) == len &&
        memcmp(words[j], p->text + p->at, len) == 0) {
      p->at += len;
      *found = j;
      return true;
    }
  return false;
}

static bool take_number(ScheduleParser *p, int64_t max, int64_t *number) {
  uint32_t begin = p->at;
  *number = 0;
  for (; isdigit((unsigned char)p->text[p->at]); p->at++) {
    *number = *number * 10 + (p->text[p->at] - '0');
    if (*number > max)
      return false;
  }
  return p->at > begin;
}

static uint32_t axis_of_name(const Nest *n, int64_t name) {
  uint32_t v = 0;
  while (v < MAX_NEST_AXES && n->names[v] != name)
    v++;
  return v;
}

/* A loop, such as i3 or i3.1. */
static bool take_piece(ScheduleParser *p, NestPiece *piece) {
  int64_t axis, number = 0;
  skip_blanks(p);
  if (p->text[p->at] != 'i' || !isdigit((unsigned char)p->text[p->at + 1]))
    return false;
  p->at++;
  if (!take_number(p, MAX_NEST_AXES, &axis))
    return false;
  if (p->text[p->at] == '.') {
    p->at++;
    if (!take_number(p, MAX_AXIS_PIECES, &number))
      return false;
  }
  *piece = (NestPiece){axis_of_name(p->nest, axis), (uint32_t)number};
  return true;
}

/* The loops that a step names: 0, 1, 2, or NO_LOOP, any number. */
static uint32_t loops_of_step(NestStepKind kind) {
  switch (kind) {
  case STEP_BROADCAST:
  case STEP_MASKED:
  case STEP_FMA:
  case STEP_EPILOGUE:
    return 0;
  case STEP_STREAM:
    return 2;
  case STEP_ORDER:
  case STEP_FLATTEN:
  case STEP_ATOM:
    return NO_LOOP;
  case STEP_TILE:
  case STEP_UNROLL:
  case STEP_TASKS:
  case STEP_STRIPS:
  case STEP_LANES:
  case STEP_PARTS:
  case STEP_RUN:
  case STEP_POLL:
  case STEP_BLOCKS:
  case STEP_THREADS:
  case STEP_SHARED:
  case STEP_INTERLEAVE:
  case STEP_SHUFFLE:
  case STEP_TRANSPOSE:
  case STEP_PACK:
  case STEP_FINISH:
  case STEP_REGISTERS:
  case STEP_ONLINE:
  case NEST_STEP_COUNT:
    break;
  }
  return 1;
}

static const char *unknown_step(ScheduleParser *p) {
  Buffer words = {.arena = p->nest->arena};
  for (uint32_t j = 0; j < NEST_STEP_COUNT; j++)
    buffer_printf(&words, "%s%s", j ? ", " : "expected one of the steps ",
                  step_words[j]);
  return words.text;
}

/* The numbers and words of a step after its loops. */
static bool parse_rest(ScheduleParser *p, NestStep *s) {
  static const char *const argument[] = {"argument"};
  uint32_t tail, word;
  skip_blanks(p);
  if (s->kind == STEP_TILE && !take_number(p, INT32_MAX, &s->number))
    return false;
  if (s->kind == STEP_PACK) {
    bool found = take_word(p, nest_operand_words, NEST_OPERAND_COUNT, &word);
    s->number = found ? word : 0;
    if (!found)
      return false;
  }
  s->is_argument = s->kind == STEP_TILE && take_word(p, argument, 1, &word);
  if ((s->kind == STEP_TILE || s->kind == STEP_LANES) &&
      take_word(p, tail_words, NEST_TAIL_COUNT, &tail))
    s->tail = (NestTail)tail;
  skip_blanks(p);
  return !p->text[p->at] || p->text[p->at] == ';';
}

static const char *parse_step(ScheduleParser *p, NestStep *s) {
  uint32_t kind;
  if (!take_word(p, step_words, NEST_STEP_COUNT, &kind))
    return unknown_step(p);
  *s = (NestStep){.kind = (NestStepKind)kind};
  uint32_t loops = loops_of_step(s->kind);
  bool is_right = true;
  while (is_right && s->piece_count < loops) {
    is_right = s->piece_count < MAX_NEST_LOOPS &&
               take_piece(p, &s->pieces[s->piece_count]);
    s->piece_count += is_right;
    if (is_right && !take(p, ','))
      break;
  }
  is_right = is_right && (loops == NO_LOOP || s->piece_count == loops) &&
             parse_rest(p, s);
  return is_right
             ? NULL
             : arena_printf(p->nest->arena, "expected %s", step_syntax[kind]);
}

uint32_t schedule_error_place(const char *text, uint32_t begin,
                              uint32_t token) {
  uint32_t end = token;
  while (end > begin && isspace((unsigned char)text[end - 1]))
    end--;
  bool is_next_line = memchr(text + end, '\n', token - end);
  bool continues = text[token] && end > begin && text[end - 1] == ',';
  return text[token] && (!is_next_line || continues) ? token : begin;
}

const char *nest_parse_schedule(Nest *n, const char *text, uint32_t *at) {
  ScheduleParser p = {.nest = n, .text = text};
  const char *error = NULL;
  skip_blanks(&p);
  while (!error && p.text[p.at]) {
    NestStep s;
    uint32_t begin = p.at;
    error = parse_step(&p, &s);
    if (!error)
      take(&p, ';');
    *at = error ? schedule_error_place(text, begin, p.token) : begin;
    if (!error)
      error = nest_apply(n, &s);
    skip_blanks(&p);
  }
  return error;
}

/* ---- nests ---- */

static const char *run_word(const NestLoop *l) {
  switch (l->run) {
  case NEST_SERIAL:
    break;
  case NEST_TASK:
    return " tasks";
  case NEST_STRIP:
    return " strips";
  case NEST_UNROLL:
    return " unroll";
  case NEST_LANES:
    return " lanes";
  case NEST_BLOCK:
    return " blocks";
  case NEST_THREAD:
    return " threads";
  case NEST_ATOM:
    return " atom";
  }
  return "";
}

/* Returns true if what happens behind the end of an axis depends on the tail of
 * a loop. */
static bool has_tail(const Nest *n, uint32_t at) {
  return nest_piece(n, at) || n->loops[at].run == NEST_LANES;
}

static void print_flattened(Buffer *out, const Nest *n,
                            const NestFlattened *f) {
  buffer_printf(out, "flatten i%u:", n->names[f->axis]);
  for (uint32_t j = 0; j < f->count; j++) {
    buffer_printf(out, "%s i%u", j ? "," : "", n->names[f->loops[j].axis]);
    if (f->loops[j].step > 1)
      buffer_printf(out, " by %lld", (long long)f->loops[j].step);
    if (f->loops[j].count)
      buffer_printf(out, " times %lld", (long long)f->loops[j].count);
  }
  buffer_puts(out, "\n");
}

void nest_print_loop(Buffer *out, const Nest *n, uint32_t at) {
  const NestLoop *l = &n->loops[at];
  NestPiece piece = {l->axis, nest_piece(n, at)};
  buffer_puts(out, "for ");
  print_piece(out, n, piece);
  if (l->step > 1 || l->is_argument)
    buffer_printf(out, " by %lld%s", (long long)l->step,
                  l->is_argument ? " argument" : "");
  if (l->count)
    buffer_printf(out, " times %lld", (long long)l->count);
  buffer_puts(out, run_word(l));
  if (l->has_accumulators)
    buffer_puts(out, " parts");
  if (l->is_run)
    buffer_puts(out, " run");
  if (l->polls)
    buffer_puts(out, " poll");
  if (l->shuffles)
    buffer_puts(out, " shuffle");
  for (uint32_t j = 0; j < NEST_OPERAND_COUNT; j++)
    if (l->packs[j])
      buffer_printf(out, " pack %s", nest_operand_words[j]);
  if (l->finishes)
    buffer_puts(out, " finish");
  if (l->is_held)
    buffer_puts(out, " registers");
  if (l->is_online)
    buffer_puts(out, " online");
  if (has_tail(n, at))
    buffer_printf(out, " %s", tail_words[l->tail]);
}

void nest_print(Buffer *out, const Nest *n) {
  uint32_t scope = nest_accumulator_depth(n);
  for (uint32_t j = 0; j < n->loop_count; j++) {
    if (j == scope)
      buffer_printf(out, "%*ssums[%lld]\n", (int)(2 * j), "",
                    (long long)nest_accumulators(n));
    buffer_printf(out, "%*s", (int)(2 * j), "");
    nest_print_loop(out, n, j);
    buffer_puts(out, "\n");
  }
  for (uint32_t j = 0; j < MAX_FLATTENED && n->flat[j].count; j++)
    print_flattened(out, n, &n->flat[j]);
  if (n->shared_axis != NO_LOOP)
    buffer_printf(out, "shared i%u\n", n->names[n->shared_axis]);
  if (n->interleaved_axis != NO_LOOP)
    buffer_printf(out, "interleave i%u\n", n->names[n->interleaved_axis]);
  if (n->transposed_axis != NO_LOOP)
    buffer_printf(out, "transpose i%u\n", n->names[n->transposed_axis]);
  const NestStream *t = &n->stream;
  if (t->row_axis != NO_LOOP)
    buffer_printf(out, "stream i%u: %lld*i%u + %lld*i%u\n",
                  n->names[t->input_axis], (long long)t->row_stride,
                  n->names[t->row_axis], (long long)t->term_stride,
                  n->names[t->term_axis]);
  buffer_printf(out, "%s%s%s%s", n->loads_broadcasts ? "broadcast\n" : "",
                n->loads_masked ? "masked\n" : "",
                n->fuses_products ? "fma\n" : "",
                n->has_epilogue ? "epilogue\n" : "");
}
