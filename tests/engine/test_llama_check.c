/*
 * The check at start: it passes what is right, and finds each thing that can be wrong. Most cases run on the replica,
 * which can be made wrong in every way; the rest on the tiny qwen35 model.
 */
#include "contract/contract_support.h"
#include "engine/engine_llama.h"
#include "engine/engine_replica.h"
#include "engine/llama_check.h"
#include "test_support.h"

static cairn_engine *replica(cairn_trim trim)
{
    cairn_replica_options o;
    cairn_engine *engine = NULL;
    cairn_replica_defaults(&o);
    o.trim = trim;
    o.cut_sensitive = true;
    assert_ok(cairn_replica_new(&o, cairn_mem_default(), &engine, NULL));
    return engine;
}

static cairn_check check(cairn_engine *engine)
{
    cairn_check found;
    assert_ok(cairn_check_run(engine, cairn_mem_default(), &found, NULL));
    printf("usable %d exact %d rows_move %d, %u tokens: %s\n", found.usable, found.exact, found.rows_move,
           found.tokens, found.reason);
    return found;
}

static void an_exact_engine_of_each_kind_passes(void **unused)
{
    (void)unused;
    for (int trim = CAIRN_TRIM_ANYWHERE; trim <= CAIRN_TRIM_NEVER; trim++) {
        cairn_engine *engine = replica((cairn_trim)trim);
        cairn_check found = check(engine);
        assert_true(found.usable && found.exact && found.rows_move);
        assert_string_equal(found.reason, "");
        assert_true(found.tokens < 150);
        assert_true(found.control.done && !found.control.same);
        assert_int_equal(cairn_replica_counters_get(engine)->violations, 0);
        assert_int_equal(engine->ops->length(engine, 0), 0);
        assert_int_equal(engine->ops->length(engine, 1), 0);
        engine->ops->free(engine);
    }
}

static void an_engine_that_refuses_to_cut_is_not_usable(void **unused)
{
    (void)unused;
    cairn_engine *engine = replica(CAIRN_TRIM_NEVER);
    cairn_replica_refuse_trim(engine, true);
    cairn_check found = check(engine);
    assert_false(found.usable || found.exact || found.rows_move);
    assert_true(strlen(found.reason) > 0);
    engine->ops->free(engine);
}

static void a_state_that_cannot_be_set_is_not_usable(void **unused)
{
    (void)unused;
    cairn_engine *engine = replica(CAIRN_TRIM_NEVER);
    cairn_replica_fail(engine, CAIRN_REPLICA_STATE_SET, 1, CAIRN_ENGINE);
    cairn_check found = check(engine);
    assert_false(found.usable);
    engine->ops->free(engine);
}

static void rows_that_do_not_move_leave_the_rest_usable(void **unused)
{
    (void)unused;
    static const cairn_replica_call calls[] = {CAIRN_REPLICA_ROWS_EXPORT, CAIRN_REPLICA_ROWS_IMPORT};
    for (size_t i = 0; i < 2; i++) {
        cairn_engine *engine = replica(CAIRN_TRIM_NEVER);
        cairn_replica_fail(engine, calls[i], 1, CAIRN_ENGINE);
        cairn_check found = check(engine);
        assert_true(found.usable && found.exact);
        assert_false(found.rows_move);
        assert_true(strlen(found.reason) > 0);
        engine->ops->free(engine);
    }
}

static void an_engine_that_cannot_read_is_an_error(void **unused)
{
    (void)unused;
    cairn_check found;
    cairn_engine *engine = replica(CAIRN_TRIM_NEVER);
    cairn_replica_fail(engine, CAIRN_REPLICA_DECODE, 1, CAIRN_ENGINE);
    assert_status(cairn_check_run(engine, cairn_mem_default(), &found, NULL), CAIRN_ENGINE);
    engine->ops->free(engine);
}

/* --- an engine that lies: each function of the table can be replaced ------------------------------------- */

static cairn_engine_ops liar;
static const cairn_engine_ops *honest;
static uint32_t lies;

/* A state that is right in size and wrong in content: the last one taken is given again. */
static cairn_status same_state_always(cairn_engine *engine, uint32_t slot, uint8_t *out, uint64_t size,
                                      cairn_error *reterr)
{
    static uint8_t first[64];
    cairn_status status = honest->state_get(engine, slot, out, size, reterr);
    if (lies++ == 0)
        memcpy(first, out, sizeof first);
    else
        memcpy(out, first, sizeof first);
    return status;
}

/* Setting a state does nothing that shows: dead recurrent layers. */
static const float *flat_logits(cairn_engine *engine, uint32_t piece, uint32_t index)
{
    static float flat[256];
    return honest->logits(engine, piece, index) ? flat : NULL;
}

/* Rows come back from another range. */
static cairn_status shifted_rows(cairn_engine *engine, uint32_t slot, uint32_t begin, uint32_t end,
                                 uint8_t *out, uint64_t out_size, uint64_t *ret_size, cairn_error *reterr)
{
    return honest->rows_export(engine, slot, begin + 1, end + 1, out, out_size, ret_size, reterr);
}

