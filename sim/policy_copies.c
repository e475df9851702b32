/*
 * policy_copies - copies of whole prompts and their states.
 */
#include "policy_copies.h"

#include <string.h>

uint32_t cairn_copy_common(const cairn_workload *w, const cairn_policy_view *view, const cairn_copy *copy)
{
    if (copy->length == 0) {
        return 0;
    }
    uint32_t common = cairn_workload_common(w, view->request->node_prompt, copy->node);
    return common < copy->length ? common : copy->length;
}

uint32_t cairn_copy_serves(const cairn_profile *profile, const cairn_policy_view *view,
                           const cairn_copy *copy, uint32_t common)
{
    uint32_t limit = view->request->prompt_tokens - 1;
    if (common < limit) {
        limit = common;
    }
    if (profile->state_bytes == 0 || (copy->length > 0 && copy->length <= limit)) {
        return limit;
    }
    for (uint32_t i = copy->count; i-- > 0;) {
        if (copy->points[i] <= limit) {
            return copy->points[i];
        }
    }
    return 0;
}

void cairn_copy_cut(cairn_copy *copy, uint32_t position)
{
    while (copy->count > 0 && copy->points[copy->count - 1] > position) {
        copy->count--;
    }
}

void cairn_copy_drop(cairn_copy *copy, uint32_t index)
{
    CAIRN_ASSERT(index < copy->count);
    size_t behind = copy->count - index - 1;
    memmove(copy->points + index, copy->points + index + 1, behind * sizeof *copy->points);
    memmove(copy->tasks + index, copy->tasks + index + 1, behind * sizeof *copy->tasks);
    copy->count--;
}

void cairn_copy_add(cairn_copy *copy, uint32_t position, uint64_t task)
{
    if (copy->count > 0 && copy->points[copy->count - 1] == position) {
        copy->tasks[copy->count - 1] = task;
        return;
    }
    CAIRN_ASSERT(copy->count < CAIRN_COPY_POINTS_MAX);
    CAIRN_ASSERT(copy->count == 0 || copy->points[copy->count - 1] < position);
    copy->points[copy->count] = position;
    copy->tasks[copy->count] = task;
    copy->count++;
}

uint64_t cairn_copy_state_bytes(const cairn_profile *profile, const cairn_copy *copy, bool with_end)
{
    return (copy->count + (with_end && copy->length > 0 ? 1u : 0u)) * profile->state_bytes;
}

uint64_t cairn_copy_row_bytes(const cairn_profile *profile, const cairn_copy *copy)
{
    return copy->length * profile->row_bytes;
}

uint32_t cairn_thin_product(const uint32_t *points, uint32_t count)
{
    uint32_t best = 1;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 1; i + 1 < count; i++) {
        uint64_t product = (uint64_t)(points[i] - points[i - 1]) * (points[i + 1] - points[i]);
        if (product < least) {
            least = product;
            best = i;
        }
    }
    return best;
}

uint32_t cairn_thin_nearest(const uint32_t *points, uint32_t count)
{
    uint32_t best = 1;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 1; i + 1 < count; i++) {
        uint32_t before = points[i] - points[i - 1];
        uint32_t after = points[i + 1] - points[i];
        uint32_t near = before < after ? before : after;
        if (near < least) {
            least = near;
            best = i;
        }
    }
    return best;
}
