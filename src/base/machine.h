/*
 * machine - how much memory and how many processors this process may use.
 *
 * A container's limits count: the smaller of the machine's and the control group's.
 *
 * Thread   any
 */
#ifndef CAIRN_BASE_MACHINE_H
#define CAIRN_BASE_MACHINE_H

#include <stdint.h>

/* Bytes of memory; 0 when it can't be found out. */
uint64_t cairn_machine_memory_bytes(void);

/* Processors that this process may run on; at least 1. */
unsigned cairn_machine_processors(void);

#endif
