/* A session: the pipeline, and what its parts ask of one another. */
#define _GNU_SOURCE
#include "session/internal.h"

#include "backend/cpu/toolchain.h"
#include "backend/target.h"
#include "runtime/artifact.h"
#include "runtime/notice.h"
#include "runtime/pool.h"

#include <string.h>
#include <unistd.h>

enum { /* codes of typecheck/ */
  UNKNOWN_MODULE = 310,
  UNKNOWN_NAME = 312,
  NOT_EXHAUSTIVE = 401
};

/* ---- opening and closing ---- */

static void define_library(void *owner, CoreDec *dec) {
  Session *s = owner;
  eval_define_lazy(s->eval, dec);
}

/* As `load` will: from the working directory. */
static bool header(void *owner, const char *path, const LoadOptions *options,
                   Header *out, Fault *fault) {
  (void)owner;
  if (!file_known(path, fault))
    return false;
  bool there = access(path, F_OK) == 0; /* else it may still be made */
  return there && file_header(path, options, out, fault);
}

static void fill(Session *s, const SessionHost *host) {
  s->host = *host;
  s->host.eval.interrupt = &s->interrupt;
  sources_init(&s->sources, s->arena);
  diags_init(&s->diags, s->arena);
  map_init(&s->library_decs, s->arena);
  map_init(&s->functions, s->arena);
  s->interner = interner_new(s->arena);
  s->dims.arena = s->arena;
  s->check_host = (CheckHost){
      .owner = s,
      .library = library_dec,
      .library_module = library_module,
      .library_names = library_each_name,
      .define = define_library,
      .import = import_module,
      .header = header,
  };
  s->checker = checker_new(s->arena, &s->sources, s->interner, &s->dims,
                           &s->check_host);
  s->eval = eval_new(s->arena, &s->dims, s->interner, &s->host.eval);
  eval_use_sources(s->eval, &s->sources);
  s->module = module_new(s->checker, NULL);
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
  fill(s, host);
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

/* Where there is no memory for a diagnostic there is this one. */
static void tell_without_memory(Session *s) {
  Diags *diags = &s->diags;
  s->spare = (Diag){.severity = SEV_ERROR, .code = 505,
                    .message = "out of memory", .help = no_memory_help,
                    .axis = -1};
  if (diags->all.cap == 0) {
    diags->all.at = &s->spare_at;
    diags->all.cap = 1;
  }
  if (diags->all.len == diags->all.cap) /* the last one gives way */
    diags->all.len--;
  diags->all.at[diags->all.len++] = &s->spare;
  diags->errors++;
}

static void no_memory(Session *s) {
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    tell_without_memory(s);
    return;
  }
  Diag *diag = diag_error(&s->diags, 505, (Span){0}, "out of memory");
  diag->help = no_memory_help;
  trap_end(&trap);
}

/* Forgets what was under way. */
static void stop(Session *s) {
  s->waiting.len = 0;
  s->import_depth = 0;
  for (uint32_t i = 0; i < s->imports.len; i++)
    s->imports.at[i].busy = false;
}

/* What is amiss with the machine, not with the program, is a warning without a
 * place. */
static void tell_notices(Session *s) {
  Notice n;
  while (notice_take(&n)) {
    Diag *d = diag_warning(&s->diags, n.code, (Span){0}, "%s", n.message);
    d->note = n.note[0] ? arena_printf(s->arena, "%s", n.note) : NULL;
    d->help = n.help[0] ? arena_printf(s->arena, "%s", n.help) : NULL;
  }
}

SessionStatus session_guard(Session *s,
                            SessionStatus (*f)(Session *, void *), void *arg) {
  Trap trap;
  FailKind kind = TRAP_SET(trap);
  switch (kind) {
  case FAIL_NONE: {
    SessionStatus status = f(s, arg);
    tell_notices(s);
    trap_end(&trap);
    return status;
  }
  case FAIL_MEMORY:
    no_memory(s);
    break;
  case FAIL_INTERRUPT:
    flag_set(&s->interrupt, false);
    stop(s);
    return SESSION_INTERRUPTED;
  case FAIL_ERROR:
  case FAIL_LIMIT:
    break;
  }
  stop(s);
  return SESSION_ERROR;
}

/* ---- checking ---- */

uint32_t session_add_text(Session *s, const SessionText *text, Span importer) {
  const char *bytes = text->text;
  size_t len = text->len;
  s->texts++;
  if (!bytes && !read_source(s, text->name, importer, &bytes, &len))
    return 0;
  if (len > SESSION_TEXT_MOST) {
    session_error(s, 601, importer, "%s is too long for a program", text->name);
    return 0;
  }
  return sources_add(&s->sources, text->name, bytes, len, false);
}

