/* Calls from a host program.  Main entry points: session_find_function and
 * session_call.  The callee is checked once per list of argument types, in a
 * declaration such as
 *
 *     fun from_host (p : {w : f32[?, ?], b : f32[?]}) (x : f32[?, ?]) =
 *       forward p x
 *
 * so that one specialization serves all sizes, and conditions on sizes become
 * run-time checks.  If that does not check, or a size does not fit at run time,
 * the declaration is checked with the sizes of the arguments instead of `?`,
 * and with the values of numbers.  Some functions need these, and the messages
 * mention them. */
#include "session/state.h"

#include "lexer/lexer.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <math.h>
#include <string.h>

enum {
  MAX_HOST_ARGS = 100, /* an instruction stores the number of arguments */
  MAX_EXPLAINED_ERRORS = 1000, /* improved messages; each takes memory */
  ERROR_WRONG_ARGUMENT = 520,
  ERROR_WRONG_ARG_COUNT = 521,
};

typedef struct Specialization {
  struct Specialization *next;
  /* types of the arguments; of an exact one also sizes and numbers */
  const char *key;
  size_t key_len;
  HostEntry *entry; /* NULL: an error, or exact sizes are needed */
  Diags errors;     /* errors, if entry is NULL and the key contains sizes */
  Dtype weak_dtype; /* type of numbers without a type */
  Dtype *arg_weak_dtypes; /* the same per argument */
} Specialization;

struct HostFunction {
  const char *name;
  Binding *binding;      /* current binding; NULL if there is none */
  uint32_t source_count; /* session's source count when it was found */
  Signature signature;
  Specialization *specializations;
};

typedef struct HostCall {
  HostFunction *function;
  uint32_t count;
  const HostArg *args;
  HostValue **result;
  bool is_exact;
  bool is_key;      /* writing a key instead of program text */
  Dtype weak_dtype; /* type of numbers without a type */
} HostCall;

/* ---- the function ---- */

