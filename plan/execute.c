/* Runs a plan: group after group.  Frees data as soon as their last consumer
 * has run.  The main entry point is graph_force. */
#include "machine/limits/planner.h"
#include "plan/backend.h"
#include "plan/execute.h"
#include "plan/observer.h"
#include "plan/plan_execution.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/compiler.h"
#include "support/trap.h"
#include "tensor/node.h"

#include <stdlib.h>

/* Bytes that the arena of a run keeps.  0 under the address sanitizer, so that
 * it finds uses after a run. */
enum { KEPT_ARENA_BYTES = ADDRESS_SANITIZER ? 0 : MAX_KEPT_ARENA_BYTES };

static bool verify_if_asked(uint32_t count, Node *const *roots, Fault *fault) {
  const char *setting = getenv("AXON_VERIFY");
  if (!setting || !*setting)
    return true;
  Buffer message = {0};
  bool ok = graph_verify(count, roots, &message);
  if (!ok)
    fault_set(fault, "internal error in fusion: %s", message.text);
  buffer_free(&message);
  return ok;
}

/* Returns the node whose data n shares, if n is a view of all elements in the
 * same order, as at the end of a `for`.  Returns NULL otherwise. */
static const Node *alias_source(const Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard)
    return NULL;
  const BodyOp *value = &n->body_ops[n->body_op_count - 1];
  if (value->kind != BODY_READ)
    return NULL;
  const Node *x = value->node;
  uint32_t axes = n->free_count + n->rank;
  bool same = value->arg_count == axes &&
              x->broadcast_mask << x->free_count == n->broadcast_mask
                                                        << n->free_count;
  for (uint32_t k = 0; same && k < axes; k++) {
    const BodyOp *index = &n->body_ops[value->args[k]];
    bool only =
        n->extents[k] == 1 && index->kind == BODY_CONST && index->value.i == 0;
    same = x->extents[k] == n->extents[k] &&
           (only || (index->kind == BODY_AXIS && index->axis == k));
  }
  return same ? x : NULL;
}

/* ---- observed runs ---- */

static void release_data(const FusionGroup *group) {
  for (uint32_t k = 0; k < group->nodes.len; k++) {
    tensor_release(group->nodes.at[k]->data);
    group->nodes.at[k]->data = NULL;
  }
}

/* Uses zeros as the results of a group. */
static bool execute_dry(const Graph *g, const FusionGroup *group,
                        Fault *fault) {
  for (uint32_t k = 0; k < group->nodes.len; k++) {
    Node *n = group->nodes.at[k];
    if (!fusion_group_stores(group, n))
      continue;
    uint32_t rank = n->free_count + n->rank;
    if (!node_fits_memory(g, n, fault) ||
        !(n->data = tensor_new(n->dtype, rank, n->extents, true, fault)))
      return false;
    n->data->broadcast_mask =
        n->free_count < 32 ? n->broadcast_mask << n->free_count : 0;
  }
  return true;
}

/* Repeats the run while the observer requests it: the first run has cold caches
 * and fresh memory. */
static bool execute_observed(Graph *g, const Backend *backend,
                             FusionGroup *group, uint32_t at, Span *where,
                             Fault *fault) {
  if (g->observer->dry_run)
    return execute_dry(g, group, fault);
  for (;;) {
    double start = clock_seconds();
    if (!backend->run(g, group, where, fault))
      return false;
    if (!g->observer->group_executed(g->observer->owner, at,
                                     clock_seconds() - start))
      return true;
    release_data(group);
  }
}

static void settle_nodes(const FusionGroup *group) {
  for (uint32_t k = 0; k < group->nodes.len; k++) {
    Node *n = group->nodes.at[k];
    n->inlined = !n->data; /* nothing outside its group reads it */
    node_settle(n);
  }
}

bool plan_execution_run_group(Graph *g, FusionGroup *group, uint32_t at,
                              Span *where, Fault *fault) {
  const Backend *backend = g->backend;
  Node *n = group->nodes.at[0];
  *where = n->span;
  if (group->alias_of) {
    n->data = tensor_detach(group->alias_of->data, fault);
    if (!n->data)
      return false;
    if (g->observer)
      g->observer->group_executed(g->observer->owner, at, -1);
  } else {
    bool ok = g->observer
                  ? execute_observed(g, backend, group, at, where, fault)
                  : backend->run(g, group, where, fault);
    if (!ok)
      return false;
    g->executed_nodes += group->nodes.len;
  }
  return true;
}

/* Retains the operands in mapped files: they are checked until the end, but
 * fusion releases operands that no body reads any more, and the graph releases
 * the others after their last use. */
static void retain_mapped(PlanExecution *run) {
  const PlanKey *o = &run->key;
  for (uint32_t k = 0; k < o->leaves.len && mapped_any(); k++) {
    Tensor *t = o->leaves.at[k]->data;
    if (t && tensor_mapped(t))
      VEC_PUSH(run->arena, run->mapped, tensor_retain(t));
  }
}

