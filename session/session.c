/* A session: the pipeline from text to results, and the callbacks between its
   stages.  Main entry points: session_open, session_check and session_run. */
#define _GNU_SOURCE
#include "session/internal.h"

#include "backend/cpu/toolchain.h"
#include "backend/target.h"
#include "diagnose/diagnose.h"
#include "plan/schedule_file.h"
#include "runtime/artifact.h"
#include "runtime/thread_pool.h"
#include "runtime/warn_once.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/intern.h"
#include "support/trap.h"

#include <string.h>
#include <unistd.h>

enum { /* error codes of typecheck/ */
       ERROR_UNKNOWN_MODULE = 310,
       ERROR_UNKNOWN_NAME = 312,
       ERROR_UNKNOWN_CONSTRUCTOR = 313,
       ERROR_UNKNOWN_TYPE = 342,
       ERROR_NOT_EXHAUSTIVE = 401
};

/* ---- opening and closing ---- */

static void define_library(void *owner, CoreDec *dec) {
  Session *s = owner;
  eval_define_lazy(s->eval, dec);
}

/* Resolves the path like `load`: from the working directory. */
static bool read_file_header(void *owner, const char *path,
                             const LoadOptions *options, TensorHeader *out,
                             Fault *fault) {
  (void)owner;
  if (!file_has_known_extension(path, fault))
    return false;
  /* a missing file may be created later */
  bool exists = access(path, F_OK) == 0;
  return exists && file_read_header(path, options, out, fault);
}

static void session_init(Session *s, const SessionHost *host) {
  s->host = *host;
  s->host.eval.interrupt = &s->interrupt;
  s->host.eval.deferral = &s->deferral;
  sources_init(&s->sources, s->arena);
  diags_init(&s->diags, s->arena);
  map_init(&s->stdlib_decs, s->arena);
  map_init(&s->functions, s->arena);
  s->interner = interner_new(s->arena);
  s->dims.arena = s->arena;
  s->check_host = (CheckHost){
      .owner = s,
      .library_definition = stdlib_find_dec,
      .library_module = stdlib_has_module,
      .library_names = stdlib_each_name,
      .define = define_library,
      .import = import_module,
      .read_header = read_file_header,
      .refuted = diagnose_refuted,
      .suggest = diagnose_suggest,
  };
  s->checker =
      checker_new(s->arena, &s->sources, s->interner, &s->dims, &s->check_host);
  s->eval = eval_new(s->arena, &s->dims, s->interner, &s->host.eval);
  eval_set_sources(s->eval, &s->sources);
  s->main_module = module_new(s->checker, NULL);
}

Session *session_open(const SessionHost *host) {
  Arena *volatile arena = NULL;
  Session *volatile s = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    if (s && s->eval)
      eval_free(s->eval);
    arena_free(arena);
    return NULL;
  }
  arena = arena_new();
  s = NEW(arena, Session);
  s->arena = arena;
  session_init(s, host);
  trap_end(&trap);
  return s;
}

void session_close(Session *s) {
  if (!s)
    return;
  eval_free(s->eval);
  buffer_free(&s->call_key);
  arena_free(s->arena);
}

/* ---- statuses ---- */

static const char no_memory_help[] =
    "use smaller sizes, or a machine or container with more memory";

/* Adds a preallocated diagnostic if there is no memory for another one. */
static void add_oom_diag(Session *s) {
  Diags *diags = &s->diags;
  s->oom_diag = (Diag){.severity = SEV_ERROR,
                       .code = 505,
                       .message = "out of memory",
                       .help = no_memory_help,
                       .axis = -1};
  if (diags->all.cap == 0) {
    diags->all.at = &s->oom_diags;
    diags->all.cap = 1;
  }
  if (diags->all.len == diags->all.cap) /* replaces the last one */
    diags->all.len--;
  diags->all.at[diags->all.len++] = &s->oom_diag;
  diags->errors++;
}

