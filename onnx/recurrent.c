/* RNN, GRU and LSTM: a scan for each direction. */
#include "onnx/ops.h"

#include <stdio.h>
#include <string.h>

typedef struct Activation {
  const char *name, *text; /* $: the operand; # and %: alpha and beta */
  float alpha, beta;
} Activation;

static const Activation activations[] = {
    {"Sigmoid", "nn.sigmoid $", 0, 0},
    {"Tanh", "tanh $", 0, 0},
    {"Relu", "nn.relu $", 0, 0},
    {"Softsign", "softsign $", 0, 0},
    {"Softplus", "nn.softplus $", 0, 0},
    {"LeakyRelu", "nn.leaky_relu ~slope:# $", 0.01f, 0},
    {"Elu", "nn.elu ~alpha:# $", 1, 0},
    {"HardSigmoid", "clamp 0.0 1.0 (# * $ + %)", 0.2f, 0.5f},
    {"Affine", "# * $ + %", 1, 0},
    {"ScaledTanh", "# * tanh (% * $)", 1, 1},
    {"ThresholdedRelu", "select ($ > #) $ 0.0", 1, 0},
};

typedef struct Cell { /* one direction */
  Importer *im;
  uint32_t direction, activation_count;
  const char *axis_size; /* of the hidden state */
  const char *peepholes; /* or NULL */
} Cell;

typedef struct Step { /* the body of a scan */
  Importer *im;
  Buffer text;
} Step;

/* ---- activations ---- */

static const Activation *find_activation(Importer *im, const char *name) {
  for (size_t k = 0; k < ARRAY_LEN(activations); k++)
    if (strcmp(activations[k].name, name) == 0)
      return &activations[k];
  import_fail(im, NULL, "the activation `%.40s` is not supported", name);
}

/* Number k of the activations of a direction. */
static const char *activation_name(const Cell *c, uint32_t k,
                                   const char *otherwise) {
  const Attribute *a = find_attribute(c->im, "activations");
  uint32_t at = c->direction * c->activation_count + k;
  if (!a || at >= a->n_strings)
    return otherwise;
  return text(c->im, "%.*s", (int)a->strings[at].len,
              (const char *)a->strings[at].data);
}

static float activation_number(const Cell *c, const char *attribute, uint32_t k,
                               float otherwise) {
  const Attribute *a = find_attribute(c->im, attribute);
  uint32_t at = c->direction * c->activation_count + k;
  return a && at < a->n_floats ? a->floats[at] : otherwise;
}

/* The activation of an atom; the result is one, too. */
static const char *activate(const Cell *c, uint32_t k, const char *otherwise,
                            const char *atom) {
  Importer *im = c->im;
  const Activation *f = find_activation(im, activation_name(c, k, otherwise));
  float alpha = activation_number(c, "activation_alpha", k, f->alpha);
  float beta = activation_number(c, "activation_beta", k, f->beta);
  Buffer b = {.arena = im->arena};
  buffer_putc(&b, '(');
  for (const char *t = f->text; *t; t++)
    if (*t == '$')
      buffer_puts(&b, atom);
    else if (*t == '#' || *t == '%')
      buffer_puts(&b, float_text(im, *t == '#' ? alpha : beta));
    else
      buffer_putc(&b, *t);
  buffer_putc(&b, ')');
  return b.text;
}

/* ---- steps ---- */

PRINTF_LIKE(3, 4)
static void step_value(Step *s, const char *name, const char *format, ...) {
  va_list args;
  va_start(args, format);
  buffer_printf(&s->text, " val %s = ", name);
  buffer_vprintf(&s->text, format, args);
  va_end(args);
}

/* Gate k of several that lie side by side. */
static const char *gate(const Cell *c, const char *all, uint32_t k) {
  return text(c->im, "%s.[:, %u * %s:%u * %s]", all, k, c->axis_size, k + 1,
              c->axis_size);
}

static const char *clipped(const Cell *c, const char *x) {
  float limit = attr_float(c->im, "clip", 0);
  return limit > 0 ? text(c->im, "(clamp (-%s) %s (%s))",
                          float_text(c->im, limit), float_text(c->im, limit), x)
                   : text(c->im, "(%s)", x);
}

