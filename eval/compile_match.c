/* Compiles pattern matching.  Each rule runs all of its tests first, then it
 * pushes its variables.  The main entry point is compile_case. */
#include "eval/compile.h"
#include "support/arena.h"

#include <string.h>

/* The path from the matched value to a part of it. */
typedef struct AccessPath {
  const struct AccessPath *outer; /* NULL: the value is in local `slot` */
  uint32_t slot;
  Op op;
  uint32_t a, b;
  const void *ptr; /* used by FIELD */
} AccessPath;

typedef VEC(uint32_t) JumpVec;

typedef struct RuleCompiler {
  FunctionState *fn;
  JumpVec failure_jumps;  /* jumps to the next rule */
  JumpVec symbolic_tests; /* tests that may meet a symbolic number */
  /* The variables are locals: parts may stay on the stack. */
  bool binds_locals;
} RuleCompiler;

static void push_path(FunctionState *fn, const AccessPath *path) {
  if (!path->outer) {
    emit(&fn->emitter, OP_LOAD_LOCAL, 0, path->slot, 0, 1);
    return;
  }
  push_path(fn, path->outer);
  if (path->ptr)
    emit_ptr(&fn->emitter, path->op, path->a, path->b, 0, 0, path->ptr);
  else
    emit(&fn->emitter, path->op, path->a, path->b, 0, 0);
}

static void add_test(RuleCompiler *m, uint32_t at, bool number) {
  Arena *arena = m->fn->emitter.vm->arena;
  VEC_PUSH(arena, m->failure_jumps, at);
  if (number)
    VEC_PUSH(arena, m->symbolic_tests, at);
}

/* Emits a test of the value at a path: `test`, or `local_test` if it is in a
 * local.  ptr: the constructor, or NULL. */
static void emit_test(RuleCompiler *m, const AccessPath *path, Op test,
                      Op local_test, const Con *con) {
  BytecodeEmitter *e = &m->fn->emitter;
  bool local = !path->outer;
  if (!local)
    push_path(m->fn, path);
  Op op = local ? local_test : test;
  uint32_t slot = local ? path->slot : 0;
  int push = local ? 0 : -1;
  add_test(m,
           con ? emit_ptr(e, op, 0, slot, 0, push, con)
               : emit(e, op, 0, slot, 0, push),
           false);
}

static AccessPath tuple_path(const AccessPath *path, uint32_t k) {
  return (AccessPath){.outer = path, .op = OP_TUPLE_GET, .b = k};
}

static AccessPath field_path(FunctionState *fn, const AccessPath *path,
                             Sym *label) {
  FieldInlineCache *site = NEW(fn->emitter.vm->arena, FieldInlineCache);
  site->label = label;
  return (AccessPath){.outer = path, .op = OP_RECORD_GET, .ptr = site};
}

static AccessPath shape_path(const AccessPath *path, const CorePat *pat,
                             uint32_t k) {
  AccessPath p = {.outer = path, .op = OP_SHAPE_GET, .a = k};
  if (pat->rest >= 0 && (int)k > pat->rest) { /* counted from the end */
    p.a = pat->arg_count - 1 - k;
    p.b = 1;
  } else if (pat->rest >= 0 && (int)k == pat->rest) {
    p.op = OP_SHAPE_SLICE;
    p.b = pat->arg_count - 1 - k;
  }
  return p;
}

