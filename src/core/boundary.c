/*
 * boundary - see boundary.h. Everything here is a function of the prompt's count and boundaries alone.
 */
#include "core/boundary.h"

cairn_class cairn_boundary_class(uint16_t kinds, uint8_t role)
{
    /* By how much each says about the next divergence, most first. */
    static const struct {
        uint16_t kind;
        uint8_t class;
    } order[] = {
        {CAIRN_BOUNDARY_MARK, CAIRN_CLASS_MARK},
        {CAIRN_BOUNDARY_OPENER, CAIRN_CLASS_OPENER},
        {CAIRN_BOUNDARY_SYSTEM_END, CAIRN_CLASS_ANCHOR},
        {CAIRN_BOUNDARY_LAST_USER, CAIRN_CLASS_LAST_USER},
        {CAIRN_BOUNDARY_ANSWER_END, CAIRN_CLASS_ANSWER_END},
        {CAIRN_BOUNDARY_THINK_START, CAIRN_CLASS_THINK},
    };
    static const uint8_t by_role[] = {CAIRN_CLASS_USER, CAIRN_CLASS_SYSTEM, CAIRN_CLASS_USER,
                                      CAIRN_CLASS_ASSISTANT, CAIRN_CLASS_TOOL};
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++) {
        if ((kinds & order[i].kind) != 0) {
            return (cairn_class)order[i].class;
        }
    }
    if ((kinds & CAIRN_BOUNDARY_MESSAGE_START) != 0) {
        return (cairn_class)by_role[role < sizeof by_role ? role : 0];
    }
    if ((kinds & CAIRN_BOUNDARY_MEDIA_END) != 0) {
        return CAIRN_CLASS_MEDIA_END;
    }
    return (kinds & CAIRN_BOUNDARY_BRANCH) != 0 ? CAIRN_CLASS_BRANCH : CAIRN_CLASS_NONE;
}

const char *cairn_boundary_class_word(cairn_class class)
{
    static const char *const words[] = {"none",      "system",    "user",   "assistant", "tool",
                                        "anchor",    "last-user", "opener", "think",     "answer-end",
                                        "media-end", "mark",      "branch", "tip"};
    _Static_assert(sizeof words / sizeof words[0] == CAIRN_CLASS_COUNT, "a word for each class");
    return (unsigned)class < CAIRN_CLASS_COUNT ? words[class] : "unknown";
}

bool cairn_boundary_protected(uint16_t kinds)
{
    return (kinds & (CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_LAST_USER | CAIRN_BOUNDARY_OPENER |
                     CAIRN_BOUNDARY_MARK)) != 0;
}

bool cairn_boundary_message(uint16_t kinds)
{
    return (kinds & (CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_LAST_USER |
                     CAIRN_BOUNDARY_OPENER)) != 0;
}

