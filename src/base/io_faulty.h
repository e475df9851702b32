/*
 * io_faulty - another table whose n-th call goes wrong. For tests.
 *
 *   for (uint64_t n = 1;; n++) {
 *       cairn_io_faulty faulty;
 *       cairn_io_faulty_init(&faulty, inner, CAIRN_IO_FAULT_FAIL, n);
 *       status = thing_under_test(cairn_io_faulty_io(&faulty));
 *       cairn_io_faulty_release(&faulty);
 *       if (faulty.hits == 0) break;        fewer than n calls: every one was tried
 *   }
 *
 * Owner    the inner table is borrowed; files opened through this table must be closed before it is released
 * Thread   any
 */
#ifndef CAIRN_BASE_IO_FAULTY_H
#define CAIRN_BASE_IO_FAULTY_H

#include <stdatomic.h>

#include "base/io.h"

typedef enum cairn_io_fault {
    CAIRN_IO_FAULT_NONE,
    CAIRN_IO_FAULT_FAIL,      /* the n-th call does nothing and fails with os_errno (EIO unless set) */
    CAIRN_IO_FAULT_SHORT,     /* the n-th read or write moves only half of the bytes, at least one */
    CAIRN_IO_FAULT_TORN,      /* the n-th write moves half of the bytes, then fails */
    CAIRN_IO_FAULT_LOST_SYNC, /* the n-th sync of a file or folder does nothing and says that it did */
    CAIRN_IO_FAULT_FLIP,      /* the n-th read gives one wrong bit */
    CAIRN_IO_FAULT_STOP       /* the n-th call and all later ones fail: as if the process had ended there */
} cairn_io_fault;

typedef struct cairn_io_faulty {
    cairn_io io; /* give this (by cairn_io_faulty_io) to the thing under test */
    cairn_io *inner;
    cairn_io_fault fault;
    uint64_t at;  /* counts only calls that the fault can strike: 1 = the first of them */
    int os_errno; /* for FAIL and TORN */
    atomic_uint_fast64_t calls;
    atomic_uint_fast64_t hits; /* calls that went wrong on purpose */
} cairn_io_faulty;

/* Set up around `inner`. The struct must not move afterwards. */
void cairn_io_faulty_init(cairn_io_faulty *faulty, cairn_io *inner, cairn_io_fault fault, uint64_t at);

/* Its table. */
cairn_io *cairn_io_faulty_io(cairn_io_faulty *faulty);

/* Free the contents. The counts stay readable. */
void cairn_io_faulty_release(cairn_io_faulty *faulty);

#endif