/* Finds one tensor per mapped file, since each check is a system call. */
static void find_files(PlanExecution *run) {
  for (uint32_t k = 0; k < run->mapped.len; k++) {
    Tensor *t = run->mapped.at[k];
    bool there = false;
    for (uint32_t j = 0; !there && j < run->files.len; j++)
      there = mapped_same(tensor_mapped(run->files.at[j]), tensor_mapped(t));
    if (!there)
      VEC_PUSH(run->arena, run->files, t);
  }
}

/* A lost part of a file is recorded in the tensor through which it was read. */
static bool none_lost(const PlanExecution *run, Fault *fault) {
  for (uint32_t k = 0; k < run->mapped.len; k++)
    if (mapped_is_lost(tensor_mapped(run->mapped.at[k])))
      return tensor_check(run->mapped.at[k], fault);
  return true;
}

bool run_is_whole(const PlanExecution *run, Fault *fault) {
  if (run->graph->observer) /* there is no plan key */
    return run->graph->observer->dry_run || files_check(fault);
  for (uint32_t k = 0; k < run->files.len; k++)
    if (!tensor_check(run->files.at[k], fault))
      return false;
  return none_lost(run, fault);
}

static bool execute_groups(const PlanExecution *run, Span *where,
                           Fault *fault) {
  for (uint32_t k = 0; k < run->group_count; k++) {
    if (!plan_execution_run_group(run->graph, run->groups[k], k, where, fault))
      return false;
    if (!run_is_whole(run, fault)) {
      release_data(run->groups[k]);
      return false;
    }
    settle_nodes(run->groups[k]);
  }
  return true;
}

/* True if there is enough work that compilation may pay. */
static bool exceeds_jit_threshold(Graph *g, const Plan *plan,
                                  double expected_runs) {
  double work = 0;
  for (uint32_t k = 0; k < plan->materialized.len; k++)
    work += plan_node_work(plan->materialized.at[k]->node);
  work += expected_runs > 1 ? INTERPRETER_NODE_OVERHEAD * plan->materialized.len
                            : 0;
  g->hot |= g->compiles_all || plan_is_hot(g, work, expected_runs);
  return g->hot || work >= (double)g->jit_threshold;
}

/* Builds the groups in their order of execution. */
static void build_groups(Graph *g, Plan *plan, double expected_runs) {
  const Backend *backend = g->backend;
  plan_build_groups(plan, backend->compiles_kernels &&
                              exceeds_jit_threshold(g, plan, expected_runs));
  if (backend->prepare)
    backend->prepare(g, plan->groups.len, plan->groups.at);
  for (uint32_t k = 0; k < plan->groups.len; k++) {
    FusionGroup *c = plan->groups.at[k];
    c->alias_of = c->nodes.len == 1 ? alias_source(c->nodes.at[0]) : NULL;
  }
}

static bool all_have_data(uint32_t count, Node *const *nodes) {
  for (uint32_t k = 0; k < count; k++)
    if (!nodes[k]->data)
      return false;
  return true;
}

/* ---- one run ---- */

void plan_execution_begin(Graph *g, PlanExecution *run) {
  run->arena = g->plan_arena ? g->plan_arena : arena_new();
  g->plan_arena = NULL;
  run->graph = g; /* the run has begun: plan_execution_end must follow */
  run->plan.graph = g;
  run->plan.arena = run->key.arena = run->arena;
}

void plan_execution_end(PlanExecution *run) {
  plan_release(&run->plan);
  if (run->cached_plan)
    cached_plan_release_inputs(run->cached_plan, &run->key);
  for (uint32_t k = 0; k < run->copied.len; k++)
    node_release(run->copied.at[k]);
  for (uint32_t k = 0; k < run->mapped.len; k++)
    tensor_release(run->mapped.at[k]);
  arena_reset(run->arena, KEPT_ARENA_BYTES);
  run->graph->plan_arena = run->arena;
  run->graph->hot = run->graph->keeps_inputs = false;
}

static bool make_plan(PlanExecution *run, uint32_t count, Node *const *roots,
                      Fault *fault) {
  plan_fuse(&run->plan, count, roots);
  if (!verify_if_asked(count, roots, fault))
    return false;
  build_groups(run->graph, &run->plan, run->expected_runs);
  return true;
}

static bool has_transient_groups(const Plan *plan) {
  bool has = false;
  for (uint32_t k = 0; k < plan->groups.len; k++)
    has |= plan->groups.at[k]->transient;
  return has;
}

static bool make_cached_plan(PlanExecution *run, uint32_t count,
                             Node *const *roots, CachedPlan **cached_plan,
                             Fault *fault) {
  Graph *g = run->graph;
  const PlanKey *o = &run->key;
  plan_key_add_uses(&run->key, count, roots);
  run->plan.params = &o->params;
  if (!make_plan(run, count, roots, fault))
    return false;
  bool kept = plan_cache_accepts(o) && !has_transient_groups(&run->plan);
  *cached_plan = cached_plan_new(kept ? plan_cache_arena(g, o) : run->arena,
                                 &run->plan, o);
  if (kept)
    plan_cache_insert(g, o, *cached_plan);
  plan_release(&run->plan);
  return true;
}

