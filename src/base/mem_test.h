/*
 * mem_test - an allocator table that counts, checks and can fail at the n-th call. For tests and the simulator.
 *
 *   for (uint64_t n = 1;; n++) {            the usual loop: every allocation fails once
 *       cairn_mem_test heap;
 *       cairn_mem_test_init(&heap, n);
 *       status = thing_under_test(&heap.mem);
 *       assert(cairn_mem_test_leaked(&heap) == 0);
 *       cairn_mem_test_release(&heap);
 *       if (heap.fails == 0) break;         nothing failed: every place was tried
 *   }
 *
 * It stops the program when a block is released with another size than it was asked with, or twice, or when bytes
 * right behind it were written.
 *
 * Thread   any, with one lock
 */
#ifndef CAIRN_MEM_TEST_H
#define CAIRN_MEM_TEST_H

#include <pthread.h>
#include <stdint.h>

#include "cairn/mem.h"

typedef struct cairn_mem_test {
    cairn_mem mem;        /* give this to the thing under test */
    uint64_t fail_at;     /* the call (1 = first) that fails; 0 = none */
    bool fail_after;      /* all calls from fail_at on fail, not only one */
    uint64_t bytes_max;   /* 0 = none; else what would exceed it in sum fails */
    uint64_t calls;       /* allocations and growths asked for */
    uint64_t fails;       /* how many of them were refused */
    uint64_t live_blocks; /* not yet released */
    uint64_t live_bytes;
    uint64_t peak_bytes;
    pthread_mutex_t lock;
} cairn_mem_test;

/* Set up; `fail_at` as above. */
void cairn_mem_test_init(cairn_mem_test *heap, uint64_t fail_at);

/* Blocks that were not released. */
uint64_t cairn_mem_test_leaked(cairn_mem_test *heap);

/* Free the lock. The counts stay readable; leaked blocks stay where they are. */
void cairn_mem_test_release(cairn_mem_test *heap);

#endif
