/* axon jupyter: installs the Jupyter kernel, which is a part of the Python
   module `axon` (python/axon/jupyter.py).  Main entry point: verb_jupyter. */
#include "cli/cli.h"
#include "support/buffer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char launcher[] =
    "import sys\n"
    "try:\n"
    "    import axon.jupyter\n"
    "except ImportError as error:\n"
    "    sys.exit('axon jupyter: %s cannot import the Python module axon "
    "(%s)\\nhelp: install it: `pip install python/` in the sources of Axon, or "
    "the package python3-axon' % (sys.executable, error))\n"
    "axon.jupyter.main()\n";

/* The folder of this program, or "" if it is unknown. */
static const char *program_folder(void) {
  static char path[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
  path[len > 0 ? len : 0] = 0;
  char *slash = strrchr(path, '/');
  if (slash)
    *slash = 0;
  return path;
}

/* True if the file `name` exists in a folder; *path is its path. */
static bool find_file(const char *folder, const char *name, Buffer *path) {
  path->len = 0;
  buffer_printf(path, "%s/%s", folder, name);
  return *folder && access(path->text, R_OK) == 0;
}

/* In a virtual environment, its Python; otherwise the one in PATH.  A program
   in its build folder uses the module there. */
static void find_python(Buffer *python) {
  const char *folder = program_folder();
  Buffer path = {0};
  if (find_file(folder, "python/axon/jupyter.py", &path)) {
    const char *before = getenv("PYTHONPATH");
    path.len = 0;
    buffer_printf(&path, "%s/python%s%s", folder, before ? ":" : "",
                  before ? before : "");
    setenv("PYTHONPATH", path.text, 1);
  }
  if (!find_file(folder, "../pyvenv.cfg", &path) ||
      !find_file(folder, "python3", python)) {
    python->len = 0;
    buffer_puts(python, "python3");
  }
  buffer_free(&path);
}

int verb_jupyter(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "jupyter", "iuUP", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count)
    return usage_error("jupyter", "there is no argument `%s`", o.args[0]);
  if (o.install == o.uninstall)
    return usage_error("jupyter", "give --install or --uninstall");
  if (o.user && o.prefix)
    return usage_error("jupyter", "give --user or --prefix, not both");
  Buffer python = {0};
  find_python(&python);
  const char *args[] = {python.text,
                        "-c",
                        launcher,
                        o.install ? "--install" : "--uninstall",
                        o.user     ? "--user"
                        : o.prefix ? "--prefix"
                                   : NULL,
                        o.prefix,
                        NULL};
  execvp(args[0], (char *const *)(uintptr_t)args);
  fprintf(stderr, "axon jupyter: cannot run %s: %s\nhelp: install Python 3\n",
          args[0], strerror(errno));
  buffer_free(&python);
  return EXIT_DIAGNOSTICS;
}
