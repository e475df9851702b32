/*
 * io_memory_disk - names, bytes, nodes and pending changes of a disk in memory.
 */
#include "base/io_memory_disk.h"

#include <string.h>

cairn_disk_node *cairn_disk_names_get(const cairn_disk_names *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0) {
            return list->items[i].target;
        }
    }
    return NULL;
}

bool cairn_disk_names_reserve(const cairn_mem *mem, cairn_disk_names *list, size_t more)
{
    if (list->count + more <= list->room) {
        return true;
    }
    size_t room = list->count + more + list->room / 2;
    cairn_disk_entry *grown = cairn_mem_array_resize(mem, list->items, list->room, room, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    list->items = grown;
    list->room = room;
    return true;
}

void cairn_disk_names_set(cairn_io_memory *disk, cairn_disk_names *list, const char *name,
                          cairn_disk_node *target)
{
    if (target != NULL) {
        target->refs++;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) != 0) {
            continue;
        }
        cairn_disk_node *old = list->items[i].target;
        if (target != NULL) {
            list->items[i].target = target;
        } else {
            list->items[i] = list->items[--list->count];
        }
        cairn_disk_node_unref(disk, old);
        return;
    }
    if (target != NULL) {
        CAIRN_ASSERT(list->count < list->room);
        cairn_disk_entry *added = &list->items[list->count++];
        memcpy(added->name, name, strlen(name) + 1);
        added->target = target;
    }
}

static void names_clear(cairn_io_memory *disk, cairn_disk_names *list)
{
    cairn_disk_entry *items = list->items;
    size_t count = list->count;
    size_t room = list->room;
    *list = (cairn_disk_names){0};
    for (size_t i = 0; i < count; i++) {
        cairn_disk_node_unref(disk, items[i].target);
    }
    cairn_mem_array_release(disk->mem, items, room, sizeof *items);
}

/* --- bytes */

bool cairn_disk_bytes_reserve(const cairn_mem *mem, cairn_disk_bytes *content, size_t len)
{
    if (len <= content->room) {
        return true;
    }
    size_t room = len + content->room / 2;
    uint8_t *grown = cairn_mem_resize(mem, content->data, content->room, room);
    if (grown == NULL) {
        return false;
    }
    content->data = grown;
    content->room = room;
    return true;
}

void cairn_disk_bytes_clear(const cairn_mem *mem, cairn_disk_bytes *content)
{
    cairn_mem_release(mem, content->data, content->room);
    *content = (cairn_disk_bytes){0};
}

void cairn_disk_bytes_resize(cairn_disk_bytes *content, size_t len)
{
    CAIRN_ASSERT(len <= content->room);
    if (len > content->len) {
        memset(content->data + content->len, 0, len - content->len);
    }
    content->len = len;
}

void cairn_disk_bytes_put(cairn_disk_bytes *content, uint64_t offset, const uint8_t *data, size_t len)
{
    if (len == 0) {
        return;
    }
    if (offset + len > content->len) {
        cairn_disk_bytes_resize(content, (size_t)offset + len);
    }
    memcpy(content->data + offset, data, len);
}

bool cairn_disk_bytes_copy(const cairn_mem *mem, cairn_disk_bytes *to, const cairn_disk_bytes *from)
{
    if (!cairn_disk_bytes_reserve(mem, to, from->len)) {
        return false;
    }
    to->len = 0;
    cairn_disk_bytes_put(to, 0, from->data, from->len);
    return true;
}

void cairn_disk_steps_clear(const cairn_mem *mem, cairn_disk_node *file)
{
    while (file->first != NULL) {
        cairn_disk_step *step = file->first;
        file->first = step->next;
        cairn_mem_release(mem, step, sizeof *step + step->len);
    }
    file->last = NULL;
}

void cairn_disk_step_append(cairn_disk_node *file, cairn_disk_step *step)
{
    if (file->last != NULL) {
        file->last->next = step;
    } else {
        file->first = step;
    }
    file->last = step;
}

