/* Patterns: first every test of a rule, then its variables are pushed. */
#include "eval/compile.h"

#include <string.h>

typedef struct Path {       /* how to get at a part of the matched value */
  const struct Path *outer; /* NULL: the local `slot` */
  uint32_t slot;
  Op op;
  uint32_t a, b;
  const void *ptr; /* of FIELD */
} Path;

typedef VEC(uint32_t) JumpVec;

typedef struct Match {
  Fn *fn;
  JumpVec fails;    /* to the next rule */
  JumpVec branches; /* tests that a symbolic number may come to */
} Match;

static void push_path(Fn *fn, const Path *path) {
  if (!path->outer) {
    emit(&fn->e, OP_LOCAL, 0, path->slot, 0, 1);
    return;
  }
  push_path(fn, path->outer);
  if (path->ptr)
    emit_ptr(&fn->e, path->op, path->a, path->b, 0, 0, path->ptr);
  else
    emit(&fn->e, path->op, path->a, path->b, 0, 0);
}

static void add_test(Match *m, uint32_t at, bool number) {
  Arena *arena = m->fn->e.vm->arena;
  VEC_PUSH(arena, m->fails, at);
  if (number)
    VEC_PUSH(arena, m->branches, at);
}

static Path tuple_path(const Path *path, uint32_t k) {
  return (Path){.outer = path, .op = OP_TUPGET, .b = k};
}

static Path field_path(Fn *fn, const Path *path, Sym *label) {
  FieldSite *site = NEW(fn->e.vm->arena, FieldSite);
  site->label = label;
  return (Path){.outer = path, .op = OP_FIELD, .ptr = site};
}

static Path shape_path(const Path *path, const CorePat *pat, uint32_t k) {
  Path p = {.outer = path, .op = OP_SHAPEGET, .a = k};
  if (pat->rest >= 0 && (int)k > pat->rest) { /* counted from the end */
    p.a = pat->arg_count - 1 - k;
    p.b = 1;
  } else if (pat->rest >= 0 && (int)k == pat->rest) {
    p.op = OP_SHAPEREST;
    p.b = pat->arg_count - 1 - k;
  }
  return p;
}

