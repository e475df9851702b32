/*
 * io_memory_disk - the inside of io_memory: files, folders, and what of them is safe. Only io_memory*.c include it.
 *
 *   node    a file or folder; counted by the names, pending changes and open files that hold it
 *   names   of a folder: `now` as the program sees them, `safe` as after a loss of power
 *   change  one atomic step on names (create, remove, rename): at most two edits; pending until a folder is synced
 *   step    one write on a file's bytes; pending until the file is synced
 *
 * Making a change safe makes every earlier one safe that touches the same folders: what a journal does.
 *
 * Thread   with the disk's lock held
 */
#ifndef CAIRN_BASE_IO_MEMORY_DISK_H
#define CAIRN_BASE_IO_MEMORY_DISK_H

#include <pthread.h>

#include "base/io_memory.h"

#define CAIRN_DISK_NAME_BYTES 160u /* of a name, NUL included */

typedef struct cairn_disk_node cairn_disk_node;

typedef struct cairn_disk_entry {
    char name[CAIRN_DISK_NAME_BYTES];
    cairn_disk_node *target;
} cairn_disk_entry;

typedef struct cairn_disk_names {
    cairn_disk_entry *items;
    size_t count;
    size_t room;
} cairn_disk_names;

typedef struct cairn_disk_bytes {
    uint8_t *data;
    size_t len;
    size_t room;
} cairn_disk_bytes;

typedef struct cairn_disk_step {
    struct cairn_disk_step *next;
    uint64_t offset;
    size_t len;
    bool truncates; /* to `offset`; no data */
    uint8_t data[];
} cairn_disk_step;

struct cairn_disk_node {
    cairn_io_kind kind;
    size_t refs;
    cairn_disk_names now; /* folders */
    cairn_disk_names safe;
    cairn_disk_bytes content; /* files: as the program sees them */
    cairn_disk_bytes settled; /* files: as after a loss of power, without the pending steps */
    cairn_disk_step *first;
    cairn_disk_step *last;
    cairn_disk_bytes staged; /* only inside power_loss */
    const void *lock_owner;
    int64_t modified_ms;
    cairn_disk_node *next; /* all nodes */
    cairn_disk_node *previous;
};

typedef struct cairn_disk_edit {
    cairn_disk_node *folder;
    cairn_disk_node *target; /* NULL: the name goes away */
    char name[CAIRN_DISK_NAME_BYTES];
} cairn_disk_edit;

typedef struct cairn_disk_change {
    struct cairn_disk_change *next;
    struct cairn_disk_change *previous;
    size_t count;
    bool chosen;
    cairn_disk_edit edits[2];
} cairn_disk_change;

struct cairn_io_memory {
    cairn_io io; /* first: the table is the disk */
    const cairn_mem *mem;
    uint64_t bytes_max;
    uint64_t used_bytes;
    uint64_t generation; /* files opened before the last loss of power are stale */
    int64_t ticks;
    cairn_disk_node *root;
    cairn_disk_node *nodes;
    cairn_disk_change *first;
    cairn_disk_change *last;
    pthread_mutex_t lock;
};

/* The node with this name; NULL: none. */
cairn_disk_node *cairn_disk_names_get(const cairn_disk_names *list, const char *name);

/* Make room for more names, so that setting them cannot fail. */
bool cairn_disk_names_reserve(const cairn_mem *mem, cairn_disk_names *list, size_t more);

/* Let a name mean `target`, or take it away (NULL). Room for one more must be reserved. */
void cairn_disk_names_set(cairn_io_memory *disk, cairn_disk_names *list, const char *name,
                          cairn_disk_node *target);

/* Make room for `len` bytes in all. */
bool cairn_disk_bytes_reserve(const cairn_mem *mem, cairn_disk_bytes *content, size_t len);

/* Free the bytes. */
void cairn_disk_bytes_clear(const cairn_mem *mem, cairn_disk_bytes *content);

/* Cut, or lengthen with zeros. Room must be reserved. */
void cairn_disk_bytes_resize(cairn_disk_bytes *content, size_t len);

/* Write uint8_t[len] at an offset, lengthening as needed. Room must be reserved. */
void cairn_disk_bytes_put(cairn_disk_bytes *content, uint64_t offset, const uint8_t *data, size_t len);

/* Make `to` equal `from`. False: no room, and `to` is as it was. */
bool cairn_disk_bytes_copy(const cairn_mem *mem, cairn_disk_bytes *to, const cairn_disk_bytes *from);

/* Forget a file's pending steps. */
void cairn_disk_steps_clear(const cairn_mem *mem, cairn_disk_node *file);

/* Add a step at the end; the file owns it. */
void cairn_disk_step_append(cairn_disk_node *file, cairn_disk_step *step);

/* A new node with one reference, the caller's; NULL: no room. */
cairn_disk_node *cairn_disk_node_new(cairn_io_memory *disk, cairn_io_kind kind);

/* Drop a reference; the last one frees the node. */
void cairn_disk_node_unref(cairn_io_memory *disk, cairn_disk_node *target);

/* Forget a pending change. */
void cairn_disk_change_remove(cairn_io_memory *disk, cairn_disk_change *step);

/* Do a change that the program sees at once, and remember it as not yet safe. False: no room, nothing changed. */
bool cairn_disk_change_do(cairn_io_memory *disk, const cairn_disk_edit *edits, size_t count);

/* Make room for a change to become safe. */
bool cairn_disk_change_reserve_safe(cairn_io_memory *disk, const cairn_disk_change *step);

/* Make it safe. Room must be reserved. */
void cairn_disk_change_settle(cairn_io_memory *disk, const cairn_disk_change *step);

/* Does it change names of this folder? */
bool cairn_disk_change_touches(const cairn_disk_change *step, const cairn_disk_node *folder);

#endif
