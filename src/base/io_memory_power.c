/*
 * io_memory_power - what a loss of power leaves of a disk in memory: the safe part, and by chance some of the rest.
 */
#include <string.h>

#include "base/io_memory_disk.h"
#include "base/rng.h"

#define SECTOR_BYTES 512u

/* How the pending steps of one loss of power fare. */
typedef enum fate { FATE_NONE, FATE_ALL, FATE_PREFIX, FATE_ANY, FATE_COUNT } fate;

/* Is the step with this number (of `count`) kept? `cut` was drawn once for the fate PREFIX. */
static bool is_kept(fate how, cairn_rng *rng, size_t number, size_t cut)
{
    switch (how) {
    case FATE_ALL:
        return true;
    case FATE_PREFIX:
        return number < cut;
    case FATE_ANY:
        return cairn_rng_chance(rng, 0.5);
    case FATE_NONE:
    case FATE_COUNT:
        break;
    }
    return false;
}

static bool stage_file(cairn_io_memory *disk, cairn_disk_node *file, cairn_rng *rng)
{
    if (!cairn_disk_bytes_copy(disk->mem, &file->staged, &file->settled)) {
        return false;
    }
    size_t count = 0;
    for (const cairn_disk_step *step = file->first; step != NULL; step = step->next) {
        count++;
    }
    fate how = (fate)cairn_rng_below(rng, FATE_COUNT);
    size_t cut = (size_t)cairn_rng_below(rng, count + 1);
    size_t number = 0;
    for (const cairn_disk_step *step = file->first; step != NULL; step = step->next, number++) {
        if (!is_kept(how, rng, number, cut)) {
            continue;
        }
        size_t len = step->len;
        if (how != FATE_ALL && len > SECTOR_BYTES && cairn_rng_chance(rng, 0.3)) {
            len = SECTOR_BYTES * (size_t)cairn_rng_below(rng, len / SECTOR_BYTES + 1); /* torn */
        }
        size_t end = step->truncates ? (size_t)step->offset : (size_t)step->offset + len;
        if (!cairn_disk_bytes_reserve(disk->mem, &file->staged, end)) {
            return false;
        }
        if (step->truncates) {
            cairn_disk_bytes_resize(&file->staged, end);
        } else {
            cairn_disk_bytes_put(&file->staged, step->offset, step->data, len);
        }
    }
    /* Room for the copy that the program will see: after this nothing can fail. */
    return cairn_disk_bytes_reserve(disk->mem, &file->content, file->staged.len);
}

/* Everything that needs memory, before anything changes. */
static bool stage_all(cairn_io_memory *disk, cairn_rng *rng)
{
    for (cairn_disk_node *file = disk->nodes; file != NULL; file = file->next) {
        if (file->kind == CAIRN_IO_KIND_FILE && !stage_file(disk, file, rng)) {
            return false;
        }
    }
    size_t count = 0;
    for (const cairn_disk_change *step = disk->first; step != NULL; step = step->next) {
        count++;
    }
    fate how = (fate)cairn_rng_below(rng, FATE_COUNT);
    size_t cut = (size_t)cairn_rng_below(rng, count + 1);
    size_t number = 0;
    for (cairn_disk_change *step = disk->first; step != NULL; step = step->next, number++) {
        step->chosen = is_kept(how, rng, number, cut);
    }
    for (cairn_disk_node *folder = disk->nodes; folder != NULL; folder = folder->next) {
        size_t more = 0;
        for (const cairn_disk_change *step = disk->first; step != NULL; step = step->next) {
            more += cairn_disk_change_touches(step, folder) ? step->count : 0;
        }
        if (folder->kind == CAIRN_IO_KIND_FOLDER &&
            (!cairn_disk_names_reserve(disk->mem, &folder->safe, more) ||
             !cairn_disk_names_reserve(disk->mem, &folder->now, folder->safe.count + more))) {
            return false;
        }
    }
    return true;
}

/* The names that the program sees become the safe ones. Room is reserved. */
static void restore_names(cairn_io_memory *disk, cairn_disk_node *folder)
{
    for (size_t i = 0; i < folder->safe.count; i++) {
        cairn_disk_names_set(disk, &folder->now, folder->safe.items[i].name, folder->safe.items[i].target);
    }
    for (size_t i = folder->now.count; i > 0; i--) {
        const cairn_disk_entry gone = folder->now.items[i - 1];
        if (cairn_disk_names_get(&folder->safe, gone.name) == NULL) {
            cairn_disk_names_set(disk, &folder->now, gone.name, NULL);
        }
    }
}

cairn_status cairn_io_memory_power_loss(cairn_io_memory *disk, uint64_t seed)
{
    cairn_rng rng;
    cairn_rng_init(&rng, seed);
    pthread_mutex_lock(&disk->lock);
    if (!stage_all(disk, &rng)) {
        for (cairn_disk_node *file = disk->nodes; file != NULL; file = file->next) {
            cairn_disk_bytes_clear(disk->mem, &file->staged);
        }
        pthread_mutex_unlock(&disk->lock);
        return CAIRN_NOMEM;
    }
    for (cairn_disk_node *each = disk->nodes; each != NULL; each = each->next) {
        each->refs++; /* none goes away while the list is walked */
    }
    for (cairn_disk_change *step = disk->first; step != NULL; step = step->next) {
        if (step->chosen) {
            cairn_disk_change_settle(disk, step);
        }
    }
    while (disk->first != NULL) {
        cairn_disk_change_remove(disk, disk->first);
    }
    disk->used_bytes = 0;
    for (cairn_disk_node *each = disk->nodes; each != NULL; each = each->next) {
        each->lock_owner = NULL;
        restore_names(disk, each);
        cairn_disk_steps_clear(disk->mem, each);
        cairn_disk_bytes_clear(disk->mem, &each->settled);
        each->settled = each->staged;
        each->staged = (cairn_disk_bytes){0};
        bool copied = cairn_disk_bytes_copy(disk->mem, &each->content, &each->settled);
        CAIRN_ASSERT(copied);
        disk->used_bytes += each->content.len;
    }
    disk->generation++;
    for (cairn_disk_node *each = disk->nodes; each != NULL;) {
        cairn_disk_node *next = each->next;
        cairn_disk_node_unref(disk, each);
        each = next;
    }
    pthread_mutex_unlock(&disk->lock);
    return CAIRN_OK;
}