/* Calls f with each part of a pattern and the path to it. */
static void each_part(Match *m, const CorePat *pat, const Path *path,
                      void (*f)(Match *, const CorePat *, const Path *)) {
  Path tail = *path, cell, part;
  switch (pat->kind) {
  case CP_AS:
    f(m, pat->args[0], path);
    return;
  case CP_CON:
    if (pat->arg_count) {
      part = (Path){.outer = path, .op = OP_CONARG};
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
    part = (Path){.outer = path, .op = OP_HEAD};
    f(m, pat->args[0], &part);
    part.op = OP_TAIL;
    f(m, pat->args[1], &part);
    return;
  case CP_LIST: {
    Path *cells = NEW_ARRAY(m->fn->e.vm->arena, Path, pat->arg_count + 1);
    cells[0] = tail;
    for (uint32_t i = 0; i < pat->arg_count; i++) {
      cell = (Path){.outer = i ? &cells[i] : path, .op = OP_HEAD};
      f(m, pat->args[i], &cell);
      cells[i + 1] = (Path){.outer = cell.outer, .op = OP_TAIL};
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

static void test_number(Match *m, const CorePat *pat) {
  Emit *e = &m->fn->e;
  Core number = {
      .kind = CORE_NUM, .elem = pat->elem, .is_float = pat->is_float};
  bool dynamic = num_dtype(&number) == DT_NONE && fn_load(m->fn, pat->elem.var);
  add_test(m,
           emit_ptr(e, OP_TEST_NUM, 0, dynamic, 0, -1 - dynamic,
                    num_site(e->vm, pat->num)),
           true);
}

static void test_list(Match *m, const CorePat *pat, const Path *path) {
  Emit *e = &m->fn->e;
  for (uint32_t i = 0; i <= pat->arg_count; i++) {
    push_path(m->fn, path);
    for (uint32_t k = 0; k < i; k++)
      emit(e, OP_TAIL, 0, 0, 0, 0);
    add_test(
        m,
        emit(e, i < pat->arg_count ? OP_TEST_CONS : OP_TEST_NIL, 0, 0, 0, -1),
        false);
  }
}

static void test_pat(Match *m, const CorePat *pat, const Path *path) {
  Emit *e = &m->fn->e;
  switch (pat->kind) {
  case CP_NUM:
    push_path(m->fn, path);
    test_number(m, pat);
    break;
  case CP_BOOL:
    push_path(m->fn, path);
    add_test(m, emit(e, OP_TEST_BOOL, pat->flag, 0, 0, -1), true);
    break;
  case CP_STRING: {
    push_path(m->fn, path);
    Value text = value_string(&e->vm->heap, pat->text, pat->text_len);
    add_test(m, emit(e, OP_TEST_STR, 0, emit_keep(e, text), 0, -1), false);
    break;
  }
  case CP_CON:
    push_path(m->fn, path);
    add_test(m, emit_ptr(e, OP_TEST_CON, 0, 0, 0, -1, pat->con), false);
    break;
  case CP_LIST:
    test_list(m, pat, path);
    break;
  case CP_CONS:
    push_path(m->fn, path);
    add_test(m, emit(e, OP_TEST_CONS, 0, 0, 0, -1), false);
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
  each_part(m, pat, path, test_pat);
}

static void bind_pat(Match *m, const CorePat *pat, const Path *path) {
  if (pat->kind == CP_VAR || pat->kind == CP_AS) {
    if (pat->var->global) {
      push_path(m->fn, path);
      emit_ptr(&m->fn->e, OP_SETGLOBAL, 0, 0, 0, -1,
               global_of(m->fn->e.vm, pat->var));
    } else if (!path->outer) {
      fn_bind(m->fn, pat->var, path->slot);
    } else {
      push_path(m->fn, path);
      fn_bind(m->fn, pat->var, m->fn->e.depth - 1);
    }
  }
  each_part(m, pat, path, bind_pat);
}

/* Is every pattern a tuple of n parts, so that no tuple needs to be made? */
static bool all_tuples(const Core *c) {
  for (uint32_t i = 0; i < c->rule_count; i++) {
    const CorePat *pat = c->rules[i].pat;
    if (pat->kind != CP_WILD && pat->kind != CP_TUPLE)
      return false;
  }
  return true;
}

static void match_parts(Match *m, const CorePat *pat, uint32_t slot,
                        void (*f)(Match *, const CorePat *, const Path *)) {
  for (uint32_t i = 0; i < pat->arg_count; i++) {
    Path part = {.slot = slot + i};
    f(m, pat->args[i], &part);
  }
}

static void match_rule(Match *m, const CorePat *pat, uint32_t slot,
                       bool spread) {
  Path root = {.slot = slot};
  if (spread) {
    match_parts(m, pat, slot, test_pat);
    match_parts(m, pat, slot, bind_pat);
  } else {
    test_pat(m, pat, &root);
    bind_pat(m, pat, &root);
  }
}

void compile_case(Fn *fn, const Core *c, bool tail) {
  Emit *e = &fn->e;
  const Core *of = c->items[0];
  uint32_t slot, before = e->depth;
  bool spread = of->kind == CORE_TUPLE && of->item_count && all_tuples(c);
  if (spread) {
    slot = e->depth;
    for (uint32_t i = 0; i < of->item_count; i++)
      compile(fn, of->items[i], false);
  } else if (of->kind != CORE_VAR || of->var->global ||
             !fn_slot(fn, of->var, &slot)) {
    slot = e->depth;
    compile(fn, of, false);
  }
  uint32_t depth = e->depth;
  JumpVec ends = {0}, branches = {0};
  bool total = false;
  for (uint32_t i = 0; i < c->rule_count && !total; i++) {
    const CoreRule *rule = &c->rules[i];
    Match m = {.fn = fn, .branches = branches};
    e->span = rule->pat->span;
    match_rule(&m, rule->pat, slot, spread);
    branches = m.branches;
    compile(fn, rule->body, tail);
    if (!tail) {
      uint32_t vars = e->depth - depth - 1;
      if (vars)
        emit(e, OP_SLIDE, 0, 0, (int32_t)vars, -(int)vars);
      VEC_PUSH(e->vm->arena, ends, emit(e, OP_JMP, 0, 0, 0, 0));
    }
    for (uint32_t k = 0; k < m.fails.len; k++)
      emit_patch(e, m.fails.at[k]);
    total = !m.fails.len;
    e->depth = depth;
  }
  e->span = c->span;
  if (!total) {
    if (spread) {
      for (uint32_t i = 0; i < of->item_count; i++)
        emit(e, OP_LOCAL, 0, slot + i, 0, 1);
      emit(e, OP_TUPLE, 0, of->item_count, 0, 1 - (int)of->item_count);
      emit(e, OP_NOMATCH, 0, depth, 0, 0);
      e->depth = depth;
    } else {
      emit(e, OP_NOMATCH, 0, slot, 0, 0);
    }
  }
  e->depth = depth + 1;
  uint32_t join = 0;
  if (!tail) {
    for (uint32_t k = 0; k < ends.len; k++)
      emit_patch(e, ends.at[k]);
    join = emit(e, OP_JOIN, 0, 0, 0, 0);
    if (depth > before)
      emit(e, OP_SLIDE, 0, 0, (int32_t)(depth - before),
           -(int)(depth - before));
  }
  for (uint32_t k = 0; k < branches.len; k++)
    VEC_PUSH(e->vm->arena, e->joins, ((Join){branches.at[k], join}));
}

void compile_global_pat(Fn *fn, const CorePat *pat, uint32_t slot) {
  Match m = {.fn = fn};
  uint32_t depth = fn->e.depth;
  Path root = {.slot = slot};
  test_pat(&m, pat, &root);
  bind_pat(&m, pat, &root);
  fn->e.depth = depth;
  if (!m.fails.len)
    return;
  uint32_t over = emit(&fn->e, OP_JMP, 0, 0, 0, 0);
  for (uint32_t k = 0; k < m.fails.len; k++)
    emit_patch(&fn->e, m.fails.at[k]);
  fn->e.span = pat->span;
  emit(&fn->e, OP_NOMATCH, 0, slot, 0, 0);
  emit_patch(&fn->e, over);
}
