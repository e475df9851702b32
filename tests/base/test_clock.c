/* Clocks: base/clock. And the machine's sizes: base/machine. */
#include "test_support.h"

#include "base/clock.h"
#include "base/machine.h"

static void system_clock_never_goes_back(void **state)
{
    (void)state;
    const cairn_clock *clock = cairn_clock_system();
    uint64_t last = cairn_clock_now_ns(clock);
    for (int i = 0; i < 10000; i++) {
        uint64_t now = cairn_clock_now_ns(clock);
        assert_true(now >= last);
        last = now;
    }
    assert_true(cairn_clock_wall_seconds(clock) > INT64_C(1700000000));
}

static void virtual_clock_moves_only_when_told(void **state)
{
    (void)state;
    cairn_clock_virtual clock;
    cairn_clock_virtual_init(&clock, 1000);
    assert_int_equal(cairn_clock_now_ns(&clock.clock), 0);
    assert_int_equal(cairn_clock_wall_ms(&clock.clock), 1000);
    cairn_clock_virtual_advance(&clock, 2500000);
    assert_int_equal(cairn_clock_now_ns(&clock.clock), 2500000);
    assert_int_equal(cairn_clock_wall_ms(&clock.clock), 1002);
    assert_int_equal(cairn_clock_wall_seconds(&clock.clock), 1);
    cairn_clock_virtual_init(&clock, -1);
    assert_int_equal(cairn_clock_wall_seconds(&clock.clock), -1);
}

static void times_print_as_rfc3339(void **state)
{
    (void)state;
    char text[CAIRN_CLOCK_TEXT];
    cairn_clock_print(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    cairn_clock_print(INT64_C(1769903999123), text);
    assert_string_equal(text, "2026-01-31T23:59:59.123Z");
    cairn_clock_print(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
    cairn_clock_print(INT64_MAX, text);
    assert_string_equal(text, "0000-00-00T00:00:00.000Z");
    cairn_clock_print(INT64_MIN, text);
    assert_string_equal(text, "0000-00-00T00:00:00.000Z");
}

static void machine_has_memory_and_a_processor(void **state)
{
    (void)state;
    assert_true(cairn_machine_memory_bytes() > (uint64_t)16 << 20);
    assert_true(cairn_machine_processors() >= 1);
}

static void folders_beside_the_program_are_found(void **state)
{
    (void)state;
    char path[4096];
    assert_true(cairn_machine_beside("..", path, sizeof path));
    assert_string_equal(path + strlen(path) - 3, "/..");
    assert_false(cairn_machine_beside("../no/such/folder", path, sizeof path));
    assert_false(cairn_machine_beside(".", path, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_clock_never_goes_back),
        cmocka_unit_test(virtual_clock_moves_only_when_told),
        cmocka_unit_test(times_print_as_rfc3339),
        cmocka_unit_test(machine_has_memory_and_a_processor),
        cmocka_unit_test(folders_beside_the_program_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
