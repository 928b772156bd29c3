/* Writes a repeated block as a function, its weights as records, and its runs
 * as calls: a fold over the records if each run continues the one before. */
#include "onnx/blocks.h"

#include <ctype.h>
#include <string.h>

enum { MIN_FOLD = 3, MIN_NAME = 3 };

typedef struct Writer {
  Blocks *b;
  Block *block;
  const char *prefix; /* of its names, before a number, such as "layer_" */
  const char *name;   /* of the function */
  const char *record; /* its first parameter, or NULL */
  const char **names; /* of the statements, in the function */
  uint32_t fields;
} Writer;

static Importer *importer(const Writer *w) {
  return w->b->im;
}

static const Statement *statement(const Writer *w, uint32_t run,
                                  uint32_t offset) {
  return &importer(w)->statements.at[w->block->starts[run] + offset];
}

/* ---- names ---- */

/* The length of "layer_" if a number follows, and another one in y; else 0. */
static size_t numbered_prefix(const char *x, const char *y) {
  size_t i = 0, end;
  while (x[i] && x[i] == y[i])
    i++;
  while (i > 0 && isdigit((unsigned char)x[i - 1]))
    i--;
  for (end = i; isdigit((unsigned char)x[end]);)
    end++;
  bool is_prefix = i > 1 && x[i - 1] == '_' && end > i && x[end] == '_' &&
                   isdigit((unsigned char)y[i]);
  return is_prefix ? i : 0;
}

/* The last word before the number. */
static const char *word_before(Importer *im, const char *prefix, size_t len) {
  size_t end = len - 1, start;
  for (start = end; start > 0 && prefix[start - 1] != '_';)
    start--;
  return arena_strndup(im->arena, prefix + start, end - start);
}

static bool try_prefix(Writer *w, const char *x, const char *y) {
  size_t len = numbered_prefix(x, y);
  if (!len)
    return false;
  w->prefix = arena_strndup(importer(w)->arena, x, len);
  w->name = word_before(importer(w), x, len);
  return true;
}

static void find_prefix(Writer *w) {
  Block *block = w->block;
  bool found = false;
  w->prefix = "";
  w->name = "block";
  for (uint32_t i = 0; i < block->parameters.len && !found; i++) {
    const Parameter *p = &block->parameters.at[i];
    if (p->is_field && p->in_run[0]->def && p->in_run[1]->def)
      found = try_prefix(w, p->in_run[0]->text, p->in_run[1]->text);
  }
  for (uint32_t i = 0; i < block->length && !found; i++)
    found = try_prefix(w, statement(w, 0, i)->name, statement(w, 1, i)->name);
  size_t len = strlen(w->name);
  if (len > MIN_NAME && w->name[len - 1] == 's') /* layers.0: a layer */
    w->name = arena_strndup(importer(w)->arena, w->name, len - 1);
  w->name = make_identifier(importer(w), w->name, "block", 30);
}

/* A name without the prefix and the number of its run. */
static const char *without_prefix(const Writer *w, const char *name) {
  size_t len = strlen(w->prefix), end = len;
  if (!len || strncmp(name, w->prefix, len) != 0)
    return name;
  while (isdigit((unsigned char)name[end]))
    end++;
  return name[end] == '_' && islower((unsigned char)name[end + 1])
             ? name + end + 1
             : name;
}

/* True if a text of the block has this word, for example as an index. */
static bool has_word(const Writer *w, const char *word) {
  for (uint32_t i = 0; i < w->block->length; i++) {
    const Tokens *tokens = &w->b->tokens[w->block->starts[0] + i];
    for (uint32_t k = 0; k < tokens->len; k++)
      if (tokens->at[k].kind != TOKEN_NAME &&
          strcmp(tokens->at[k].text, word) == 0)
        return true;
  }
  return false;
}

/* What a name is called in the function. */
static const char *name_inside(const Writer *w, const char *name) {
  const char *tail = without_prefix(w, name);
  if (tail == name || strlen(tail) < MIN_NAME)
    return name;
  if (has_word(w, tail) || is_reserved_name(tail))
    tail = text(importer(w), "%s_value", tail);
  return make_identifier(importer(w), tail, "value", 48);
}

static void name_statements(Writer *w) {
  w->names = MAKE_ARRAY(importer(w)->arena, const char *, w->block->length);
  for (uint32_t i = 0; i < w->block->length; i++)
    w->names[i] = name_inside(w, statement(w, 0, i)->name);
}

static bool is_name_taken(const Block *block, const char *name) {
  for (uint32_t i = 0; i < block->parameters.len; i++)
    if (block->parameters.at[i].name &&
        strcmp(block->parameters.at[i].name, name) == 0)
      return true;
  return false;
}

