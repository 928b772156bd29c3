/* What --help says: what a verb is for, its options, and examples that work. */
#include "cli/cli.h"

#include <string.h>

typedef struct Help {
  const char *verb; /* "" for the program itself */
  const char *text;
} Help;

static const Help helps[] = {
    {"",
     "Axon: a functional language of tensors whose shapes are inferred.\n"
     "\n"
     "  axon                   type expressions and see what they are\n"
     "  axon FILE.axn          run a program (also: axon run FILE.axn)\n"
     "  axon -e EXPRESSION     print the value of an expression\n"
     "  axon check FILE...     infer types and shapes, find errors, run nothing\n"
     "  axon shapes FILE       the tensors of its types, and their elements\n"
     "  axon bench FILE [NAME] how long functions of a program take\n"
     "  axon fmt FILE...       lay programs out in the one usual way\n"
     "  axon test FILE...      run the examples in doc comments\n"
     "  axon dump FILE         a program as the compiler sees it\n"
     "  axon doctor            what this machine has and can do, and what it lacks\n"
     "  axon explain CODE      what an error is about, and how to mend it\n"
     "  axon lsp               what editors start: types and errors as one types\n"
     "  axon help VERB         more about a verb, with examples\n"
     "\n"
     "Everywhere:\n"
     "  -h, --help             help\n"
     "  -V, --version          the version\n"
     "      --color WHEN       auto (the default), always, never\n"
     "      --diagnostics HOW  text (the default), json (an object a line),\n"
     "                         sarif\n"
     "\n"
     "Try:\n"
     "  axon -e 'sum (for i < 10 => i * i)'\n"
     "  axon -e 'fn x => x - max ~axis:-1 ~keep:true x'\n"
     "\n"
     "Exit status: 0 all is well, 1 errors in the program, 2 wrong usage,\n"
     "70 a fault of Axon itself.\n"},
    {"run",
     "axon run FILE [ARGUMENT...]: check a program, then run it.\n"
     "\n"
     "All errors that can be found before running are told first, and then\n"
     "nothing is run.  FILE may be -, the standard input.  The arguments after\n"
     "FILE are what `args ()` gives.\n"
     "\n"
     "  -e, --expr EXPRESSION  instead of a file: print its value\n"
     "  -D, --define NAME=N    fix a size that data at top level leaves open\n"
     "  -q, --quiet            no warnings\n"
     "      --color WHEN       auto, always, never\n"
     "\n"
     "Examples:\n"
     "  axon run examples/digits.axn\n"
     "  axon run train.axn --epochs 3\n"
     "  echo 'do print (iota 5 * 2)' | axon run -\n"},
    {"check",
     "axon check FILE...: infer types and shapes, and find errors.\n"
     "\n"
     "Nothing is run.  Prints `name : type` for each definition; a `given` says\n"
     "what a caller must make sure of.  Headers of data files that `load` names\n"
     "are read, so that their sizes take part.\n"
     "\n"
     "      --stats            how many constraints were proved, how many are\n"
     "                         carried by types, and left to check when run\n"
     "      --open             each one that was not proved: where and why\n"
     "      --strict           what is left to check when run is an error\n"
     "      --why NAME         how the type of a name came about: the shapes on\n"
     "                         the way, what made sizes equal, where conditions\n"
     "                         come from\n"
     "  -D, --define NAME=N    fix a size that data at top level leaves open\n"
     "  -q, --quiet            only errors\n"
     "      --color WHEN       auto, always, never\n"
     "      --diagnostics HOW  text, json (an object a line), sarif: for tools\n"
     "\n"
     "Examples:\n"
     "  axon check model.axn\n"
     "  axon check --strict --stats model.axn\n"
     "  axon check -D b=64 train.axn\n"
     "  axon check --why forward model.axn\n"
     "  axon check -q --diagnostics json *.axn 2>errors.json\n"},
    {"shapes",
     "axon shapes FILE [EXPRESSION...]: the tensors that a type consists of.\n"
     "\n"
     "Nothing is run.  Lists each tensor in the type of an expression, mostly a\n"
     "name that FILE defines, with its field, its shape and the number of its\n"
     "elements, and their sum.  Of a function those of its result are listed:\n"
     "so the function that makes the parameters of a model tells how many there\n"
     "are.  Without an expression, lists every definition with tensors.\n"
     "\n"
     "  -D, --define NAME=N    fix a size that data at top level leaves open\n"
     "      --color WHEN       auto, always, never\n"
     "\n"
     "Examples:\n"
     "  axon shapes examples/models/resnet.axn imagenet50\n"
     "  axon shapes examples/models/resnet.axn 'resnet18_params ~width:16 ~classes:10'\n"
     "  axon shapes model.axn\n"},
    {"dump",
     "axon dump FILE: a program as a stage of the compiler sees it.\n"
     "\n"
     "For those who work on Axon, and for reports of faults.  Nothing is run.\n"
     "\n"
     "      --stage STAGE      tree: as it was parsed; core: as it was checked,\n"
     "                         with the arguments that types supply (the\n"
     "                         default)\n"
     "  -D, --define NAME=N    fix a size that data at top level leaves open\n"
     "      --color WHEN       auto, always, never\n"
     "\n"
     "Examples:\n"
     "  axon dump model.axn\n"
     "  axon dump --stage tree model.axn\n"},
    {"explain",
     "axon explain [CODE...]: what an error or warning is about.\n"
     "\n"
     "CODE is what stands in the brackets of a message, as in error[E0301].\n"
     "Without one, lists all codes.\n"
     "\n"
     "Examples:\n"
     "  axon explain E0301\n"
     "  axon explain\n"},
    {"fmt",
     "axon fmt FILE...: lay programs out in the one usual way.\n"
     "\n"
     "Files are replaced at once or not at all; comments stay.  A file that\n"
     "does not parse is left alone.  - is from standard input to output.\n"
     "\n"
     "      --check            change nothing; name the files that would change,\n"
     "                         and exit with 1 if there are any\n"
     "  -q, --quiet            do not name what was formatted\n"
     "\n"
     "Examples:\n"
     "  axon fmt model.axn\n"
     "  axon fmt --check *.axn\n"},
    {"test",
     "axon test FILE...: run the examples in doc comments.\n"
     "\n"
     "A line that begins with `>>> ` holds an expression; the lines after it, up\n"
     "to an empty one, are what it must print.  An expression without such lines\n"
     "must be true.  `... ` continues an expression.  The file itself is run\n"
     "first, so its top-level `assert`s are tests too.\n"
     "\n"
     "  (** The square of a number.\n"
     "      >>> square 3\n"
     "      9\n"
     "      >>> square 0.5 == 0.25 *)\n"
     "  fun square x = x * x\n"
     "\n"
     "  -q, --quiet            name only what fails\n"
     "\n"
     "Examples:\n"
     "  axon test shapes.axn\n"
     "  axon test *.axn\n"},
    {"bench",
     "axon bench FILE [NAME...]: how long functions of a program take.\n"
     "\n"
     "Runs the program, and computes all that its definitions stand for; then\n"
     "calls each function named, or else each one whose argument is (), until\n"
     "its time is known: the median of a call, half the distance of the\n"
     "quartiles as the spread, the fastest, and the first, in which kernels are\n"
     "compiled.  What a call comes to is computed whole.  What the program\n"
     "prints is dropped.\n"
     "\n"
     "  -e, --expr EXPRESSION  time an expression, too; may be given several\n"
     "                         times\n"
     "      --seconds N        how long to time each, at least (0.5); more where\n"
     "                         times differ much\n"
     "      --json             one object, with times in seconds\n"
     "      --target NAME      cpu, or reference\n"
     "  -D, --define NAME=N    fix a size that data at top level leaves open\n"
     "  -q, --quiet            no warnings\n"
     "      --color WHEN       auto, always, never\n"
     "\n"
     "Examples:\n"
     "  axon bench model.axn\n"
     "  axon bench model.axn bench_forward --json\n"
     "  axon bench examples/life.axn -e 'life world'\n"},
    {"doctor",
     "axon doctor: what this machine has and can do, and what Axon lacks on it.\n"
     "\n"
     "Processor, memory, threads, the C compiler, the folder where compiled\n"
     "kernels are kept; and limits, which are measured in a quarter of a second\n"
     "and kept there: operations and bytes a second, of one thread and of all.\n"
     "They say how near to what is possible a kernel runs.  Others who use the\n"
     "machine meanwhile make them less, so of operations the best that was ever\n"
     "found is kept; of bytes what there is now.\n"
     "\n"
     "      --json             machine and limits, as one object\n"
     "\n"
     "Exit status: 1 where something is missing; what that is, and how to get\n"
     "it, is said.\n"
     "\n"
     "Examples:\n"
     "  axon doctor\n"},
    {"repl",
     "axon repl [FILE]: type expressions and definitions, see what they are.\n"
     "\n"
     "Loads FILE first, if one is given.  Inside, :help lists the commands, Tab\n"
     "completes names, Ctrl-C stops a computation, Ctrl-D ends.\n"
     "\n"
     "      --plain            no line editing: read lines, echo them, and write\n"
     "                         the same transcript each time (for tests)\n"
     "  -D, --define NAME=N    fix a size that data at top level leaves open\n"
     "      --color WHEN       auto, always, never\n"
     "\n"
     "Examples:\n"
     "  axon\n"
     "  axon repl model.axn\n"
     "  echo '1 + 1' | axon repl --plain\n"},
    {"lsp",
     "axon lsp: a server for editors.\n"
     "\n"
     "Speaks the Language Server Protocol (JSON-RPC 2.0) on standard input and\n"
     "output; an editor starts it.  Errors as one types, types and docs of what\n"
     "is under the cursor, definitions, uses, renaming, completion, types that\n"
     "were inferred, fixes, layout.  How to set an editor up: doc/editors.md.\n"
     "\n"
     "  -D, --define NAME=N    fix a size that data at top level leaves open\n"
     "\n"
     "Exit status: 0 after `shutdown` and `exit`, 1 where the editor is gone\n"
     "without them.\n"},
    {"help",
     "axon help [VERB]: what Axon, or a verb, can do.\n"},
};

static const Help *find(const char *verb) {
  for (size_t i = 0; i < ARRAY_LEN(helps); i++)
    if (strcmp(helps[i].verb, verb ? verb : "") == 0)
      return &helps[i];
  return NULL;
}

bool help_has(const char *verb) { return find(verb) != NULL; }

void help_print(const char *verb) {
  const Help *help = find(verb);
  fputs(help ? help->text : helps[0].text, stdout);
}
