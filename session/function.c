/* Calls from a host.  What is called is checked once for each list of types of
 * arguments, as a declaration of the program is:
 *
 *     fun from_host (p : {w : f32[?, ?], b : f32[?]}) (x : f32[?, ?]) =
 *       forward p x
 *
 * so that one code serves all sizes and what depends on them is checked when it
 * runs.  Where that does not check, or a size turns out not to fit, it is
 * checked with the sizes of the arguments instead of `?`, and with the numbers
 * themselves: some functions want those, and the message tells of them. */
#include "session/internal.h"

#include "lexer/lexer.h"

#include <math.h>
#include <string.h>

enum {
  ARGS_MOST = 100, /* an instruction holds the number of arguments */
  EXPLAINED_MOST = 1000, /* messages that are made better: each takes memory */
  WRONG_ARGUMENT = 520,
  WRONG_COUNT = 521,
};

typedef struct Compiled {
  struct Compiled *next;
  const char *key; /* types of the arguments; or sizes and numbers, too */
  size_t key_len;
  Entry *entry;  /* NULL: see the sizes; where they are in the key, */
  Diags wrong;   /* this is what there is to say */
  Dtype choice;  /* what numbers that have no type are, */
  Dtype *weak;   /* and those of each argument */
} Compiled;

struct Function {
  const char *name;
  Binding *binding; /* as it was found; NULL: there is none */
  uint32_t texts;   /* that the session had read then */
  Signature signature;
  Compiled *compiled;
};

typedef struct Calling {
  Function *f;
  uint32_t count;
  const HostArg *args;
  Datum **result;
  bool exact;
  bool key;   /* a key is written, not a text */
  Dtype weak; /* of numbers that have no type */
} Calling;

/* ---- the function ---- */

static bool is_word(const char *text, size_t len) {
  if (!len || !(*text == '_' || (*text >= 'a' && *text <= 'z')))
    return false;
  for (size_t i = 0; i < len; i++)
    if (!strchr("_'", text[i]) && !(text[i] >= 'a' && text[i] <= 'z') &&
        !(text[i] >= 'A' && text[i] <= 'Z') &&
        !(text[i] >= '0' && text[i] <= '9'))
      return false;
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    if (strlen(lexer_keywords[i].text) == len &&
        !memcmp(lexer_keywords[i].text, text, len))
      return false;
  return len > 1 || *text != '_';
}

static bool is_name(const char *name) { /* "f", "nn.linear" */
  const char *dot = strchr(name, '.');
  if (dot && !is_word(name, (size_t)(dot - name)))
    return false;
  const char *last = dot ? dot + 1 : name;
  return is_word(last, strlen(last));
}

/* What the name stands for now. */
static bool find(Session *s, Function *f) {
  if (f->texts == s->texts && f->binding)
    return true;
  Binding *b =
      is_name(f->name) ? checker_find(s->checker, s->module, f->name) : NULL;
  if (b != f->binding) {
    f->binding = b;
    f->compiled = NULL;
    f->signature = (Signature){0};
    if (b && !binding_signature(s->checker, b, &f->signature))
      f->binding = NULL;
  }
  f->texts = s->texts;
  return f->binding;
}

static SessionStatus look_up(Session *s, void *arg) {
  Function **out = arg, *f = *out;
  Sym *name = intern_text(s->interner, f->name);
  *out = map_get(&s->functions, name);
  if (!*out) {
    *out = NEW(s->arena, Function);
    (*out)->name = name->text;
  }
  if (!find(s, *out)) {
    session_error(s, 312, (Span){0}, "%s is not defined", name->text);
    *out = NULL;
    return SESSION_ERROR;
  }
  map_put(&s->functions, name, *out);
  return SESSION_OK;
}

Function *session_function(Session *s, const char *name) {
  Function wanted = {.name = name}, *f = &wanted;
  return session_guard(s, look_up, &f) == SESSION_OK ? f : NULL;
}