/* Calls f with each part of a pattern and the path to it. */
static void each_sub_pattern(RuleCompiler *m, const CorePat *pat,
                             const AccessPath *path,
                             void (*f)(RuleCompiler *, const CorePat *,
                                       const AccessPath *)) {
  AccessPath tail = *path, cell, part;
  switch (pat->kind) {
  case CP_AS:
    f(m, pat->args[0], path);
    return;
  case CP_CON:
    if (pat->arg_count) {
      part = (AccessPath){.outer = path, .op = OP_CON_ARG};
      f(m, pat->args[0], &part);
    }
    return;
  case CP_TUPLE:
    for (uint32_t i = 0; i < pat->arg_count; i++) {
      part = tuple_path(path, i);
      f(m, pat->args[i], &part);
    }
    return;
  case CP_RECORD:
    for (uint32_t i = 0; i < pat->arg_count; i++) {
      part = field_path(m->fn, path, pat->labels[i]);
      f(m, pat->args[i], &part);
    }
    return;
  case CP_CONS:
    part = (AccessPath){.outer = path, .op = OP_LIST_HEAD};
    f(m, pat->args[0], &part);
    part.op = OP_LIST_TAIL;
    f(m, pat->args[1], &part);
    return;
  case CP_LIST: {
    AccessPath *cells =
        NEW_ARRAY(m->fn->emitter.vm->arena, AccessPath, pat->arg_count + 1);
    cells[0] = tail;
    for (uint32_t i = 0; i < pat->arg_count; i++) {
      cell = (AccessPath){.outer = i ? &cells[i] : path, .op = OP_LIST_HEAD};
      f(m, pat->args[i], &cell);
      cells[i + 1] = (AccessPath){.outer = cell.outer, .op = OP_LIST_TAIL};
    }
    return;
  }
  case CP_SHAPE:
    for (uint32_t i = 0; i < pat->arg_count; i++) {
      part = shape_path(path, pat, i);
      f(m, pat->args[i], &part);
    }
    return;
  case CP_WILD:
  case CP_VAR:
  case CP_NUM:
  case CP_BOOL:
  case CP_STRING:
    return;
  }
}

static void emit_number_test(RuleCompiler *m, const CorePat *pat) {
  BytecodeEmitter *e = &m->fn->emitter;
  Core number = {
      .kind = CORE_NUM, .elem = pat->elem, .is_float = pat->is_float};
  bool dynamic =
      num_dtype(&number) == DT_NONE && fn_emit_load(m->fn, pat->elem.var);
  add_test(m,
           emit_ptr(e, OP_TEST_NUM, 0, dynamic, 0, -1 - dynamic,
                    num_literal(e->vm, pat->num)),
           true);
}

static void emit_list_test(RuleCompiler *m, const CorePat *pat,
                           const AccessPath *path) {
  BytecodeEmitter *e = &m->fn->emitter;
  AccessPath *tails = NEW_ARRAY(e->vm->arena, AccessPath, pat->arg_count + 1);
  tails[0] = *path;
  for (uint32_t i = 0; i < pat->arg_count; i++) {
    emit_test(m, &tails[i], OP_TEST_CONS, OP_TEST_LOCAL_CONS, NULL);
    tails[i + 1] = (AccessPath){.outer = &tails[i], .op = OP_LIST_TAIL};
  }
  emit_test(m, &tails[pat->arg_count], OP_TEST_NIL, OP_TEST_LOCAL_NIL, NULL);
}

static void emit_tests(RuleCompiler *m, const CorePat *pat,
                       const AccessPath *path) {
  BytecodeEmitter *e = &m->fn->emitter;
  switch (pat->kind) {
  case CP_NUM:
    push_path(m->fn, path);
    emit_number_test(m, pat);
    break;
  case CP_BOOL:
    push_path(m->fn, path);
    add_test(m, emit(e, OP_TEST_BOOL, pat->flag, 0, 0, -1), true);
    break;
  case CP_STRING: {
    push_path(m->fn, path);
    Value text = value_string(&e->vm->heap, pat->text, pat->text_len);
    add_test(m, emit(e, OP_TEST_STR, 0, emit_add_constant(e, text), 0, -1),
             false);
    break;
  }
  case CP_CON:
    emit_test(m, path, OP_TEST_CON, OP_TEST_LOCAL_CON, pat->con);
    break;
  case CP_LIST:
    emit_list_test(m, pat, path);
    break;
  case CP_CONS:
    emit_test(m, path, OP_TEST_CONS, OP_TEST_LOCAL_CONS, NULL);
    break;
  case CP_SHAPE:
    push_path(m->fn, path);
    add_test(m,
             emit(e, OP_TEST_SHAPE, pat->arg_count - (pat->rest >= 0 ? 1 : 0),
                  pat->rest < 0, 0, -1),
             false);
    break;
  case CP_WILD:
  case CP_VAR:
  case CP_AS:
  case CP_TUPLE:
  case CP_RECORD:
    break;
  }
  each_sub_pattern(m, pat, path, emit_tests);
}

