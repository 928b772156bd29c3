/* One program in a session of its own: what Axon says of it, and does, against
 * what is expected. */
#include "tests/sound/sound.h"
#include "support/diag.h"
#include "support/diag_render.h"

#include <string.h>

#include "session/session.h"

enum { COMPILER_BUG = 599 };

typedef struct Said { /* of one text */
  bool refuted, open, failed;
  const Diag *diag;
  CheckStats stats; /* what was added to them */
} Said;

typedef struct Running {
  const Script *script;
  Session *session;
  Buffer output; /* of the text that runs */
  Tally *tally;
  Buffer *why;
  bool row[CONSTRAINT_CLASS_COUNT][VERDICT_COUNT];
} Running;

/* ---- the host ---- */

static void host_write(void *owner, const char *text, size_t len) {
  Running *r = owner;
  buffer_add(&r->output, text, len);
}

static void host_progress(void *owner, int64_t done, int64_t total) {
  (void)owner, (void)done, (void)total;
}

static Session *open_session(Running *r) {
  SessionHost host = {.eval = {.owner = r,
                               .write = host_write,
                               .trace = host_write,
                               .progress = host_progress,
                               .print_width = 80,
                               .print_limit = 1000}};
  return session_open(&host);
}

/* ---- what is said ---- */

static const Diag *first_error(Session *s) {
  const Diags *diags = session_diags(s);
  for (uint32_t i = 0; i < diags->all.len; i++)
    if (diags->all.at[i]->severity == SEV_ERROR)
      return diags->all.at[i];
  return NULL;
}

static ConstraintClass row_of_error(const Script *script, const Diag *d) {
  if (script->broken != CONSTRAINT_NONE)
    return script->broken;
  switch (d->code) {
  case 303:
    return CONSTRAINT_BROADCAST;
  case 304:
    return CONSTRAINT_SHAPE_EQ;
  case 306:
  case 307:
  case 341:
  case 352:
    return CONSTRAINT_SIZE_LE;
  case 308:
    return CONSTRAINT_ELEM_CLASS;
  case 316:
    return CONSTRAINT_AXIS;
  }
  if (strstr(d->message, "not a multiple of") ||
      strstr(d->message, "number of elements"))
    return CONSTRAINT_PRODUCT;
  return CONSTRAINT_SIZE_EQ;
}

static void count_rows(Running *r, const Said *said) {
  for (ConstraintClass row = CONSTRAINT_NONE + 1; row < CONSTRAINT_CLASS_COUNT;
       row++) {
    const struct ConstraintCounts *n = &said->stats.by_class[row];
    r->row[row][VERDICT_PROVED] |= n->proved || n->deferred;
    r->row[row][VERDICT_OPEN] |= n->runtime > 0;
  }
  if (said->refuted)
    r->row[row_of_error(r->script, said->diag)][VERDICT_REFUTED] = true;
}

static Said say(Running *r, const Buffer *text) {
  Said said = {.refuted = false};
  CheckStats before = session_stats(r->session);
  SourceInput source = {.name = "program",
                        .text = text->text ? text->text : "",
                        .len = text->len,
                        .allow_bare_expressions = true};
  session_clear_diags(r->session);
  session_check(r->session, &source);
  said.diag = first_error(r->session);
  said.refuted = said.diag != NULL;
  said.stats = session_stats(r->session);
  said.open = said.stats.runtime > before.runtime;
  for (ConstraintClass row = 0; row < CONSTRAINT_CLASS_COUNT; row++) {
    struct ConstraintCounts *n = &said.stats.by_class[row];
    n->proved -= before.by_class[row].proved;
    n->deferred -= before.by_class[row].deferred;
    n->runtime -= before.by_class[row].runtime;
  }
  count_rows(r, &said);
  return said;
}

static void run(Running *r, Said *said) {
  buffer_free(&r->output);
  session_run(r->session);
  said->diag = first_error(r->session);
  said->failed = said->diag != NULL;
}