static const char *free_name(const Writer *w, const char *wish) {
  const char *name = wish;
  for (int i = 2; is_name_taken(w->block, name); i++)
    name = text(importer(w), "%s_%d", wish, i);
  return name;
}

/* A weight's name without numbers at its end: "onnx_matmul". */
static const char *field_wish(const Writer *w, const Token *t) {
  const char *name = t->def ? without_prefix(w, t->text) : "constant";
  size_t len = strlen(name);
  bool keeps = name != t->text;
  while (!keeps && len > 1 &&
         (isdigit((unsigned char)name[len - 1]) || name[len - 1] == '_'))
    len--;
  name = arena_strndup(importer(w)->arena, name, len);
  return is_reserved_name(name) ? text(importer(w), "%s_weight", name) : name;
}

static bool is_output_of(const Writer *w, const Token *t, uint32_t run) {
  return t->def && t->def->kind == DEF_STATEMENT &&
         t->def->index == w->block->starts[run] + w->block->outputs[0];
}

/* The parameter that is the only result of the run before, or NULL. */
static const Parameter *chained_parameter(const Writer *w) {
  const Block *block = w->block;
  for (uint32_t i = 0; i < block->parameters.len; i++) {
    const Parameter *p = &block->parameters.at[i];
    bool follows = !p->is_field && block->output_count == 1;
    for (uint32_t r = 1; follows && r < block->count; r++)
      follows = is_output_of(w, p->in_run[r], r - 1);
    if (follows)
      return p;
  }
  return NULL;
}

/* The value that a block is applied to, or NULL. */
static const Parameter *main_parameter(const Writer *w) {
  const Parameter *main = chained_parameter(w);
  uint32_t values = 0;
  for (uint32_t i = 0; i < w->block->parameters.len && !main; i++)
    values += !w->block->parameters.at[i].is_field;
  for (uint32_t i = 0; values == 1 && !main; i++)
    if (!w->block->parameters.at[i].is_field)
      main = &w->block->parameters.at[i];
  return main;
}

static void name_parameters(Writer *w) {
  Block *block = w->block;
  const Parameter *main = main_parameter(w);
  for (uint32_t i = 0; i < block->parameters.len; i++) {
    Parameter *p = &block->parameters.at[i];
    const Token *first = p->in_run[0];
    if (p->is_shared)
      continue;
    w->fields += p->is_field;
    const char *wish = p->is_field ? field_wish(w, first)
                       : p == main ? index_name(importer(w), "x")
                                   : name_inside(w, first->text);
    p->name = free_name(w, wish);
  }
  if (w->fields)
    w->record = index_name(importer(w), "w");
}

/* A value outside of the function.  Lists are f32 unless a type says more. */
static const char *outer_text(const Writer *w, const Token *t) {
  Importer *im = importer(w);
  Dtype dtype;
  Shape s;
  if (t->kind != TOKEN_LIST || t->dtype == DT_F32)
    return t->text;
  token_type(im, t, &dtype, &s);
  return text(im, "(%s : %s%s)", t->text, dtype_info[dtype].name,
              sizes_text(im, &s));
}

/* ---- the function ---- */

static void put_token(const Writer *w, Buffer *out, uint32_t offset,
                      uint32_t k) {
  uint32_t start = w->block->starts[0];
  const Token *t = &w->b->tokens[start + offset].at[k];
  const Parameter *p = block_parameter(w->block, offset, k, w->b);
  if (p && p->is_field && !p->is_shared)
    buffer_printf(out, "%s.%s", w->record, p->name);
  else if (p && !p->is_shared)
    buffer_puts(out, p->name);
  else if (t->def && t->def->kind == DEF_STATEMENT)
    buffer_puts(out, w->names[t->def->index - start]);
  else
    buffer_puts(out, t->text);
}

static bool is_simple_size(Importer *im, Dim *d) {
  return !strpbrk(extent_source(im, d), "-+*/% (");
}

/* With its type, if all runs have the same one. */
static const char *parameter_text(const Writer *w, const Parameter *p) {
  Importer *im = importer(w);
  Dtype dtype;
  Shape s;
  if (!parameter_type(im, w->block, p, &dtype, &s))
    return p->name;
  for (uint32_t k = 0; k < s.rank; k++)
    if (s.stars || !is_simple_size(im, s.dims[k]))
      return p->name;
  return text(im, "(%s : %s%s)", p->name, dtype_info[dtype].name,
              s.rank ? sizes_text(im, &s) : "[]");
}

