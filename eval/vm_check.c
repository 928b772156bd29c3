/* OP_CHECK: checks constraints on sizes that the type checker could not prove
 * (CoreCheck). */
#include "eval/internal.h"
#include "support/buffer.h"
#include "support/diag.h"

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
  vm_bail_out_if_possible(vm);
  const Diag *of = check->diag;
  Diag *diag =
      vm_report_error(vm, of ? of->span : (Span){0}, of ? of->code : 507,
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

/* Checks a constraint on symbolic sizes.  If it is undecided, the compiled
 * function checks it at its start.  Returns false if a side is not a size. */
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

/* An inequality that bounds an index or a range: the kernel checks each access.
   Others hold for no access, as that of `set`, which compares positions. */
static bool is_checked_by_kernel(const CoreCheck *check) {
  enum { INDEX_OUT_OF_BOUNDS = 307 };
  return check->kind == CHECK_LE &&
         (check->bounds_range ||
          (check->diag && check->diag->code == INDEX_OUT_OF_BOUNDS));
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
    if (premise == TRUTH_SYMBOLIC) /* on the host its value is known */
      vm_int(vm, sides[sides[0].tag == DT_I64]);
  }
  CheckTruth conclusion = evaluate_check(check->kind, at[0], at[1]);
  if (conclusion == TRUTH_FALSE)
    fail_check(vm, check, at[0].i, at[1].i);
  if (conclusion == TRUTH_SYMBOLIC && !is_checked_by_kernel(check) &&
      !(check->kind == CHECK_EQ && vm_is_equal_in_rows(vm, at[0], at[1])))
    vm_int(vm, at[at[0].tag == DT_I64]);
}
