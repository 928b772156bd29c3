/* What the machine does seldom: errors, growing, calls that do not fit. */
#include "eval/internal.h"

#include <string.h>

enum { MAX_BACKTRACE_CALLS = 4 };

static const Instr halt_instr[1] = {{{.op = OP_HALT, .a = 0}}};
const Instr ret_instr[1] = {{{.op = OP_RETURN, .a = 0}}};
const Instr then_instr[1] = {{{.op = OP_THEN_DONE, .a = 0}}};
const Instr else_instr[1] = {{{.op = OP_ELSE_DONE, .a = 0}}};

/* ---- places ---- */

static bool is_library_span(const Eval *vm, Span span) {
  if (!span.file)
    return true;
  if (!vm->sources)
    return false;
  const Source *source = sources_get(vm->sources, span.file);
  return source && source->is_library;
}

static Span span_of_instr(const Code *code, const Instr *pc) {
  if (code && pc >= code->instrs && pc < code->instrs + code->instr_count)
    return code->spans[pc - code->instrs];
  return (Span){0};
}

Span vm_user_span(Eval *vm, const char **library_function) {
  *library_function = NULL;
  if (!vm->is_running)
    return (Span){0};
  const Instr *pc = vm->pc;
  Span best = {0};
  for (Frame *f = vm->fp; f > vm->frames; f--) {
    Span span = span_of_instr(f->code, pc);
    if (!is_library_span(vm, span))
      return span;
    if (span.file && !best.file)
      best = span;
    if (span.file && f->code->name)
      *library_function = f->code->name;
    pc = f->ret - 1;
  }
  return best;
}

void vm_set_node_span(Eval *vm) {
  Span span = span_of_instr(vm->fp->code, vm->pc);
  if (is_library_span(vm, span)) {
    const char *library_function;
    span = vm_user_span(vm, &library_function);
  }
  vm->graph.span = span;
}

static uint32_t line_of(const Eval *vm, Span span) {
  const Source *source =
      vm->sources ? sources_get(vm->sources, span.file) : NULL;
  uint32_t line = span.start, column = 0;
  if (source)
    source_line_and_column(source, span.start, &line, &column);
  return line;
}

static bool is_line_labelled(const Eval *vm, const Diag *diag, Span span) {
  uint32_t line = line_of(vm, span);
  if (span.file == diag->span.file && line == line_of(vm, diag->span))
    return true;
  for (uint32_t i = 0; i < diag->label_count; i++)
    if (span.file == diag->labels[i].span.file &&
        line == line_of(vm, diag->labels[i].span))
      return true;
  return false;
}

/* The calls that led here, on other lines than the error itself; of a deferred
 * tensor, where it is needed. */
static void add_backtrace(Eval *vm, Diag *diag) {
  const Instr *pc = vm->pc;
  const char *text = vm->is_forcing ? "needed here" : "called from here";
  for (Frame *f = vm->fp;
       f > vm->frames && diag->label_count < MAX_BACKTRACE_CALLS; f--) {
    Span span = span_of_instr(f->code, pc);
    pc = f->ret - 1;
    if (is_library_span(vm, span))
      continue;
    if (!is_line_labelled(vm, diag, span))
      diag_add_label(vm->diags->arena, diag, span, text);
    text = "called from here";
  }
}

/* ---- errors ---- */

static Diag *report_error(Eval *vm, Span span, uint16_t code,
                          const char *message) {
  const char *library_function = NULL;
  if (is_library_span(vm, span)) {
    Span user = vm_user_span(vm, &library_function);
    if (user.file)
      span = user;
  }
  Diag *diag = diag_error(vm->diags, code, span, "%s", message);
  if (library_function)
    diag->note = arena_printf(vm->diags->arena, "in the library function `%s`",
                              library_function);
  if (vm->is_running)
    add_backtrace(vm, diag);
  return diag;
}

/* An error in what is run with indices without a value: on the host it may be
 * that it does not occur, if the loop can be run there. */
static void bail_out_if_possible(Eval *vm) {
  if (vm->symbolic_run_count &&
      vm->symbolic_runs[vm->symbolic_run_count - 1].can_bail_out)
    vm_bail_out(vm, NULL);
}

