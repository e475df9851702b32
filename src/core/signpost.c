/*
 * signpost - see signpost.h. A rolling polynomial hash over the last tokens.
 */
#include "core/signpost.h"

#include <string.h>

static const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);

/* factor to the power of CAIRN_SIGNPOST_TOKENS: what the oldest token was multiplied by. */
static uint64_t oldest_factor(void)
{
    uint64_t power = factor * factor;
    power *= power;
    return power * power;
}

_Static_assert(CAIRN_SIGNPOST_TOKENS == 8, "oldest_factor squares three times");

static uint32_t filter_bit(uint64_t hash)
{
    return (uint32_t)(hash >> 56);
}

static cairn_signpost *find(cairn_signposts *posts, uint64_t hash)
{
    uint32_t bit = filter_bit(hash);
    if ((posts->filter[bit / 64] >> (bit % 64) & 1) == 0) {
        return NULL;
    }
    for (uint32_t i = 0; i < posts->count; i++) {
        if (posts->items[i].hash == hash) {
            return &posts->items[i];
        }
    }
    return NULL;
}

cairn_signpost *cairn_signpost_step(cairn_signposts *posts, cairn_signpost_walk *walk, cairn_token token)
{
    uint32_t at = walk->count % CAIRN_SIGNPOST_TOKENS;
    uint64_t gone = walk->count >= CAIRN_SIGNPOST_TOKENS ? (uint64_t)(uint32_t)walk->last[at] + 1 : 0;
    walk->hash = walk->hash * factor + (uint64_t)(uint32_t)token + 1 - gone * oldest_factor();
    walk->last[at] = token;
    walk->count++;
    return posts != NULL && walk->count >= CAIRN_SIGNPOST_TOKENS ? find(posts, walk->hash) : NULL;
}

void cairn_signpost_start(cairn_signpost_walk *walk, const cairn_token *tokens, uint32_t position)
{
    *walk = (cairn_signpost_walk){0};
    uint32_t from = position > CAIRN_SIGNPOST_TOKENS ? position - CAIRN_SIGNPOST_TOKENS : 0;
    for (uint32_t i = from; i < position; i++) {
        (void)cairn_signpost_step(NULL, walk, tokens[i]);
    }
}

/* The least useful one makes room. */
static cairn_signpost *add(cairn_signposts *posts, uint64_t hash)
{
    uint32_t at = posts->count;
    if (at < CAIRN_SIGNPOSTS) {
        posts->count++;
    } else {
        at = 0;
        for (uint32_t i = 1; i < posts->count; i++) {
            at = posts->items[i].parted < posts->items[at].parted ? i : at;
        }
    }
    posts->items[at] = (cairn_signpost){.hash = hash};
    memset(posts->filter, 0, sizeof posts->filter);
    for (uint32_t i = 0; i < posts->count; i++) {
        uint32_t bit = filter_bit(posts->items[i].hash);
        posts->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
    return &posts->items[at];
}

void cairn_signpost_parted(cairn_signposts *posts, const cairn_token *tokens, uint32_t position)
{
    const float keep = 255.0f / 256.0f;
    cairn_signpost_walk walk;
    cairn_signpost_start(&walk, tokens, position);
    for (uint32_t i = 0; i < posts->count; i++) {
        posts->items[i].parted *= keep;
        posts->items[i].passed *= keep;
    }
    cairn_signpost *post = find(posts, walk.hash);
    post = post != NULL ? post : add(posts, walk.hash);
    post->parted += 1.0f;
}

double cairn_signpost_chance(const cairn_signpost *post)
{
    const double most = 0.8;
    double chance = (double)post->parted / ((double)post->passed + 3.0);
    return chance < most ? chance : most;
}