static bool binds_variables(const CorePat *pat) {
  bool binds = pat->kind == CP_VAR || pat->kind == CP_AS;
  for (uint32_t i = 0; i < pat->arg_count && !binds; i++)
    binds = binds_variables(pat->args[i]);
  return binds;
}

enum { MAX_UNPACKED_PARTS = 31 };

static bool can_unpack(const RuleCompiler *m, const CorePat *pat,
                       const AccessPath *path) {
  return m->binds_locals && !path->outer &&
         pat->arg_count <= MAX_UNPACKED_PARTS &&
         (pat->kind == CP_TUPLE || pat->kind == CP_CONS ||
          (pat->kind == CP_CON && pat->arg_count == 1 &&
           pat->args[0]->kind == CP_TUPLE &&
           pat->args[0]->arg_count <= MAX_UNPACKED_PARTS));
}

static void emit_bindings(RuleCompiler *m, const CorePat *pat,
                          const AccessPath *path);

/* Pushes the parts of a local that bind variables, by one instruction. */
static void emit_unpacking(RuleCompiler *m, const CorePat *pat, uint32_t slot) {
  BytecodeEmitter *e = &m->fn->emitter;
  Op op = pat->kind == CP_CON    ? OP_UNPACK_CON
          : pat->kind == CP_CONS ? OP_UNPACK_CONS
                                 : OP_UNPACK_TUPLE;
  uint32_t set = 0, count = 0, first = e->stack_depth;
  if (pat->kind == CP_CON)
    pat = pat->args[0];
  for (uint32_t i = 0; i < pat->arg_count; i++)
    if (binds_variables(pat->args[i]))
      set |= UINT32_C(1) << i, count++;
  if (count)
    emit(e, op, 0, slot, (int32_t)set, (int)count);
  for (uint32_t i = 0; i < pat->arg_count; i++) {
    AccessPath part = {.slot = first};
    if (!(set >> i & 1))
      continue;
    emit_bindings(m, pat->args[i], &part);
    first++;
  }
}

static void emit_bindings(RuleCompiler *m, const CorePat *pat,
                          const AccessPath *path) {
  if (can_unpack(m, pat, path)) {
    emit_unpacking(m, pat, path->slot);
    return;
  }
  if (pat->kind == CP_VAR || pat->kind == CP_AS) {
    if (pat->var->global) {
      push_path(m->fn, path);
      emit_ptr(&m->fn->emitter, OP_STORE_GLOBAL, 0, 0, 0, -1,
               global_of(m->fn->emitter.vm, pat->var));
    } else if (!path->outer) {
      fn_bind(m->fn, pat->var, path->slot);
    } else {
      push_path(m->fn, path);
      fn_bind(m->fn, pat->var, m->fn->emitter.stack_depth - 1);
    }
  }
  each_sub_pattern(m, pat, path, emit_bindings);
}

/* True if every pattern is a tuple of n parts.  Then no tuple is allocated. */
static bool all_tuple_patterns(const Core *c) {
  for (uint32_t i = 0; i < c->rule_count; i++) {
    const CorePat *pat = c->rules[i].pat;
    if (pat->kind != CP_WILD && pat->kind != CP_TUPLE)
      return false;
  }
  return true;
}

static void match_components(RuleCompiler *m, const CorePat *pat,
                             const uint32_t *slots,
                             void (*f)(RuleCompiler *, const CorePat *,
                                       const AccessPath *)) {
  for (uint32_t i = 0; i < pat->arg_count; i++) {
    AccessPath part = {.slot = slots[i]};
    f(m, pat->args[i], &part);
  }
}

/* slots: of the value, or of the parts of an unboxed tuple. */
static void match_rule(RuleCompiler *m, const CorePat *pat,
                       const uint32_t *slots, bool is_unboxed_tuple) {
  AccessPath root = {.slot = slots[0]};
  if (is_unboxed_tuple) {
    match_components(m, pat, slots, emit_tests);
    match_components(m, pat, slots, emit_bindings);
  } else {
    emit_tests(m, pat, &root);
    emit_bindings(m, pat, &root);
  }
}

/* Compiles a value that is matched, unless it is a local already.  Returns its
 * slot. */
static uint32_t compile_matched(FunctionState *fn, const Core *c) {
  uint32_t slot;
  if (c->kind == CORE_VAR && !c->var->global && fn_slot(fn, c->var, &slot))
    return slot;
  slot = fn->emitter.stack_depth;
  compile(fn, c, false);
  return slot;
}