/* True if a node keeps its operands for a reverse pass (node_settle). */
static bool keeps_operands(const PlanKey *o) {
  for (uint32_t k = 0; k < o->nodes.len; k++)
    if (o->nodes.at[k]->tape && o->nodes.at[k]->tape->open)
      return true;
  return false;
}

bool plan_execution_prepare(PlanExecution *run, uint32_t count,
                            Node *const *roots, Fault *fault) {
  Graph *g = run->graph;
  plan_key_build(&run->key, g, count, roots);
  /* Before fusion, which may free nodes of the key. */
  bool keeps = keeps_operands(&run->key);
  retain_mapped(run);
  find_files(run);
  CachedPlan *cached_plan = plan_cache_find(g, &run->key);
  g->hot = cached_plan ? cached_plan_count_run(cached_plan, run->expected_runs,
                                               g->compiles_all)
                       : g->compiles_all;
  bool cache_hit = cached_plan && !g->hot;
  if (!cache_hit && !make_cached_plan(run, count, roots, &cached_plan, fault))
    return false;
  g->plan_cache_hits += cache_hit;
  g->plan_cache_misses += !cache_hit;
  run->groups = cached_plan_instantiate(run->arena, cached_plan, &run->key,
                                        &run->group_count);
  cached_plan_retain_inputs(cached_plan, &run->key);
  run->cached_plan = cached_plan;
  g->keeps_inputs = keeps || run->mapped.len > 0;
  return true;
}

static bool computes_earlier_node(const PlanExecution *run, uint32_t at,
                                  const Node *n) {
  for (uint32_t j = 0; j < at; j++)
    for (uint32_t i = 0; i < run->plan.groups.at[j]->nodes.len; i++)
      if (run->plan.groups.at[j]->nodes.at[i] == n)
        return true;
  return false;
}

/* If a group computes nodes again, the graph may release these and the inputs
 * after an earlier group. */
static void hold_copied(PlanExecution *run, uint32_t at) {
  const FusionGroup *c = run->plan.groups.at[at];
  uint32_t before = run->copied.len;
  for (uint32_t k = 0; k < c->nodes.len; k++)
    if (computes_earlier_node(run, at, c->nodes.at[k]))
      VEC_PUSH(run->arena, run->copied, node_retain(c->nodes.at[k]));
  if (run->copied.len == before)
    return;
  for (uint32_t k = 0; k < c->kernel->inputs.len; k++) {
    Node *x = (Node *)(uintptr_t)c->kernel->inputs.at[k];
    VEC_PUSH(run->arena, run->copied, node_retain(x));
  }
}

/* Plans again for the observer, without the cache. */
bool plan_execution_prepare_observed(PlanExecution *run, uint32_t count,
                                     Node *const *roots, Fault *fault) {
  if (!make_plan(run, count, roots, fault))
    return false;
  observer_notify_plan(run->graph, &run->plan);
  for (uint32_t k = 0; k < run->plan.groups.len; k++)
    if (run->plan.groups.at[k]->kernel &&
        (run->plan.groups.at[k]->kernel->accumulated_axes ||
         run->plan.groups.at[k]->kernel->recomputes))
      hold_copied(run, k);
  run->groups = run->plan.groups.at;
  run->group_count = run->plan.groups.len;
  plan_release(&run->plan);
  return true;
}

static bool synchronize(Graph *g, Fault *fault) {
  return !g->backend->synchronize || g->backend->synchronize(g, fault);
}

bool graph_force(Graph *g, uint32_t count, Node *const *nodes, Span *where,
                 Fault *fault) {
  if (all_have_data(count, nodes))
    return synchronize(g, fault);
  PlanExecution run = {.expected_runs = 1};
  Fault ignored_fault = {0}; /* earlier failures are already reported */
  plan_execution_begin(g, &run);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    synchronize(g, &ignored_fault);
    plan_execution_end(&run);
    trap_raise(trap.kind);
  }
  bool ok =
      (g->observer ? plan_execution_prepare_observed(&run, count, nodes, fault)
                   : plan_execution_prepare(&run, count, nodes, fault)) &&
      execute_groups(&run, where, fault);
  ok = synchronize(g, ok ? fault : &ignored_fault) && ok;
  trap_end(&trap);
  plan_execution_end(&run);
  g->pending_elements = 0;
  return ok;
}

void graph_clear_caches(Graph *g) {
  guard_cache_clear(g);
  plan_cache_free(g);
  arena_free(g->plan_arena);
  arena_free(g->interpreter_arena);
  g->plan_arena = g->interpreter_arena = NULL;
}
