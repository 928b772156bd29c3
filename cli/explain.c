/* axon explain: explains an error code, and how to fix its cause.  The pages
   are in support/catalog.def.  Main entry point: verb_explain. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const ExplainPage pages[] = {
#define E(code, severity, title, page) {code, severity, title, page},
#include "support/catalog.def"
#undef E
};

static char severity_letter(const ExplainPage *page) {
  return page->severity == SEV_WARNING ? 'W' : 'E';
}

const ExplainPage *explain_page(uint16_t code) {
  for (size_t i = 0; i < ARRAY_LEN(pages); i++)
    if (pages[i].code == code)
      return &pages[i];
  return NULL;
}

/* Accepts E0301, W0401, e301 and 301.  The number is sufficient. */
static const ExplainPage *find_page(const char *word) {
  size_t skip = word[0] && strchr("EeWw", word[0]) ? 1 : 0;
  size_t digits = strspn(word + skip, "0123456789");
  if (!digits || digits > 6 || word[skip + digits])
    return NULL;
  unsigned long code = strtoul(word + skip, NULL, 10);
  return code <= UINT16_MAX ? explain_page((uint16_t)code) : NULL;
}

static void print_title(const ExplainPage *page) {
  bool colour = terminal_colours_stdout();
  printf("%s%c%04u: %s%s\n", colour ? "\033[1m" : "", severity_letter(page),
         page->code, page->title, colour ? "\033[0m" : "");
}

static void print_page(const ExplainPage *page) {
  print_title(page);
  printf("\n%s", page->text);
}

int verb_explain(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "explain", "", argc, argv);
  if (status >= 0)
    return status;
  for (int i = 0; i < o.arg_count; i++)
    if (!find_page(o.args[i]))
      return usage_error("explain",
                         "unknown code `%s`; `axon explain` lists all codes",
                         o.args[i]);
  for (int i = 0; i < o.arg_count; i++) {
    if (i)
      putchar('\n');
    print_page(find_page(o.args[i]));
  }
  for (size_t i = 0; !o.arg_count && i < ARRAY_LEN(pages); i++)
    print_title(&pages[i]);
  return terminal_flush(EXIT_OK);
}
