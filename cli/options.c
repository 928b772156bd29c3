/* Command line options: one table for all verbs.  Main entry point:
   options_parse. */
#include "plan/schedule_file.h"
#include "cli/cli.h"

#include "backend/cuda/cuda.h"
#include "backend/target.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
  LONG_COLOR = 256,
  LONG_CHECK,
  LONG_STATS,
  LONG_OPEN,
  LONG_STRICT,
  LONG_PLAIN,
  LONG_DIAGNOSTICS,
  LONG_STAGE,
  LONG_WHY,
  LONG_JSON,
  LONG_SECONDS,
  LONG_TARGET,
  LONG_ENTRY,
  LONG_CODE,
  LONG_KERNEL,
  LONG_DRY,
  LONG_STABLE,
  LONG_INSTALL,
  LONG_UNINSTALL,
  LONG_USER,
  LONG_PREFIX,
  LONG_MAX_TOKENS,
  LONG_SEED,
  LONG_TEMPERATURE,
  LONG_TOP_K,
  LONG_TOP_P,
  LONG_MIN_P,
  LONG_PENALTY,
  LONG_SCHEDULE,
  LONG_SCHEDULES,
  LONG_SET,
  LONG_EXTERNAL,
  LONG_HOST,
  LONG_PORT,
  LONG_SLOTS,
  LONG_QUEUE,
  LONG_CACHE,
  LONG_CONTEXT,
  LONG_TOKENS,
  LONG_TIMEOUT,
  LONG_BODY,
  LONG_SEARCH,
  LONG_PASSAGES,
  LONG_MEASURE
};

typedef struct OptionSpec {
  char verb_letter; /* letter in the verb's string; 0: every verb takes it */
  struct option option;
} OptionSpec;

static const OptionSpec option_specs[] = {
    {0, {"help", no_argument, NULL, 'h'}},
    {0, {"color", required_argument, NULL, LONG_COLOR}},
    {0, {"diagnostics", required_argument, NULL, LONG_DIAGNOSTICS}},
    {'q', {"quiet", no_argument, NULL, 'q'}},
    {'e', {"expr", required_argument, NULL, 'e'}},
    {'D', {"define", required_argument, NULL, 'D'}},
    {'c', {"check", no_argument, NULL, LONG_CHECK}},
    {'s', {"stats", no_argument, NULL, LONG_STATS}},
    {'o', {"open", no_argument, NULL, LONG_OPEN}},
    {'S', {"strict", no_argument, NULL, LONG_STRICT}},
    {'p', {"plain", no_argument, NULL, LONG_PLAIN}},
    {'g', {"stage", required_argument, NULL, LONG_STAGE}},
    {'w', {"why", required_argument, NULL, LONG_WHY}},
    {'E', {"entry", required_argument, NULL, LONG_ENTRY}},
    {'O', {"output", required_argument, NULL, 'o'}},
    {'j', {"json", no_argument, NULL, LONG_JSON}},
    {'m', {"seconds", required_argument, NULL, LONG_SECONDS}},
    {'C', {"code", no_argument, NULL, LONG_CODE}},
    {'k', {"kernel", required_argument, NULL, LONG_KERNEL}},
    {'y', {"dry", no_argument, NULL, LONG_DRY}},
    {'b', {"stable", no_argument, NULL, LONG_STABLE}},
    {'i', {"install", no_argument, NULL, LONG_INSTALL}},
    {'u', {"uninstall", no_argument, NULL, LONG_UNINSTALL}},
    {'U', {"user", no_argument, NULL, LONG_USER}},
    {'P', {"prefix", required_argument, NULL, LONG_PREFIX}},
    {'G', {"max", required_argument, NULL, LONG_MAX_TOKENS}},
    {'G', {"seed", required_argument, NULL, LONG_SEED}},
    {'G', {"temperature", required_argument, NULL, LONG_TEMPERATURE}},
    {'G', {"topk", required_argument, NULL, LONG_TOP_K}},
    {'G', {"topp", required_argument, NULL, LONG_TOP_P}},
    {'G', {"minp", required_argument, NULL, LONG_MIN_P}},
    {'G', {"penalty", required_argument, NULL, LONG_PENALTY}},
    {'t', {"target", required_argument, NULL, LONG_TARGET}},
    {'d', {"schedule", no_argument, NULL, LONG_SCHEDULE}},
    {'f', {"schedules", required_argument, NULL, LONG_SCHEDULES}},
    {'n', {"set", required_argument, NULL, LONG_SET}},
    {'x', {"external", no_argument, NULL, LONG_EXTERNAL}},
    {'H', {"host", required_argument, NULL, LONG_HOST}},
    {'H', {"port", required_argument, NULL, LONG_PORT}},
    {'H', {"slots", required_argument, NULL, LONG_SLOTS}},
    {'H', {"queue", required_argument, NULL, LONG_QUEUE}},
    {'H', {"cache", required_argument, NULL, LONG_CACHE}},
    {'H', {"context", required_argument, NULL, LONG_CONTEXT}},
    {'H', {"tokens", required_argument, NULL, LONG_TOKENS}},
    {'H', {"timeout", required_argument, NULL, LONG_TIMEOUT}},
    {'H', {"body", required_argument, NULL, LONG_BODY}},
    {'M', {"search", required_argument, NULL, LONG_SEARCH}},
    {'M', {"passages", required_argument, NULL, LONG_PASSAGES}},
    {'r', {"measure", no_argument, NULL, LONG_MEASURE}},
};

