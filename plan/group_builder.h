/* Fusion groups under construction: shared by fusion_groups.c, accumulation.c
 * and recomputation.c. */
#ifndef AXON_PLAN_GROUP_BUILDER_H
#define AXON_PLAN_GROUP_BUILDER_H

#include "plan/plan.h"
#include "support/vec.h"

typedef struct Arena Arena;

typedef struct Candidate {
  PlanNode *plan_node;
  LoweredNode *lowered; /* NULL: the node stays alone */
  AxisSplits *splits;   /* or NULL */
  bool is_contraction;
  uint64_t operand_axes[2]; /* contractions: the result axes that only the one,
                               or only the other operand has */
  bool must_fit_cache;      /* its rows must fit into a cache; it cannot be
                               strip-mined */
  bool attention_rejected;  /* the backend has no fused-attention kernel for a
                               group with this node */
  bool accumulation_rejected; /* the backend cannot accumulate in a group with
                                 this node */
  bool is_dead;               /* only groups with copies of it read it */
  bool is_copy;               /* its group computes the node again */
  double depth;               /* reduction terms */
  struct GroupBuilder *group;
  uint32_t parallel_vars[MAX_KERNEL_AXES];
  uint32_t position;
} Candidate;

typedef struct GroupBuilder {  /* a fusion group under construction */
  VEC(Candidate *) candidates; /* in the order of the plan */
  uint32_t parallel_axes;
  /* The last parallel axes, which some of its sums reduce. */
  uint32_t accumulated_axes;
  const Candidate *last_sum; /* the last such sum */
  /* topological_order: larger than those of all groups that it reads. */
  uint32_t topological_order, visit_stamp;
  bool emitted;
  bool needs_strip_mining; /* its rows do not fit into a cache, so the reduction
                              must be strip-mined */
  bool needs_fused_attention; /* valid only if the backend has a fused-attention
                                 kernel */
  bool recomputes;            /* it computes the input of a matmul again */
  FusionGroup *fusion_group;  /* set when the group is complete */
} GroupBuilder;

typedef struct FusionPlanner {
  Plan *plan;
  Arena *arena;
  Candidate *candidates; /* one for each materialized node, in order */
  uint32_t stamp, last_order;
  bool build_kernels;
  VEC(Candidate *) copies; /* of nodes that groups compute again */
} FusionPlanner;

/* The candidate of a node; NULL: it is not materialized in this plan. */
Candidate *planner_candidate_of(const FusionPlanner *c, const Node *n);
/* The group of input j of a candidate. */
GroupBuilder *planner_input_group(const FusionPlanner *c,
                                  const Candidate *candidate, uint32_t j);
/* True if b depends on a, directly or through other groups. */
bool planner_depends_on(FusionPlanner *c, GroupBuilder *b,
                        const GroupBuilder *a);
/* True if b depends on a through a third group. */
bool planner_would_create_cycle(FusionPlanner *c, const GroupBuilder *a,
                                GroupBuilder *b);
/* Numbers the groups in topological order again, after a change. */
void planner_number_groups(FusionPlanner *c);
/* True if the group computes the node, perhaps again. */
bool group_builder_computes(const GroupBuilder *d, const PlanNode *p);

/* ---- accumulation.c ---- */

/* True if b, which reads rows of a, also needs a result of the whole row: of a
 * matmul that reduces it, or, in long rows, of another reduction.  A kernel of
 * both cannot process parts of rows. */
bool planner_rereads_rows(const FusionPlanner *c, const GroupBuilder *a,
                          const GroupBuilder *b);

/* True if the merge of b with a, whose values b reads, would drop parallel axes
 * of a large value of a third group that a reads.  A kernel without these axes
 * cannot compute the value again by rows.  reader_axes: for each parallel axis
 * of a, the one of b, or UINT32_MAX. */
bool planner_drops_rows(const FusionPlanner *c, const GroupBuilder *a,
                        const GroupBuilder *b, const uint32_t *reader_axes);
/* Adds sums over rows to the groups that compute the rows, and the values that
 * the rows are computed from. */
void planner_accumulate(FusionPlanner *c);

/* True if x has few elements for each element of y. */
bool planner_is_much_smaller(const FusionPlanner *c, const Candidate *x,
                             const Candidate *y);
/* The input of a candidate with the most elements; NULL: it has none. */
const Candidate *planner_largest_input(const FusionPlanner *c,
                                       const Candidate *x);
/* True if the node reads x. */
bool planner_reads(const Candidate *reader, const Candidate *x);
/* Sets vars[v] to the variable of the reader that indexes variable v of x;
 * UINT32_MAX: no single one.  Returns false if the reads differ, or cannot be
 * mapped. */
bool planner_map_reads(const FusionPlanner *c, const Candidate *reader,
                       const Candidate *x, uint32_t *vars);
/* Adds a candidate to a group, in the order of the plan. */
void planner_insert(FusionPlanner *c, GroupBuilder *d, Candidate *x);
/* Adds a copy of x to a group: the group computes it again. */
Candidate *planner_insert_copy(FusionPlanner *c, GroupBuilder *d,
                               const Candidate *x);
/* Removes values that only groups with copies of them read. */
void planner_drop_dead(FusionPlanner *c);

/* ---- recomputation.c ---- */

/* Gives matmuls that read the same large weights groups of their own, which
 * compute the weights again. */
void planner_recompute(FusionPlanner *c);

#endif
