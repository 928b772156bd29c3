/* Parts of annotations, for annotation.c and annotation_given.c. */
#ifndef AXON_TYPECHECK_ANNOTATION_H
#define AXON_TYPECHECK_ANNOTATION_H

#include "typecheck/internal.h"

Dim *annot_dim(Checker *c, DimExpr *d, AnnotMode mode);
Shape *annot_axes(Checker *c, Axes axes, AnnotMode mode);
/* result: the result of the broadcast; NULL creates one. */
Shape *annot_broadcast(Checker *c, Axes axes, Span span, Shape *result,
                       AnnotMode mode);
/* The type variable of this name; a new one if none is in scope. */
ElemVar *annot_elem_param(Checker *c, Sym *name, AnnotMode mode, Span span);
Type *annot_ty_param(Checker *c, Sym *name, AnnotMode mode);

#endif