typedef struct GetoptTables {
  char shorts[32];
  struct option longs[ARRAY_LEN(option_specs) + 1];
} GetoptTables;

/* '+': options end at the first file, whose arguments are its own.  ':': errors
   are reported here. */
static void build_tables(GetoptTables *table, const char *letters,
                         bool stop_at_first_file) {
  size_t n = 0, s = 0;
  if (stop_at_first_file)
    table->shorts[s++] = '+';
  table->shorts[s++] = ':';
  table->shorts[s++] = 'h';
  for (size_t i = 0; i < ARRAY_LEN(option_specs); i++) {
    const OptionSpec *spec = &option_specs[i];
    if (spec->verb_letter && !strchr(letters, spec->verb_letter))
      continue;
    table->longs[n++] = spec->option;
    if (spec->verb_letter && spec->option.val < LONG_COLOR) {
      table->shorts[s++] = (char)spec->option.val;
      if (spec->option.has_arg == required_argument)
        table->shorts[s++] = ':';
    }
  }
  table->shorts[s] = 0;
  table->longs[n] = (struct option){0};
}

int usage_error(const char *verb, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "axon%s%s: ", verb ? " " : "", verb ? verb : "");
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\nTry `axon %s%s--help`.\n", verb ? verb : "",
          verb ? " " : "");
  return EXIT_USAGE;
}

static int add_define(Options *o, const char *text) {
  const char *equals = strchr(text, '=');
  char *end = NULL;
  errno = 0;
  long long value = equals ? strtoll(equals + 1, &end, 10) : 0;
  if (!equals || equals == text || !equals[1] || *end || errno || value < 0 ||
      (size_t)(equals - text) >= sizeof o->defines[0].name)
    return usage_error(o->verb, "-D needs a size such as `-D n=64`; found `%s`",
                       text);
  if (o->define_count == MAX_DEFINES)
    return usage_error(o->verb, "at most %d -D options", MAX_DEFINES);
  for (uint32_t i = 0; i < o->define_count; i++)
    if (strlen(o->defines[i].name) == (size_t)(equals - text) &&
        memcmp(o->defines[i].name, text, (size_t)(equals - text)) == 0)
      return usage_error(o->verb, "duplicate -D %s", o->defines[i].name);
  struct Define *define = &o->defines[o->define_count++];
  memcpy(define->name, text, (size_t)(equals - text));
  define->value = value;
  return -1;
}

static int add_expr(Options *o, const char *text) {
  if (o->expr_count == MAX_EXPRS)
    return usage_error(o->verb, "at most %d -e options", MAX_EXPRS);
  o->exprs[o->expr_count++] = text;
  return -1;
}

static int add_entry(Options *o, const char *text) {
  if (o->entry_count == MAX_ENTRIES)
    return usage_error(o->verb, "at most %d --entry options", MAX_ENTRIES);
  o->entries[o->entry_count++] = text;
  return -1;
}

static int add_setting(Options *o, const char *text) {
  if (o->setting_count == MAX_SETTINGS)
    return usage_error(o->verb, "at most %d --set options", MAX_SETTINGS);
  o->settings[o->setting_count++] = text;
  return -1;
}

static int set_colour(const Options *o, const char *when) {
  if (strcmp(when, "auto") != 0 && strcmp(when, "always") != 0 &&
      strcmp(when, "never") != 0)
    return usage_error(
        o->verb, "--color must be auto, always or never; found `%s`", when);
  terminal_set_colour(when);
  return -1;
}