static void report_failure(Eval *vm, Span span, uint16_t code, const char *help,
                           const char *format, va_list args) {
  bail_out_if_possible(vm);
  Arena *arena = vm->diags->arena;
  Diag *diag = report_error(vm, span, code, arena_vprintf(arena, format, args));
  if (help && *help)
    diag->help = arena_strndup(arena, help, strlen(help));
}

void vm_fail(Eval *vm, uint16_t code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report_failure(vm, span_of_instr(vm->fp->code, vm->pc), code, NULL, format,
                 args);
  va_end(args);
  trap_raise(FAIL_ERROR);
}

void vm_fail_at(Eval *vm, Span span, uint16_t code, const char *help,
                const char *format, ...) {
  va_list args;
  va_start(args, format);
  report_failure(vm, span, code, help, format, args);
  va_end(args);
  trap_raise(FAIL_ERROR);
}

void vm_fault_at(Eval *vm, Span span, const Fault *fault) {
  static const uint16_t codes[FAULT_COUNT] = {
      [FAULT_SHAPE] = 507,      [FAULT_BROADCAST] = 303,
      [FAULT_INNER_SIZE] = 301, [FAULT_ARITHMETIC] = 506,
      [FAULT_MEMORY] = 505,     [FAULT_TARGET_UNAVAILABLE] = 514,
      [FAULT_FILE] = 508};
  vm_fail_at(vm, span, codes[fault->kind], fault->help, "%s", fault->message);
}

void vm_fault(Eval *vm, const Fault *fault) {
  vm_fault_at(vm, span_of_instr(vm->fp->code, vm->pc), fault);
}

static const char *check_message(Eval *vm, const CoreCheck *check, int64_t a,
                                 int64_t b) {
  static const char *const formats[] = {[CHECK_EQ] = "%s: %s meets %s",
                                        [CHECK_LE] = "%s: %s is more than %s",
                                        [CHECK_NE] =
                                            "%s: %s and %s should differ"};
  const Diag *of = check->diag;
  Buffer text = {.arena = vm->diags->arena};
  const char *format = formats[check->kind];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  buffer_printf(&text, format, of ? of->message : "sizes do not match",
                extent_text(&vm->graph, a).text,
                extent_text(&vm->graph, b).text);
#pragma GCC diagnostic pop
  return text.text;
}

NORETURN static void fail_check(Eval *vm, const CoreCheck *check, int64_t a,
                                int64_t b) {
  bail_out_if_possible(vm);
  const Diag *of = check->diag;
  Diag *diag = report_error(vm, of ? of->span : (Span){0}, of ? of->code : 507,
                            check_message(vm, check, a, b));
  if (of) {
    diag->steps = of->steps;
    diag->step_count = of->step_count;
    if (of->step_count || of->label_count) {
      diag->labels = of->labels;
      diag->label_count = of->label_count;
    }
    diag->fixits = of->fixits;
    diag->fixit_count = of->fixit_count;
    diag->found = of->found;
    diag->expected = of->expected;
    diag->axis = of->axis;
    diag->primary_label = of->primary_label;
    diag->help = of->help;
    if (of->note)
      diag->note = of->note;
  }
  trap_raise(FAIL_ERROR);
}

typedef enum CheckTruth {
  TRUTH_FALSE,
  TRUTH_TRUE,
  TRUTH_SYMBOLIC,
  TRUTH_NOT_APPLICABLE
} CheckTruth;

static CheckTruth evaluate_check(CheckKind kind, Value a, Value b) {
  if (a.tag == V_UNIT || b.tag == V_UNIT)
    return TRUTH_NOT_APPLICABLE; /* a size of the branch that was not taken */
  if (a.tag != DT_I64 || b.tag != DT_I64)
    return TRUTH_SYMBOLIC;
  switch (kind) {
  case CHECK_EQ:
    return a.i == b.i;
  case CHECK_LE:
    return a.i <= b.i;
  case CHECK_NE:
    return a.i != b.i;
  }
  return TRUTH_SYMBOLIC;
}