/* A bare expression e is `val it = e`. */
static void name_it(Session *s, Dec *dec) {
  Pat *pat = NEW(s->arena, Pat);
  pat->kind = PAT_VAR;
  pat->span = pat->id_span = dec->span;
  pat->id = intern_text(s->interner, "it");
  dec->kind = DEC_VAL;
  dec->pat = pat;
}

static bool check_dec(Session *s, Module *module, Dec *dec, bool main) {
  bool bare = dec->kind == DEC_EXPR;
  if (bare)
    name_it(s, dec);
  Checked checked = {0};
  uint32_t errors = s->diags.errors;
  if (dec->kind == DEC_IMPORT)
    import_before(s, dec);
  if (!checker_dec(s->checker, module, dec, &s->diags, &checked) ||
      s->diags.errors != errors)
    return false;
  Ran ran = {checked.bindings, checked.binding_count, bare, main};
  for (uint32_t i = 0; i + 1 < checked.dec_count; i++)
    VEC_PUSH(s->arena, s->waiting, ((Waiting){checked.decs[i], {0}}));
  uint32_t count = checked.dec_count;
  CoreDec *last = count ? checked.decs[count - 1] : NULL;
  VEC_PUSH(s->arena, s->waiting, ((Waiting){last, ran}));
  return true;
}

static void tell_checked(Session *s, uint32_t from) {
  if (!s->host.checked)
    return;
  for (uint32_t i = from; i < s->waiting.len; i++)
    if (s->waiting.at[i].ran.main)
      s->host.checked(s->host.eval.owner, s, &s->waiting.at[i].ran);
}

/* Where a declaration did not parse, or a file was not imported, names are
 * missing: that they are unknown is not worth a word. */
static void drop_unknown_names(Session *s, uint32_t from) {
  uint32_t kept = from;
  for (uint32_t i = from; i < s->diags.all.len; i++) {
    Diag *diag = s->diags.all.at[i];
    if (diag->code == UNKNOWN_NAME || diag->code == UNKNOWN_MODULE)
      s->diags.errors--;
    else
      s->diags.all.at[kept++] = diag;
  }
  s->diags.all.len = kept;
}

bool session_check_source(Session *s, uint32_t file, Module *module, bool bare,
                          bool main) {
  uint32_t errors = s->diags.errors, waiting = s->waiting.len;
  bool missing = s->names_missing;
  s->names_missing = false;
  Program program = parse_program(&s->sources, file, bare, s->interner,
                                  s->arena, &s->diags);
  if (main) {
    s->program = program;
    s->file = file;
    s->checked = module;
  }
  uint32_t parsed = s->diags.all.len;
  bool whole = s->diags.errors == errors;
  for (uint32_t i = 0; i < program.dec_count; i++)
    check_dec(s, module, program.decs[i], main);
  if (!whole || s->names_missing)
    drop_unknown_names(s, parsed);
  s->names_missing = missing;
  if (main)
    tell_checked(s, waiting);
  checker_settle(s->checker);
  if (s->diags.errors == errors)
    return true;
  s->waiting.len = waiting;
  return false;
}

static SessionStatus check_text(Session *s, void *arg) {
  const SessionText *text = arg;
  uint32_t file = session_add_text(s, text, (Span){0});
  if (!file)
    return SESSION_ERROR;
  Module *module =
      text->own_module ? module_new(s->checker, NULL) : s->module;
  bool ok = session_check_source(s, file, module, text->bare, true);
  return ok ? SESSION_OK : SESSION_ERROR;
}

SessionStatus session_check(Session *s, const SessionText *text) {
  SessionText copy = *text;
  return session_guard(s, check_text, &copy);
}

/* ---- running ---- */

bool session_settings(Fault *fault) {
  return target_check(fault) && toolchain_check(fault) && pool_check(fault) &&
         artifact_check(fault) && file_check(fault);
}

/* What programs run on may be missing on this machine. */
static bool can_run(Session *s) {
  Fault fault = {0};
  if (session_settings(&fault) &&
      target_usable(eval_graph(s->eval)->backend, &fault))
    return true;
  Diag *diag = session_error(s, 514, (Span){0}, "%s", fault.message);
  diag->help = arena_text(s->arena, fault.help, strlen(fault.help));
  return false;
}

SessionStatus session_run_waiting(Session *s) {
  if (s->waiting.len && !can_run(s)) {
    s->waiting.len = 0;
    return SESSION_ERROR;
  }
  for (uint32_t i = 0; i < s->waiting.len; i++) {
    Waiting *w = &s->waiting.at[i];
    bool ok = !w->core || eval_run(s->eval, w->core, &s->diags, NULL);
    if (eval_exited(s->eval, &s->exit_status)) {
      s->waiting.len = 0;
      return SESSION_EXITED;
    }
    if (!ok) {
      s->waiting.len = 0;
      return SESSION_ERROR;
    }
    if (w->ran.main && s->host.ran) {
      s->shown = SESSION_OK;
      s->host.ran(s->host.eval.owner, s, &w->ran);
      if (s->shown != SESSION_OK) { /* its value could not be had */
        s->waiting.len = 0;
        return s->shown;
      }
    }
  }
  s->waiting.len = 0;
  return SESSION_OK;
}

