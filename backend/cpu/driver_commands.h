/* backend/cpu: the programs that the driver of gcc runs, for
 * compile_process.c. */
#ifndef AXON_CPU_DRIVER_COMMANDS_H
#define AXON_CPU_DRIVER_COMMANDS_H

#include "backend/cpu/compile_process.h"

/* A script for sh that compiles kernel.c to kernel.so, in the folder $1.  It
 * runs compiler, assembler and linker as gcc and collect2 would; these two take
 * a tenth of the time of a small kernel.  If anything fails, it runs the
 * command in the other parameters, which then reports why.
 *
 * NULL: the program of the toolchain is not gcc itself, or it prints no such
 * commands.  The text remains until the process ends.  Not thread-safe: the
 * callers hold the lock of jit.c, or are alone. */
const char *driver_commands_script(const Toolchain *tools, CompileLevel level,
                                   CompileLibraries libraries);

#endif
