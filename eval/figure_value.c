/* Figures of module plot: converts the value to a Figure, and draws or saves
 * it. */
#include "eval/internal.h"
#include "support/buffer.h"
#include "support/intern.h"

#include <string.h>

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

/* ---- fields of records of stdlib/plot.axn ---- */

static NORETURN void fail_field(Eval *vm, const char *label) {
  vm_fail(vm, 509,
          "the field %s of this figure is wrong: make figures by the "
          "functions of module plot",
          label);
}

static Value field(Eval *vm, Value record, const char *label) {
  const Record *r = AS_RECORD(record);
  for (uint32_t i = 0; record.tag == V_RECORD && i < r->obj.len; i++)
    if (strcmp(r->layout->labels[i]->text, label) == 0)
      return r->at[i];
  fail_field(vm, label);
}

static const char *text_field(Eval *vm, Value record, const char *label) {
  return AS_STRING(field(vm, record, label))->text;
}

static double number_field(Eval *vm, Value record, const char *label) {
  const Tensor *t = vm_tensor(vm, field(vm, record, label));
  return scalar_load(t->dtype, tensor_at(t, 0)).f;
}

/* The elements, which live as long as the value.  Their type is f64. */
static const double *elements(Eval *vm, Value record, const char *label,
                              size_t *count) {
  const Tensor *t = vm_tensor(vm, field(vm, record, label));
  *count = (size_t)t->count;
  return t->data;
}

static uint32_t length_of_list(Value v) {
  uint32_t n = 0;
  for (; v.tag == V_CONS; v = AS_CONS(v)->tail)
    n++;
  return n;
}

/* ---- the figure ---- */

static LayerKind kind_of(Eval *vm, const char *name) {
  static const char *const names[LAYER_KIND_COUNT] = {
      [LAYER_LINE] = "line",       [LAYER_STEP] = "step",
      [LAYER_SCATTER] = "scatter", [LAYER_AREA] = "area",
      [LAYER_BARS] = "bars",       [LAYER_HEATMAP] = "heatmap"};
  for (int k = LAYER_NONE + 1; k < LAYER_KIND_COUNT; k++)
    if (strcmp(names[k], name) == 0)
      return (LayerKind)k;
  fail_field(vm, "kind");
}

static FigureLayer layer_of(Eval *vm, Value v) {
  FigureLayer l = {.kind = kind_of(vm, text_field(vm, v, "kind")),
                   .label = text_field(vm, v, "label")};
  size_t x2, y, y2, z;
  l.x = elements(vm, v, "x", &l.count);
  l.x2 = elements(vm, v, "x2", &x2);
  l.y = elements(vm, v, "y", &y);
  l.y2 = elements(vm, v, "y2", &y2);
  l.z = elements(vm, v, "z", &z);
  const Tensor *t = vm_tensor(vm, field(vm, v, "z"));
  l.rows = (size_t)t->shape[0], l.columns = (size_t)t->shape[1];
  if (y != l.count || (l.kind == LAYER_HEATMAP && l.count != 2))
    fail_field(vm, "y");
  if (x2 != (l.kind == LAYER_BARS ? l.count : 0))
    fail_field(vm, "x2");
  if (y2 != (l.kind == LAYER_AREA ? l.count : 0))
    fail_field(vm, "y2");
  l.x2 = x2 ? l.x2 : NULL;
  l.y2 = y2 ? l.y2 : NULL;
  return l;
}

static FigureAxis axis_of(Eval *vm, Value v) {
  FigureAxis a = {.label = text_field(vm, v, "label"),
                  .is_log = vm_bool(vm, field(vm, v, "log")),
                  .from = number_field(vm, v, "from"),
                  .to = number_field(vm, v, "to")};
  Value names = field(vm, v, "names");
  uint32_t count = length_of_list(names);
  const char **texts = vm_scratch(vm, (count + 1) * sizeof *texts);
  for (; names.tag == V_CONS; names = AS_CONS(names)->tail)
    texts[a.name_count++] = AS_STRING(AS_CONS(names)->head)->text;
  a.names = texts;
  return a;
}

/* Borrows from v and from temporaries.  Checks the figure. */
static Figure figure_of(Eval *vm, Value v) {
  vm_force_value(vm, v);
  v = AS_CON(v)->arg;
  Figure f = {.title = text_field(vm, v, "title"),
              .x = axis_of(vm, field(vm, v, "x")),
              .y = axis_of(vm, field(vm, v, "y"))};
  Value list = field(vm, v, "layers");
  FigureLayer *layers =
      vm_scratch(vm, (length_of_list(list) + 1) * sizeof *layers);
  for (; list.tag == V_CONS; list = AS_CONS(list)->tail)
    layers[f.layer_count++] = layer_of(vm, AS_CONS(list)->head);
  f.layers = layers;
  Fault fault = {0};
  if (!figure_check(&f, &fault))
    vm_fail_at(vm, (Span){0}, 509, fault.help, "%s", fault.message);
  return f;
}

void vm_draw_figure(Eval *vm, Buffer *out, Value v) {
  size_t mark = vm->temp_count;
  Figure f = figure_of(vm, v);
  int width = vm->host->print_width;
  FigureStyle style = {.columns = width > 0 ? width : 80,
                       .colours = vm->host->figure_colours,
                       .is_ascii = vm->host->is_ascii};
  figure_print(out, &f, &style);
  out->text[--out->len] = 0; /* the last newline */
  vm_drop_temps(vm, mark);
}

bool vm_figure_png(Eval *vm, Value v, FigureSize size, void **bytes,
                   size_t *len) {
  Fault fault = {0};
  if (v.tag != V_CON || !AS_CON(v)->con->is_figure)
    return false;
  Figure f = figure_of(vm, v);
  if (!figure_png(&f, size, bytes, len, &fault))
    vm_fail_file(vm, &fault);
  return true;
}

PRIM(prim_plot_save) {
  UNUSED;
  if (!vm_may_write(vm, "plot.save"))
    return value_unit();
  if (!vm_writes_files(vm)) { /* zeros may be no limits of an axis */
    vm_force_value(vm, args[4]);
    return value_unit();
  }
  size_t mark = vm->temp_count;
  FigureSize size = {0};
  if (args[0].tag != V_ABSENT)
    size.width = vm_int(vm, args[0]);
  if (args[1].tag != V_ABSENT)
    size.height = vm_int(vm, args[1]);
  if (args[2].tag != V_ABSENT) {
    const Tensor *scale = vm_tensor(vm, args[2]);
    Scalar x = scalar_load(scale->dtype, tensor_at(scale, 0));
    size.scale = dtype_is_float(x.dtype) ? x.f : (double)x.i;
  }
  vm_check_no_nul(vm, args[3]);
  Figure f = figure_of(vm, args[4]);
  Fault fault = {0};
  if (!figure_save(&f, AS_STRING(args[3])->text, size, &fault))
    vm_fail_file(vm, &fault);
  vm_drop_temps(vm, mark);
  return value_unit();
}