const Signature *session_signature(const Function *f) { return &f->signature; }

/* ---- arguments as text ---- */

static bool is_empty_list(const Datum *d) {
  return d->kind == DATUM_LIST && !d->len;
}

static const Taken *taken_at(const Calling *call, uint32_t i) {
  const Signature *sig = &call->f->signature;
  uint32_t unnamed = 0;
  for (uint32_t k = 0; k < i; k++)
    unnamed += !call->args[k].label;
  for (uint32_t k = 0; k < sig->count; k++) {
    const char *label = sig->at[k].label;
    if (call->args[i].label
            ? label && strcmp(label, call->args[i].label) == 0
            : !label && unnamed-- == 0)
      return &sig->at[k];
  }
  return NULL;
}

static Dtype number_type(const Calling *call, const Datum *d) {
  return d->weak && call->weak ? call->weak : d->number.dtype;
}

/* That of the numbers in an argument; one that is a number without a type takes
 * that of its parameter, if it has one that fits. */
static Dtype weak_at(const Calling *call, uint32_t i) {
  const Datum *d = call->args[i].value;
  const Taken *taken = taken_at(call, i);
  bool settled = taken && !taken->rank && taken->dtype > DT_BOOL;
  if (d->kind == DATUM_NUMBER && d->weak && settled &&
      (dtype_is_float(taken->dtype) || dtype_is_int(d->number.dtype)))
    return taken->dtype;
  return call->weak;
}

/* A type, or the part of a key that tells it from others.  In lists sizes may
 * differ, so that they are left out. */
static void put_type(const Calling *call, Buffer *out, const Datum *d,
                     bool exact) {
  switch (d->kind) {
  case DATUM_NUMBER:
    buffer_puts(out, call->key && d->weak ? "~" : "");
    buffer_puts(out, dtype_info[number_type(call, d)].name);
    return;
  case DATUM_TENSOR:
    buffer_puts(out, dtype_info[d->tensor->dtype].name);
    for (uint32_t i = 0; i < d->tensor->rank; i++) {
      buffer_puts(out, i ? ", " : "[");
      if (exact)
        buffer_printf(out, "%lld", (long long)d->tensor->shape[i]);
      else
        buffer_putc(out, '?');
    }
    buffer_puts(out, d->tensor->rank ? "]" : "");
    return;
  case DATUM_STRING:
    buffer_puts(out, "string");
    return;
  case DATUM_TUPLE:
    for (uint32_t i = 0; i < d->len; i++) {
      buffer_puts(out, i ? " * " : "(");
      put_type(call, out, d->items[i], exact);
    }
    buffer_putc(out, ')');
    return;
  case DATUM_RECORD:
    buffer_putc(out, '{');
    for (uint32_t i = 0; i < d->len; i++) {
      buffer_printf(out, "%s%s : ", i ? ", " : "", d->names[i]);
      put_type(call, out, d->items[i], exact);
    }
    buffer_putc(out, '}');
    return;
  case DATUM_LIST:
    buffer_putc(out, '(');
    put_type(call, out, d->items[0], false);
    buffer_puts(out, ") list");
    return;
  case DATUM_KEY:
    buffer_puts(out, "key");
    return;
  case DATUM_NONE:
  case DATUM_UNIT:
  case DATUM_CON:
  case DATUM_OTHER:
  case DATUM_COUNT:
    buffer_puts(out, "unit");
    return;
  }
}

/* Where an argument is written as what it is: then its parameter is `_`. */
static bool is_literal(const Calling *call, const Datum *d) {
  return is_empty_list(d) || (call->exact && d->kind == DATUM_NUMBER &&
                              (d->weak || d->number.dtype == DT_I64));
}

