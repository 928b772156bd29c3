/* Errors of the running program: finds the user's source span, builds the
 * diagnostic with a backtrace, and unwinds.  In a symbolic run, an error bails
 * out instead (symbolic.c). */
#include "eval/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/source.h"

#include <string.h>

enum { MAX_BACKTRACE_CALLS = 4 };

/* ---- source spans ---- */

bool vm_is_library_span(const Eval *vm, Span span) {
  if (!span.file)
    return true;
  if (!vm->sources)
    return false;
  const Source *source = sources_get(vm->sources, span.file);
  return source && source->is_library;
}

Span vm_span_of_instr(const Code *code, const Instr *pc) {
  if (code && pc >= code->instrs && pc < code->instrs + code->instr_count)
    return code->spans[pc - code->instrs];
  return (Span){0};
}

Span vm_user_span(Eval *vm, const char **library_function) {
  *library_function = NULL;
  if (!vm->is_running)
    return (Span){0};
  const Instr *pc = vm->pc;
  Span best = {0};
  for (Frame *f = vm->fp; f > vm->frames; f--) {
    Span span = vm_span_of_instr(f->code, pc);
    if (!vm_is_library_span(vm, span))
      return span;
    if (span.file && !best.file)
      best = span;
    if (span.file && f->code->name)
      *library_function = f->code->name;
    if (f->tail_caller)
      return vm_span_of_instr(f->tail_caller, f->tail_call);
    pc = f->ret - 1;
  }
  return best;
}

void vm_set_node_span(Eval *vm) {
  Span span = vm_span_of_instr(vm->fp->code, vm->pc);
  if (vm_is_library_span(vm, span)) {
    const char *library_function;
    span = vm_user_span(vm, &library_function);
  }
  vm->graph.span = span;
}

static uint32_t line_of(const Eval *vm, Span span) {
  const Source *source =
      vm->sources ? sources_get(vm->sources, span.file) : NULL;
  uint32_t line = span.start, column = 0;
  if (source)
    source_line_and_column(source, span.start, &line, &column);
  return line;
}

static bool is_line_labelled(const Eval *vm, const Diag *diag, Span span) {
  uint32_t line = line_of(vm, span);
  if (span.file == diag->span.file && line == line_of(vm, diag->span))
    return true;
  for (uint32_t i = 0; i < diag->label_count; i++)
    if (span.file == diag->labels[i].span.file &&
        line == line_of(vm, diag->labels[i].span))
      return true;
  return false;
}

/* Adds the calls that led here, unless they are on the line of the error.  A
 * deferred tensor gets the calls at which it is forced. */
static void add_backtrace(Eval *vm, Diag *diag) {
  const Instr *pc = vm->pc;
  const char *text = vm->is_forcing ? "needed here" : "called from here";
  for (Frame *f = vm->fp;
       f > vm->frames && diag->label_count < MAX_BACKTRACE_CALLS; f--) {
    Span span = vm_span_of_instr(f->code, pc);
    pc = f->ret - 1;
    if (vm_is_library_span(vm, span))
      continue;
    if (!is_line_labelled(vm, diag, span))
      diag_add_label(vm->diags->arena, diag, span, text);
    text = "called from here";
  }
}

/* ---- errors ---- */

Diag *vm_report_error(Eval *vm, Span span, uint16_t code, const char *message) {
  const char *library_function = NULL;
  if (vm_is_library_span(vm, span)) {
    Span user = vm_user_span(vm, &library_function);
    if (user.file)
      span = user;
  }
  Diag *diag = diag_error(vm->diags, code, span, "%s", message);
  if (library_function)
    diag->note = arena_printf(vm->diags->arena, "in the library function `%s`",
                              library_function);
  if (vm->is_running)
    add_backtrace(vm, diag);
  return diag;
}

/* An error occurred in a symbolic run.  It may not occur if the host runs the
 * loop; so bail out if the host can do that. */
void vm_bail_out_if_possible(Eval *vm) {
  if (vm->symbolic_run_count &&
      vm->symbolic_runs[vm->symbolic_run_count - 1].can_bail_out)
    vm_bail_out(vm, NULL);
}

