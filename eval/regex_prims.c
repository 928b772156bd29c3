/* Primitives of the module regex. */
#include "eval/internal.h"
#include "runtime/regex.h"
#include "support/mem.h"

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

static Regex *compile(Eval *vm, Value pattern) {
  Fault fault = {0};
  const String *s = AS_STRING(pattern);
  Regex *r = regex_compile(s->text, s->obj.len, &fault);
  if (!r)
    vm_fail_at(vm, (Span){0}, 509, fault.help, "%s", fault.message);
  return r;
}

typedef enum SearchKind {
  SEARCH_MATCHES,
  SEARCH_FIRST, /* only the first match, as the list of its groups */
  SEARCH_PARTS, /* the parts between matches */
} SearchKind;

/* One search after another over a text. */
typedef struct Search {
  Eval *vm;
  Regex *regex;
  const String *text;
  size_t start; /* where the next search begins */
  bool is_after_empty;
  size_t from, to; /* the match */
  SearchKind kind;
  Value list; /* the result so far, reversed */
} Search;

/* Returns the number of groups, or 0. */
static int next_match(Search *s) {
  Fault fault = {0};
  if (s->start > s->text->obj.len)
    return 0;
  int groups = regex_search(s->regex, s->text->text, s->text->obj.len, s->start,
                            s->is_after_empty, &fault);
  if (groups < 0)
    vm_fail_at(s->vm, (Span){0}, 509, fault.help, "%s", fault.message);
  if (groups) {
    regex_group(s->regex, 0, &s->from, &s->to);
    s->is_after_empty = s->from == s->to;
    s->start = s->to;
  }
  return groups;
}

static Value cons_part(Search *s, size_t from, size_t to, Value list) {
  return vm_cons_text(s->vm, s->text->text + from, to - from, list);
}

/* The match and its groups. */
static Value groups_list(Search *s, int groups) {
  Value list = {.tag = V_NIL};
  for (int i = groups; i-- > 0;) {
    size_t from, to;
    bool takes_part = regex_group(s->regex, (uint32_t)i, &from, &to);
    list = cons_part(s, takes_part ? from : 0, takes_part ? to : 0, list);
  }
  return list;
}

/* The result is s->list. */
static void run(Search *s) {
  size_t part = 0;
  int groups;
  while ((groups = next_match(s))) {
    if (s->kind == SEARCH_FIRST) {
      s->list = groups_list(s, groups);
      return;
    }
    if (s->kind == SEARCH_MATCHES) {
      s->list = vm_cons(s->vm, groups_list(s, groups), s->list);
    } else if (s->to > s->from) { /* an empty match separates nothing */
      s->list = cons_part(s, part, s->from, s->list);
      part = s->to;
    }
    vm_poll_interrupt(s->vm);
  }
  if (s->kind == SEARCH_PARTS)
    s->list = cons_part(s, part, s->text->obj.len, s->list);
}

static Value search(Eval *vm, Value pattern, Value text, SearchKind kind) {
  Search s = {.vm = vm,
              .regex = compile(vm, pattern),
              .text = AS_STRING(text),
              .kind = kind,
              .list = {.tag = V_NIL}};
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    run(&s);
    trap_end(&trap);
    regex_free(s.regex);
    if (kind == SEARCH_FIRST)
      return s.list;
    vm_push_temp(vm, s.list);
    Value r = prim_list_reverse(vm, NULL, &s.list, 1);
    vm_drop_temps(vm, vm->temp_count - 1);
    return r;
  }
  regex_free(s.regex);
  trap_raise(trap.kind);
}

PRIM(prim_regex_matches) {
  UNUSED;
  return search(vm, args[0], args[1], SEARCH_MATCHES);
}

PRIM(prim_regex_first) {
  UNUSED;
  return search(vm, args[0], args[1], SEARCH_FIRST);
}

PRIM(prim_regex_split) {
  UNUSED;
  return search(vm, args[0], args[1], SEARCH_PARTS);
}

PRIM(prim_regex_replace) {
  UNUSED;
  Regex *r = compile(vm, args[0]);
  const String *with = AS_STRING(args[1]), *text = AS_STRING(args[2]);
  Fault fault = {0};
  size_t len = 0;
  char *out = regex_replace(r, text->text, text->obj.len, with->text,
                            with->obj.len, &len, &fault);
  regex_free(r);
  if (!out)
    vm_fail_at(vm, (Span){0}, 509, fault.help, "%s", fault.message);
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    Value v = value_string(&vm->heap, out, len);
    trap_end(&trap);
    mem_free(out);
    return v;
  }
  mem_free(out);
  trap_raise(trap.kind);
}