static void put_literal(Buffer *out, const Datum *d, const Taken *taken) {
  if (is_empty_list(d)) {
    buffer_puts(out, "(list [])");
    return;
  }
  /* a number fits every type: one that has its own must keep it */
  bool free = d->weak || !taken || (taken->rank < 0 && !taken->dtype);
  bool exact = d->weak && dtype_is_float(d->number.dtype);
  bool bare = free && !signbit(exact ? d->number.f : (double)d->number.i);
  buffer_puts(out, bare ? "" : "(");
  scalar_print(out, exact ? datum_weak(d, DT_F64) : d->number);
  buffer_puts(out, bare ? "" : free ? ")" : " : int)");
}

typedef struct ParamName {
  char text[64];
} ParamName;

/* As the parameter is called in its definition, if nothing is in the way. */
static ParamName name_at(const Calling *call, uint32_t i) {
  const Taken *taken = taken_at(call, i);
  const char *name = taken ? taken->name : NULL;
  ParamName out;
  snprintf(out.text, sizeof out.text, "x%u'", i + 1);
  size_t head = strcspn(call->f->name, ".");
  if (!name || strlen(name) >= sizeof out.text || !is_word(name, strlen(name)))
    return out;
  if (strlen(name) == head && !memcmp(name, call->f->name, head))
    return out;
  for (uint32_t k = 0; k < i; k++) {
    const Taken *other = taken_at(call, k);
    if (other && other->name && !strcmp(other->name, name))
      return out;
  }
  snprintf(out.text, sizeof out.text, "%s", name);
  return out;
}

static void put_arg(const Calling *call, Buffer *out, uint32_t i) {
  const HostArg *arg = &call->args[i];
  buffer_puts(out, " ");
  if (arg->label)
    buffer_printf(out, "~%s:", arg->label);
  if (is_literal(call, arg->value))
    put_literal(out, arg->value, taken_at(call, i));
  else
    buffer_puts(out, name_at(call, i).text);
}

static void put_text(const Calling *call, Buffer *out) {
  const Function *f = call->f;
  buffer_puts(out, strcmp(f->name, "from_host") ? "fun from_host"
                                                : "fun from_host'");
  for (uint32_t i = 0; i < call->count; i++) {
    const Datum *d = call->args[i].value;
    bool literal = is_literal(call, d);
    buffer_printf(out, " (%s", literal ? "_" : name_at(call, i).text);
    if (!is_empty_list(d)) {
      buffer_puts(out, " : ");
      Calling of = *call;
      of.weak = weak_at(call, i);
      put_type(&of, out, d, call->exact);
    }
    buffer_putc(out, ')');
  }
  buffer_printf(out, " =\n  %s", f->name);
  for (int labels = 1; labels >= 0; labels--) /* they stand first */
    for (uint32_t i = 0; i < call->count; i++)
      if (!call->args[i].label == !labels)
        put_arg(call, out, i);
}

/* ---- checking ---- */

static bool has_list(const Calling *call) {
  for (uint32_t i = 0; i < call->count; i++)
    if (call->args[i].value->kind == DATUM_LIST)
      return true;
  return false;
}

/* The text of a call is nobody's to edit: what can be done is done to what is
 * passed. */
static void help_caller(const Calling *call, Diags *diags, uint32_t first,
                        uint32_t file) {
  for (uint32_t i = first; i < diags->all.len; i++) {
    Diag *d = diags->all.at[i];
    if (d->span.file != file)
      continue;
    d->fix_count = 0;
    if (d->code == 308 && d->help)
      d->help = "nothing converts by itself: pass an array of other elements";
    else if (d->code == 305 && has_list(call))
      d->help = "pass an array: a list is no tensor";
  }
}

static CoreDec *check_call(Session *s, const Calling *call, Diags *diags) {
  Buffer text = {.arena = s->arena};
  put_text(call, &text);
  uint32_t file =
      sources_add(&s->sources, arena_printf(s->arena, "a call of %s",
                                            call->f->name),
                  text.text, text.len, false);
  Program program = parse_program(&s->sources, file, false, s->interner,
                                  s->arena, diags);
  Checked checked = {0};
  uint32_t errors = diags->errors, first = diags->all.len;
  if (errors || program.dec_count != 1)
    return NULL;
  bool good = checker_dec_apart(s->checker, s->module, program.decs[0], diags,
                                &checked);
  help_caller(call, diags, first, file);
  if (!good || diags->errors != errors || checked.dec_count != 1)
    return NULL;
  return checked.decs[0];
}

