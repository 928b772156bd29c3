/* The C API (axon.h): calls of functions. */
#include "session/capi.h"
#include "support/intern.h"

/* elements of the array here; see session/host_function.c */
enum { MAX_ARGS = 100 };

static HostFunction *function_of(AxnFunction *f) {
  return (HostFunction *)(void *)f;
}

AxnFunction *axn_function(AxnSession *a, const char *name) {
  if (a->is_busy)
    return NULL;
  capi_clear_diags(a);
  return (AxnFunction *)(void *)session_find_function(a->session, name);
}

static AxnParam param_of(const ParamInfo *t) {
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
    out[i] = param_of(&sig->params[i]);
  if (result)
    *result = param_of(&sig->result);
  return sig->count;
}

const char *axn_session_doc(AxnSession *a, const char *name) {
  Binding *b = a->is_busy ? NULL : session_find_binding(a->session, name);
  return b ? binding_doc(b) : NULL;
}

typedef struct NameCallback {
  void (*f)(void *owner, const char *name);
  void *owner;
} NameCallback;

static void call_with_name(void *arg, Binding *b) {
  const NameCallback *each = arg;
  each->f(each->owner, binding_name(b)->text);
}

void axn_each_name(AxnSession *a, void (*f)(void *owner, const char *name),
                   void *owner) {
  NameCallback each = {f, owner};
  session_each_binding(a->session, call_with_name, &each);
}

AxnStatus axn_call(AxnSession *a, AxnFunction *f, const AxnArg *args,
                   size_t count, AxnValue **result) {
  *result = NULL;
  if (!capi_begin(a))
    return AXN_BUSY;
  HostArg host_args[MAX_ARGS];
  HostValue *out = NULL;
  for (size_t i = 0; i < count && i < MAX_ARGS; i++)
    host_args[i] = (HostArg){args[i].label, host_value_of(args[i].value)};
  for (size_t i = 0; i < count; i++)
    if (i == MAX_ARGS || !args[i].value) {
      capi_error(a, ERROR_BAD_VALUE, NULL,
                 i == MAX_ARGS ? "a call has at most %d arguments"
                               : "argument %d is NULL",
                 (int)(i == MAX_ARGS ? i : i + 1));
      return capi_end(a, SESSION_ERROR);
    }
  SessionStatus status = session_call(a->session, function_of(f),
                                      (uint32_t)count, host_args, &out);
  *result = capi_value_of(out);
  return capi_end(a, status);
}

AxnStatus axn_session_value(AxnSession *a, const char *name,
                            AxnValue **result) {
  *result = NULL;
  if (!capi_begin(a))
    return AXN_BUSY;
  HostValue *out = NULL;
  SessionStatus status = session_global_value(a->session, name, &out);
  *result = capi_value_of(out);
  return capi_end(a, status);
}