/* --- nodes and changes */

cairn_disk_node *cairn_disk_node_new(cairn_io_memory *disk, cairn_io_kind kind)
{
    cairn_disk_node *made = cairn_mem_zalloc(disk->mem, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    made->kind = kind;
    made->refs = 1;
    made->modified_ms = ++disk->ticks;
    made->next = disk->nodes;
    if (disk->nodes != NULL) {
        disk->nodes->previous = made;
    }
    disk->nodes = made;
    return made;
}

void cairn_disk_node_unref(cairn_io_memory *disk, cairn_disk_node *target)
{
    CAIRN_ASSERT(target->refs > 0);
    if (--target->refs > 0) {
        return;
    }
    names_clear(disk, &target->now);
    names_clear(disk, &target->safe);
    disk->used_bytes -= target->content.len;
    cairn_disk_bytes_clear(disk->mem, &target->content);
    cairn_disk_bytes_clear(disk->mem, &target->settled);
    cairn_disk_bytes_clear(disk->mem, &target->staged);
    cairn_disk_steps_clear(disk->mem, target);
    if (target->previous != NULL) {
        target->previous->next = target->next;
    } else {
        disk->nodes = target->next;
    }
    if (target->next != NULL) {
        target->next->previous = target->previous;
    }
    cairn_mem_release(disk->mem, target, sizeof *target);
}

void cairn_disk_change_remove(cairn_io_memory *disk, cairn_disk_change *step)
{
    if (step->previous != NULL) {
        step->previous->next = step->next;
    } else {
        disk->first = step->next;
    }
    if (step->next != NULL) {
        step->next->previous = step->previous;
    } else {
        disk->last = step->previous;
    }
    for (size_t i = 0; i < step->count; i++) {
        cairn_disk_node_unref(disk, step->edits[i].folder);
        if (step->edits[i].target != NULL) {
            cairn_disk_node_unref(disk, step->edits[i].target);
        }
    }
    cairn_mem_release(disk->mem, step, sizeof *step);
}

bool cairn_disk_change_do(cairn_io_memory *disk, const cairn_disk_edit *edits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!cairn_disk_names_reserve(disk->mem, &edits[i].folder->now, 1)) {
            return false;
        }
    }
    cairn_disk_change *step = cairn_mem_zalloc(disk->mem, sizeof *step);
    if (step == NULL) {
        return false;
    }
    step->count = count;
    for (size_t i = 0; i < count; i++) {
        step->edits[i] = edits[i];
        edits[i].folder->refs++;
        edits[i].folder->modified_ms = ++disk->ticks; /* a folder's time is that of its names */
        if (edits[i].target != NULL) {
            edits[i].target->refs++;
        }
    }
    step->previous = disk->last;
    if (disk->last != NULL) {
        disk->last->next = step;
    } else {
        disk->first = step;
    }
    disk->last = step;
    for (size_t i = 0; i < count; i++) {
        cairn_disk_names_set(disk, &edits[i].folder->now, edits[i].name, edits[i].target);
    }
    return true;
}

bool cairn_disk_change_reserve_safe(cairn_io_memory *disk, const cairn_disk_change *step)
{
    for (size_t i = 0; i < step->count; i++) {
        /* Two edits may name the same folder. */
        if (!cairn_disk_names_reserve(disk->mem, &step->edits[i].folder->safe, step->count)) {
            return false;
        }
    }
    return true;
}

void cairn_disk_change_settle(cairn_io_memory *disk, const cairn_disk_change *step)
{
    for (size_t i = 0; i < step->count; i++) {
        cairn_disk_names_set(disk, &step->edits[i].folder->safe, step->edits[i].name, step->edits[i].target);
    }
}

bool cairn_disk_change_touches(const cairn_disk_change *step, const cairn_disk_node *folder)
{
    return step->edits[0].folder == folder || (step->count > 1 && step->edits[1].folder == folder);
}