static bool is_lower_identifier(const char *text, size_t len) {
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

static bool is_qualified_name(const char *name) { /* "f", "nn.linear" */
  const char *dot = strchr(name, '.');
  if (dot && !is_lower_identifier(name, (size_t)(dot - name)))
    return false;
  const char *last = dot ? dot + 1 : name;
  return is_lower_identifier(last, strlen(last));
}

/* Updates what the name denotes now. */
static bool refresh_binding(Session *s, HostFunction *f) {
  if (f->source_count == s->source_count && f->binding)
    return true;
  Binding *b = is_qualified_name(f->name)
                   ? checker_find(s->checker, s->main_module, f->name)
                   : NULL;
  if (b != f->binding) {
    f->binding = b;
    f->specializations = NULL;
    f->signature = (Signature){0};
    if (b && !binding_signature(s->checker, b, &f->signature))
      f->binding = NULL;
  }
  f->source_count = s->source_count;
  return f->binding;
}

static SessionStatus find_function(Session *s, void *arg) {
  HostFunction **out = arg, *f = *out;
  Sym *name = intern_string(s->interner, f->name);
  *out = map_get(&s->functions, name);
  if (!*out) {
    *out = NEW(s->arena, HostFunction);
    (*out)->name = name->text;
  }
  if (!refresh_binding(s, *out)) {
    session_error(s, 312, (Span){0}, "%s is not defined", name->text);
    *out = NULL;
    return SESSION_ERROR;
  }
  map_put(&s->functions, name, *out);
  return SESSION_OK;
}

HostFunction *session_find_function(Session *s, const char *name) {
  HostFunction wanted = {.name = name}, *f = &wanted;
  return session_protected_call(s, find_function, &f) == SESSION_OK ? f : NULL;
}

const Signature *session_signature(const HostFunction *f) {
  return &f->signature;
}

/* ---- arguments as text ---- */

static bool is_empty_list(const HostValue *d) {
  return d->kind == HOST_VALUE_LIST && !d->len;
}

static const ParamInfo *param_of_arg(const HostCall *call, uint32_t i) {
  const Signature *sig = &call->function->signature;
  uint32_t unnamed = 0;
  for (uint32_t k = 0; k < i; k++)
    unnamed += !call->args[k].label;
  for (uint32_t k = 0; k < sig->count; k++) {
    const char *label = sig->params[k].label;
    if (call->args[i].label ? label && strcmp(label, call->args[i].label) == 0
                            : !label && unnamed-- == 0)
      return &sig->params[k];
  }
  return NULL;
}

static Dtype number_dtype(const HostCall *call, const HostValue *d) {
  return d->is_weakly_typed && call->weak_dtype ? call->weak_dtype
                                                : d->number.dtype;
}

/* The type of untyped numbers in an argument.  If the argument is itself an
   untyped number, the type of its parameter if that fits. */
static Dtype arg_weak_dtype(const HostCall *call, uint32_t i) {
  const HostValue *d = call->args[i].value;
  const ParamInfo *param = param_of_arg(call, i);
  bool has_dtype = param && !param->rank && param->dtype > DT_BOOL;
  if (d->kind == HOST_VALUE_NUMBER && d->is_weakly_typed && has_dtype &&
      (dtype_is_float(param->dtype) || dtype_is_int(d->number.dtype)))
    return param->dtype;
  return call->weak_dtype;
}

/* Writes a type, or the part of a key that identifies it.  Omits sizes in
   lists, where they may differ. */
static void write_type(const HostCall *call, Buffer *out, const HostValue *d,
                       bool is_exact) {
  switch (d->kind) {
  case HOST_VALUE_NUMBER:
    buffer_puts(out, call->is_key && d->is_weakly_typed ? "~" : "");
    buffer_puts(out, dtype_info[number_dtype(call, d)].name);
    return;
  case HOST_VALUE_TENSOR:
    buffer_puts(out, dtype_info[d->tensor->dtype].name);
    for (uint32_t i = 0; i < d->tensor->rank; i++) {
      buffer_puts(out, i ? ", " : "[");
      if (is_exact)
        buffer_printf(out, "%lld", (long long)d->tensor->shape[i]);
      else
        buffer_putc(out, '?');
    }
    buffer_puts(out, d->tensor->rank ? "]" : "");
    return;
  case HOST_VALUE_STRING:
    buffer_puts(out, "string");
    return;
  case HOST_VALUE_TUPLE:
    for (uint32_t i = 0; i < d->len; i++) {
      buffer_puts(out, i ? " * " : "(");
      write_type(call, out, d->items[i], is_exact);
    }
    buffer_putc(out, ')');
    return;
  case HOST_VALUE_RECORD:
    buffer_putc(out, '{');
    for (uint32_t i = 0; i < d->len; i++) {
      buffer_printf(out, "%s%s : ", i ? ", " : "", d->names[i]);
      write_type(call, out, d->items[i], is_exact);
    }
    buffer_putc(out, '}');
    return;
  case HOST_VALUE_LIST:
    buffer_putc(out, '(');
    write_type(call, out, d->items[0], false);
    buffer_puts(out, ") list");
    return;
  case HOST_VALUE_KEY:
    buffer_puts(out, "key");
    return;
  case HOST_VALUE_NONE:
  case HOST_VALUE_UNIT:
  case HOST_VALUE_CONSTRUCTOR:
  case HOST_VALUE_OTHER:
  case HOST_VALUE_COUNT:
    buffer_puts(out, "unit");
    return;
  }
}

/* True if the argument is written as a literal.  Its parameter is then `_`. */
static bool is_literal(const HostCall *call, const HostValue *d) {
  return is_empty_list(d) ||
         (call->is_exact && d->kind == HOST_VALUE_NUMBER &&
          (d->is_weakly_typed || d->number.dtype == DT_I64));
}

static void write_literal(Buffer *out, const HostValue *d,
                          const ParamInfo *param) {
  if (is_empty_list(d)) {
    buffer_puts(out, "(list [])");
    return;
  }
  /* a number literal fits every type: a number with a type must keep it */
  bool is_untyped_param =
      d->is_weakly_typed || !param || (param->rank < 0 && !param->dtype);
  bool is_exact = d->is_weakly_typed && dtype_is_float(d->number.dtype);
  bool bare = is_untyped_param &&
              !signbit(is_exact ? d->number.f : (double)d->number.i);
  buffer_puts(out, bare ? "" : "(");
  scalar_print(out, is_exact ? host_value_promote(d, DT_F64) : d->number);
  buffer_puts(out, bare ? "" : is_untyped_param ? ")" : " : int)");
}

typedef struct ParamName {
  char text[64];
} ParamName;

/* The parameter's name in its definition, unless another name prevents that. */
static ParamName param_name(const HostCall *call, uint32_t i) {
  const ParamInfo *param = param_of_arg(call, i);
  const char *name = param ? param->name : NULL;
  ParamName out;
  snprintf(out.text, sizeof out.text, "x%u'", i + 1);
  size_t head = strcspn(call->function->name, ".");
  if (!name || strlen(name) >= sizeof out.text ||
      !is_lower_identifier(name, strlen(name)))
    return out;
  if (strlen(name) == head && !memcmp(name, call->function->name, head))
    return out;
  for (uint32_t k = 0; k < i; k++) {
    const ParamInfo *other = param_of_arg(call, k);
    if (other && other->name && !strcmp(other->name, name))
      return out;
  }
  snprintf(out.text, sizeof out.text, "%s", name);
  return out;
}

static void write_arg(const HostCall *call, Buffer *out, uint32_t i) {
  const HostArg *arg = &call->args[i];
  buffer_puts(out, " ");
  if (arg->label)
    buffer_printf(out, "~%s:", arg->label);
  if (is_literal(call, arg->value))
    write_literal(out, arg->value, param_of_arg(call, i));
  else
    buffer_puts(out, param_name(call, i).text);
}

static void write_wrapper(const HostCall *call, Buffer *out) {
  const HostFunction *f = call->function;
  buffer_puts(out, strcmp(f->name, "from_host") ? "fun from_host"
                                                : "fun from_host'");
  for (uint32_t i = 0; i < call->count; i++) {
    const HostValue *d = call->args[i].value;
    bool literal = is_literal(call, d);
    buffer_printf(out, " (%s", literal ? "_" : param_name(call, i).text);
    if (!is_empty_list(d)) {
      buffer_puts(out, " : ");
      HostCall of = *call;
      of.weak_dtype = arg_weak_dtype(call, i);
      write_type(&of, out, d, call->is_exact);
    }
    buffer_putc(out, ')');
  }
  buffer_printf(out, " =\n  %s", f->name);
  /* labelled parameters come first */
  for (int labels = 1; labels >= 0; labels--)
    for (uint32_t i = 0; i < call->count; i++)
      if (!call->args[i].label == !labels)
        write_arg(call, out, i);
}

/* ---- checking ---- */

static bool has_list(const HostCall *call) {
  for (uint32_t i = 0; i < call->count; i++)
    if (call->args[i].value->kind == HOST_VALUE_LIST)
      return true;
  return false;
}

/* Users cannot edit the text of a call, so suggestions refer to the passed
   values. */
static void adapt_diags_to_caller(const HostCall *call, Diags *diags,
                                  uint32_t first, uint32_t file) {
  for (uint32_t i = first; i < diags->all.len; i++) {
    Diag *d = diags->all.at[i];
    if (d->span.file != file)
      continue;
    d->fixit_count = 0;
    if (d->code == 308 && d->help)
      d->help =
          "no implicit conversion: pass an array with another element type";
    else if (d->code == 305 && has_list(call))
      d->help = "pass an array: a list is not a tensor";
  }
}

static CoreDec *check_wrapper(Session *s, const HostCall *call, Diags *diags) {
  Buffer text = {.arena = s->arena};
  write_wrapper(call, &text);
  uint32_t file = sources_add(
      &s->sources, arena_printf(s->arena, "a call of %s", call->function->name),
      text.text, text.len, false);
  Program program =
      parse_program(&s->sources, file, false, s->interner, s->arena, diags);
  Checked checked = {0};
  uint32_t errors = diags->errors, first = diags->all.len;
  if (errors || program.dec_count != 1)
    return NULL;
  bool ok = checker_dec_isolated(s->checker, s->main_module, program.decs[0],
                                 diags, &checked);
  adapt_diags_to_caller(call, diags, first, file);
  if (!ok || diags->errors != errors || checked.dec_count != 1)
    return NULL;
  return checked.decs[0];
}

static void write_key(const HostCall *call, Buffer *out) {
  HostCall of = *call;
  of.is_key = true;
  buffer_puts(out, call->is_exact ? "=" : "");
  for (uint32_t i = 0; i < call->count; i++) {
    const HostArg *arg = &call->args[i];
    if (arg->label)
      buffer_printf(out, "%s:", arg->label);
    if (is_literal(call, arg->value)) {
      buffer_puts(out, arg->value->is_weakly_typed ? "~" : "");
      write_literal(out, arg->value, NULL);
    } else {
      write_type(&of, out, arg->value, call->is_exact);
    }
    buffer_putc(out, ';');
  }
}

static Specialization *find_specialization(Session *s, const HostCall *call) {
  Buffer *key = &s->call_key;
  key->len = 0;
  write_key(call, key);
  for (Specialization **at = &call->function->specializations; *at;
       at = &(*at)->next) {
    Specialization *c = *at;
    if (c->key_len != key->len || memcmp(c->key, key->text, key->len) != 0)
      continue;
    *at = c->next; /* move to the front: likely to be needed again */
    c->next = call->function->specializations;
    return call->function->specializations = c;
  }
  return NULL;
}

static Specialization *add_specialization(Session *s, const HostCall *call,
                                          CoreDec *dec) {
  Specialization *c = NEW(s->arena, Specialization);
  c->key = arena_strndup(s->arena, s->call_key.text, s->call_key.len);
  c->key_len = s->call_key.len;
  if (dec)
    c->entry = eval_host_entry_new(s->eval, dec, call->count);
  c->weak_dtype = call->weak_dtype;
  c->arg_weak_dtypes = NEW_ARRAY(s->arena, Dtype, call->count);
  for (uint32_t i = 0; i < call->count; i++)
    c->arg_weak_dtypes[i] = arg_weak_dtype(call, i);
  c->next = call->function->specializations;
  call->function->specializations = c;
  return c;
}

/* Possible types of untyped numbers: those of the tensors in the call, or the
   defaults. */
typedef struct DtypeCandidates {
  Dtype dtypes[DT_COUNT];
  uint32_t count;
  bool has_weak_numbers,
      has_weak_floats; /* such numbers occur; some are not integers */
} DtypeCandidates;

static void note_weak_numbers(DtypeCandidates *candidates, const HostValue *d) {
  if (d->kind == HOST_VALUE_NUMBER && d->is_weakly_typed) {
    candidates->has_weak_numbers = true;
    candidates->has_weak_floats |= dtype_is_float(d->number.dtype);
  }
  for (uint32_t i = 0; i < d->len; i++)
    note_weak_numbers(candidates, d->items[i]);
}

static void add_candidate(DtypeCandidates *candidates, Dtype t) {
  for (uint32_t i = 0; i < candidates->count; i++)
    if (candidates->dtypes[i] == t)
      return;
  if (t != DT_BOOL && (dtype_is_float(t) || !candidates->has_weak_floats))
    candidates->dtypes[candidates->count++] = t;
}

static void add_candidates_of(DtypeCandidates *candidates, const HostValue *d) {
  if (d->kind == HOST_VALUE_TENSOR)
    add_candidate(candidates, d->tensor->dtype);
  for (uint32_t i = 0; i < d->len; i++)
    add_candidates_of(candidates, d->items[i]);
}

/* Checks for all sizes.  NULL if that is impossible. */
static CoreDec *check_for_all_sizes(Session *s, HostCall *call) {
  DtypeCandidates candidates = {.count = 0};
  for (uint32_t i = 0; i < call->count; i++)
    note_weak_numbers(&candidates, call->args[i].value);
  for (uint32_t i = 0; candidates.has_weak_numbers && i < call->count; i++)
    add_candidates_of(&candidates, call->args[i].value);
  add_candidate(&candidates, DT_I64);
  add_candidate(&candidates, DT_F32);
  add_candidate(&candidates, DT_F64);
  for (uint32_t i = 0;
       i < (candidates.has_weak_numbers ? candidates.count + 1 : 1); i++) {
    Diags ignored;
    diags_init(&ignored, s->arena);
    call->weak_dtype = i ? candidates.dtypes[i - 1] : DT_NONE;
    CoreDec *dec = check_wrapper(s, call, &ignored);
    if (dec)
      return dec;
  }
  call->weak_dtype = DT_NONE;
  return NULL;
}

/* Checks for the given sizes and numbers. */
static Specialization *specialize_exactly(Session *s, HostCall *call) {
  call->is_exact = true;
  Specialization *c = find_specialization(s, call);
  if (c)
    return c;
  Diags diags;
  diags_init(&diags, s->arena);
  CoreDec *dec = check_wrapper(s, call, &diags);
  c = add_specialization(s, call, dec);
  c->errors = diags;
  return c;
}

static Specialization *specialize(Session *s, HostCall *call) {
  Specialization *c = find_specialization(s, call);
  if (!c) {
    CoreDec *dec = check_for_all_sizes(s, call);
    Dtype weak = call->weak_dtype; /* not part of the key */
    call->weak_dtype = DT_NONE;
    find_specialization(s, call);
    call->weak_dtype = weak;
    c = add_specialization(s, call, dec);
  }
  call->weak_dtype = c->weak_dtype;
  if (c->entry)
    return c;
  c = specialize_exactly(s, call);
  if (!c->entry)
    s->diags = c->errors;
  return c->entry ? c : NULL;
}

/* ---- calling ---- */

static bool reject_arg(Session *s, const HostCall *call, uint32_t i,
                       const char *what, const char *help) {
  Diag *diag =
      session_error(s, ERROR_WRONG_ARGUMENT, (Span){0}, "argument %u of %s %s",
                    i + 1, call->function->name, what);
  diag->help = help;
  return false;
}

/* True if the types are equal except for sizes. */
static bool same_type(const HostValue *a, const HostValue *b) {
  if (a->kind != b->kind || (a->len != b->len && a->kind != HOST_VALUE_LIST))
    return false;
  if (a->kind == HOST_VALUE_NUMBER)
    return a->number.dtype == b->number.dtype &&
           a->is_weakly_typed == b->is_weakly_typed;
  if (a->kind == HOST_VALUE_TENSOR)
    return a->tensor->dtype == b->tensor->dtype &&
           a->tensor->rank == b->tensor->rank;
  if (a->kind == HOST_VALUE_LIST)
    return same_type(a->items[0], b->items[0]);
  for (uint32_t i = 0; i < a->len; i++)
    if ((a->names && strcmp(a->names[i], b->names[i]) != 0) ||
        !same_type(a->items[i], b->items[i]))
      return false;
  return true;
}

static bool arg_is_valid(Session *s, const HostCall *call, uint32_t i,
                         const HostValue *d) {
  if (d->kind == HOST_VALUE_CONSTRUCTOR || d->kind == HOST_VALUE_OTHER)
    return reject_arg(
        s, call, i,
        "is a function or a constructor value: a host cannot give its type",
        "define a function in Axon that creates it from numbers, tensors, "
        "records, tuples or lists");
  if (is_empty_list(d) && d != call->args[i].value)
    return reject_arg(s, call, i,
                      "contains an empty list: its type is not known",
                      "pass the list as a separate argument");
  for (uint32_t k = 0; k < d->len; k++) {
    if (d->names && !is_lower_identifier(d->names[k], strlen(d->names[k])))
      return reject_arg(s, call, i,
                        "has a field whose name is not valid in Axon",
                        "a name has a small first letter, then letters, digits "
                        "and _; it is not a keyword");
    if (!arg_is_valid(s, call, i, d->items[k]))
      return false;
  }
  for (uint32_t k = 1; d->kind == HOST_VALUE_LIST && k < d->len; k++)
    if (!same_type(d->items[0], d->items[k]))
      return reject_arg(
          s, call, i, "is a list with items of different types",
          "give all items one element type and one rank, or pass a tuple");
  return true;
}

static bool args_are_valid(Session *s, const HostCall *call) {
  const Signature *sig = &call->function->signature;
  uint32_t required = 0, given = 0;
  if (call->count > MAX_HOST_ARGS) {
    session_error(s, ERROR_WRONG_ARG_COUNT, (Span){0},
                  "a call from a host has at most %d arguments", MAX_HOST_ARGS);
    return false;
  }
  for (uint32_t i = 0; i < sig->count; i++)
    required += !sig->params[i].optional;
  for (uint32_t i = 0; i < call->count; i++) {
    const ParamInfo *param = param_of_arg(call, i);
    const char *label = call->args[i].label;
    if (!param && label && is_lower_identifier(label, strlen(label))) {
      session_error(s, ERROR_WRONG_ARG_COUNT, (Span){0},
                    "%s has no parameter ~%s", call->function->name, label)
          ->note =
          arena_printf(s->arena, "%s : %s", call->function->name,
                       binding_type(s->checker, call->function->binding));
      return false;
    }
    given += !param || !param->optional;
    if (label && !is_lower_identifier(label, strlen(label)))
      return reject_arg(s, call, i, "has a label that is not a valid name",
                        NULL);
    if (!arg_is_valid(s, call, i, call->args[i].value))
      return false;
  }
  if (given == required && sig->count)
    return true;
  Diag *diag = session_error(
      s, ERROR_WRONG_ARG_COUNT, (Span){0},
      sig->count ? "%s takes %u argument%s; found %u" : "%s is not a function",
      call->function->name, required, required == 1 ? "" : "s", given);
  diag->note = arena_printf(s->arena, "%s : %s", call->function->name,
                            binding_type(s->checker, call->function->binding));
  return false;
}

/* Replaces a run-time error about a size by the messages of the checker for
   these sizes. */
static void replace_with_static_errors(Session *s, HostCall *call) {
  if (call->is_exact || !s->diags.errors)
    return;
  uint16_t code = s->diags.all.at[0]->code;
  if (code != 507 && (code < 300 || code > 399))
    return;
  call->is_exact = true;
  const Specialization *c = find_specialization(s, call);
  if (!c && s->explained_errors < MAX_EXPLAINED_ERRORS) {
    s->explained_errors++;
    c = specialize_exactly(s, call);
  }
  if (c && !c->entry)
    s->diags = c->errors;
}

static SessionStatus run_call(Session *s, void *arg) {
  HostCall *call = arg;
  if (!refresh_binding(s, call->function)) {
    session_error(s, 312, (Span){0}, "%s is no longer defined",
                  call->function->name);
    return SESSION_ERROR;
  }
  if (!args_are_valid(s, call))
    return SESSION_ERROR;
  Specialization *c = specialize(s, call);
  if (!c)
    return SESSION_ERROR;
  const HostValue *args[MAX_HOST_ARGS];
  for (uint32_t i = 0; i < call->count; i++)
    args[i] = call->args[i].value;
  bool ok = eval_call_host_entry(s->eval, c->entry, args, c->arg_weak_dtypes,
                                 &s->diags, call->result);
  if (ok)
    return SESSION_OK;
  if (eval_exited(s->eval, &s->exit_status))
    return SESSION_EXITED;
  replace_with_static_errors(s, call);
  return SESSION_ERROR;
}

SessionStatus session_call(Session *s, HostFunction *f, uint32_t count,
                           const HostArg *args, HostValue **result) {
  static HostValue unit = {.kind = HOST_VALUE_UNIT, .depth = 1};
  HostArg unit_arg = {NULL, &unit};
  HostCall call = {
      .function = f, .count = count, .args = args, .result = result};
  *result = NULL;
  if (!count) { /* `f ()` */
    call.count = 1;
    call.args = &unit_arg;
  }
  return session_protected_call(s, run_call, &call);
}

/* ---- values ---- */

typedef struct ValueRequest {
  const char *name;
  HostValue **result;
} ValueRequest;

static SessionStatus get_global_value(Session *s, void *arg) {
  ValueRequest *v = arg;
  Binding *b = is_qualified_name(v->name)
                   ? checker_find(s->checker, s->main_module, v->name)
                   : NULL;
  const Var *var = b ? binding_var(b) : NULL;
  ValueHandle *held = var ? eval_global_handle(s->eval, var) : NULL;
  if (!held) {
    session_error(s, 312, (Span){0}, "%s has no value", v->name);
    return SESSION_ERROR;
  }
  bool ok = eval_to_host_value(s->eval, held, &s->diags, v->result);
  value_handle_free(s->eval, held);
  return ok ? SESSION_OK : SESSION_ERROR;
}

SessionStatus session_global_value(Session *s, const char *name,
                                   HostValue **result) {
  ValueRequest v = {name, result};
  *result = NULL;
  return session_protected_call(s, get_global_value, &v);
}
