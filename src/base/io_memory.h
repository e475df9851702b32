/*
 * io_memory - files in memory that can lose power. For tests and the simulator.
 *
 *   each file     bytes as the program sees them, bytes that are safe, and the writes between the two
 *   each folder   names as the program sees them, names that are safe, and the changes between the two
 *
 * A sync makes safe what the program sees. When power is lost, each write that was not safe is kept, torn or
 * dropped, and each change of names is kept or dropped, by chance and without regard to order: as bad as the
 * promise of io.h allows.
 *
 * Owner    cairn_io_memory owns all files
 * Thread   any, with one lock
 */
#ifndef CAIRN_BASE_IO_MEMORY_H
#define CAIRN_BASE_IO_MEMORY_H

#include "base/io.h"

typedef struct cairn_io_memory cairn_io_memory;

/*
 * An empty disk with the root folder "/". Relative paths begin there, too.
 *
 *   bytes_max  [in]  its size: writes beyond it are CAIRN_NOSPACE. Names are not counted.
 *
 * After    NULL: no room
 */
CAIRN_MUST_CHECK cairn_io_memory *cairn_io_memory_new(const cairn_mem *mem, uint64_t bytes_max);

/* NULL is allowed. Files that are still open must not be used afterwards, not even to close them. */
void cairn_io_memory_free(cairn_io_memory *disk);

/* Its table. Borrowed until cairn_io_memory_free. */
cairn_io *cairn_io_memory_io(cairn_io_memory *disk);

/*
 * Lose power and come back: keep what is safe, and by chance (from `seed`) some of the rest.
 *
 * After    locks are gone; files opened before answer every call with CAIRN_IO and can only be closed
 * Errors   CAIRN_NOMEM  no room; the disk is then as it was
 */
CAIRN_MUST_CHECK cairn_status cairn_io_memory_power_loss(cairn_io_memory *disk, uint64_t seed);

/* Bytes in all files, as the program sees them. */
uint64_t cairn_io_memory_used_bytes(cairn_io_memory *disk);

#endif
