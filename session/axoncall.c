/* axon.h: functions called with values. */
#include "session/outside.h"

enum { ARGS_MOST = 100 }; /* of an array here; see session/function.c */

static Function *function_of(AxnFunction *f) { return (Function *)(void *)f; }

AxnFunction *axn_function(AxnSession *a, const char *name) {
  if (a->busy)
    return NULL;
  axon_forget(a);
  return (AxnFunction *)(void *)session_function(a->session, name);
}

static AxnParam param_of(const Taken *t) {
  return (AxnParam){.name = t->name,
                    .label = t->label,
                    .optional = t->optional,
                    .type = t->type,
                    .dtype = (AxnDtype)t->dtype,
                    .rank = t->rank};
}

size_t axn_function_params(AxnFunction *f, AxnParam *out, size_t most,
                           AxnParam *result) {
  const Signature *sig = session_signature(function_of(f));
  for (uint32_t i = 0; out && i < sig->count && i < most; i++)
    out[i] = param_of(&sig->at[i]);
  if (result)
    *result = param_of(&sig->result);
  return sig->count;
}

const char *axn_session_doc(AxnSession *a, const char *name) {
  Binding *b = a->busy ? NULL : session_find(a->session, name);
  return b ? binding_doc(b) : NULL;
}

typedef struct EachName {
  void (*f)(void *owner, const char *name);
  void *owner;
} EachName;

static void tell_name(void *arg, Binding *b) {
  const EachName *each = arg;
  each->f(each->owner, binding_name(b)->text);
}

void axn_each_name(AxnSession *a, void (*f)(void *owner, const char *name),
                   void *owner) {
  EachName each = {f, owner};
  session_each_own(a->session, tell_name, &each);
}

AxnStatus axn_call(AxnSession *a, AxnFunction *f, const AxnArg *args,
                   size_t count, AxnValue **result) {
  *result = NULL;
  if (!axon_begin(a))
    return AXN_BUSY;
  HostArg given[ARGS_MOST];
  Datum *out = NULL;
  for (size_t i = 0; i < count && i < ARGS_MOST; i++)
    given[i] = (HostArg){args[i].label, datum_of(args[i].value)};
  for (size_t i = 0; i < count; i++)
    if (i == ARGS_MOST || !args[i].value) {
      axon_error(a, BAD_VALUE, NULL,
                 i == ARGS_MOST ? "a call has at most %d arguments"
                                : "argument %d is NULL",
                 (int)(i == ARGS_MOST ? i : i + 1));
      return axon_end(a, SESSION_ERROR);
    }
  SessionStatus status =
      session_call(a->session, function_of(f), (uint32_t)count, given, &out);
  *result = value_of_datum(out);
  return axon_end(a, status);
}

AxnStatus axn_session_value(AxnSession *a, const char *name,
                            AxnValue **result) {
  *result = NULL;
  if (!axon_begin(a))
    return AXN_BUSY;
  Datum *out = NULL;
  SessionStatus status = session_value(a->session, name, &out);
  *result = value_of_datum(out);
  return axon_end(a, status);
}
