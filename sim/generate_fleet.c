/*
 * generate_fleet - many users of one server. Sessions start at a steady rate; each is a chat, an agent that drops its
 * reasoning at each user message, or an agent that keeps its last five observations. Between the turns its user or its
 * tools take their time. At any moment about one session in sixteen is under way.
 */
#include <string.h>

#include "conversation.h"
#include "generate_more.h"

enum { SESSIONS = 1000, APPS = 5, CONTEXT_MAX = 32000, KEPT_OBSERVATIONS = 5 };

static const double start_gap_seconds = 12;

typedef enum session_kind { KIND_CHAT, KIND_THINKER, KIND_OBSERVER } session_kind;

typedef struct fleet_session {
    cairn_talk *talk; /* NULL before its start and after its end */
    session_kind kind;
    uint64_t next_ns;
    uint32_t turns_left;
    uint32_t rounds; /* of the observer, or since the last user message of the thinker */
} fleet_session;

static const cairn_talk_text nothing = {0};

static void start(cairn_gen *gen, fleet_session *s, uint32_t number, const cairn_talk_text *systems)
{
    s->talk = cairn_mem_zalloc(gen->w->mem, sizeof *s->talk);
    if (s->talk == NULL) {
        gen->status = cairn_error_set(gen->reterr, CAIRN_NOMEM, "sim/generate_fleet", NULL);
        return;
    }
    double dice = cairn_rng_unit(&gen->rng);
    s->kind = dice < 0.65 ? KIND_CHAT : dice < 0.9 ? KIND_THINKER : KIND_OBSERVER;
    cairn_talk_init(s->talk, number, systems[cairn_rng_below(&gen->rng, APPS)]);
    if (s->kind == KIND_CHAT) {
        s->turns_left = 3 + (uint32_t)cairn_rng_exponential(&gen->rng, 5);
    } else {
        s->turns_left = 8 + (uint32_t)cairn_rng_exponential(&gen->rng, 8);
    }
    if (s->kind == KIND_OBSERVER) {
        cairn_talk_say(s->talk, CAIRN_ROLE_USER,
                       cairn_gen_text(gen, cairn_gen_length(gen, 300, 6.5, 0.8, 6000)));
    }
}

static void step_chat(cairn_gen *gen, fleet_session *s)
{
    cairn_talk *talk = s->talk;
    double dice = cairn_rng_unit(&gen->rng);
    if (dice < 0.06 && talk->count >= 2) {
        talk->count--; /* regenerate */
    } else if (dice < 0.10 && talk->count >= 2) {
        talk->count -= 2; /* the last question in other words */
        cairn_talk_say(talk, CAIRN_ROLE_USER, cairn_gen_text(gen, cairn_gen_length(gen, 15, 4.6, 1.0, 6000)));
    } else {
        cairn_talk_say(talk, CAIRN_ROLE_USER,
                       cairn_gen_text(gen, cairn_gen_length(gen, 15, 4.8, 1.4, 12000)));
    }
    cairn_talk_ask(gen, talk, "main", nothing, cairn_gen_text(gen, cairn_gen_length(gen, 15, 5.7, 0.8, 3000)),
                   true);
    s->next_ns = gen->now_ns + (uint64_t)(cairn_rng_exponential(&gen->rng, 75) * 1e9);
}

static void step_thinker(cairn_gen *gen, fleet_session *s)
{
    cairn_talk *talk = s->talk;
    double wait = 8;
    if (s->rounds == 0) {
        cairn_talk_forget_thinking(talk);
        cairn_talk_say(talk, CAIRN_ROLE_USER, cairn_gen_text(gen, cairn_gen_length(gen, 20, 4.6, 1.0, 2000)));
    } else {
        cairn_talk_say(talk, CAIRN_ROLE_TOOL, cairn_gen_text(gen, cairn_gen_length(gen, 30, 5.8, 1.0, 4000)));
    }
    cairn_talk_text think = cairn_gen_text(gen, cairn_gen_length(gen, 30, 5.2, 0.8, 2000));
    cairn_talk_ask(gen, talk, "main", think, cairn_gen_text(gen, cairn_gen_length(gen, 20, 4.6, 0.6, 1000)),
                   true);
    s->rounds++;
    if (s->rounds == 4) {
        s->rounds = 0;
        wait = 90;
    }
    s->next_ns = gen->now_ns + (uint64_t)(cairn_rng_exponential(&gen->rng, wait) * 1e9);
}

static void step_observer(cairn_gen *gen, fleet_session *s)
{
    cairn_talk *talk = s->talk;
    uint32_t action = cairn_gen_length(gen, 20, 4.9, 0.7, 2000);
    cairn_talk_ask(gen, talk, "main", nothing, cairn_gen_text(gen, action), true);
    cairn_talk_say(talk, CAIRN_ROLE_TOOL, cairn_gen_text(gen, cairn_gen_length(gen, 20, 6.2, 1.1, 6000)));
    if (s->rounds > KEPT_OBSERVATIONS) {
        uint32_t oldest = 3 + (s->rounds - KEPT_OBSERVATIONS);
        cairn_talk_cut(talk, oldest, oldest + 1);
    }
    s->rounds++;
    s->next_ns = gen->now_ns + (uint64_t)(cairn_rng_exponential(&gen->rng, 12) * 1e9);
}

static void step(cairn_gen *gen, fleet_session *s)
{
    if (s->kind == KIND_CHAT) {
        step_chat(gen, s);
    } else if (s->kind == KIND_THINKER) {
        step_thinker(gen, s);
    } else {
        step_observer(gen, s);
    }
    s->turns_left--;
    if (s->turns_left == 0 || cairn_talk_tokens(s->talk) > CONTEXT_MAX - 4000 ||
        s->talk->count + 4 > CAIRN_TALK_MESSAGES_MAX) {
        cairn_mem_release(gen->w->mem, s->talk, sizeof *s->talk);
        s->talk = NULL;
        s->next_ns = UINT64_MAX;
    }
}

cairn_status cairn_generate_fleet(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    w->slots = 8;
    w->fleet = true;
    fleet_session *sessions = cairn_mem_array(w->mem, SESSIONS, sizeof *sessions);
    if (sessions == NULL) {
        gen.status = cairn_error_set(reterr, CAIRN_NOMEM, "sim/generate_fleet", NULL);
        return cairn_gen_finish(&gen);
    }
    cairn_talk_text systems[APPS];
    for (uint32_t i = 0; i < APPS; i++) {
        systems[i] = cairn_gen_text(&gen, 500 + 900 * i);
    }
    for (uint32_t i = 0; i < SESSIONS; i++) {
        sessions[i].next_ns = (uint64_t)(start_gap_seconds * 1e9) * i;
    }
    while (gen.status == CAIRN_OK) {
        uint32_t next = 0;
        for (uint32_t i = 1; i < SESSIONS; i++) {
            next = sessions[i].next_ns < sessions[next].next_ns ? i : next;
        }
        fleet_session *s = &sessions[next];
        if (s->next_ns == UINT64_MAX) {
            break;
        }
        gen.now_ns = s->next_ns;
        if (s->talk == NULL) {
            start(&gen, s, next, systems);
        }
        if (gen.status == CAIRN_OK) {
            step(&gen, s);
        }
    }
    for (uint32_t i = 0; i < SESSIONS; i++) {
        cairn_mem_release(w->mem, sessions[i].talk, sizeof *sessions[i].talk);
    }
    cairn_mem_array_release(w->mem, sessions, SESSIONS, sizeof *sessions);
    return cairn_gen_finish(&gen);
}