static const char *row(Importer *im, Value *v, uint32_t k) {
  return text(im, "%s.[%u, ...]", ref(im, v), k);
}

static const char *peephole(const Cell *c, uint32_t k, const char *state) {
  if (!c->peepholes)
    return "";
  return text(c->im, " + %s.[%u * %s:%u * %s] * %s", c->peepholes, k,
              c->axis_size, k + 1, c->axis_size, state);
}

static void lstm_step(const Cell *c, Step *s) {
  Importer *im = c->im;
  step_value(s, "g", "x + h @ r");
  step_value(
      s, "i'", "%s",
      clipped(c, text(im, "%s%s", gate(c, "g", 0), peephole(c, 0, "c"))));
  step_value(s, "i", "%s", activate(c, 0, "Sigmoid", "i'"));
  if (attr_int(im, "input_forget", 0))
    step_value(s, "f", "1.0 - i");
  else {
    step_value(
        s, "f'", "%s",
        clipped(c, text(im, "%s%s", gate(c, "g", 2), peephole(c, 2, "c"))));
    step_value(s, "f", "%s", activate(c, 0, "Sigmoid", "f'"));
  }
  step_value(s, "t'", "%s", clipped(c, gate(c, "g", 3)));
  step_value(s, "c'", "f * c + i * %s", activate(c, 1, "Tanh", "t'"));
  step_value(
      s, "o'", "%s",
      clipped(c, text(im, "%s%s", gate(c, "g", 1), peephole(c, 1, "c'"))));
  step_value(s, "h'", "%s * %s", activate(c, 0, "Sigmoid", "o'"),
             activate(c, 2, "Tanh", "c'"));
}

static void gru_step(const Cell *c, Step *s) {
  Importer *im = c->im;
  bool is_late = attr_int(im, "linear_before_reset", 0);
  const char *n = c->axis_size;
  step_value(s, "g", "h @ r.[:, :2 * %s]", n);
  step_value(s, "z'", "%s",
             clipped(c, text(im, "%s + %s", gate(c, "x", 0), gate(c, "g", 0))));
  step_value(s, "z", "%s", activate(c, 0, "Sigmoid", "z'"));
  step_value(s, "q'", "%s",
             clipped(c, text(im, "%s + %s", gate(c, "x", 1), gate(c, "g", 1))));
  step_value(s, "q", "%s", activate(c, 0, "Sigmoid", "q'"));
  const char *rest = is_late ? text(im, "q * (h @ r.[:, 2 * %s:] + u)", n)
                             : text(im, "q * h @ r.[:, 2 * %s:]", n);
  if (!is_late)
    rest = text(im, "(q * h) @ r.[:, 2 * %s:]", n);
  step_value(s, "t'", "%s",
             clipped(c, text(im, "%s + %s", gate(c, "x", 2), rest)));
  step_value(s, "h'", "(1.0 - z) * %s + z * h", activate(c, 1, "Tanh", "t'"));
}

static void rnn_step(const Cell *c, Step *s) {
  step_value(s, "g'", "%s", clipped(c, "x + h @ r"));
  step_value(s, "h'", "%s", activate(c, 0, "Tanh", "g'"));
}

/* ---- operands ---- */

/* b[d, :gates] + b[d, gates:], or the part that GRU adds after the reset. */
static const char *bias_text(const Cell *c, uint32_t gates, bool is_late_gru) {
  Importer *im = c->im;
  const char *b = row(im, input(im, 3), c->direction), *n = c->axis_size;
  if (!is_late_gru)
    return text(im, "(%s.[:%u * %s] + %s.[%u * %s:])", b, gates, n, b, gates,
                n);
  return text(im,
              "(%s.[:3 * %s] + concat ~axis:0 (%s.[3 * %s:5 * %s], zeros "
              "[%s]))",
              b, n, b, n, n, n);
}

static const char *start_text(Importer *im, uint32_t i, uint32_t direction,
                              bool is_batch_first, const Shape *state,
                              Dtype dtype) {
  if (!has_input(im, i))
    return text(im, "(zeros %s : %s%s)", sizes_text(im, state),
                dtype_info[dtype].name, sizes_text(im, state));
  Shape own = input(im, i)->shape;
  for (uint32_t k = 0; k < 2 && own.rank == 3; k++)
    if (dims_differ(own.dims[is_batch_first ? 2 * k : 1 + k], state->dims[k]))
      own.rank = 0;
  if (own.rank != 3)
    import_fail(im, NULL,
                "input %u is %s, but the state of a direction has the shape "
                "%s",
                i, sizes_text(im, &input(im, i)->shape), sizes_text(im, state));
  const char *v = ref(im, input(im, i));
  return is_batch_first ? text(im, "%s.[:, %u, :]", v, direction)
                        : text(im, "%s.[%u, ...]", v, direction);
}