static void report_failure(Eval *vm, Span span, uint16_t code, const char *help,
                           const char *format, va_list args) {
  vm_bail_out_if_possible(vm);
  Arena *arena = vm->diags->arena;
  Diag *diag =
      vm_report_error(vm, span, code, arena_vprintf(arena, format, args));
  if (help && *help)
    diag->help = arena_strndup(arena, help, strlen(help));
}

void vm_fail(Eval *vm, uint16_t code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report_failure(vm, vm_span_of_instr(vm->fp->code, vm->pc), code, NULL, format,
                 args);
  va_end(args);
  trap_raise(FAIL_ERROR);
}

void vm_fail_at(Eval *vm, Span span, uint16_t code, const char *help,
                const char *format, ...) {
  va_list args;
  va_start(args, format);
  report_failure(vm, span, code, help, format, args);
  va_end(args);
  trap_raise(FAIL_ERROR);
}

void vm_fault_at(Eval *vm, Span span, const Fault *fault) {
  static const uint16_t codes[FAULT_COUNT] = {
      [FAULT_SHAPE] = 507,      [FAULT_BROADCAST] = 303,
      [FAULT_INNER_SIZE] = 301, [FAULT_ARITHMETIC] = 506,
      [FAULT_MEMORY] = 505,     [FAULT_TARGET_UNAVAILABLE] = 514,
      [FAULT_FILE] = 508,       [FAULT_SCHEDULE] = 523};
  vm_fail_at(vm, span, codes[fault->kind], fault->help, "%s", fault->message);
}

void vm_fault(Eval *vm, const Fault *fault) {
  vm_fault_at(vm, vm_span_of_instr(vm->fp->code, vm->pc), fault);
}

void vm_fail_unknown_size(Eval *vm, const char *name) {
  Buffer text = {.arena = vm->diags->arena};
  buffer_puts(&text, name ? "the size" : "a size");
  if (name)
    buffer_printf(&text, " `%s`", name);
  vm_fail(vm, 363, "cannot determine %s: no argument has it as a size",
          text.text);
}

/* ---- bailout of a symbolic run ---- */

NORETURN static void fail_dynamic_branch(Eval *vm) {
  vm_fail_at(vm, vm->graph.span, 612,
             "fix the sizes: --entry 'f : f32[8, n] -> _'; or choose per "
             "element with select",
             "this condition is known only at run time, and both branches "
             "cannot be compiled: they do not return tensors of equal shape, "
             "or they do not terminate");
}

/* The run, not after `last`, of the innermost index on which a node depends. */
static size_t run_of_index(const Eval *vm, size_t last, const Node *reason) {
  if (!reason || !reason->free_count)
    return last;
  uint32_t id = reason->free_vars[reason->free_count - 1]->id;
  while (last && !(vm->symbolic_runs[last].first_index_id <= id &&
                   id <= vm->symbolic_runs[last].last_index_id))
    last--;
  return last;
}

void vm_bail_out(Eval *vm, const Node *reason) {
  if (vm_is_aot_tracing(vm) && !vm->symbolic_run_count)
    fail_dynamic_branch(vm);
  if (!vm->symbolic_run_count) {
    diag_error(vm->diags, 599, vm->graph.span,
               "internal error in eval: an index without a loop");
    trap_raise(FAIL_ERROR);
  }
  size_t to = run_of_index(vm, vm->symbolic_run_count - 1, reason);
  while (to && vm->symbolic_runs[to].row_length) {
    reason = vm->symbolic_runs[to].row_length;
    to = run_of_index(vm, to - 1, reason);
  }
  if (!vm->symbolic_runs[to].can_bail_out) {
    vm->symbolic_run_count = 0;
    vm_fail(vm, 612,
            "this needs the value of an index or element in a loop whose trip "
            "count is known only at run time");
  }
  SymbolicRun *a = &vm->symbolic_runs[to];
  if (reason && a->body)
    *(a->is_traced_loop ? &a->body->needs_carry_value
                        : &a->body->needs_index_value) = true;
  vm->bailout_run = to;
  vm->is_bailing_out = true;
  trap_raise(FAIL_LIMIT);
}

bool vm_interrupt_waits(const Eval *vm) {
  return vm->host->deferral && interrupt_waits(vm->host->deferral);
}

void vm_poll_interrupt(Eval *vm) {
  if (flag_is_set(vm->interrupt))
    trap_raise(FAIL_INTERRUPT);
}