static void report_out_of_memory(Session *s) {
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    add_oom_diag(s);
    return;
  }
  Diag *diag = diag_error(&s->diags, 505, (Span){0}, "out of memory");
  diag->help = no_memory_help;
  trap_end(&trap);
}

/* Discards pending declarations: they failed, or do not run. */
static void drop_pending(Session *s, uint32_t from) {
  if (from < s->pending.len)
    checker_forget_facts(s->checker, s->pending.at[from].facts);
  s->pending.len = from;
}

/* Discards pending declarations and imports. */
static void abort_pending(Session *s) {
  drop_pending(s, 0);
  checker_abort_text(s->checker);
  s->import_depth = 0;
  for (uint32_t i = 0; i < s->imports.len; i++)
    s->imports.at[i].is_in_progress = false;
}

/* Warnings about the machine, not the program, have no place. */
static void add_warnings(Session *s) {
  OnceWarning n;
  while (warn_once_take(&n)) {
    Diag *d = diag_warning(&s->diags, n.code, (Span){0}, "%s", n.message);
    d->note = n.note[0] ? arena_printf(s->arena, "%s", n.note) : NULL;
    d->help = n.help[0] ? arena_printf(s->arena, "%s", n.help) : NULL;
  }
}

SessionStatus session_protected_call(Session *s,
                                     SessionStatus (*f)(Session *, void *),
                                     void *arg) {
  Trap trap;
  FailKind kind = TRAP_SET(trap);
  switch (kind) {
  case FAIL_NONE: {
    SessionStatus status = f(s, arg);
    add_warnings(s);
    trap_end(&trap);
    return status;
  }
  case FAIL_MEMORY:
    report_out_of_memory(s);
    break;
  case FAIL_INTERRUPT:
    flag_set(&s->interrupt, false);
    abort_pending(s);
    return SESSION_INTERRUPTED;
  case FAIL_ERROR:
  case FAIL_LIMIT:
    break;
  }
  abort_pending(s);
  return SESSION_ERROR;
}

/* ---- checking ---- */

uint32_t session_add_source(Session *s, const SourceInput *text,
                            Span importer) {
  const char *bytes = text->text;
  size_t len = text->len;
  s->source_count++;
  if (!bytes && !session_read_file(s, text->name, importer, &bytes, &len))
    return 0;
  if (len > MAX_SOURCE_BYTES) {
    session_error(s, 601, importer, "%s is too long for a program", text->name);
    return 0;
  }
  return sources_add(&s->sources, text->name, bytes, len, false);
}

/* Turns a bare expression e into `val it = e`. */
static void bind_to_it(Session *s, Dec *dec) {
  Pat *pat = NEW(s->arena, Pat);
  pat->kind = PAT_VAR;
  pat->span = pat->id_span = dec->span;
  pat->id = intern_string(s->interner, "it");
  dec->kind = DEC_VAL;
  dec->pat = pat;
}

static bool check_dec(Session *s, Module *module, const Program *program,
                      Dec *dec, bool main) {
  bool bare = dec->kind == DEC_EXPR;
  if (main)
    VEC_PUSH(s->arena, s->main_decs, dec);
  if (dec->kind == DEC_SCHEDULE)
    return schedule_declaration_read(s, program, dec);
  if (dec->kind == DEC_KERNEL)
    return kernel_declaration_read(s, dec);
  if (bare)
    bind_to_it(s, dec);
  Checked checked = {0};
  uint32_t errors = s->diags.errors, before = s->diags.all.len;
  if (dec->kind == DEC_IMPORT)
    import_eagerly(s, dec);
  const struct Assumption *facts = checker_facts(s->checker);
  if (!checker_dec(s->checker, module, dec, &s->diags, &checked) ||
      s->diags.errors != errors) {
    checker_recursion_help(s->checker, module, dec, &s->diags, before);
    return false;
  }
  DeclResult ran = {checked.bindings, checked.binding_count, bare, main};
  for (uint32_t i = 0; i + 1 < checked.dec_count; i++)
    VEC_PUSH(s->arena, s->pending,
             ((PendingDecl){checked.decs[i], {0}, facts}));
  uint32_t count = checked.dec_count;
  CoreDec *last = count ? checked.decs[count - 1] : NULL;
  VEC_PUSH(s->arena, s->pending, ((PendingDecl){last, ran, facts}));
  return true;
}

