/*
 * conversation - messages by seed, rendered with the same frame as recorded requests.
 */
#include "conversation.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

void cairn_gen_init(cairn_gen *gen, cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    memset(gen, 0, sizeof *gen);
    gen->w = w;
    gen->seed = cairn_hash_mix(seed + 1);
    gen->reterr = reterr;
    cairn_draft_init(&gen->draft, w->mem);
    cairn_rng_init(&gen->rng, seed);
}

cairn_status cairn_gen_finish(cairn_gen *gen)
{
    cairn_draft_release(&gen->draft);
    return gen->status;
}

cairn_talk_text cairn_gen_text(cairn_gen *gen, uint32_t count)
{
    return (cairn_talk_text){.seed = cairn_hash_mix(gen->seed + ++gen->next_text), .count = count};
}

uint32_t cairn_gen_length(cairn_gen *gen, uint32_t base, double mu, double sigma, uint32_t max)
{
    double more = exp(mu + sigma * cairn_rng_gaussian(&gen->rng));
    uint32_t room = max > base ? max - base : 0;
    return base + (more < (double)room ? (uint32_t)more : room);
}

void cairn_gen_wait(cairn_gen *gen, double mean_seconds)
{
    gen->now_ns += (uint64_t)(cairn_rng_exponential(&gen->rng, mean_seconds) * 1e9) + 1000000;
}

void cairn_talk_init(cairn_talk *talk, uint32_t session, cairn_talk_text system)
{
    memset(talk, 0, sizeof *talk);
    talk->session = session;
    talk->system = system;
}

cairn_talk_message *cairn_talk_say(cairn_talk *talk, cairn_role role, cairn_talk_text text)
{
    CAIRN_ASSERT(talk->count < CAIRN_TALK_MESSAGES_MAX);
    cairn_talk_message *message = &talk->messages[talk->count++];
    *message = (cairn_talk_message){.role = role, .text = text};
    return message;
}

void cairn_talk_cut(cairn_talk *talk, uint32_t begin, uint32_t end)
{
    CAIRN_ASSERT(begin <= end && end <= talk->count);
    memmove(talk->messages + begin, talk->messages + end, (talk->count - end) * sizeof *talk->messages);
    talk->count -= end - begin;
}

void cairn_talk_forget_thinking(cairn_talk *talk)
{
    for (uint32_t i = 0; i < talk->count; i++) {
        talk->messages[i].think.count = 0;
    }
}

uint32_t cairn_talk_tokens(const cairn_talk *talk)
{
    uint32_t sum = talk->system.count + talk->clock.count + 8;
    for (uint32_t i = 0; i < talk->count; i++) {
        sum += talk->messages[i].text.count + talk->messages[i].think.count + 8;
    }
    return sum;
}

static void put(cairn_draft *draft, const cairn_talk_text *text)
{
    if (text->edit_seed == 0 || text->edit_at >= text->count) {
        cairn_draft_fill(draft, text->seed, text->count);
        return;
    }
    cairn_draft_fill(draft, text->seed, text->edit_at);
    cairn_draft_fill(draft, text->edit_seed, text->count - text->edit_at);
}

static void put_think(cairn_draft *draft, const cairn_talk_text *think)
{
    if (think->count > 0) {
        cairn_draft_think_open(draft);
        put(draft, think);
        cairn_draft_think_close(draft);
    }
}

void cairn_talk_ask(cairn_gen *gen, cairn_talk *talk, const char *kind, cairn_talk_text think,
                    cairn_talk_text text, bool keep)
{
    cairn_draft *draft = &gen->draft;
    if (gen->status != CAIRN_OK) {
        return;
    }
    cairn_draft_clear(draft);
    if (talk->system.count > 0) {
        cairn_draft_open(draft, CAIRN_ROLE_SYSTEM);
        put(draft, &talk->system);
        put(draft, &talk->clock);
        cairn_draft_close(draft);
        cairn_draft_system_end(draft);
    }
    for (uint32_t i = 0; i < talk->count; i++) {
        cairn_draft_open(draft, talk->messages[i].role);
        put_think(draft, &talk->messages[i].think);
        put(draft, &talk->messages[i].text);
        cairn_draft_close(draft);
    }
    cairn_draft_opener(draft);
    put_think(draft, &think);
    put(draft, &text);
    cairn_draft_mark(draft, "<|im_end|>");
    cairn_workload_entry entry = {0};
    gen->status = cairn_draft_finish(draft, &entry, gen->reterr);
    if (gen->status == CAIRN_OK) {
        entry.time_ns = gen->now_ns;
        entry.session = talk->session;
        entry.space = talk->space;
        entry.kind = kind;
        gen->status = cairn_workload_add(gen->w, &entry, gen->reterr);
    }
    if (keep) {
        cairn_talk_say(talk, CAIRN_ROLE_ASSISTANT, text)->think = think;
    }
}