uint32_t cairn_boundary_after(const cairn_prompt *prompt, uint32_t position)
{
    uint32_t low = 0;
    uint32_t high = prompt->count_boundaries;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (prompt->boundaries[middle].position > position) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

cairn_boundary cairn_boundary_at(const cairn_prompt *prompt, uint32_t position)
{
    cairn_boundary sum = {.position = position};
    for (uint32_t i = cairn_boundary_after(prompt, position); i > 0; i--) {
        const cairn_boundary *item = &prompt->boundaries[i - 1];
        if (item->position != position) {
            break;
        }
        sum.kinds |= item->kinds;
        /* What starts here names the message; what ends here only when nothing starts. */
        if (sum.role == CAIRN_ROLE_NONE || cairn_boundary_message(item->kinds)) {
            sum.message = item->message;
            sum.role = item->role;
        }
    }
    return sum;
}

cairn_boundary cairn_boundary_message_of(const cairn_prompt *prompt, uint32_t position)
{
    for (uint32_t i = cairn_boundary_after(prompt, position); i > 0; i--) {
        if (cairn_boundary_message(prompt->boundaries[i - 1].kinds)) {
            return cairn_boundary_at(prompt, prompt->boundaries[i - 1].position);
        }
    }
    return (cairn_boundary){0};
}

uint32_t cairn_boundary_messages(const cairn_prompt *prompt)
{
    uint32_t messages = 0;
    for (uint32_t i = prompt->count_boundaries; i > 0; i--) {
        const cairn_boundary *item = &prompt->boundaries[i - 1];
        if (item->message >= messages) {
            messages = item->message + 1;
        }
        if (cairn_boundary_message(item->kinds) && prompt->count_boundaries - i > 8) {
            break; /* they ascend; a few from the end decide */
        }
    }
    return messages;
}

uint32_t cairn_boundary_distance(uint32_t messages, uint32_t message)
{
    return messages > message + 1 ? messages - 1 - message : 0;
}

cairn_core_options cairn_boundary_options(const cairn_core_options *options)
{
    cairn_core_options full = *options;
    full.slots = full.slots != 0 ? full.slots : 1;
    full.batch_tokens_max = full.batch_tokens_max != 0 ? full.batch_tokens_max : 1;
    full.grid_tokens = full.grid_tokens != 0 ? full.grid_tokens : full.batch_tokens_max;
    full.cut_tokens_min = full.cut_tokens_min != 0 ? full.cut_tokens_min : 64;
    if (full.cut_tokens_min > full.batch_tokens_max) {
        full.cut_tokens_min = full.batch_tokens_max;
    }
    return full;
}

/* The first place that cuts of the boundaries from `index` on, and no later than the grid and the batch allow. */
static uint32_t first_cut(const cairn_core_options *options, const cairn_prompt *prompt, uint32_t from,
                          uint32_t index)
{
    const uint16_t cutting = CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_SYSTEM_END | CAIRN_BOUNDARY_OPENER;
    uint64_t nearest = (uint64_t)from + options->cut_tokens_min;
    uint64_t grid = (nearest + options->grid_tokens - 1) / options->grid_tokens * options->grid_tokens;
    uint64_t cut = (uint64_t)from + options->batch_tokens_max;
    cut = grid < cut ? grid : cut;
    cut = prompt->count < cut ? prompt->count : cut;
    for (uint32_t i = index; i < prompt->count_boundaries && prompt->boundaries[i].position < cut; i++) {
        uint16_t kinds = prompt->boundaries[i].kinds;
        /* The place inside an opener where answered turns part is no place of a longer conversation. */
        bool inside =
            (kinds & CAIRN_BOUNDARY_THINK_START) != 0 && (kinds & CAIRN_BOUNDARY_MESSAGE_START) == 0;
        if ((kinds & cutting) != 0 && !inside) {
            return prompt->boundaries[i].position;
        }
    }
    return (uint32_t)cut;
}

uint32_t cairn_boundary_cut(const cairn_core_options *options, const cairn_prompt *prompt, uint32_t from,
                            uint32_t *index)
{
    uint64_t nearest = (uint64_t)from + options->cut_tokens_min;
    while (*index < prompt->count_boundaries && prompt->boundaries[*index].position < nearest) {
        (*index)++;
    }
    return first_cut(options, prompt, from, *index);
}

uint32_t cairn_boundary_cut_past(const cairn_core_options *options, const cairn_prompt *prompt, uint32_t from,
                                 uint32_t past)
{
    return first_cut(options, prompt, from, cairn_boundary_after(prompt, past));
}

uint32_t cairn_core_cuts(const cairn_core_options *options, const cairn_prompt *prompt, uint32_t *out,
                         uint32_t max)
{
    cairn_core_options full = cairn_boundary_options(options);
    uint32_t count = 0;
    uint32_t index = 0;
    for (uint32_t cut = 0; cut < prompt->count;) {
        cut = cairn_boundary_cut(&full, prompt, cut, &index);
        if (count < max) {
            out[count] = cut;
        }
        count++;
    }
    return count;
}