/* Errors that a program of this kind can have: of types, sizes and shapes. */
static bool is_of_shapes(const Diag *d) {
  return d->code >= 301 && d->code != COMPILER_BUG && d->code != 312 &&
         d->code != 313 && d->code != 324 && d->code < 510;
}

/* ---- comparing ---- */

static Finding found(Running *r, Finding what, const Diag *d,
                     const char *text) {
  static const char *const name[] = {
      [FOUND_NOTHING] = "",
      [FOUND_UNSOUND] = "UNSOUND: proved, but wrong",
      [FOUND_RUN_FAILS] = "right, but it fails when run",
      [FOUND_RAN] = "wrong and open, but it runs through",
      [FOUND_REFUTED] = "right, but refuted",
      [FOUND_WITNESS] = "right at the sizes of its witness",
      [FOUND_TYPE] = "another type",
      [FOUND_VALUE] = "another result",
      [FOUND_BUG] = "an error that should not be",
  };
  PUT(r->why, "%s", name[what]);
  if (text)
    PUT(r->why, ": %s", text);
  PUT(r->why, "\n");
  if (d)
    diag_render(r->why, session_sources(r->session), d, false);
  return what;
}

/* Of what is printed, the lines that are compared: shapes, and numbers where
 * these are expected. */
static bool same_output(const char *got, const char *want) {
  bool numbers = strstr(want, "]\n[") == NULL && strchr(want, ']') &&
                 strchr(want, ']')[2] != 0;
  while (got && *got) {
    size_t len = strcspn(got, "\n");
    if (*got == '[' || numbers) {
      if (strncmp(got, want, len + 1) != 0)
        return false;
      want += len + 1;
    }
    got += len + (got[len] == '\n');
  }
  return !*want;
}

static Finding compare_right(Running *r, int at, Said *said) {
  const Call *call = &r->script->call[at];
  if (said->failed)
    return found(r, FOUND_RUN_FAILS, said->diag, NULL);
  if (call->output.len && !same_output(r->output.text, call->output.text))
    return found(r, FOUND_VALUE, NULL, r->output.text);
  if (said->open || r->script->sizes_depend_on_data || !call->type.len)
    return FOUND_NOTHING;
  char name[8];
  for (int i = 0; i < MAX_CALLS; i++) {
    snprintf(name, sizeof name, "r%d", i);
    if (strstr(call->text.text, name))
      break;
  }
  Binding *b = session_find_binding(r->session, name);
  const char *type = b ? session_binding_type(r->session, b) : "none";
  return strcmp(type, call->type.text) == 0 ? FOUND_NOTHING
                                            : found(r, FOUND_TYPE, NULL, type);
}

/* The reference lets it be refuted all the same. */
static bool may_be_refuted(const Call *call, bool whole) {
  return call->truth != TRUTH_RIGHT || call->empty || (call->vacuous && whole);
}

static Finding compare_call(Running *r, int at, bool open,
                            CheckVerdict *outcome) {
  const Call *call = &r->script->call[at];
  Said said = say(r, &call->text);
  said.open |= open;
  *outcome = said.refuted ? VERDICT_REFUTED
             : said.open  ? VERDICT_OPEN
                          : VERDICT_PROVED;
  if (said.refuted && !is_of_shapes(said.diag))
    return found(r, FOUND_BUG, said.diag, NULL);
  if (said.refuted)
    return may_be_refuted(call, r->script->is_single_call)
               ? FOUND_NOTHING
               : found(r, FOUND_REFUTED, said.diag, NULL);
  run(r, &said);
  if (said.failed && !is_of_shapes(said.diag))
    return found(r, FOUND_BUG, said.diag, NULL);
  if (r->tally && said.failed && call->truth == TRUTH_WRONG)
    r->tally->wrong_ran++;
  if (call->truth == TRUTH_UNKNOWN)
    return FOUND_NOTHING;
  if (call->truth == TRUTH_RIGHT)
    return compare_right(r, at, &said);
  if (!said.open)
    return found(r, FOUND_UNSOUND, said.diag,
                 said.failed ? "it fails when run" : "it runs through");
  return said.failed ? FOUND_NOTHING : found(r, FOUND_RAN, NULL, NULL);
}

