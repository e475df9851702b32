/*
 * machine - how much memory and how many processors this process may use, and where its program was installed.
 *
 * A container's limits count: the smaller of the machine's and the control group's.
 *
 * Thread   any
 */
#ifndef CAIRN_BASE_MACHINE_H
#define CAIRN_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of memory; 0 when it can't be found out. */
uint64_t cairn_machine_memory_bytes(void);

/* Processors that this process may run on; at least 1. */
unsigned cairn_machine_processors(void);

/*
 * A folder beside the program: "../lib/cairn" gives <folder of the program>/../lib/cairn.
 *
 *   out  [out]  char[room]; holds the path when true is given
 *
 * Gives false where there is no such folder, or its path doesn't fit.
 */
bool cairn_machine_beside(const char *relative, char *out, size_t room);

#endif
