/* Indentation of generated C code. */
#ifndef AXON_SUPPORT_CODE_INDENT_H
#define AXON_SUPPORT_CODE_INDENT_H

typedef struct Buffer Buffer;

/* Appends text to `out`, with lines indented by their nesting. */
void code_indent(const char *text, Buffer *out);

#endif