static ExtentRelation relation_of(CheckKind kind) {
  return kind == CHECK_EQ   ? EXTENT_EQ
         : kind == CHECK_LE ? EXTENT_LE
                            : EXTENT_NE;
}

static bool constraint_of(Eval *vm, CheckKind kind, const Value *sides,
                          ExtentConstraint *out) {
  out->relation = relation_of(kind);
  for (int i = 0; i < 2; i++) {
    int64_t *to = i ? &out->y : &out->x;
    if (sides[i].tag == DT_I64)
      *to = sides[i].i;
    else if (sides[i].tag != V_NODE ||
             !node_to_extent(&vm->graph, sides[i].node, to))
      return false;
  }
  return true;
}

/* Of sizes that are no numbers: what is neither proved nor refuted is left to
 * the compiled function.  False: they are none of which that can be said. */
static bool check_symbolically(Eval *vm, const CoreCheck *check,
                               const Value *at) {
  ExtentConstraint constraint, premises[UINT8_MAX];
  uint32_t count = 0;
  if (!constraint_of(vm, check->kind, at, &constraint))
    return false;
  for (uint32_t i = 0; i < check->condition_count; i++) {
    if (!constraint_of(vm, check->conditions[i].kind, at + 2 + 2 * i,
                       &premises[count]))
      return false;
    Verdict v = extent_decide(&vm->graph, premises[count].relation,
                              premises[count].x, premises[count].y);
    if (v == CONTRADICTED)
      return true;
    count += v == UNDECIDED;
  }
  if (extent_decide(&vm->graph, constraint.relation, constraint.x,
                    constraint.y) == ENTAILED)
    return true;
  vm_set_node_span(vm);
  const char *help = check->diag && check->diag->help ? check->diag->help : "";
  if (extent_add_requirement(
          &vm->graph, constraint, premises, count,
          check_message(vm, check, constraint.x, constraint.y),
          help) == CONTRADICTED)
    fail_check(vm, check, constraint.x, constraint.y);
  return true;
}

void vm_check(Eval *vm, const CoreCheck *check, const Value *at) {
  if (vm_is_aot_tracing(vm) && check_symbolically(vm, check, at))
    return;
  for (uint32_t i = 0; i < check->condition_count; i++) {
    const Value *sides = at + 2 + 2 * i;
    CheckTruth premise =
        evaluate_check(check->conditions[i].kind, sides[0], sides[1]);
    if (premise == TRUTH_FALSE || premise == TRUTH_NOT_APPLICABLE)
      return;
    if (premise == TRUTH_SYMBOLIC) /* on the host it will be known */
      vm_int(vm, sides[sides[0].tag == DT_I64]);
  }
  CheckTruth conclusion = evaluate_check(check->kind, at[0], at[1]);
  if (conclusion == TRUTH_FALSE)
    fail_check(vm, check, at[0].i, at[1].i);
  if (conclusion == TRUTH_SYMBOLIC && check->kind != CHECK_LE)
    vm_int(vm, at[at[0].tag == DT_I64]);
  /* an inequality of indices: each access is tested when it is run */
}

void vm_poll_interrupt(Eval *vm) {
  if (flag_is_set(vm->interrupt))
    trap_raise(FAIL_INTERRUPT);
}

/* ---- temporaries ---- */

static void push(Eval *vm, Value **at, size_t *count, size_t *cap, Value v) {
  if (*count == *cap) {
    Trap trap;
    size_t more = *cap ? *cap * 2 : 64;
    if (TRAP_SET(trap) == FAIL_NONE) {
      *at = mem_realloc(*at, *cap * sizeof(Value), more * sizeof(Value));
      trap_end(&trap);
    } else {
      value_release(&vm->heap, v);
      trap_raise(trap.kind);
    }
    *cap = more;
  }
  (*at)[(*count)++] = v;
}

void vm_push_temp(Eval *vm, Value v) {
  push(vm, &vm->temps, &vm->temp_count, &vm->temp_cap, v);
}

void vm_add_constant(Eval *vm, Value v) {
  push(vm, &vm->constants, &vm->constant_count, &vm->constant_cap, v);
}

