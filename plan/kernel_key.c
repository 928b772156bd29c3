/* A kernel as bytes, with all its numbers or with its sizes only, and the hash
 * of these. */
#include "plan/kernel_key.h"
#include "plan/schedule_file.h"
#include "support/buffer.h"

typedef enum KeyKind {
  KEY_OF_CODE,     /* all numbers */
  KEY_OF_SCHEDULE, /* no values of constants */
} KeyKind;

static void hash_number(Buffer *b, int64_t x) {
  buffer_add(b, (const char *)&x, sizeof x);
}

static void hash_affine(Buffer *b, const AffineExpr *q) {
  hash_number(b, q != NULL);
  if (!q)
    return;
  hash_number(b, q->constant);
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v]) {
      hash_number(b, v);
      hash_number(b, q->coef[v]);
    }
  hash_number(b, -1);
}

static void hash_op(Buffer *b, const KernelOp *s, KeyKind kind) {
  hash_number(b, (int64_t)s->kind << 32 | s->dtype);
  hash_number(b, (int64_t)s->op << 32 | s->arg_count);
  for (uint32_t k = 0; k < s->arg_count; k++)
    hash_number(b, s->args[k]);
  if (kind == KEY_OF_CODE) {
    hash_number(b, s->low);
    hash_number(b, s->high);
  } else if (s->dtype == DT_I64 && s->kind != KOP_CONST &&
             s->kind != KOP_AFFINE && s->low >= INT32_MIN &&
             s->high <= INT32_MAX) {
    hash_number(b, -1); /* its vectors have more lanes */
  }
  switch (s->kind) {
  case KOP_CONST:
    if (kind == KEY_OF_CODE)
      hash_number(b, s->value.i);
    break;
  case KOP_AFFINE:
    hash_affine(b, s->affine);
    break;
  case KOP_LOAD:
    hash_number(b, s->input);
    hash_affine(b, s->address);
    for (uint32_t k = 0; k < s->checked_index_count; k++) {
      hash_number(b, s->checked_indices[k].index_op);
      hash_number(b, s->checked_indices[k].stride);
      hash_number(b, s->checked_indices[k].extent);
    }
    hash_number(b, -1);
    break;
  case KOP_LOAD_LOCAL:
    hash_number(b, (int64_t)s->source_loop << 32 | s->source_output);
    hash_affine(b, s->address);
    break;
  case KOP_RANDOM:
    if (kind == KEY_OF_CODE)
      buffer_add(b, (const char *)&s->key, sizeof s->key);
    break;
  case KOP_MAP:
  case KOP_SELECT:
  case KOP_CONVERT:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    break;
  }
}

static void hash_loop(Buffer *b, const FusionGroup *c, const LoopNest *loop,
                      KeyKind kind) {
  hash_number(b, (int64_t)loop->accumulated_axes << 32 | loop->parallel_axes);
  hash_number(b, (int64_t)loop->spatial_axes << 32 | loop->axis_count);
  for (uint32_t v = 0; v < loop->axis_count; v++)
    hash_number(b, loop->extents[v]);
  hash_number(b, loop->floor_div_count);
  for (uint32_t k = 0; k < loop->floor_div_count; k++) {
    hash_affine(b, &loop->floor_divs[k].dividend);
    hash_number(b, loop->floor_divs[k].divisor);
  }
  hash_number(b, loop->ops.len);
  for (uint32_t k = 0; k < loop->ops.len; k++)
    hash_op(b, &loop->ops.at[k], kind);
  hash_number(b, loop->outputs.len);
  for (uint32_t k = 0; k < loop->outputs.len; k++) {
    const LoopOutput *r = &loop->outputs.at[k];
    hash_number(b, (int64_t)r->reduce << 32 | r->dtype);
    hash_number(b, (int64_t)fusion_group_node_index(c, r->node) << 32 |
                       r->value_op);
    hash_affine(b, r->global_index);
    hash_affine(b, r->local_index);
  }
}

static ArtifactKey key_of(const FusionGroup *c, KeyKind kind) {
  const Kernel *k = c->kernel;
  Buffer b = {.arena = k->arena};
  hash_number(&b, k->recomputes); /* it may have another schedule */
  if (kind == KEY_OF_CODE && k->graph->schedules)
    for (uint32_t j = 0; j < c->nodes.len; j++)
      schedule_put_declared(k->graph, c->nodes.at[j], &b);
  for (uint32_t j = 0; j < k->inputs.len; j++)
    hash_number(&b, k->inputs.at[j]->dtype);
  for (uint32_t j = 0; j < k->loops.len; j++)
    hash_loop(&b, c, k->loops.at[j], kind);
  return artifact_key(1, &(ArtifactPart){b.text, b.len});
}

ArtifactKey kernel_key(const FusionGroup *c) {
  return key_of(c, KEY_OF_CODE);
}

ArtifactKey kernel_schedule_key(const FusionGroup *c) {
  return key_of(c, KEY_OF_SCHEDULE);
}