static const char *outputs_text(const Writer *w, uint32_t run, bool inside) {
  Buffer out = {.arena = importer(w)->arena};
  const Block *block = w->block;
  for (uint32_t i = 0; i < block->output_count; i++) {
    uint32_t offset = block->outputs[i];
    buffer_printf(&out, i ? ", %s" : "%s",
                  inside ? w->names[offset] : statement(w, run, offset)->name);
  }
  return block->output_count > 1 ? text(importer(w), "(%s)", out.text)
                                 : out.text;
}

/* False if all runs compute the same. */
static bool has_arguments(const Writer *w) {
  bool has = w->record != NULL;
  for (uint32_t i = 0; i < w->block->parameters.len; i++)
    has |= !w->block->parameters.at[i].is_field;
  return has;
}

static void put_function(const Writer *w, Buffer *out) {
  const Block *block = w->block;
  buffer_printf(out, "fun %s", w->name);
  if (w->record)
    buffer_printf(out, " %s", w->record);
  for (uint32_t i = 0; i < block->parameters.len; i++)
    if (!block->parameters.at[i].is_field)
      buffer_printf(out, " %s", parameter_text(w, &block->parameters.at[i]));
  if (!has_arguments(w))
    buffer_puts(out, " ()");
  buffer_puts(out, " =\n  let\n");
  for (uint32_t i = 0; i < block->length; i++) {
    buffer_printf(out, "    val %s = ", w->names[i]);
    for (uint32_t k = 0; k < w->b->tokens[block->starts[0] + i].len; k++)
      put_token(w, out, i, k);
    buffer_putc(out, '\n');
  }
  buffer_printf(out, "  in\n    %s\n  end\n\n", outputs_text(w, 0, true));
}

/* ---- the records ---- */

/* The number of tokens of the program that name this load, outside of the
 * runs. */
static bool is_used_elsewhere(const Writer *w, const Def *def) {
  const Block *block = w->block;
  uint32_t run = 0;
  for (uint32_t i = 0; i < importer(w)->statements.len; i++) {
    while (run < block->count && i >= block->starts[run] + block->length)
      run++;
    if (run < block->count && i >= block->starts[run])
      continue;
    for (uint32_t k = 0; k < w->b->tokens[i].len; k++)
      if (w->b->tokens[i].at[k].def == def)
        return true;
  }
  return false;
}

static uint32_t fields_with(const Writer *w, const Def *def) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < w->block->parameters.len; i++)
    for (uint32_t r = 0; r < w->block->count; r++)
      count += w->block->parameters.at[i].in_run[r]->def == def;
  return count;
}

/* A weight of one field is loaded there. */
static const char *field_text(const Writer *w, const Token *t) {
  Statement *load = t->def ? &importer(w)->loads.at[t->def->index] : NULL;
  if (!load || !load->name || load->is_in_use || is_used_elsewhere(w, t->def) ||
      fields_with(w, t->def) > 1)
    return outer_text(w, t);
  load->name = NULL;
  return load->text;
}

/* The number behind the prefix in the names of a run, or that of the run. */
static const char *run_number(const Writer *w, uint32_t run) {
  size_t len = strlen(w->prefix);
  for (uint32_t i = 0; i < w->block->parameters.len && len; i++) {
    const Parameter *p = &w->block->parameters.at[i];
    const char *name = p->in_run[run]->text;
    size_t digits = strncmp(name, w->prefix, len) == 0 && p->is_field
                        ? strspn(name + len, "0123456789")
                        : 0;
    if (digits)
      return arena_strndup(importer(w)->arena, name + len, digits);
  }
  return text(importer(w), "%u", run);
}

static const char *put_record(const Writer *w, uint32_t run) {
  Importer *im = importer(w);
  Buffer out = {.arena = im->arena};
  bool is_first = true;
  for (uint32_t i = 0; i < w->block->parameters.len; i++) {
    const Parameter *p = &w->block->parameters.at[i];
    if (!p->is_field || p->is_shared)
      continue;
    buffer_printf(&out, "%s%s = %s", is_first ? "{" : ", ", p->name,
                  field_text(w, p->in_run[run]));
    is_first = false;
  }
  buffer_putc(&out, '}');
  Statement s = {
      .name = make_identifier(
          im, text(im, "%s_%s", w->name, run_number(w, run)), "weights", 40),
      .text = out.text};
  VEC_PUSH(im->arena, im->records, s);
  return s.name;
}

/* Loads that are mentioned by name from now on stay. */
static void keep_loads(const Writer *w) {
  const Block *block = w->block;
  for (uint32_t i = 0; i < block->parameters.len; i++)
    for (uint32_t r = 0; r < block->count; r++) {
      const Parameter *p = &block->parameters.at[i];
      const Def *def = p->in_run[r]->def;
      if (def && def->kind == DEF_WEIGHT && (p->is_shared || !p->is_field))
        importer(w)->loads.at[def->index].is_in_use = true;
    }
}

