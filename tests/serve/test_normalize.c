/*
 * Volatile lines at the head are found; they are taken out only when that is asked for.
 */
#include "test_support.h"

#include "serve/normalize.h"

static json_t *parse(const char *text)
{
    json_error_t where;
    json_t *value = json_loads(text, 0, &where);
    if (value == NULL)
        fail_msg("%s at %d in %s", where.text, where.position, text);
    return value;
}

static void check(const char *body_text, bool apply, const char *notes_text, const char *after_text)
{
    json_t *body = parse(body_text), *after = parse(after_text);
    bool changed = false;
    json_t *notes = cairn_normalize(body, apply, &changed),
           *expected = notes_text != NULL ? parse(notes_text) : NULL;
    if ((notes == NULL) != (expected == NULL) || (notes != NULL && !json_equal(notes, expected)))
        fail_msg("notes %s", notes != NULL ? json_dumps(notes, 0) : "none");
    if (!json_equal(body, after))
        fail_msg("body %s", json_dumps(body, 0));
    json_t *before = parse(body_text);
    assert_int_equal(changed, !json_equal(before, after));
    json_decref(before);
    json_decref(body);
    json_decref(after);
    json_decref(notes);
    json_decref(expected);
}

#define BILLING "x-anthropic-billing-header: cc_version=2.1.332.abc; cc_entrypoint=cli;"
#define PARTS                                                                                 \
    "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"" BILLING \
    "\"},{\"type\":\"text\",\"text\":\"Be brief.\"}]},{\"role\":\"user\",\"content\":\"hi\"}]}"

static void a_billing_line_is_reported_with_its_place(void **state)
{
    (void)state;
    check(PARTS, false,
          "[{\"rule\":\"claude-billing\",\"message\":0,\"part\":0,\"byte\":0,\"bytes\":70,\"done\":"
          "\"reported\"}]",
          PARTS);
}

static void a_billing_line_is_dropped_on_request(void **state)
{
    (void)state;
    check(PARTS, true,
          "[{\"rule\":\"claude-billing\",\"message\":0,\"part\":0,\"byte\":0,\"bytes\":70,\"done\":"
          "\"dropped\"}]",
          "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"Be brief.\"}]},"
          "{\"role\":\"user\",\"content\":\"hi\"}]}");
    check("{\"messages\":[{\"role\":\"system\",\"content\":\"" BILLING "\\nBe brief.\"}]}", true,
          "[{\"rule\":\"claude-billing\",\"message\":0,\"part\":0,\"byte\":0,\"bytes\":70,\"done\":"
          "\"dropped\"}]",
          "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"}]}");
}

static void a_clock_moves_to_the_last_user_message(void **state)
{
    (void)state;
    static const char body[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Rules.\\nCurrent time: 2026-11-29 "
        "18:21\\nMore.\"},"
        "{\"role\":\"user\",\"content\":\"one\"},{\"role\":\"assistant\",\"content\":\"two\"},"
        "{\"role\":\"user\",\"content\":\"three\"}]}";
    check(body, false,
          "[{\"rule\":\"clock\",\"message\":0,\"part\":0,\"byte\":7,\"bytes\":30,\"done\":\"reported\"}]",
          body);
    check(body, true,
          "[{\"rule\":\"clock\",\"message\":0,\"part\":0,\"byte\":7,\"bytes\":30,\"done\":\"moved\"}]",
          "{\"messages\":[{\"role\":\"system\",\"content\":\"Rules.\\nMore.\"},{\"role\":\"user\","
          "\"content\":\"one\"},"
          "{\"role\":\"assistant\",\"content\":\"two\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\","
          "\"text\":\"three\"},{\"type\":\"text\",\"text\":\"<system-reminder>\\nCurrent time: 2026-11-29 "
          "18:21\\n"
          "</system-reminder>\"}]}]}");
}

static void plain_text_is_left_alone(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"" BILLING "\"}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Say x-anthropic-billing-header: never.\"}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Meet at 18:21. The ratio is 3:14.\"}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Tell the current time when asked.\"}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":null}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\"},7,null]}]}",
        "{\"messages\":[1,2]}",
        "{\"messages\":7}",
        "{}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        check(bodies[i], true, NULL, bodies[i]);
}

static void a_dropped_part_leaves_its_mark_behind(void **state)
{
    (void)state;
    check("{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"Be brief.\"},"
          "{\"type\":\"text\",\"text\":\"" BILLING "\",\"cache_control\":{\"type\":\"ephemeral\"}}]}]}",
          true,
          "[{\"rule\":\"claude-billing\",\"message\":0,\"part\":1,\"byte\":0,\"bytes\":70,\"done\":"
          "\"dropped\"}]",
          "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"Be brief.\","
          "\"cache_control\":{\"type\":\"ephemeral\"}}]}]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_billing_line_is_reported_with_its_place),
        cmocka_unit_test(a_billing_line_is_dropped_on_request),
        cmocka_unit_test(a_clock_moves_to_the_last_user_message),
        cmocka_unit_test(plain_text_is_left_alone),
        cmocka_unit_test(a_dropped_part_leaves_its_mark_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