static void put_key(const Calling *call, Buffer *out) {
  Calling of = *call;
  of.key = true;
  buffer_puts(out, call->exact ? "=" : "");
  for (uint32_t i = 0; i < call->count; i++) {
    const HostArg *arg = &call->args[i];
    if (arg->label)
      buffer_printf(out, "%s:", arg->label);
    if (is_literal(call, arg->value)) {
      buffer_puts(out, arg->value->weak ? "~" : "");
      put_literal(out, arg->value, NULL);
    } else {
      put_type(&of, out, arg->value, call->exact);
    }
    buffer_putc(out, ';');
  }
}

static Compiled *compiled_for(Session *s, const Calling *call) {
  Buffer *key = &s->call_key;
  key->len = 0;
  put_key(call, key);
  for (Compiled **at = &call->f->compiled; *at; at = &(*at)->next) {
    Compiled *c = *at;
    if (c->key_len != key->len || memcmp(c->key, key->text, key->len) != 0)
      continue;
    *at = c->next; /* to the front: it will be asked for again */
    c->next = call->f->compiled;
    return call->f->compiled = c;
  }
  return NULL;
}

static Compiled *remember(Session *s, const Calling *call, CoreDec *dec) {
  Compiled *c = NEW(s->arena, Compiled);
  c->key = arena_text(s->arena, s->call_key.text, s->call_key.len);
  c->key_len = s->call_key.len;
  if (dec)
    c->entry = eval_entry(s->eval, dec, call->count);
  c->choice = call->weak;
  c->weak = NEW_ARRAY(s->arena, Dtype, call->count);
  for (uint32_t i = 0; i < call->count; i++)
    c->weak[i] = weak_at(call, i);
  c->next = call->f->compiled;
  call->f->compiled = c;
  return c;
}

/* What a number without a type may be: as the tensors beside it are, or as
 * numbers are. */
typedef struct Choices {
  Dtype at[DT_COUNT];
  uint32_t count;
  bool wanted, floats; /* there are such numbers; some of them are no ints */
} Choices;

static void see_weak(Choices *choices, const Datum *d) {
  if (d->kind == DATUM_NUMBER && d->weak) {
    choices->wanted = true;
    choices->floats |= dtype_is_float(d->number.dtype);
  }
  for (uint32_t i = 0; i < d->len; i++)
    see_weak(choices, d->items[i]);
}

static void choose(Choices *choices, Dtype t) {
  for (uint32_t i = 0; i < choices->count; i++)
    if (choices->at[i] == t)
      return;
  if (t != DT_BOOL && (dtype_is_float(t) || !choices->floats))
    choices->at[choices->count++] = t;
}

static void choose_from(Choices *choices, const Datum *d) {
  if (d->kind == DATUM_TENSOR)
    choose(choices, d->tensor->dtype);
  for (uint32_t i = 0; i < d->len; i++)
    choose_from(choices, d->items[i]);
}

/* For all sizes; NULL: there is no such. */
static CoreDec *check_loosely(Session *s, Calling *call) {
  Choices choices = {.count = 0};
  for (uint32_t i = 0; i < call->count; i++)
    see_weak(&choices, call->args[i].value);
  for (uint32_t i = 0; choices.wanted && i < call->count; i++)
    choose_from(&choices, call->args[i].value);
  choose(&choices, DT_I64);
  choose(&choices, DT_F32);
  choose(&choices, DT_F64);
  for (uint32_t i = 0; i < (choices.wanted ? choices.count + 1 : 1); i++) {
    Diags ignored;
    diags_init(&ignored, s->arena);
    call->weak = i ? choices.at[i - 1] : DT_NONE;
    CoreDec *dec = check_call(s, call, &ignored);
    if (dec)
      return dec;
  }
  call->weak = DT_NONE;
  return NULL;
}