/* ---- the calls ---- */

/* The parameter of a fold; NULL if the runs are none: all other values are the
 * same there, and all weights have the same shapes. */
static const Parameter *folded_parameter(const Writer *w) {
  const Block *block = w->block;
  const Parameter *folded = chained_parameter(w);
  if (block->count < MIN_FOLD || !folded || !w->record)
    return NULL;
  for (uint32_t i = 0; i < block->parameters.len; i++) {
    const Parameter *p = &block->parameters.at[i];
    Dtype dtype;
    Shape s;
    if (!parameter_type(importer(w), block, p, &dtype, &s))
      return NULL;
    for (uint32_t r = 1; r < block->count; r++)
      if (!p->is_field && p != folded &&
          strcmp(p->in_run[r]->text, p->in_run[0]->text) != 0)
        return NULL;
  }
  return folded;
}

/* The results in between are used by the next run only. */
static bool is_only_folded(const Writer *w) {
  const Block *block = w->block;
  for (uint32_t r = 0; r + 1 < block->count; r++) {
    uint32_t result = block->starts[r] + block->outputs[0];
    uint32_t next = block->starts[r + 1];
    if (w->b->is_result[result])
      return false;
    for (uint32_t i = block->starts[r] + block->length;
         i < importer(w)->statements.len; i++)
      for (uint32_t k = 0; k < w->b->tokens[i].len; k++) {
        const Def *def = w->b->tokens[i].at[k].def;
        bool is_read =
            def && def->kind == DEF_STATEMENT && def->index == result;
        if (is_read && (i < next || i >= next + block->length))
          return false;
      }
  }
  return true;
}

static void put_arguments(const Writer *w, Buffer *out, uint32_t run,
                          const Parameter *folded) {
  for (uint32_t i = 0; i < w->block->parameters.len; i++) {
    const Parameter *p = &w->block->parameters.at[i];
    if (!p->is_field)
      buffer_printf(out, " %s",
                    p == folded ? p->name : outer_text(w, p->in_run[run]));
  }
}

static const char *call_text(const Writer *w, uint32_t run,
                             const char *record) {
  Buffer out = {.arena = importer(w)->arena};
  buffer_puts(&out, w->name);
  if (record)
    buffer_printf(&out, " %s", record);
  put_arguments(w, &out, run, NULL);
  if (!has_arguments(w))
    buffer_puts(&out, " ()");
  return out.text;
}

static const char *fold_text(const Writer *w, const Parameter *folded,
                             const char *const *records) {
  Importer *im = importer(w);
  Buffer out = {.arena = im->arena};
  buffer_printf(&out, "lists.fold (fn %s %s => %s %s", folded->name, w->record,
                w->name, w->record);
  put_arguments(w, &out, 0, folded);
  buffer_printf(&out, ") %s (list [", outer_text(w, folded->in_run[0]));
  for (uint32_t r = 0; r < w->block->count; r++)
    buffer_printf(&out, r ? ", %s" : "%s", records[r]);
  buffer_puts(&out, "])");
  return out.text;
}

static Value *output_value(const Writer *w, uint32_t run) {
  return w->block->output_count == 1
             ? statement(w, run, w->block->outputs[0])->value
             : NULL;
}

/* The statements with calls instead of runs; a fold is at the last run. */
static void replace_runs(const Writer *w, const char *const *records) {
  Importer *im = importer(w);
  const Block *block = w->block;
  const Parameter *folded = folded_parameter(w);
  Statements all = {0};
  uint32_t run = 0;
  if (folded && !is_only_folded(w))
    folded = NULL;
  for (uint32_t i = 0; i < im->statements.len; i++) {
    if (run == block->count || i != block->starts[run]) {
      VEC_PUSH(im->arena, all, im->statements.at[i]);
      continue;
    }
    Statement s = {.name = outputs_text(w, run, false),
                   .value = output_value(w, run)};
    s.text = folded ? fold_text(w, folded, records)
                    : call_text(w, run, records[run]);
    if (!folded || run + 1 == block->count)
      VEC_PUSH(im->arena, all, s);
    i += block->length - 1;
    run++;
  }
  im->statements = all;
}

void write_block(Blocks *b, Block *block) {
  Writer w = {.b = b, .block = block};
  const char **records = MAKE_ARRAY(b->im->arena, const char *, block->count);
  find_prefix(&w);
  name_statements(&w);
  name_parameters(&w);
  put_function(&w, &b->im->functions);
  keep_loads(&w);
  for (uint32_t r = 0; r < block->count && w.record; r++)
    records[r] = put_record(&w, r);
  replace_runs(&w, records);
}