/* All calls are wrong then; or, of an annotated function, the witness is. */
static Finding refuted_defs(Running *r, const Said *said) {
  const Script *s = r->script;
  bool right = false;
  for (int i = 0; i < s->calls; i++)
    right |= !may_be_refuted(&s->call[i], true);
  if (!is_of_shapes(said->diag))
    return found(r, FOUND_BUG, said->diag, NULL);
  bool witness = s->is_annotated && said->diag->counterexample;
  Truth there =
      witness ? s->at(s->at_arg, said->diag->counterexample) : TRUTH_UNKNOWN;
  if (there == TRUTH_RIGHT)
    return found(r, FOUND_WITNESS, said->diag, NULL);
  if (r->tally && there == TRUTH_WRONG)
    r->tally->witnesses++;
  /* annotations promise every size: others than those may be at fault */
  if (right && !witness)
    return found(r, FOUND_REFUTED, said->diag, NULL);
  return FOUND_NOTHING;
}

static void count_call(Running *r, int at, CheckVerdict outcome) {
  Truth truth = r->script->call[at].truth;
  bool excused = r->script->call[at].vacuous || r->script->call[at].empty;
  Tally *t = r->tally;
  if (!t || truth == TRUTH_UNKNOWN || (excused && outcome == VERDICT_REFUTED))
    return;
  if (r->script->sizes_depend_on_data)
    (truth == TRUTH_RIGHT ? t->data_right : t->data_wrong)[outcome]++;
  else
    (truth == TRUTH_RIGHT ? t->right : t->wrong)[outcome]++;
}

static Finding check_all(Running *r) {
  Said defs = say(r, &r->script->defs);
  if (defs.refuted) {
    for (int i = 0; i < r->script->calls; i++)
      if (r->script->call[i].truth == TRUTH_WRONG)
        count_call(r, i, VERDICT_REFUTED);
    return refuted_defs(r, &defs);
  }
  run(r, &defs);
  if (defs.failed)
    return found(r, FOUND_BUG, defs.diag, "a definition fails when run");
  for (int i = 0; i < r->script->calls; i++) {
    CheckVerdict outcome;
    Finding f = compare_call(r, i, defs.open, &outcome);
    if (f != FOUND_NOTHING)
      return f;
    count_call(r, i, outcome);
  }
  return FOUND_NOTHING;
}

Finding script_check(const Script *script, Tally *tally, Buffer *why) {
  Running r = {.script = script, .tally = tally, .why = why};
  r.session = open_session(&r);
  Finding f = check_all(&r);
  session_close(r.session);
  buffer_free(&r.output);
  if (!tally)
    return f;
  tally->programs++;
  tally->found[f]++;
  for (ConstraintClass row = CONSTRAINT_NONE + 1; row < CONSTRAINT_CLASS_COUNT;
       row++)
    for (CheckVerdict o = 0; o < VERDICT_COUNT; o++)
      tally->row[row][o] += r.row[row][o];
  return f;
}

static const char *truth_name(Truth t) {
  return t == TRUTH_RIGHT ? "right" : t == TRUTH_WRONG ? "wrong" : "unsure";
}

void script_print(Buffer *out, const Script *s) {
  PUT(out, "(* %s *)\n%s", s->family, s->defs.text ? s->defs.text : "");
  for (int i = 0; i < s->calls; i++) {
    const Call *call = &s->call[i];
    PUT(out, "(* %s", truth_name(call->truth));
    if (call->type.text)
      PUT(out, ": %s", call->type.text);
    PUT(out, " *)\n%s", call->text.text);
  }
}

void script_free(Script *s) {
  buffer_free(&s->defs);
  for (int i = 0; i < s->calls; i++) {
    buffer_free(&s->call[i].text);
    buffer_free(&s->call[i].type);
    buffer_free(&s->call[i].output);
  }
}