static int set_format(const Options *o, const char *name) {
  if (report_set_format(name))
    return -1;
  return usage_error(
      o->verb, "--diagnostics must be text, json or sarif; found `%s`", name);
}

/* Sets the environment variable that sessions read when they open.  A target
   for a GPU of another machine includes the architecture. */
static int set_target(Options *o, const char *name) {
  bool plans = o->verb && strcmp(o->verb, "plan") == 0;
  bool builds = o->verb && strcmp(o->verb, "build") == 0;
  Fault fault = {0};
  o->target = name;
  if (builds && strcmp(name, "cuda") == 0)
    return -1;
  if (strncmp(name, "cuda:", 5) == 0) {
    if (!plans && !builds)
      return usage_error(o->verb,
                         "the GPU of this machine determines the architecture: "
                         "`%s` is only for `axon plan` and `axon build`",
                         name);
    if (builds) /* only build reads it */
      return -1;
    o->gpu_arch = cuda_arch_named(name + 5, &fault);
    if (!o->gpu_arch)
      return usage_error(o->verb, "%s: %s", fault.message, fault.help);
    return setenv("AXON_TARGET", "cuda", 1) == 0 ? -1 : EXIT_INTERNAL;
  }
  if (target_by_name(name))
    return setenv("AXON_TARGET", name, 1) == 0 ? -1 : EXIT_INTERNAL;
  const char *nearest_arch = plans ? cuda_arch_of_number(name) : NULL;
  if (nearest_arch)
    return usage_error(o->verb,
                       "--target must be " TARGET_NAMES
                       "; found `%s`: for this architecture, write `cuda:%s`",
                       name, nearest_arch);
  return usage_error(o->verb, "--target must be " TARGET_NAMES "; found `%s`",
                     name);
}

static int read_schedules(const Options *o, const char *path) {
  Fault fault = {0};
  if (schedule_file_read(path, &fault))
    return -1;
  fprintf(stderr, "axon %s: %s\n", o->verb ? o->verb : "run", fault.message);
  return EXIT_DIAGNOSTICS;
}

static int apply_option(Options *o, int option) {
  switch (option) {
  case 'h':
    help_print(o->verb);
    return terminal_flush(EXIT_OK);
  case LONG_COLOR:
    return set_colour(o, optarg);
  case LONG_DIAGNOSTICS:
    return set_format(o, optarg);
  case 'q':
    o->quiet = true;
    return -1;
  case 'e':
    return add_expr(o, optarg);
  case 'D':
    return add_define(o, optarg);
  case LONG_CHECK:
    o->check = true;
    return -1;
  case LONG_STATS:
    o->stats = true;
    return -1;
  case LONG_OPEN:
    o->list_unproved = true;
    return -1;
  case LONG_STRICT:
    o->strict = true;
    return -1;
  case LONG_PLAIN:
    o->plain = true;
    return -1;
  case LONG_ENTRY:
    return add_entry(o, optarg);
  case 'o':
    o->output = optarg;
    return -1;
  case LONG_WHY:
    o->explain_name = optarg;
    return -1;
  case LONG_STAGE:
    o->stage = optarg;
    return -1;
  case LONG_JSON:
    o->json = true;
    return -1;
  case LONG_MEASURE:
    o->measure = true;
    return -1;
  case LONG_CODE:
    o->show_code = true;
    return -1;
  case LONG_KERNEL:
    o->kernel_number = optarg;
    return -1;
  case LONG_DRY:
    o->dry_run = true;
    return -1;
  case LONG_STABLE:
    o->stable = true;
    return -1;
  case LONG_INSTALL:
    o->install = true;
    return -1;
  case LONG_UNINSTALL:
    o->uninstall = true;
    return -1;
  case LONG_USER:
    o->user = true;
    return -1;
  case LONG_SEARCH:
    o->search = optarg;
    return -1;
  case LONG_PASSAGES:
    o->passages = optarg;
    return -1;
  case LONG_MAX_TOKENS:
    o->max_tokens = optarg;
    return -1;
  case LONG_SEED:
    o->seed = optarg;
    return -1;
  case LONG_TEMPERATURE:
    o->temperature = optarg;
    return -1;
  case LONG_TOP_K:
    o->top_k = optarg;
    return -1;
  case LONG_TOP_P:
    o->top_p = optarg;
    return -1;
  case LONG_MIN_P:
    o->min_p = optarg;
    return -1;
  case LONG_PENALTY:
    o->penalty = optarg;
    return -1;
  case LONG_HOST:
    o->host = optarg;
    return -1;
  case LONG_PORT:
    o->port = optarg;
    return -1;
  case LONG_SLOTS:
    o->slots = optarg;
    return -1;
  case LONG_QUEUE:
    o->queue = optarg;
    return -1;
  case LONG_CACHE:
    o->cache = optarg;
    return -1;
  case LONG_CONTEXT:
    o->context = optarg;
    return -1;
  case LONG_TOKENS:
    o->tokens = optarg;
    return -1;
  case LONG_TIMEOUT:
    o->timeout = optarg;
    return -1;
  case LONG_BODY:
    o->body = optarg;
    return -1;
  case LONG_PREFIX:
    o->prefix = optarg;
    return -1;
  case LONG_SECONDS:
    o->min_seconds = optarg;
    return -1;
  case LONG_TARGET:
    return set_target(o, optarg);
  case LONG_SCHEDULE:
    o->show_schedule = true;
    return -1;
  case LONG_SCHEDULES:
    return read_schedules(o, optarg);
  case LONG_SET:
    return add_setting(o, optarg);
  case LONG_EXTERNAL:
    o->external = true;
    return -1;
  }
  return EXIT_INTERNAL;
}