typedef struct Outputs { /* names: all states, last states */
  const char *all[2], *last[2], *cell[2];
} Outputs;

typedef struct Layer {
  const char *how;     /* rnn, gru, lstm */
  const char *lengths; /* or NULL */
  uint32_t gates, directions;
  bool is_batch_first, is_lstm;
  Dim *steps, *batch, *hidden;
  Shape state; /* batch, hidden */
} Layer;

static bool is_reverse(Importer *im, uint32_t direction) {
  return direction == 1 ||
         strcmp(attr_string(im, "direction", "forward"), "reverse") == 0;
}

static const char *claimed(Importer *im, const char *wish) {
  return make_identifier(im, wish, wish, 30);
}

static void write_direction(Importer *im, const Layer *l, uint32_t d,
                            const char *x, Outputs *out) {
  Cell c = {.im = im,
            .direction = d,
            .activation_count = l->is_lstm      ? 3
                                : l->gates == 3 ? 2
                                                : 1,
            .axis_size = extent_atom(im, l->hidden)};
  Step s = {.im = im, .text = {.arena = im->arena}};
  bool reverse = is_reverse(im, d), is_gru = strcmp(l->how, "gru") == 0;
  bool is_late = is_gru && attr_int(im, "linear_before_reset", 0);
  Dtype dtype = input(im, 0)->dtype;
  const char *products =
      text(im, "%s @ transpose %s", x, row(im, input(im, 1), d));
  if (has_input(im, 3))
    products = text(im, "%s + %s", products, bias_text(&c, l->gates, is_late));
  if (reverse)
    products = text(im, "reverse ~axis:0 (%s)", products);
  const char *xs = local(im, "inputs", products);
  const char *r = local(im, "recurrent",
                        text(im, "transpose %s", row(im, input(im, 2), d)));
  step_value(&s, "r", "%s", r);
  if (is_late)
    step_value(&s, "u", "%s",
               has_input(im, 3)
                   ? local(im, "late_bias",
                           text(im, "%s.[5 * %s:]", row(im, input(im, 3), d),
                                c.axis_size))
                   : "0.0");
  if (l->is_lstm && has_input(im, 7))
    c.peepholes = local(im, "peepholes", row(im, input(im, 7), d));
  if (l->is_lstm)
    lstm_step(&c, &s);
  else if (is_gru)
    gru_step(&c, &s);
  else
    rnn_step(&c, &s);
  const char *h = start_text(im, 5, d, l->is_batch_first, &l->state, dtype);
  const char *last = claimed(im, "last"), *all = claimed(im, "states");
  const char *state = "h", *next = "h'", *x_and_time = "x", *result = "h'";
  const char *names = last;
  if (l->is_lstm) {
    out->cell[d] = claimed(im, "cell");
    state = "(h, c)";
    next = "(h', c')";
    h = text(im, "(%s, %s)", h,
             start_text(im, 6, d, l->is_batch_first, &l->state, dtype));
    names = text(im, "(%s, %s)", last, out->cell[d]);
  }
  if (l->lengths) { /* states stay, and outputs are 0, behind the end */
    x_and_time = "(x, time)";
    xs = text(im, "(%s, iota %s)", xs, extent_atom(im, l->steps));
    step_value(&s, "more", "(time < %s).[:, *]", l->lengths);
    next = l->is_lstm ? "(select more h' h, select more c' c)"
                      : "select more h' h";
    result = "select more h' 0.0";
  }
  Statement made = {
      .name = text(im, "(%s, %s)", names, all),
      .text = text(im, "scan (fn %s %s => let%s in (%s, %s) end) %s %s", state,
                   x_and_time, s.text.text, next, result, h, xs)};
  VEC_PUSH(im->arena, im->statements, made);
  out->last[d] = last;
  out->all[d] =
      reverse ? local(im, "states", text(im, "reverse ~axis:0 %s", all)) : all;
}

