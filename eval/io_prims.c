/* Primitives with effects: files, the screen, the clock, exit. */
#include "eval/internal.h"
#include "plan/observer.h"
#include "support/buffer.h"
#include "support/clock.h"

#include <errno.h>
#include <string.h>

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

static const char *string_text(Value v) {
  return v.tag == V_STRING ? AS_STRING(v)->text : NULL;
}

void vm_check_no_nul(Eval *vm, Value v) {
  if (v.tag == V_STRING && strlen(AS_STRING(v)->text) != v.obj->len)
    vm_fail(vm, 508, "a file name cannot contain a NUL character");
}

void vm_fail_file(Eval *vm, const Fault *fault) {
  /* The operation may have stopped because of an interrupt. */
  vm_poll_interrupt(vm);
  const char *help = fault->help;
  if (!vm_writes_files(vm) && strstr(fault->message, strerror(ENOENT)))
    help = "a dry run writes no files: if the program writes this one, run it "
           "before";
  vm_fail_at(vm, (Span){0}, 508, help, "%s", fault->message);
}

PRIM(prim_load) {
  UNUSED;
  Fault fault = {0};
  Value path = args[n - 1];
  LoadOptions options = {.dtype = site->elem};
  if (n == 3) {
    options.name = string_text(args[0]);
    options.skip_header = args[1].tag != V_ABSENT && vm_bool(vm, args[1]);
  }
  vm_check_no_nul(vm, path);
  Tensor *t = file_load(string_text(path), &options, &fault);
  if (!t)
    vm_fail_file(vm, &fault);
  Dtype dtype = t->dtype;
  if (site->elem != DT_NONE && dtype != site->elem) {
    tensor_release(t);
    vm_fail(vm, 508, "%s contains elements of type %s; expected %s",
            string_text(path), dtype_info[dtype].name,
            dtype_info[site->elem].name);
  }
  return vm_value_of_tensor(vm, t, &fault);
}

/* An iteration with an effect cannot stand for all iterations.  Bails out, so
 * that the host runs each iteration. */
static void bail_out_of_traced_loops(Eval *vm) {
  for (size_t k = 0; k < vm->symbolic_run_count; k++)
    if (vm->symbolic_runs[k].is_traced_loop)
      vm_bail_out(vm, NULL);
}

void vm_check_effect_allowed(Eval *vm, const char *what) {
  bail_out_of_traced_loops(vm);
  if (vm_is_aot_tracing(vm) && !vm->lazy_init_count)
    vm_fail(vm, 612,
            "`%s` is not possible in a compiled function: it has an effect",
            what);
}

bool vm_may_write(Eval *vm, const char *what) {
  vm_check_effect_allowed(vm, what);
  return !vm->replay_depth;
}

bool vm_writes_files(const Eval *vm) {
  const PlanObserver *o = vm->graph.observer;
  return !o || !o->dry_run;
}

void vm_save(Eval *vm, const char *path, uint32_t count,
             const char *const *names, Tensor *const *tensors) {
  Fault fault = {0};
  if (vm_writes_files(vm) ? !file_save(path, count, names, tensors, &fault)
                          : !file_can_save(path, count, &fault))
    vm_fail_file(vm, &fault);
}

PRIM(prim_save) {
  UNUSED;
  if (!vm_may_write(vm, "save"))
    return value_unit();
  Value path = args[n - 2];
  const char *name = n == 3 ? string_text(args[0]) : NULL;
  Tensor *t = (Tensor *)(uintptr_t)vm_tensor(vm, args[n - 1]);
  vm_check_no_nul(vm, path);
  vm_save(vm, string_text(path), 1, name ? &name : NULL, &t);
  return value_unit();
}

PRIM(prim_save_all) {
  UNUSED;
  if (!vm_may_write(vm, "save_all"))
    return value_unit();
  uint32_t count = 0;
  for (Value v = args[1]; v.tag == V_CONS; v = AS_CONS(v)->tail)
    count++;
  const char **names = vm_scratch(vm, (count + 1) * sizeof *names);
  Tensor **tensors = vm_scratch(vm, (count + 1) * sizeof *tensors);
  vm_force_value(vm, args[1]);
  uint32_t i = 0;
  for (Value v = args[1]; v.tag == V_CONS; v = AS_CONS(v)->tail, i++) {
    const Value *pair = AS_ARRAY(AS_CONS(v)->head)->at;
    names[i] = string_text(pair[0]);
    tensors[i] = (Tensor *)(uintptr_t)vm_tensor(vm, pair[1]);
  }
  vm_check_no_nul(vm, args[0]);
  vm_save(vm, string_text(args[0]), count, names, tensors);
  return value_unit();
}

