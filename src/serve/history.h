/*
 * history - the records of the last requests, for GET /cairn/requests.
 *
 * Owner    the struct is the caller's; fixed size
 * Thread   any; one lock
 */
#ifndef CAIRN_HISTORY_H
#define CAIRN_HISTORY_H

#include <jansson.h>
#include <pthread.h>

#include "cairn/timeline.h"
#include "serve/excerpt.h"
#include "serve/record_json.h"

enum { CAIRN_HISTORY_MAX = 128 };

typedef struct cairn_history_entry {
    uint64_t id;
    int64_t ended_wall_ms;
    cairn_ending ending;
    cairn_record record;
    cairn_request_times times;
    uint32_t recalled;     /* answers that stood in the prompt as they were generated                    */
    cairn_namespace owner; /* see cairn_job.owner                                                     */
    cairn_namespace space; /* of its prompt                                                           */
    cairn_excerpt excerpt;
    uint64_t arrived_ns; /* by the cache's clock                                                      */
    cairn_timeline timeline;
} cairn_history_entry;

typedef struct cairn_history {
    pthread_mutex_t lock;
    uint64_t count; /* ever added; entry k stands at k % MAX */
    cairn_history_entry entries[CAIRN_HISTORY_MAX];
} cairn_history;

void cairn_history_init(cairn_history *history);
void cairn_history_release(cairn_history *history);
/* Remember a request; the oldest goes when there are more than CAIRN_HISTORY_MAX. */
void cairn_history_add(cairn_history *history, const cairn_history_entry *entry);
/* Forget the texts in a namespace's records, or in all when `space` is NULL; the numbers stay. */
void cairn_history_forget(cairn_history *history, const cairn_namespace *space);

/*
 * {"requests":[newest, ...]}; the caller's. NULL when there is no memory.
 *
 *   owner  [in]      only those of this owner; NULL: all
 *   since  [in,out]  how many were ever added when the list was last asked for: only later ones; NULL: all
 */
json_t *cairn_history_json(cairn_history *history, const cairn_namespace *owner, uint64_t *since);

/* A copy of all that is known of one request. false: not there (any more), or of another owner. */
bool cairn_history_get(cairn_history *history, const cairn_namespace *owner, uint64_t id,
                       cairn_history_entry *ret_entry);

/* Its record, as in the list. The caller's; NULL when there is no memory. */
json_t *cairn_history_entry_json(const cairn_history_entry *entry);

#endif
