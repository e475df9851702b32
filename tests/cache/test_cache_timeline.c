/* Time lines of requests: spans are kept, joined where there are many, and never more than there is room. */
#include "test_support.h"

#include "cache/cache_internal.h"

static void add(cairn_request *request, cairn_span_kind kind, uint32_t begin, uint64_t at_ns)
{
    cairn_timeline_add(request, &(cairn_span){.kind = (uint8_t)kind,
                                              .begin = begin,
                                              .end = begin + 1,
                                              .bytes = 10,
                                              .begin_ns = at_ns,
                                              .end_ns = at_ns + 5});
}

static void tokens_of_an_answer_are_one_span_until_something_else_is_done(void **state)
{
    (void)state;
    static cairn_request request;
    const cairn_timeline *t = cairn_request_timeline(&request);
    add(&request, CAIRN_SPAN_READ, 0, 100);
    for (uint32_t i = 1; i <= 20; i++)
        add(&request, CAIRN_SPAN_WRITE, i, 100 + 10 * i);
    add(&request, CAIRN_SPAN_SAVE, 0, 400);
    add(&request, CAIRN_SPAN_WRITE, 21, 500);
    assert_int_equal(t->count, 4);
    assert_int_equal(t->spans[1].count, 20);
    assert_int_equal(t->spans[1].begin, 1);
    assert_int_equal(t->spans[1].end, 21);
    assert_int_equal(t->spans[1].begin_ns, 110);
    assert_int_equal(t->spans[1].end_ns, 305);
    assert_int_equal(t->spans[3].count, 1);
}

static void a_long_request_joins_its_last_spans_and_loses_no_work(void **state)
{
    (void)state;
    enum { PIECES = 1000 };
    static cairn_request request;
    const cairn_timeline *t = cairn_request_timeline(&request);
    for (uint32_t i = 0; i < PIECES; i++) {
        add(&request, CAIRN_SPAN_READ, i, 100 * i);
        add(&request, CAIRN_SPAN_SAVE, 0, 100 * i + 50);
    }
    assert_int_equal(t->count, CAIRN_SPANS_MAX);
    uint64_t pieces[CAIRN_SPAN_COUNT] = {0}, bytes = 0, last_ns = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        pieces[t->spans[i].kind] += t->spans[i].count;
        bytes += t->spans[i].bytes;
        last_ns = t->spans[i].end_ns > last_ns ? t->spans[i].end_ns : last_ns;
    }
    assert_int_equal(pieces[CAIRN_SPAN_READ], PIECES);
    assert_int_equal(pieces[CAIRN_SPAN_SAVE], PIECES);
    assert_int_equal(bytes, 2 * PIECES * 10);
    assert_int_equal(last_ns, 100 * (PIECES - 1) + 55);
}

static void every_kind_has_a_word(void **state)
{
    (void)state;
    for (int kind = 0; kind < CAIRN_SPAN_COUNT; kind++)
        assert_string_not_equal(cairn_span_word((cairn_span_kind)kind), "unknown");
    assert_string_equal(cairn_span_word((cairn_span_kind)CAIRN_SPAN_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_an_answer_are_one_span_until_something_else_is_done),
        cmocka_unit_test(a_long_request_joins_its_last_spans_and_loses_no_work),
        cmocka_unit_test(every_kind_has_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