void vm_drop_temps(Eval *vm, size_t mark) {
  while (vm->temp_count > mark)
    value_release(&vm->heap, vm->temps[--vm->temp_count]);
}

Value vm_new_tuple(Eval *vm, uint32_t len) {
  ValueArray *t =
      obj_new(&vm->heap, V_TUPLE, sizeof *t + len * sizeof(Value), len);
  for (uint32_t i = 0; i < len; i++)
    t->at[i] = value_unit();
  Value v = value_obj(V_TUPLE, t);
  vm_push_temp(vm, v);
  return v;
}

Value vm_new_record(Eval *vm, const RecordLayout *layout) {
  Record *r = obj_new(&vm->heap, V_RECORD,
                      sizeof *r + layout->len * sizeof(Value), layout->len);
  r->layout = layout;
  for (uint32_t i = 0; i < layout->len; i++)
    r->at[i] = value_unit();
  Value v = value_obj(V_RECORD, r);
  vm_push_temp(vm, v);
  return v;
}

void *vm_scratch(Eval *vm, size_t size) {
  String *s = obj_new(&vm->heap, V_STRING, sizeof *s + size + 16, 0);
  vm_push_temp(vm, value_obj(V_STRING, s));
  return (void *)(((uintptr_t)s->text + 15) & ~(uintptr_t)15);
}

/* ---- the stack ---- */

void vm_unwind(Eval *vm, size_t frame, size_t height, size_t temps) {
  vm_drop_temps(vm, temps);
  while (vm->sp > vm->stack + height) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
  for (; vm->fp > vm->frames + frame; vm->fp--)
    if (vm->fp->env)
      value_release(&vm->heap, value_obj(V_ENV, vm->fp->env));
  while (vm->lazy_init_count &&
         vm->lazy_inits[vm->lazy_init_count - 1].frame > frame)
    vm->lazy_inits[--vm->lazy_init_count].lazy->state = GLOBAL_LAZY;
}

void vm_grow_frames(Eval *vm, Obj *env) {
  size_t used = (size_t)(vm->fp - vm->frames);
  size_t cap = (size_t)(vm->frames_end - vm->frames);
  size_t new_cap = cap * 2 < MAX_FRAMES ? cap * 2 : MAX_FRAMES;
  if (env)
    vm_push_temp(vm, value_obj(V_ENV, env));
  if (new_cap == cap)
    vm_fail_at(vm, span_of_instr(vm->fp->code, vm->pc), 502,
               "this is the limit: use a loop (`iterate`, `while`, `fold`) or "
               "a call in tail position",
               "recursion too deep: %zu active calls", used + 1);
  vm->frames =
      mem_realloc(vm->frames, cap * sizeof(Frame), new_cap * sizeof(Frame));
  vm->frames_end = vm->frames + new_cap;
  vm->fp = vm->frames + used;
  if (env)
    vm->temp_count--;
}

void vm_grow_stack(Eval *vm, size_t need) {
  size_t used = (size_t)(vm->sp - vm->stack);
  size_t cap = (size_t)(vm->stack_end - vm->stack), new_cap = cap;
  while (new_cap < used + need)
    new_cap *= 2;
  if (new_cap == cap)
    return;
  if (new_cap > MAX_STACK_VALUES)
    new_cap = MAX_STACK_VALUES;
  if (new_cap < used + need)
    vm_fail_at(vm, span_of_instr(vm->fp->code, vm->pc), 502,
               "this is the limit: use a loop (`iterate`, `while`, `fold`) or "
               "a call in tail position",
               "recursion too deep: active calls use %zu MiB",
               used * sizeof(Value) >> 20);
  vm->stack =
      mem_realloc(vm->stack, cap * sizeof(Value), new_cap * sizeof(Value));
  vm->stack_end = vm->stack + new_cap;
  vm->sp = vm->stack + used;
}