static cairn_check check_liar(void (*change)(void))
{
    cairn_engine *engine = replica(CAIRN_TRIM_NEVER);
    honest = engine->ops;
    liar = *honest;
    lies = 0;
    change();
    engine->ops = &liar;
    cairn_check found = check(engine);
    engine->ops = honest;
    engine->ops->free(engine);
    return found;
}

static void lie_about_states(void)
{
    liar.state_get = same_state_always;
}

static void lie_about_logits(void)
{
    liar.logits = flat_logits;
}

static void lie_about_rows(void)
{
    liar.rows_export = shifted_rows;
}

static void wrong_states_are_found(void **unused)
{
    (void)unused;
    assert_false(check_liar(lie_about_states).usable);
}

static void states_that_do_not_matter_prove_nothing(void **unused)
{
    (void)unused;
    cairn_check found = check_liar(lie_about_logits);
    assert_false(found.usable || found.exact);
    assert_non_null(strstr(found.reason, "nothing can be proved"));
}

static void wrong_rows_are_found(void **unused)
{
    (void)unused;
    cairn_check found = check_liar(lie_about_rows);
    assert_true(found.usable);
    assert_false(found.rows_move);
}

/* --- on libllama ----------------------------------------------------------------------------------------- */

static cairn_engine *tiny(const char *type_k, cairn_llama_flash flash, uint32_t slots)
{
    cairn_llama_options o;
    cairn_engine *engine = NULL;
    cairn_error error;
    cairn_llama_log_set(NULL, NULL);
    cairn_llama_defaults(&o);
    o.model.path = contract_model_path("qwen35", "tiny");
    o.slots = slots;
    o.slot_tokens_max = 256;
    o.threads = 1;
    o.type_k = type_k;
    o.flash = flash;
    if (cairn_llama_new(&o, cairn_mem_default(), &engine, &error) != CAIRN_OK)
        fail_msg("%s: %s", error.where, error.detail);
    return engine;
}

static void the_tiny_model_is_exact_with_every_kind_of_cache(void **unused)
{
    (void)unused;
    static const struct {
        const char *type_k;
        cairn_llama_flash flash;
        uint32_t slots;
    } cases[] = {{"f16", CAIRN_LLAMA_FLASH_AUTO, 2},
                 {"f16", CAIRN_LLAMA_FLASH_OFF, 1},
                 {"f32", CAIRN_LLAMA_FLASH_ON, 1},
                 {"q8_0", CAIRN_LLAMA_FLASH_ON, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cairn_check found;
        cairn_engine *engine = tiny(cases[i].type_k, cases[i].flash, cases[i].slots);
        assert_ok(cairn_llama_check(engine, cairn_mem_default(), &found, NULL));
        printf("%s: control %g, %u tokens %s\n", cases[i].type_k, (double)found.control.distance,
               found.tokens, found.reason);
        assert_true(found.usable && found.exact && found.rows_move);
        assert_false(found.whole_states);
        assert_true(engine->info.exact && engine->info.rows_move);
        contract_control(cases[i].type_k, found.control.distance, 0);
        engine->ops->free(engine);
    }
}

/* Rows that fail make the engine keep whole sequences, and those are proved in turn. */
static void whole_states_are_what_it_falls_back_to(void **unused)
{
    (void)unused;
    cairn_check found;
    cairn_engine *engine = tiny("f16", CAIRN_LLAMA_FLASH_AUTO, 1);
    uint64_t parts = engine->info.state_bytes_max;
    uint8_t before[CAIRN_FINGERPRINT_BYTES];
    memcpy(before, engine->info.fingerprint, sizeof before);
    engine->info.rows_move = false; /* as if measuring them had failed */
    assert_ok(cairn_llama_check(engine, cairn_mem_default(), &found, NULL));
    assert_true(found.usable && found.exact && found.rows_move && found.whole_states);
    assert_true(engine->info.state_bytes_max > parts);
    assert_int_equal(engine->info.row_bytes, 0);
    assert_memory_not_equal(before, engine->info.fingerprint, sizeof before);
    engine->ops->free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_engine_of_each_kind_passes),
        cmocka_unit_test(an_engine_that_refuses_to_cut_is_not_usable),
        cmocka_unit_test(a_state_that_cannot_be_set_is_not_usable),
        cmocka_unit_test(rows_that_do_not_move_leave_the_rest_usable),
        cmocka_unit_test(an_engine_that_cannot_read_is_an_error),
        cmocka_unit_test(wrong_states_are_found),
        cmocka_unit_test(states_that_do_not_matter_prove_nothing),
        cmocka_unit_test(wrong_rows_are_found),
        cmocka_unit_test(the_tiny_model_is_exact_with_every_kind_of_cache),
        cmocka_unit_test(whole_states_are_what_it_falls_back_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