static void emit_no_match(BytecodeEmitter *e, const uint32_t *slots,
                          uint32_t parts) {
  uint32_t depth = e->stack_depth;
  for (uint32_t i = 0; i < parts; i++)
    emit(e, OP_LOAD_LOCAL, 0, slots[i], 0, 1);
  if (parts)
    emit(e, OP_MAKE_TUPLE, 0, parts, 0, 1 - (int)parts);
  emit(e, OP_FAIL_NO_MATCH, 0, parts ? depth : slots[0], 0, 0);
  e->stack_depth = depth;
}

void compile_case(FunctionState *fn, const Core *c, bool tail) {
  BytecodeEmitter *e = &fn->emitter;
  const Core *scrutinee = c->items[0];
  uint32_t outer_depth = e->stack_depth;
  bool is_unboxed_tuple = scrutinee->kind == CORE_TUPLE &&
                          scrutinee->item_count && all_tuple_patterns(c);
  uint32_t parts = is_unboxed_tuple ? scrutinee->item_count : 0;
  uint32_t *slots = NEW_ARRAY(e->vm->arena, uint32_t, parts + 1);
  if (!is_unboxed_tuple)
    slots[0] = compile_matched(fn, scrutinee);
  for (uint32_t i = 0; i < parts; i++)
    slots[i] = compile_matched(fn, scrutinee->items[i]);
  uint32_t depth = e->stack_depth;
  JumpVec ends = {0}, symbolic_tests = {0};
  bool is_irrefutable = false;
  for (uint32_t i = 0; i < c->rule_count && !is_irrefutable; i++) {
    const CoreRule *rule = &c->rules[i];
    RuleCompiler m = {
        .fn = fn, .symbolic_tests = symbolic_tests, .binds_locals = true};
    e->span = rule->pat->span;
    match_rule(&m, rule->pat, slots, is_unboxed_tuple);
    symbolic_tests = m.symbolic_tests;
    compile(fn, rule->body, tail);
    if (!tail) {
      uint32_t vars = e->stack_depth - depth - 1;
      if (vars)
        emit(e, OP_SLIDE, 0, 0, (int32_t)vars, -(int)vars);
      VEC_PUSH(e->vm->arena, ends, emit(e, OP_JUMP, 0, 0, 0, 0));
    }
    for (uint32_t k = 0; k < m.failure_jumps.len; k++)
      emit_patch_jump(e, m.failure_jumps.at[k]);
    is_irrefutable = !m.failure_jumps.len;
    e->stack_depth = depth;
  }
  e->span = c->span;
  if (!is_irrefutable)
    emit_no_match(e, slots, parts);
  e->stack_depth = depth + 1;
  uint32_t join = 0;
  if (!tail) {
    for (uint32_t k = 0; k < ends.len; k++)
      emit_patch_jump(e, ends.at[k]);
    join = emit(e, OP_JOIN, 0, 0, 0, 0);
    if (depth > outer_depth)
      emit(e, OP_SLIDE, 0, 0, (int32_t)(depth - outer_depth),
           -(int)(depth - outer_depth));
  }
  for (uint32_t k = 0; k < symbolic_tests.len; k++)
    VEC_PUSH(e->vm->arena, e->joins, ((JoinPoint){symbolic_tests.at[k], join}));
}

void compile_global_pat(FunctionState *fn, const CorePat *pat, uint32_t slot) {
  RuleCompiler m = {.fn = fn};
  uint32_t depth = fn->emitter.stack_depth;
  AccessPath root = {.slot = slot};
  emit_tests(&m, pat, &root);
  emit_bindings(&m, pat, &root);
  fn->emitter.stack_depth = depth;
  if (!m.failure_jumps.len)
    return;
  uint32_t skip = emit(&fn->emitter, OP_JUMP, 0, 0, 0, 0);
  for (uint32_t k = 0; k < m.failure_jumps.len; k++)
    emit_patch_jump(&fn->emitter, m.failure_jumps.at[k]);
  fn->emitter.span = pat->span;
  emit(&fn->emitter, OP_FAIL_NO_MATCH, 0, slot, 0, 0);
  emit_patch_jump(&fn->emitter, skip);
}