static void push_frame(Eval *vm, const Code *code, uint32_t n, Obj *env,
                       const Instr *ret) {
  if (vm->fp + 1 == vm->frames_end)
    vm_grow_frames(vm, env);
  Frame *f = ++vm->fp;
  *f = (Frame){.ret = ret, .code = code, .env = env};
  f->base = (size_t)(vm->sp - vm->stack) - n;
  vm_grow_stack(vm, code->stack_depth);
}

/* ---- running ---- */

Value vm_run(Eval *vm, const Code *code, uint32_t count, const Value *args) {
  vm->sp = vm->stack;
  vm->fp = vm->frames;
  *vm->fp = (Frame){0};
  vm->is_running = true;
  vm_grow_stack(vm, count);
  for (uint32_t i = 0; i < count; i++)
    *vm->sp++ = value_retain(args[i]);
  push_frame(vm, code, count, NULL, halt_instr);
  vm->pc = code->instrs;
  for (;;) {
    Trap trap;
    if (TRAP_SET(trap) == FAIL_NONE) {
      vm_interpret(vm);
      trap_end(&trap);
      break;
    }
    if (trap.kind == FAIL_LIMIT && vm->is_bailing_out) {
      vm->is_bailing_out = false;
      vm_resume_after_bailout(vm);
      continue;
    }
    if (trap.kind == FAIL_LIMIT && vm->is_branch_failing) {
      vm->is_branch_failing = false;
      vm_branch_failed(vm);
      continue;
    }
    vm->is_running = false;
    trap_raise(trap.kind); /* the caller of vm_run puts things in order */
  }
  vm->is_running = false;
  return *--vm->sp;
}

/* ---- calls ---- */

/* The current frame becomes one of `code` with the top n values. */
static void replace_frame(Eval *vm, const Code *code, uint32_t n, Obj *env) {
  Frame *f = vm->fp;
  Value *bp = vm->stack + f->base, *args = vm->sp - n;
  for (Value *at = bp; at < args; at++)
    value_release(&vm->heap, *at);
  memmove(bp, args, n * sizeof(Value));
  vm->sp = bp + n;
  if (f->env)
    value_release(&vm->heap, value_obj(V_ENV, f->env));
  f->env = env;
  f->code = code;
  vm_grow_stack(vm, code->stack_depth);
}

static const Code *apply_rest_code(Eval *vm) {
  if (!vm->apply_rest_code) {
    BytecodeEmitter e = {.vm = vm};
    emit(&e, OP_APPLY_REST, 0, 0, 0, 0);
    Code *code = code_new(vm, 0, NULL);
    code->is_builtin = true;
    emit_finish(&e, code);
    vm->apply_rest_code = code;
  }
  return vm->apply_rest_code;
}

/* More arguments than parameters: a frame that keeps the rest and applies
 * the result to them. */
static const Instr *apply_oversaturated(Eval *vm, uint32_t n, uint32_t arity,
                                        const Instr *ret, bool tail) {
  const Code *rest_code = apply_rest_code(vm);
  uint32_t rest = n - arity;
  Value *at = vm->sp - n - 1; /* f, arguments, rest */
  Value *copy = vm_scratch(vm, (n + 1) * sizeof(Value));
  memcpy(copy, at, (n + 1) * sizeof(Value));
  memcpy(at, copy + 1 + arity, rest * sizeof(Value));
  memcpy(at + rest, copy, (1 + arity) * sizeof(Value));
  vm_drop_temps(vm, vm->temp_count - 1);
  if (tail)
    replace_frame(vm, rest_code, n + 1, NULL);
  else
    push_frame(vm, rest_code, n + 1, NULL, ret);
  vm_grow_stack(vm, n + 8);
  return vm_apply(vm, arity, rest_code->instrs, false);
}

static const Instr *make_partial_app(Eval *vm, uint32_t n, Value f) {
  Partial *p = obj_new(&vm->heap, V_PARTIAL, sizeof *p + n * sizeof(Value), n);
  Value *at = vm->sp - n - 1;
  p->fn = f;
  memcpy(p->args, at + 1, n * sizeof(Value));
  *at = value_obj(V_PARTIAL, p);
  vm->sp = at + 1;
  return NULL;
}