static bool has_name(const struct option *long_option, const char *word) {
  size_t len = strcspn(word + 2, "=");
  return long_option->name && strlen(long_option->name) == len &&
         memcmp(long_option->name, word + 2, len) == 0;
}

/* Returns true if the word is an option of other verbs, which getopt takes for
   an abbreviation. */
static bool is_foreign(const GetoptTables *table, const char *word) {
  bool is_known = false;
  if (strncmp(word, "--", 2) != 0)
    return false;
  for (size_t i = 0; table->longs[i].name; i++)
    if (has_name(&table->longs[i], word))
      return false;
  for (size_t i = 0; i < ARRAY_LEN(option_specs); i++)
    is_known |= has_name(&option_specs[i].option, word);
  return is_known;
}

static int reject_option(const Options *o, const GetoptTables *table,
                         int option, char **argv) {
  const char *word = argv[optind - 1];
  if (is_foreign(table, word))
    return usage_error(o->verb, "there is no option `%s`", word);
  if (option == ':')
    return usage_error(o->verb, "`%s` needs a value", word);
  if (optopt && optopt < LONG_COLOR)
    return usage_error(o->verb, "there is no option `-%c`", optopt);
  if (optopt)
    return usage_error(o->verb, "`%s`: this option takes no value", word);
  return usage_error(o->verb, "there is no option `%s`", word);
}

int options_parse(Options *o, const char *verb, const char *letters, int argc,
                  char **argv) {
  *o = (Options){.verb = verb};
  GetoptTables table = {0};
  build_tables(&table, letters, letters[0] == '+');
  optind = 1;
  for (int option; (option = getopt_long(argc, argv, table.shorts, table.longs,
                                         NULL)) != -1;) {
    const char *word = argv[optind - 1 - (optarg == argv[optind - 1])];
    int status = option == '?' || option == ':'
                     ? reject_option(o, &table, option, argv)
                 : is_foreign(&table, word)
                     ? usage_error(verb, "there is no option `%s`", word)
                     : apply_option(o, option);
    if (status >= 0)
      return status;
  }
  o->args = argv + optind;
  o->arg_count = argc - optind;
  return -1;
}

bool option_number(const char *verb, const char *name, const char *text,
                   double least, double most, double *value) {
  char *end = NULL;
  if (!text)
    return true;
  errno = 0;
  double x = strtod(text, &end);
  if (!errno && end != text && !*end && x >= least && x <= most) {
    *value = x;
    return true;
  }
  usage_error(verb, "--%s must be a number from %.10g to %.10g; found `%s`",
              name, least, most, text);
  return false;
}

bool option_integer(const char *verb, const char *name, const char *text,
                    int64_t least, int64_t most, int64_t *value) {
  double x = (double)*value;
  if (!option_number(verb, name, text, (double)least, (double)most, &x))
    return false;
  *value = (int64_t)x;
  if ((double)*value == x)
    return true;
  usage_error(verb, "--%s must be an integer; found `%s`", name, text);
  return false;
}
