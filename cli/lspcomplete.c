/* While one writes: what a name could become, and which argument is next. */
#include "cli/lsp.h"

#include <string.h>

/* ---- completion ---- */

enum { OFFERS_MOST = 2000 };

typedef struct Offers {
  Ask *ask;
  uint32_t count;
  const char *names[OFFERS_MOST]; /* what is nearer was offered first */
} Offers;

static bool again(const Offers *o, const char *name) {
  for (uint32_t i = 0; i < o->count; i++)
    if (strcmp(o->names[i], name) == 0)
      return true;
  return false;
}

static void out_offer(void *arg, const Offer *offer) {
  static const int kinds[] = {/* CompletionItemKind */
      [OFFER_VALUE] = 6,  [OFFER_FUNCTION] = 3, [OFFER_CONSTRUCTOR] = 20,
      [OFFER_SIZE] = 12,  [OFFER_MODULE] = 9,   [OFFER_FIELD] = 5,
      [OFFER_LABEL] = 10, [OFFER_TYPE] = 7,     [OFFER_KEYWORD] = 14};
  Offers *o = arg;
  Buffer *out = o->ask->out;
  if (o->count >= OFFERS_MOST || again(o, offer->name))
    return;
  o->names[o->count++] = offer->name;
  bool label = offer->kind == OFFER_LABEL;
  json_open(out, NULL, '{');
  json_field(out, "label", offer->name);
  json_number(out, "kind", kinds[offer->kind]);
  json_field(out, "detail", offer->type);
  if (offer->doc) {
    buffer_puts(out, ",\"documentation\":{");
    json_field(out, "kind", "plaintext");
    json_field(out, "value", offer->doc);
    buffer_putc(out, '}');
  }
  Buffer text = {0};
  buffer_printf(&text, "%05u", o->count);
  json_field(out, "sortText", text.text);
  text.len = 0;
  if (label) {
    buffer_printf(&text, "%s:", offer->name);
    json_field(out, "insertText", text.text);
  }
  buffer_free(&text);
  buffer_putc(out, '}');
}

void ask_completion(Ask *ask) {
  Offers offers = {.ask = ask};
  buffer_puts(ask->out, "{\"isIncomplete\":false,\"items\":[");
  session_complete(ask->session, &ask->work->text, ask->offset, out_offer,
                   &offers);
  buffer_puts(ask->out, "]}");
}

/* ---- signature ---- */

/* The next parameter of a type as printed, and what is behind it: arrows in
 * brackets belong to parameters. */
static size_t parameter(const char *type, size_t *behind) {
  int depth = 0;
  for (size_t i = 0; type[i]; i++) {
    if (strchr("([{", type[i]))
      depth++;
    else if (strchr(")]}", type[i]))
      depth--;
    size_t arrow = strncmp(type + i, " ->! ", 5) == 0  ? 5
                   : strncmp(type + i, " -> ", 4) == 0 ? 4
                                                       : 0;
    if (!depth && strncmp(type + i, " given ", 7) == 0)
      break;
    if (!depth && arrow) {
      *behind = i + arrow;
      return i;
    }
  }
  return 0;
}

static bool has_label(const char *parameter, const char *label) {
  size_t len = strlen(label);
  return (*parameter == '~' || *parameter == '?') &&
         strncmp(parameter + 1, label, len) == 0 && parameter[1 + len] == ':';
}

static bool is_labelled(const char *parameter, size_t len) {
  size_t word = strspn(parameter + (len > 0),
                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                       "0123456789_'");
  return strchr("~?", *parameter) && parameter[1 + word] == ':';
}

void ask_signature(Ask *ask) {
  Called called;
  if (!session_called(ask->session, &ask->work->text, ask->offset, &called) ||
      !called.type)
    return;
  Buffer *out = ask->out, label = {0};
  buffer_printf(&label, "%s : %s", called.name, called.type);
  buffer_puts(out, "{\"signatures\":[{");
  json_field(out, "label", label.text);
  if (called.doc)
    json_field(out, "documentation", called.doc);
  json_open(out, "parameters", '[');
  size_t at = strlen(called.name) + 3, len, behind;
  uint32_t active = 0, count = 0, plain = 0;
  bool found = false;
  for (; (len = parameter(label.text + at, &behind)); at += behind, count++) {
    const char *p = label.text + at;
    bool labelled = is_labelled(p, len);
    bool is = called.label ? has_label(p, called.label)
                           : !labelled && plain == called.number;
    plain += !labelled;
    if (is && !found)
      active = count, found = true;
    json_comma(out);
    buffer_printf(out, "{\"label\":[%zu,%zu]}", at, at + len);
  }
  buffer_printf(out, "]}],\"activeSignature\":0,\"activeParameter\":%u}",
                found ? active : count);
  buffer_free(&label);
  if (!count) /* it is not a function */
    out->len = (size_t)(strstr(out->text, "\"result\":") - out->text) + 9;
}
