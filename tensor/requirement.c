/* Requirements: conditions on sizes that a compiled function checks. */
#include "tensor/internal.h"
#include "support/trap.h"

/* The condition under which code runs now, without indices. */
static Node *current_guard(Graph *g) {
  NodeSpec spec = {0};
  Node *guard = g->guard ? guard_for(g, &spec, false) : NULL;
  if (!guard || !guard->loop_depth)
    return guard;
  node_release(guard); /* its value is unknown before the loop runs */
  return NULL;
}

static void append_requirement(Graph *g, Requirement r) {
  r.span = g->span;
  r.guard = current_guard(g);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(r.guard);
    trap_raise(trap.kind);
  }
  bool is_new = extent_table_require(g->extent_table, r);
  trap_end(&trap);
  if (!is_new)
    node_release(r.guard);
  else if (!r.guard && !r.premise_count)
    extent_table_assume(g, r.constraint);
}

Verdict extent_add_requirement(Graph *g, ExtentConstraint f,
                               const ExtentConstraint *premises,
                               uint32_t premise_count, const char *message,
                               const char *help) {
  Verdict v = extent_decide(g, f.relation, f.x, f.y);
  if (v == UNDECIDED || (v == CONTRADICTED && premise_count && g->extent_table))
    append_requirement(g, (Requirement){.constraint = f,
                                        .premises = premises,
                                        .premise_count = premise_count,
                                        .message = message,
                                        .help = help});
  return v == CONTRADICTED && premise_count ? UNDECIDED : v;
}

void extent_table_add_check(Graph *g, ExtentConstraint f, const char *message) {
  append_requirement(
      g, (Requirement){.constraint = f, .message = message, .help = ""});
}

bool extent_require(Graph *g, ExtentRelation relation, int64_t x, int64_t y,
                    Fault *fault) {
  ExtentConstraint f = {relation, x, y};
  if (extent_add_requirement(g, f, NULL, 0, fault->message, fault->help) ==
      CONTRADICTED)
    return false;
  *fault = (Fault){0};
  return true;
}