static void notify_checked(Session *s, uint32_t from) {
  if (!s->host.on_checked)
    return;
  for (uint32_t i = from; i < s->pending.len; i++)
    if (s->pending.at[i].result.is_main)
      s->host.on_checked(s->host.eval.owner, s, &s->pending.at[i].result);
}

typedef struct MissingNames {
  uint32_t from; /* number of the first diagnostic that they may explain */
  bool types;    /* of types and constructors, too */
} MissingNames;

static bool explains(const MissingNames *missing, const Diag *diag) {
  return diag->code == ERROR_UNKNOWN_MODULE ||
         diag->code == ERROR_UNKNOWN_NAME ||
         (missing->types && (diag->code == ERROR_UNKNOWN_CONSTRUCTOR ||
                             diag->code == ERROR_UNKNOWN_TYPE));
}

/* After a syntax error, a failed import or a failed `open`, names are missing:
   drops errors about unknown names. */
static void drop_unknown_names(Session *s, const MissingNames *missing) {
  if (missing->from >= s->diags.all.len)
    return;
  uint32_t kept_count = missing->from;
  for (uint32_t i = missing->from; i < s->diags.all.len; i++) {
    Diag *diag = s->diags.all.at[i];
    if (explains(missing, diag))
      s->diags.errors--;
    else
      s->diags.all.at[kept_count++] = diag;
  }
  s->diags.all.len = kept_count;
}

bool session_check_source(Session *s, uint32_t file, Module *module, bool bare,
                          bool main) {
  uint32_t errors = s->diags.errors, pending_before = s->pending.len;
  bool outer_missing = s->has_missing_import;
  s->has_missing_import = false;
  Program program =
      parse_program(&s->sources, file, bare, s->interner, s->arena, &s->diags);
  if (main) {
    s->current_program = program;
    s->current_file = file;
    s->current_module = module;
  }
  uint32_t diags_before_check = s->diags.all.len;
  bool parsed_ok = s->diags.errors == errors;
  module_foretell(module, &program);
  TextStart start = checker_begin_text(s->checker);
  MissingNames missing = {.from = UINT32_MAX, .types = true};
  for (uint32_t i = 0; i < program.dec_count; i++)
    if (!check_dec(s, module, &program, program.decs[i], main) &&
        program.decs[i]->kind == DEC_OPEN && missing.from == UINT32_MAX)
      missing.from = s->diags.all.len;
  if (!parsed_ok || s->has_missing_import)
    missing = (MissingNames){diags_before_check,
                             program.type_missing || s->has_missing_import};
  drop_unknown_names(s, &missing);
  s->has_missing_import = outer_missing;
  checker_default_elems(s->checker, start);
  diags_drop_explained(&s->diags, diags_before_check);
  if (main)
    notify_checked(s, pending_before);
  checker_default_sizes(s->checker);
  if (s->diags.errors == errors)
    return true;
  drop_pending(s, pending_before);
  return false;
}

static SessionStatus check_text(Session *s, void *arg) {
  const SourceInput *text = arg;
  uint32_t file = session_add_source(s, text, (Span){0});
  if (!file)
    return SESSION_ERROR;
  Module *module =
      text->is_separate_module ? module_new(s->checker, NULL) : s->main_module;
  bool ok =
      session_check_source(s, file, module, text->allow_bare_expressions, true);
  return ok ? SESSION_OK : SESSION_ERROR;
}

SessionStatus session_check(Session *s, const SourceInput *text) {
  SourceInput copy = *text;
  return session_protected_call(s, check_text, &copy);
}

/* ---- running ---- */

bool session_check_settings(Fault *fault) {
  return target_check_settings(fault) && toolchain_check(fault) &&
         thread_pool_check_env(fault) && artifact_check_env(fault) &&
         file_check_env(fault) && schedule_check_env(fault);
}