/* For these sizes and numbers. */
static Compiled *compile_exactly(Session *s, Calling *call) {
  call->exact = true;
  Compiled *c = compiled_for(s, call);
  if (c)
    return c;
  Diags diags;
  diags_init(&diags, s->arena);
  CoreDec *dec = check_call(s, call, &diags);
  c = remember(s, call, dec);
  c->wrong = diags;
  return c;
}

static Compiled *compile_call(Session *s, Calling *call) {
  Compiled *c = compiled_for(s, call);
  if (!c) {
    CoreDec *dec = check_loosely(s, call);
    Dtype weak = call->weak; /* not part of the key */
    call->weak = DT_NONE;
    compiled_for(s, call);
    call->weak = weak;
    c = remember(s, call, dec);
  }
  call->weak = c->choice;
  if (c->entry)
    return c;
  c = compile_exactly(s, call);
  if (!c->entry)
    s->diags = c->wrong;
  return c->entry ? c : NULL;
}

/* ---- calling ---- */

static bool refuse(Session *s, const Calling *call, uint32_t i,
                   const char *what, const char *help) {
  Diag *diag = session_error(s, WRONG_ARGUMENT, (Span){0},
                             "argument %u of %s %s", i + 1, call->f->name,
                             what);
  diag->help = help;
  return false;
}

/* Are they of one type, but for sizes? */
static bool alike(const Datum *a, const Datum *b) {
  if (a->kind != b->kind || (a->len != b->len && a->kind != DATUM_LIST))
    return false;
  if (a->kind == DATUM_NUMBER)
    return a->number.dtype == b->number.dtype && a->weak == b->weak;
  if (a->kind == DATUM_TENSOR)
    return a->tensor->dtype == b->tensor->dtype &&
           a->tensor->rank == b->tensor->rank;
  if (a->kind == DATUM_LIST)
    return alike(a->items[0], b->items[0]);
  for (uint32_t i = 0; i < a->len; i++)
    if ((a->names && strcmp(a->names[i], b->names[i]) != 0) ||
        !alike(a->items[i], b->items[i]))
      return false;
  return true;
}

static bool fits(Session *s, const Calling *call, uint32_t i, const Datum *d) {
  if (d->kind == DATUM_CON || d->kind == DATUM_OTHER)
    return refuse(s, call, i,
                  "is a function, or made by a constructor: a host cannot "
                  "tell its type",
                  "define a function in Axon that makes it of numbers, "
                  "tensors, records, tuples or lists");
  if (is_empty_list(d) && d != call->args[i].value)
    return refuse(s, call, i, "has an empty list inside: its type is not known",
                  "pass the list as an argument of its own");
  for (uint32_t k = 0; k < d->len; k++) {
    if (d->names && !is_word(d->names[k], strlen(d->names[k])))
      return refuse(s, call, i, "has a field whose name Axon cannot write",
                    "names begin with a small letter, go on with letters, "
                    "digits and _, and are no keyword");
    if (!fits(s, call, i, d->items[k]))
      return false;
  }
  for (uint32_t k = 1; d->kind == DATUM_LIST && k < d->len; k++)
    if (!alike(d->items[0], d->items[k]))
      return refuse(s, call, i, "is a list of unlike things",
                    "give all its items one element type and one number of "
                    "axes, or pass a tuple");
  return true;
}