/* ---- outputs ---- */

/* The directions side by side, at an axis of their own. */
static const char *joined(Importer *im, const Layer *l, const char *const *v,
                          const char *items, uint32_t axis) {
  const char *first = text(im, "%s.[%s]", v[0], items);
  if (l->directions == 1)
    return first;
  return text(im, "concat ~axis:%u (%s, %s)", axis, first,
              text(im, "%s.[%s]", v[1], items));
}

static void define_states(Importer *im, const Layer *l, const Outputs *o) {
  Dim *n = num(im, l->directions);
  bool batch = l->is_batch_first;
  Dtype t = input(im, 0)->dtype;
  Shape all = {4, 0, {l->steps, n, l->batch, l->hidden}};
  Shape last = {3, 0, {n, l->batch, l->hidden}};
  if (batch) {
    all = (Shape){4, 0, {l->batch, l->steps, n, l->hidden}};
    last = (Shape){3, 0, {l->batch, n, l->hidden}};
  }
  const char *slots = batch ? ":, new, :" : "new, :, :";
  define(im, 0, t, &all, batch ? "permute \"s n b h -> b s n h\" (%s)" : "%s",
         joined(im, l, o->all, ":, new, :, :", 1));
  define(im, 1, t, &last, "%s", joined(im, l, o->last, slots, batch));
  if (l->is_lstm)
    define(im, 2, t, &last, "%s", joined(im, l, o->cell, slots, batch));
}

/* The lengths of the sequences, if they may differ from the tensor's. */
static const char *lengths_text(Importer *im, const Layer *l) {
  if (!has_input(im, 4))
    return NULL;
  Value *v = input(im, 4);
  Dim **lengths = known_ints(im, v);
  int64_t count = value_count(im, v);
  bool differ = !lengths;
  for (int64_t k = 0; lengths && k < count; k++)
    differ |= !dim_equal(lengths[k], l->steps);
  if (differ && (l->directions == 2 || is_reverse(im, 0)))
    import_fail(im, "reverse the sequences before the model",
                "sequences of different lengths are supported only forwards");
  return differ ? local(im, "lengths", text(im, "i64 %s", ref(im, v))) : NULL;
}

static Layer read_layer(Importer *im, const char *how) {
  Layer l = {.how = how, .is_lstm = strcmp(how, "lstm") == 0};
  Value *x = input(im, 0), *r = input(im, 2);
  const char *direction = attr_string(im, "direction", "forward");
  l.directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
  l.gates = l.is_lstm ? 4 : strcmp(how, "gru") == 0 ? 3 : 1;
  l.is_batch_first = attr_int(im, "layout", 0);
  if (x->shape.rank != 3 || r->shape.rank != 3 ||
      input(im, 1)->shape.rank != 3 || !dtype_is_float(x->dtype))
    import_fail(im, NULL, "its operands must be floats with three axes");
  if (dims_differ(x->shape.dims[2], input(im, 1)->shape.dims[2]))
    import_fail(im, NULL, "its weight %s does not fit its input %s",
                sizes_text(im, &input(im, 1)->shape),
                sizes_text(im, &x->shape));
  l.steps = x->shape.dims[l.is_batch_first];
  l.batch = x->shape.dims[!l.is_batch_first];
  l.hidden = num(im, dim_number(im, r->shape.dims[2], "the hidden size"));
  l.state = (Shape){2, 0, {l.batch, l.hidden}};
  int64_t directions = dim_number(im, r->shape.dims[0], "the directions");
  if (directions != l.directions)
    import_fail(im, NULL, "its weights do not fit its direction");
  return l;
}

/* how: rnn, gru, lstm */
void onnx_recurrent(Importer *im, const char *how) {
  Layer l = read_layer(im, how);
  Outputs out = {{0}, {0}, {0}};
  const char *x = ref(im, input(im, 0));
  im->uses_nn = true;
  l.lengths = lengths_text(im, &l);
  if (l.is_batch_first)
    x = local(im, "steps", text(im, "permute \"b s i -> s b i\" %s", x));
  for (uint32_t d = 0; d < l.directions; d++)
    write_direction(im, &l, d, x, &out);
  define_states(im, &l, &out);
}
