/*
 * Crowds: more namespaces, or more tiny prompts, than the index has room for. They come and go, and who asks after them is
 * served as before: nothing that one client sends in number costs the others their cache.
 */
#include "cache_support.h"

enum { RAM_BYTES = 2 << 20, TALK_WORDS = 1200 };

/* Ask for some random tokens, and nothing else. Invariants are left to those who come after. */
static void ask_briefly(world *w, const cairn_prompt *prompt)
{
    cairn_request *request;
    assert_ok(cairn_cache_begin(w->cache, prompt, &request, NULL));
    while (cairn_request_phase(request) != CAIRN_PHASE_READY) {
        assert_ok(cairn_cache_step(w->cache, &request, 1, NULL));
    }
    cairn_cache_end(w->cache, request, CAIRN_END_DONE);
    cairn_request_free(request);
}

/* `count` prompts of `tokens` tokens each, of one namespace or each of its own. */
static void crowd(world *w, uint32_t count, uint32_t tokens, bool own_namespaces)
{
    cairn_rng rng;
    cairn_token text[64];
    cairn_rng_init(&rng, 5);
    assert_true(tokens <= 64);
    for (uint32_t i = 0; i < count; i++) {
        cairn_prompt prompt = {.tokens = text, .count = tokens, .mode = CAIRN_RESUME_FAST};
        for (uint32_t k = 0; k < tokens; k++) {
            text[k] = (cairn_token)cairn_rng_below(&rng, w->replica.vocab_size);
        }
        if (own_namespaces) {
            memcpy(prompt.space.bytes + 4, &i, sizeof i);
        }
        ask_briefly(w, &prompt);
    }
}

/* Two conversations, turn about in one slot: each is resumed where it ended. */
static void expect_resumes(world *w)
{
    talk talks[2] = {{0}};
    outcome o;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            talk_add(&talks[i], CAIRN_ROLE_USER, 10 * round + i + 1, round == 0 ? TALK_WORDS : 50);
            turn(w, &talks[i], CAIRN_RESUME_FAST, 5, &o);
            assert_true(round == 0 || o.record.resume + 64 >= TALK_WORDS);
        }
    }
    talk_release(&talks[0]);
    talk_release(&talks[1]);
}

static void crowd_world(world *w)
{
    world_init(w);
    w->replica.vocab_size = 1024;
    w->options.ram_bytes_max = RAM_BYTES;
    world_open(w);
}

static void namespaces_without_number_leave_room_for_others(void **state)
{
    (void)state;
    world w;
    crowd_world(&w);
    crowd(&w, 8000, 20, true);
    expect_resumes(&w);
    world_close(&w);
}

static void tiny_prompts_without_number_leave_room_for_others(void **state)
{
    (void)state;
    world w;
    crowd_world(&w);
    crowd(&w, 20000, 2, false);
    expect_resumes(&w);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(namespaces_without_number_leave_room_for_others),
        cmocka_unit_test(tiny_prompts_without_number_leave_room_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