/* Checks that the target of the program is available on this machine. */
static bool can_run(Session *s) {
  Fault fault = {0};
  if (session_check_settings(&fault) &&
      target_is_available(eval_graph(s->eval)->backend, &fault))
    return true;
  Diag *diag = session_error(s, 514, (Span){0}, "%s", fault.message);
  diag->help = arena_strndup(s->arena, fault.help, strlen(fault.help));
  return false;
}

SessionStatus session_run_pending(Session *s) {
  if (s->pending.len && !can_run(s)) {
    s->pending.len = 0;
    return SESSION_ERROR;
  }
  for (uint32_t i = 0; i < s->pending.len; i++) {
    PendingDecl *pending = &s->pending.at[i];
    bool ok =
        !pending->core || eval_run(s->eval, pending->core, &s->diags, NULL);
    if (eval_exited(s->eval, &s->exit_status)) {
      s->pending.len = 0;
      return SESSION_EXITED;
    }
    if (!ok) {
      drop_pending(s, i);
      s->pending.len = 0;
      return SESSION_ERROR;
    }
    if (pending->result.is_main && s->host.on_executed) {
      s->print_status = SESSION_OK;
      s->host.on_executed(s->host.eval.owner, s, &pending->result);
      if (s->print_status != SESSION_OK) { /* its value could not be computed */
        drop_pending(s, i);
        s->pending.len = 0;
        return s->print_status;
      }
    }
  }
  s->pending.len = 0;
  return SESSION_OK;
}

static SessionStatus run_waiting(Session *s, void *arg) {
  (void)arg;
  return session_run_pending(s);
}

SessionStatus session_run(Session *s) {
  return session_protected_call(s, run_waiting, NULL);
}

void session_discard_pending(Session *s) {
  s->pending.len = 0;
}

/* True for a doc comment alone: the REPL waits for the declaration. */
static bool is_doc_comment_only(const SourceInput *text,
                                const Program *program) {
  return !program->dec_count && text->text &&
         memmem(text->text, text->len, "(**", 3);
}

/* True for clauses that do not match every value: another clause may follow on
   the next line. */
static bool may_continue_clauses(const Session *s, const Program *program) {
  if (program->dec_count != 1 || program->decs[0]->kind != DEC_FUN)
    return false;
  for (uint32_t i = 0; i < s->diags.all.len; i++)
    if (s->diags.all.at[i]->code == ERROR_NOT_EXHAUSTIVE)
      return true;
  return false;
}

static SessionStatus parse_input(Session *s, const SourceInput *text,
                                 Program *program) {
  uint32_t file = session_add_source(s, text, (Span){0});
  if (!file)
    return SESSION_ERROR;
  *program = parse_program(&s->sources, file, text->allow_bare_expressions,
                           s->interner, s->arena, &s->diags);
  if (!text->is_complete && !s->diags.errors &&
      is_doc_comment_only(text, program))
    return SESSION_INCOMPLETE;
  const Dec *last =
      program->dec_count ? program->decs[program->dec_count - 1] : NULL;
  bool has_no_text =
      (last && last->kind == DEC_SCHEDULE &&
       !last->text[strspn(last->text, " \t\r\n")]) ||
      (last && last->kind == DEC_KERNEL && !strchr(last->text, '\n'));
  if ((program->incomplete || has_no_text) && !text->is_complete) {
    session_clear_diags(s);
    return SESSION_INCOMPLETE;
  }
  return s->diags.errors ? SESSION_ERROR : SESSION_OK;
}

