/* Expressions that are computed many times, so that somebody can time them. */
#include "session/internal.h"

struct Repeated {
  const Rerun *rerun;
};

typedef struct Wish {
  const SessionText *text;
  Repeated *made;
} Wish;

static bool is_one_expression(Session *s) {
  if (s->program.dec_count == 1 && s->waiting.at[s->waiting.len - 1].ran.bare)
    return true;
  Span all = {s->file, 0, (uint32_t)sources_get(&s->sources, s->file)->len};
  session_error(s, 605, all, "this is not one expression");
  return false;
}

/* The last declaration that waits is the expression; those before it are parts
 * of it that are run once. */
static SessionStatus make(Session *s, void *arg) {
  Wish *wish = arg;
  uint32_t file = session_add_text(s, wish->text, (Span){0});
  if (!file || !session_check_source(s, file, s->module, true, true) ||
      !is_one_expression(s))
    return SESSION_ERROR;
  const CoreDec *dec = s->waiting.at[--s->waiting.len].core;
  SessionStatus status = session_run_waiting(s);
  if (status != SESSION_OK)
    return status;
  Repeated *made = NEW(s->arena, Repeated);
  made->rerun = eval_rerun_new(s->eval, dec, &s->diags);
  if (!made->rerun || !eval_settle(s->eval, false, &s->diags))
    return SESSION_ERROR;
  wish->made = made;
  return SESSION_OK;
}

Repeated *session_repeatable(Session *s, const SessionText *text,
                             SessionStatus *status) {
  SessionText copy = *text;
  Wish wish = {.text = &copy};
  *status = session_guard(s, make, &wish);
  return wish.made;
}

static SessionStatus settle(Session *s, void *arg) {
  const bool *unseen = arg;
  return eval_settle(s->eval, *unseen, &s->diags) ? SESSION_OK : SESSION_ERROR;
}

SessionStatus session_settle(Session *s, bool unseen) {
  return session_guard(s, settle, &unseen);
}

static SessionStatus again(Session *s, void *arg) {
  const Repeated *repeated = arg;
  bool ok = eval_rerun(s->eval, repeated->rerun, &s->diags);
  if (eval_exited(s->eval, &s->exit_status))
    return SESSION_EXITED;
  return ok ? SESSION_OK : SESSION_ERROR;
}

SessionStatus session_repeat(Session *s, Repeated *repeated) {
  return session_guard(s, again, repeated);
}
