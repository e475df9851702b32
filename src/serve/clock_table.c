/*
 * clock_table - see the header. A set-associative table: a key may stand in eight places; when all are taken, the one
 * that was asked for longest ago gives way. So the memory is fixed and no list has to be kept.
 */
#include "serve/clock_table.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"

enum { WAYS = 8 };

typedef struct entry {
    cairn_hash128 key;
    int64_t time_s;
    uint64_t used; /* 0: free */
} entry;

struct cairn_clock_table {
    const cairn_mem *mem;
    pthread_mutex_t lock;
    uint64_t tick;
    size_t sets;
    entry *entries; /* entry[sets * WAYS] */
};

cairn_status cairn_clock_table_new(const cairn_mem *mem, size_t entries_max, cairn_clock_table **ret_table)
{
    cairn_clock_table *table = cairn_mem_zalloc(mem, sizeof *table);
    if (table == NULL)
        return CAIRN_NOMEM;
    table->mem = mem;
    table->sets = entries_max / WAYS > 0 ? entries_max / WAYS : 1;
    table->entries = cairn_mem_array(mem, table->sets * WAYS, sizeof *table->entries);
    if (table->entries == NULL) {
        cairn_mem_release(mem, table, sizeof *table);
        return CAIRN_NOMEM;
    }
    cairn_lock_init(&table->lock);
    *ret_table = table;
    return CAIRN_OK;
}

void cairn_clock_table_free(cairn_clock_table *table)
{
    if (table == NULL)
        return;
    (void)pthread_mutex_destroy(&table->lock);
    cairn_mem_array_release(table->mem, table->entries, table->sets * WAYS, sizeof *table->entries);
    cairn_mem_release(table->mem, table, sizeof *table);
}

int64_t cairn_clock_table_get(cairn_clock_table *table, const cairn_namespace *space, const void *head,
                              size_t len_bytes, int64_t now_s)
{
    cairn_hash128 key = cairn_hash_bytes(head, len_bytes);
    key.low ^= cairn_hash_bytes64(space->bytes, sizeof space->bytes, 1);
    key.high ^= cairn_hash_bytes64(space->bytes, sizeof space->bytes, 2);
    cairn_lock(&table->lock);
    entry *set = &table->entries[(size_t)(key.low % table->sets) * WAYS];
    entry *found = NULL, *oldest = &set[0];
    for (size_t i = 0; i < WAYS && found == NULL; i++) {
        if (set[i].used != 0 && cairn_hash128_equal(set[i].key, key))
            found = &set[i];
        if (set[i].used < oldest->used)
            oldest = &set[i];
    }
    if (found == NULL) {
        found = oldest;
        found->key = key;
        found->time_s = now_s - now_s % CAIRN_CLOCK_TABLE_ROUND_S;
    }
    found->used = ++table->tick;
    int64_t time_s = found->time_s;
    cairn_unlock(&table->lock);
    return time_s;
}