/* Checks and runs declaration by declaration, for a REPL. */
static SessionStatus run_input(Session *s, void *arg) {
  const SourceInput *text = arg;
  Program program = {0};
  SessionStatus parsed = parse_input(s, text, &program);
  if (parsed != SESSION_OK)
    return parsed;
  for (uint32_t i = 0; i < program.dec_count; i++) {
    s->has_unfinished_dec = true;
    s->unrun_decs = program.dec_count - i - 1;
    if (!check_dec(s, s->main_module, &program, program.decs[i], true)) {
      s->pending.len = 0;
      return SESSION_ERROR;
    }
    if (!text->is_complete && may_continue_clauses(s, &program)) {
      drop_pending(s, 0);
      session_clear_diags(s);
      return SESSION_INCOMPLETE;
    }
    SessionStatus status = session_run_pending(s);
    if (status != SESSION_OK)
      return status;
    s->has_unfinished_dec = false;
  }
  return SESSION_OK;
}

/* No binding is lost after an error, an interrupt or lack of memory. */
SessionStatus session_input(Session *s, const SourceInput *text) {
  SourceInput copy = *text;
  s->unrun_decs = 0;
  s->has_unfinished_dec = false;
  SessionStatus status = session_protected_call(s, run_input, &copy);
  if (s->has_unfinished_dec)
    module_undo(s->main_module);
  return status;
}

static SessionStatus parse_only(Session *s, void *arg) {
  Program program = {0};
  diags_init(&s->diags, s->arena);
  return parse_input(s, arg, &program);
}

SessionStatus session_input_status(Session *s, const SourceInput *text) {
  SourceInput copy = *text;
  Diags diags = s->diags;
  SessionStatus status = session_protected_call(s, parse_only, &copy);
  s->diags = diags;
  return status;
}

uint32_t session_unrun_dec_count(const Session *s) {
  return s->unrun_decs;
}

void session_set_observer(Session *s, const struct PlanObserver *observer) {
  eval_set_observer(s->eval, observer);
}

bool session_set_target(Session *s, const char *name, Fault *fault) {
  const Backend *target = target_by_name(name);
  if (!target || !target_is_available(target, fault))
    return false;
  eval_graph(s->eval)->backend = target;
  return true;
}

const char *session_target_name(Session *s) {
  return eval_graph(s->eval)->backend->name;
}

EvalHost *session_eval_host(Session *s) {
  return &s->host.eval;
}

int session_exit_status(const Session *s) {
  return s->exit_status;
}

void session_define_size(Session *s, const char *name, int64_t value) {
  checker_define_size(s->checker, intern_string(s->interner, name), value);
}

bool session_used_size(const Session *s, const char *name) {
  return checker_used_size(s->checker, intern_string(s->interner, name));
}

void session_forget_imports(Session *s) {
  s->imports.len = 0;
}

void session_interrupt(Session *s) {
  if (!interrupt_defer(&s->deferral))
    flag_set(&s->interrupt, true);
}

void session_clear_interrupt(Session *s) {
  flag_set(&s->interrupt, false);
}

bool session_interrupted(const Session *s) {
  return flag_is_set(&s->interrupt);
}

/* ---- texts and symbol references for editor/ ---- */

static SessionStatus record_refs(Session *s, void *arg) {
  (void)arg;
  checker_record_refs(s->checker, true);
  return SESSION_OK;
}

void session_record_refs(Session *s) {
  session_protected_call(s, record_refs, NULL);
}

void session_set_unsaved_files(Session *s, UnsavedFileFn *f, void *owner) {
  s->unsaved_files = f;
  s->unsaved_files_owner = owner;
}

uint32_t session_current_file(const Session *s) {
  return s->current_file;
}

const Program *session_current_program(const Session *s) {
  return &s->current_program;
}

const SymbolRef *session_refs(const Session *s, uint32_t *count) {
  return checker_refs(s->checker, count);
}

/* ---- diagnostics ---- */

const Diags *session_diags(const Session *s) {
  return &s->diags;
}

void session_clear_diags(Session *s) {
  diags_init(&s->diags, s->arena);
}

const Sources *session_sources(const Session *s) {
  return &s->sources;
}

Diag *session_error(Session *s, uint16_t code, Span span, const char *format,
                    ...) {
  va_list args;
  va_start(args, format);
  const char *message = arena_vprintf(s->arena, format, args);
  va_end(args);
  return diag_error(&s->diags, code, span, "%s", message);
}