PRIM(prim_show) {
  UNUSED;
  if (!vm_may_write(vm, "show"))
    return value_unit();
  Fault fault = {0};
  int64_t size = n < 3 || args[0].tag == V_ABSENT ? 0 : vm_int(vm, args[0]);
  const char *file = n < 3 ? NULL : string_text(args[1]);
  const Tensor *t = vm_tensor(vm, args[n - 1]);
  if (!vm->host->show || !vm_writes_files(vm))
    return value_unit();
  if (!vm->host->show(vm->host->owner, t, file, size, &fault))
    vm_fail_file(vm, &fault);
  vm_check_file(vm, t);
  return value_unit();
}

PRIM(prim_track) {
  UNUSED;
  if (!vm_may_write(vm, "track") || !vm->host->track)
    return value_unit();
  int64_t x = vm_int(vm, args[1]);
  const Tensor *t = vm_tensor(vm, args[2]);
  vm->host->track(vm->host->owner, string_text(args[0]), (double)x,
                  scalar_load(t->dtype, tensor_at(t, 0)).f);
  return value_unit();
}

static void format_value(Eval *vm, Buffer *text, Value v, const char *prefix,
                         bool newline) {
  if (prefix)
    buffer_printf(text, "%s: ", prefix);
  vm_print_or_draw(vm, text, v, false);
  if (newline)
    buffer_putc(text, '\n');
}

static void write_value(Eval *vm, void (*write)(void *, const char *, size_t),
                        Value v, const char *prefix, bool newline) {
  Buffer text = {0};
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    format_value(vm, &text, v, prefix, newline);
    if (write && text.len)
      write(vm->host->owner, text.text, text.len);
    trap_end(&trap);
  }
  buffer_free(&text);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
}

PRIM(prim_print) {
  UNUSED;
  if (!vm_may_write(vm, "print"))
    return value_unit();
  write_value(vm, vm->host->write, args[0], NULL, true);
  return value_unit();
}

PRIM(prim_write) {
  UNUSED;
  if (!vm_may_write(vm, "write"))
    return value_unit();
  write_value(vm, vm->host->write, args[0], NULL, false);
  return value_unit();
}

/* If the index of a `for` has no value yet, the host runs the loop. */
PRIM(prim_trace) {
  UNUSED;
  if (args[1].tag == V_NODE && args[1].node->free_count)
    vm_bail_out(vm, args[1].node);
  bail_out_of_traced_loops(vm);
  if (!vm->replay_depth)
    write_value(vm, vm->host->trace, args[1], string_text(args[0]), true);
  return value_retain(args[1]);
}

/* In a symbolic run and during AOT tracing, nothing may run. */
PRIM(prim_force) {
  UNUSED;
  Value v = args[0];
  if (vm->symbolic_run_count && vm->symbolic_runs[0].is_traced_loop)
    vm_force_in_loop(vm, v);
  if (vm_must_defer(vm) || vm_is_aot_tracing(vm))
    return value_retain(v);
  Trap trap;
  vm->graph.compiles_all = true;
  if (TRAP_SET(trap) == FAIL_NONE) {
    vm_force_value(vm, v);
    trap_end(&trap);
  }
  vm->graph.compiles_all = false;
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
  vm->last_forced_node = vm->graph.next_node_id;
  return value_retain(v);
}

PRIM(prim_args) {
  UNUSED;
  (void)args;
  Value list = {.tag = V_NIL};
  for (int i = vm->host->arg_count - 1; i >= 0; i--) {
    const char *text = vm->host->args[i];
    list = vm_cons_text(vm, text, strlen(text), list);
  }
  return list;
}

PRIM(prim_clock) {
  UNUSED;
  (void)args;
  bail_out_of_traced_loops(vm);
  return value_scalar((Scalar){DT_F64, {.f = clock_seconds()}});
}

PRIM(prim_is_interrupted) {
  UNUSED;
  (void)args;
  bail_out_of_traced_loops(vm);
  return value_bool(vm_interrupt_waits(vm));
}

PRIM(prim_exit) {
  UNUSED;
  vm_check_effect_allowed(vm, "exit");
  vm->status = (int)(vm_int(vm, args[0]) & 255);
  vm->exited = true;
  trap_raise(FAIL_ERROR);
}

PRIM(prim_fail) {
  UNUSED;
  if (!vm_aot_fail(vm, string_text(args[0])))
    vm_fail(vm, 501, "%s", string_text(args[0]));
  return value_unit();
}

PRIM(prim_assert) {
  UNUSED;
  if (vm_is_aot_tracing(vm) && args[0].tag == V_NODE && args[0].node->symbolic)
    vm_aot_assert(vm, args[0].node, "assertion does not hold");
  else if (!vm_bool(vm, args[0]))
    vm_fail(vm, 503, "assertion does not hold");
  return value_unit();
}