static bool fit(Session *s, const Calling *call) {
  const Signature *sig = &call->f->signature;
  uint32_t needs = 0, has = 0;
  if (call->count > ARGS_MOST) {
    session_error(s, WRONG_COUNT, (Span){0},
                  "a call from outside has at most %d arguments", ARGS_MOST);
    return false;
  }
  for (uint32_t i = 0; i < sig->count; i++)
    needs += !sig->at[i].optional;
  for (uint32_t i = 0; i < call->count; i++) {
    const Taken *taken = taken_at(call, i);
    const char *label = call->args[i].label;
    if (!taken && label && is_word(label, strlen(label))) {
      session_error(s, WRONG_COUNT, (Span){0}, "%s has no parameter ~%s",
                    call->f->name, label)->note =
          arena_printf(s->arena, "%s : %s", call->f->name,
                       binding_type(s->checker, call->f->binding));
      return false;
    }
    has += !taken || !taken->optional;
    if (label && !is_word(label, strlen(label)))
      return refuse(s, call, i, "has a label that is no name", NULL);
    if (!fits(s, call, i, call->args[i].value))
      return false;
  }
  if (has == needs && sig->count)
    return true;
  Diag *diag = session_error(s, WRONG_COUNT, (Span){0},
                             sig->count ? "%s takes %u argument%s, not %u"
                                        : "%s is no function",
                             call->f->name, needs, needs == 1 ? "" : "s", has);
  diag->note = arena_printf(s->arena, "%s : %s", call->f->name,
                            binding_type(s->checker, call->f->binding));
  return false;
}

/* Of a size that does not fit, what the checker would have said. */
static void explain(Session *s, Calling *call) {
  if (call->exact || !s->diags.errors)
    return;
  uint16_t code = s->diags.all.at[0]->code;
  if (code != 507 && (code < 300 || code > 399))
    return;
  call->exact = true;
  const Compiled *c = compiled_for(s, call);
  if (!c && s->explained < EXPLAINED_MOST) {
    s->explained++;
    c = compile_exactly(s, call);
  }
  if (c && !c->entry)
    s->diags = c->wrong;
}

static SessionStatus run_call(Session *s, void *arg) {
  Calling *call = arg;
  if (!find(s, call->f)) {
    session_error(s, 312, (Span){0}, "%s is not defined any more",
                  call->f->name);
    return SESSION_ERROR;
  }
  if (!fit(s, call))
    return SESSION_ERROR;
  Compiled *c = compile_call(s, call);
  if (!c)
    return SESSION_ERROR;
  const Datum *args[ARGS_MOST];
  for (uint32_t i = 0; i < call->count; i++)
    args[i] = call->args[i].value;
  bool ok = eval_call(s->eval, c->entry, args, c->weak, &s->diags,
                      call->result);
  if (ok)
    return SESSION_OK;
  if (eval_exited(s->eval, &s->exit_status))
    return SESSION_EXITED;
  explain(s, call);
  return SESSION_ERROR;
}

SessionStatus session_call(Session *s, Function *f, uint32_t count,
                           const HostArg *args, Datum **result) {
  static Datum unit = {.kind = DATUM_UNIT, .deep = 1};
  HostArg nothing = {NULL, &unit};
  Calling call = {.f = f, .count = count, .args = args, .result = result};
  *result = NULL;
  if (!count) { /* `f ()` */
    call.count = 1;
    call.args = &nothing;
  }
  return session_guard(s, run_call, &call);
}

/* ---- values ---- */

typedef struct Valued {
  const char *name;
  Datum **result;
} Valued;

static SessionStatus value_of(Session *s, void *arg) {
  Valued *v = arg;
  Binding *b =
      is_name(v->name) ? checker_find(s->checker, s->module, v->name) : NULL;
  const Var *var = b ? binding_var(b) : NULL;
  ValueHandle *held = var ? eval_global(s->eval, var) : NULL;
  if (!held) {
    session_error(s, 312, (Span){0}, "%s has no value", v->name);
    return SESSION_ERROR;
  }
  bool ok = eval_datum(s->eval, held, &s->diags, v->result);
  held_free(s->eval, held);
  return ok ? SESSION_OK : SESSION_ERROR;
}

SessionStatus session_value(Session *s, const char *name, Datum **result) {
  Valued v = {name, result};
  *result = NULL;
  return session_guard(s, value_of, &v);
}