static SessionStatus run_waiting(Session *s, void *arg) {
  (void)arg;
  return session_run_waiting(s);
}

SessionStatus session_run(Session *s) {
  return session_guard(s, run_waiting, NULL);
}

void session_drop_waiting(Session *s) { s->waiting.len = 0; }

/* A doc comment alone waits for what it is about. */
static bool wants_declaration(const SessionText *text, const Program *program) {
  return !program->dec_count && text->text &&
         memmem(text->text, text->len, "(**", 3);
}

/* Clauses that do not match everything: more may be on the next line. */
static bool wants_clauses(const Session *s, const Program *program) {
  if (program->dec_count != 1 || program->decs[0]->kind != DEC_FUN)
    return false;
  for (uint32_t i = 0; i < s->diags.all.len; i++)
    if (s->diags.all.at[i]->code == NOT_EXHAUSTIVE)
      return true;
  return false;
}

/* Declaration by declaration: what a REPL does. */
static SessionStatus run_input(Session *s, void *arg) {
  const SessionText *text = arg;
  uint32_t file = session_add_text(s, text, (Span){0});
  if (!file)
    return SESSION_ERROR;
  Program program = parse_program(&s->sources, file, text->bare, s->interner,
                                  s->arena, &s->diags);
  if (!text->final && !s->diags.errors && wants_declaration(text, &program))
    return SESSION_INCOMPLETE;
  if (program.incomplete && !text->final) {
    session_clear_diags(s);
    return SESSION_INCOMPLETE;
  }
  if (s->diags.errors)
    return SESSION_ERROR;
  for (uint32_t i = 0; i < program.dec_count; i++) {
    s->unfinished = true;
    s->rest = program.dec_count - i - 1;
    if (!check_dec(s, s->module, program.decs[i], true)) {
      s->waiting.len = 0;
      return SESSION_ERROR;
    }
    if (!text->final && wants_clauses(s, &program)) {
      s->waiting.len = 0;
      session_clear_diags(s);
      return SESSION_INCOMPLETE;
    }
    SessionStatus status = session_run_waiting(s);
    if (status != SESSION_OK)
      return status;
    s->unfinished = false;
  }
  return SESSION_OK;
}

/* An error, an interrupt or a lack of memory loses no binding. */
SessionStatus session_input(Session *s, const SessionText *text) {
  SessionText copy = *text;
  s->rest = 0;
  s->unfinished = false;
  SessionStatus status = session_guard(s, run_input, &copy);
  if (s->unfinished)
    module_undo(s->module);
  return status;
}

uint32_t session_input_rest(const Session *s) { return s->rest; }

void session_watch(Session *s, const struct PlanWatch *watch) {
  eval_watch(s->eval, watch);
}

bool session_run_on(Session *s, const char *name, Fault *fault) {
  const Backend *target = target_named(name);
  if (!target || !target_usable(target, fault))
    return false;
  eval_graph(s->eval)->backend = target;
  return true;
}

const char *session_runs_on(Session *s) {
  return eval_graph(s->eval)->backend->name;
}

EvalHost *session_eval_host(Session *s) { return &s->host.eval; }

int session_exit_status(const Session *s) { return s->exit_status; }

void session_define_size(Session *s, const char *name, int64_t value) {
  checker_define_size(s->checker, intern_text(s->interner, name), value);
}

bool session_met_size(const Session *s, const char *name) {
  return checker_met_size(s->checker, intern_text(s->interner, name));
}

void session_forget_imports(Session *s) { s->imports.len = 0; }

void session_interrupt(Session *s) {
  flag_set(&s->interrupt, true);
}

void session_clear_interrupt(Session *s) {
  flag_set(&s->interrupt, false);
}

bool session_interrupted(const Session *s) {
  return flag_is_set(&s->interrupt);
}

/* ---- diagnostics ---- */

const Diags *session_diags(const Session *s) { return &s->diags; }

void session_clear_diags(Session *s) { diags_init(&s->diags, s->arena); }

const Sources *session_sources(const Session *s) { return &s->sources; }

Diag *session_error(Session *s, uint16_t code, Span span, const char *format,
                    ...) {
  va_list args;
  va_start(args, format);
  const char *message = arena_vprintf(s->arena, format, args);
  va_end(args);
  return diag_error(&s->diags, code, span, "%s", message);
}
