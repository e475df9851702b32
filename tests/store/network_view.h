/*
 * network_view - a directory as one host sees it over a network file system: another table over the same files, with the ways in
 * which such a file system differs from a disk of one's own.
 *
 *   host A: view --.
 *                   +--> files (base/io_memory)
 *   host B: view --'
 *
 *   listings lag          what a folder holds, and when it changed, is what it was when this host looked last; its own changes
 *                         it sees (attribute caching, acregmin...acdirmax)
 *   an answer is lost     the call was carried out, is sent again, and is carried out once more: its second answer is the one seen
 *   stale handles         a file that was removed by the other host while it is open: reading it fails (ESTALE)
 *   removed while open    by this host: it becomes .nfs00000001 beside it until it is closed
 *   no locks              ENOLCK
 *   coarse times          a folder that changes twice within a tick shows one time
 *
 * Thread   one
 */
#ifndef CAIRN_TESTS_NETWORK_VIEW_H
#define CAIRN_TESTS_NETWORK_VIEW_H

#include "base/io.h"

enum { NETWORK_SEEN_MAX = 300, NETWORK_OPEN_MAX = 8 };

typedef struct network_seen network_seen; /* a folder as it was when it was looked at */
typedef struct network_file network_file;

typedef struct network_view {
    cairn_io io; /* give this to the thing under test */
    cairn_io *files;
    network_seen *seen[NETWORK_SEEN_MAX];
    uint32_t count_seen;
    network_file *open[NETWORK_OPEN_MAX];
    uint32_t silly; /* names made for files that were removed while open                                   */
    int64_t tick_ms;
    bool lags; /* folders are not looked at again before network_view_refresh                      */
    uint64_t changed, lose_at; /* calls that changed names; the answer of that one is lost; 0: of none    */
    uint64_t reads, remove_at; /* calls that read; before that one the other host removes the file        */
    uint64_t lost, stale, lagged; /* how often each came about                                            */
} network_view;

/* Times are whole ticks of so many ms. */
void network_view_init(network_view *view, cairn_io *files, int64_t tick_ms);
/* What was seen is too old: look again. */
void network_view_refresh(network_view *view);
void network_view_release(network_view *view);

#endif