const Instr *vm_apply(Eval *vm, uint32_t n, const Instr *ret, bool tail) {
  for (;;) {
    Value *at = vm->sp - n - 1, f = *at;
    if (!n)
      return tail ? ret_instr : ret;
    if (f.tag == V_PARTIAL) {
      Partial *p = AS_PARTIAL(f);
      uint32_t k = p->obj.len;
      vm_grow_stack(vm, k + 8);
      at = vm->sp - n - 1;
      memmove(at + 1 + k, at + 1, n * sizeof(Value));
      at[0] = value_retain(p->fn);
      for (uint32_t i = 0; i < k; i++)
        at[1 + i] = value_retain(p->args[i]);
      vm->sp += k;
      n += k;
      value_release(&vm->heap, f);
      continue;
    }
    uint32_t arity;
    const Code *code = NULL;
    if (f.tag == V_FN || f.tag == V_CLOSURE) {
      code = f.tag == V_FN ? f.code : vm->codes[f.aux];
      arity = code->arity;
    } else if (f.tag == V_PRIM) {
      arity = AS_PRIM(f)->site.arity;
    } else {
      vm_fail(vm, 599,
              "compiler bug in eval: a value that is no function "
              "is applied");
    }
    if (n > arity)
      return apply_oversaturated(vm, n, arity, ret, tail);
    if (n < arity) {
      make_partial_app(vm, n, f);
      return tail ? ret_instr : ret;
    }
    if (!code) {
      Value r = vm_call_prim(vm, &AS_PRIM(f)->site, at + 1, n);
      for (uint32_t i = 0; i <= n; i++) {
        vm->sp--;
        value_release(&vm->heap, *vm->sp);
      }
      *vm->sp++ = r;
      return tail ? ret_instr : ret;
    }
    Obj *env = f.tag == V_CLOSURE ? f.obj : NULL;
    memmove(at, at + 1, n * sizeof(Value));
    vm->sp--;
    if (tail)
      replace_frame(vm, code, n, env);
    else
      push_frame(vm, code, n, env, ret);
    return code->instrs;
  }
}

const Instr *vm_run_lazy_init(Eval *vm, Global *g, const Instr *resume_at) {
  LazyDec *lazy = g->lazy;
  if (!lazy || lazy->state == GLOBAL_DONE)
    vm_fail(vm, 599, "compiler bug in eval: %s has no value yet",
            g->name ? g->name : "a size");
  if (lazy->state == GLOBAL_RUNNING)
    vm_fail(vm, 510, "the definition of %s needs its own value",
            g->name ? g->name : "a value");
  if (lazy->dec->kind == CD_FUNS) {
    define_functions(vm, lazy->dec);
    lazy->state = GLOBAL_DONE;
    return resume_at;
  }
  if (!lazy->code)
    lazy->code = compile_bind(vm, lazy->dec, true);
  if (vm->lazy_init_count == vm->lazy_init_cap) {
    size_t cap = vm->lazy_init_cap ? vm->lazy_init_cap * 2 : 16;
    vm->lazy_inits =
        mem_realloc(vm->lazy_inits, vm->lazy_init_cap * sizeof(LazyInit),
                    cap * sizeof(LazyInit));
    vm->lazy_init_cap = cap;
  }
  vm_grow_stack(vm, 8);
  Node *guard = vm->graph.guard;
  *vm->sp++ = guard ? value_node(node_retain(guard)) : value_unit();
  push_frame(vm, lazy->code, 1, NULL, resume_at);
  vm->lazy_inits[vm->lazy_init_count++] =
      (LazyInit){lazy, (size_t)(vm->fp - vm->frames)};
  lazy->state = GLOBAL_RUNNING;
  vm->graph.guard = NULL;
  return lazy->code->instrs;
}

Value vm_call_prim(Eval *vm, const PrimSite *site, Value *args, uint32_t n) {
  PrimFn fn = prim_function(site->prim);
  if (!fn)
    vm_fail(vm, 599, "compiler bug in eval: no function for %s",
            prim_info[site->prim].name);
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  Value r = fn(vm, site, args, n);
  vm_drop_temps(vm, mark);
  return r;
}
