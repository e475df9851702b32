/*
 * Messages requests become chat completions; answers become messages, whole or as events.
 */
#include "convert_support.h"

#include "serve/anthropic.h"
#include "serve/json_answer.h"

static json_t *convert(const char *text)
{
    json_t *request = test_json(text);
    cairn_api_error error = {0};
    json_t *body = cairn_anthropic_to_chat(request, CAIRN_ANTHROPIC_ANSWER, &error);
    if (body == NULL)
        fail_msg("refused: %s", error.message);
    json_decref(request);
    return body;
}

static void refused(const char *text, const char *param, const char *message)
{
    json_t *request = test_json(text);
    cairn_api_error error = {0};
    assert_null(cairn_anthropic_to_chat(request, CAIRN_ANTHROPIC_ANSWER, &error));
    assert_int_equal(error.http, 400);
    assert_string_equal(error.param, param);
    if (strstr(error.message, message) == NULL)
        fail_msg("%s", error.message);
    json_decref(request);
}

/* One message list, with the fields that every request has. */
static void messages_become(const char *messages, const char *expected)
{
    char text[4096];
    (void)snprintf(text, sizeof text, "{'max_tokens':5,'messages':%s}", messages);
    json_t *body = convert(text);
    test_same(json_incref(json_object_get(body, "messages")), expected);
    json_decref(body);
}

static void a_request_with_everything_is_converted(void **state)
{
    (void)state;
    test_same(
        convert(
            "{'model':'claude','max_tokens':9,'temperature':0.5,'top_p':0.9,'top_k':7,'stop_sequences':['X'],"
            "'stream':true,'metadata':{'user_id':'u'},'context_management':{'edits':[]},'unknown':[1],"
            "'cairn':{'explain':true},'thinking':{'type':'adaptive','display':'omitted'},"
            "'output_config':{'effort':'max','format':{'type':'json_schema','schema':{'type':'object'}}},"
            "'system':[{'type':'text','text':'S1','cache_control':{'type':'ephemeral'}},"
            "{'type':'text','text':'S2'}],'tools':[{'name':'f','description':'d','input_schema':{'type':'"
            "object'},"
            "'cache_control':{'type':'ephemeral'},'defer_loading':true},{'type':'web_search_20250305','name':"
            "'w'},"
            "{'type':'custom','name':'g','input_schema':{}}],'tool_choice':{'type':'any',"
            "'disable_parallel_tool_use':true},'messages':[{'role':'user','content':'hi'}]}"),
        "{'max_tokens':9,'temperature':0.5,'top_p':0.9,'top_k':7,'stop':['X'],'stream':true,"
        "'metadata':{'user_id':'u'},'cairn':{'explain':true},"
        "'enable_thinking':true,'reasoning_effort':'high','response_format':{'type':'json_schema','json_"
        "schema':"
        "{'schema':{'type':'object'}}},'tools':[{'type':'function','function':{'name':'f','description':'d',"
        "'parameters':{'type':'object'}},'cache_control':{'type':'ephemeral'}},{'type':'function','function':"
        "{'name':'g','parameters':{}}}],'tool_choice':'required','parallel_tool_calls':false,'messages':["
        "{'role':'system','content':[{'type':'text','text':'S1','cache_control':{'type':'ephemeral'}},"
        "{'type':'text','text':'S2'}]},{'role':'user','content':'hi'}]}");
}

static void calls_results_and_thinking_are_converted(void **state)
{
    (void)state;
    messages_become(
        "[{'role':'user','content':[{'type':'text','text':'go'}]},"
        "{'role':'assistant','content':[{'type':'thinking','thinking':'hm','signature':'s'},"
        "{'type':'redacted_thinking','data':'x'},{'type':'text','text':'I call.'},"
        "{'type':'tool_use','id':'t1','name':'f','input':{'b':1,'a':[0.1,null]}},"
        "{'type':'tool_use','id':'t2','name':'g','input':{},'cache_control':{'type':'ephemeral'}}]},"
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'t1','content':'one','is_error':false}"
        ","
        "{'type':'tool_result','tool_use_id':'t2','content':[{'type':'text','text':'two'},{'type':'tool_"
        "reference',"
        "'tool_name':'T'}],'cache_control':{'type':'ephemeral'}},{'type':'text','text':'and now?'}]},"
        "{'role':'system','content':'The date has changed.','output_config':{}},"
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'t3'}]}]",
        "[{'role':'user','content':[{'type':'text','text':'go'}]},"
        "{'role':'assistant','content':[{'type':'text','text':'I "
        "call.'}],'reasoning_content':'hm','tool_calls':["
        "{'id':'t1','type':'function','function':{'name':'f','arguments':'{\\'b\\':1,\\'a\\':[0.1,null]}'}},"
        "{'id':'t2','type':'function','function':{'name':'g','arguments':'{}'}}],'cache_control':{'type':'"
        "ephemeral'}},"
        "{'role':'tool','tool_call_id':'t1','content':'one'},"
        "{'role':'tool','tool_call_id':'t2','content':[{'type':'text','text':'two'},{'type':'text',"
        "'text':'Tool loaded: T'}],'cache_control':{'type':'ephemeral'}},"
        "{'role':'user','content':[{'type':'text','text':'and now?'}]},"
        "{'role':'system','content':'The date has changed.'},"
        "{'role':'tool','tool_call_id':'t3','content':''}]");
}

static void a_message_whose_mark_leaves_is_the_same_message(void **state)
{
    (void)state;
    messages_become(
        "[{'role':'user','content':[{'type':'text','text':'a'}]},{'role':'assistant','content':[]}]",
        "[{'role':'user','content':[{'type':'text','text':'a'}]},{'role':'assistant','content':''}]");
}

static void thinking_is_off_unless_asked_for(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"'max_tokens':1", "false"},
        {"'max_tokens':1,'thinking':{'type':'disabled'}", "false"},
        {"'max_tokens':1,'thinking':{'type':'enabled','budget_tokens':1024}", "true"},
        {"'max_tokens':1,'enable_thinking':true", "true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "{%s,'messages':[{'role':'user','content':'a'}]}", cases[i][0]);
        json_t *body = convert(text);
        test_same(json_incref(json_object_get(body, "enable_thinking")), cases[i][1]);
        json_decref(body);
    }
}

#define HI "'max_tokens':5,'messages':[{'role':'user','content':'hi'}]"

static void mistakes_name_their_field(void **state)
{
    (void)state;
    refused("{'messages':[{'role':'user','content':'hi'}]}", "max_tokens", "missing");
    refused("{'max_tokens':5}", "messages", "missing");
    refused("{'max_tokens':5,'messages':[]}", "messages", "empty");
    refused("{'max_tokens':'5','messages':[{'role':'user','content':'hi'}]}", "max_tokens", "whole number");
    refused("{'max_tokens':5,'messages':[{'role':'tool','content':'hi'}]}", "messages[0].role", "must be");
    refused("{'max_tokens':5,'messages':[7]}", "messages[0].role", "must be");
    refused("{'max_tokens':5,'messages':[{'role':'user','content':7}]}", "messages[0].content", "must be");
    refused("{'max_tokens':5,'messages':[{'role':'user','content':[7]}]}", "messages[0].content[0]",
            "object");
    refused("{'max_tokens':5,'messages':[{'role':'user','content':[{'type':'image','source':{}}]}]}",
            "messages[0].content[0].type", "text only");
    refused("{'max_tokens':5,'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'t','"
            "content':"
            "[{'type':'text','text':'a'},{'type':'image'}]}]}]}",
            "messages[0].content[0].content[1].type", "text only");
    refused("{'max_tokens':5,'messages':[{'role':'user','content':[{'type':'tool_result'}]}]}",
            "messages[0].content[0].tool_use_id", "missing");
    refused("{'max_tokens':5,'messages':[{'role':'user','content':[{'type':'thinking','thinking':''}]}]}",
            "messages[0].content[0].type", "assistant");
    refused(
        "{'max_tokens':5,'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'1','name':'f',"
        "'input':[]}]}]}",
        "messages[0].content[0].input", "object");
    refused("{" HI ",'system':7}", "system", "string");
    refused("{" HI ",'system':[{'type':'image'}]}", "system[0]", "text block");
    refused("{" HI ",'tools':[{'name':'f'}]}", "tools[0]", "input_schema");
    refused("{" HI ",'tools':[{'type':'bash_20250124','name':'bash'}]}", "tools[0]", "input_schema");
    refused("{" HI ",'tools':{}}", "tools", "array");
    refused("{" HI ",'tool_choice':{'type':'x'}}", "tool_choice", "must be");
    refused("{" HI ",'thinking':{'type':'x'}}", "thinking.type", "must be");
    refused("{" HI ",'stop_sequences':[1]}", "stop_sequences", "string");
}

static void a_thread_is_refused_so_that_the_client_sends_all(void **state)
{
    (void)state;
    json_t *request = test_json("{" HI ",'thread':{'type':'create'}}");
    cairn_api_error error = {.anthropic = true};
    assert_null(cairn_anthropic_to_chat(request, CAIRN_ANTHROPIC_ANSWER, &error));
    test_same(
        cairn_json_error(&error),
        "{'type':'error','error':{'type':'invalid_request_error','message':'thread: this server keeps no "
        "threads; send the whole conversation.','details':{'error_code':'thread_unsupported_request',"
        "'unsupported':['thread']}},'request_id':null}");
    json_decref(request);
}

static void a_prompt_that_is_too_long_says_it_in_the_clients_words(void **state)
{
    (void)state;
    cairn_api_error error = {.anthropic = true};
    cairn_api_error_context(&error, "messages", 5000, 4096);
    test_same(cairn_json_error(&error), "{'type':'error','error':{'type':'invalid_request_error','message':'"
                                        "prompt is too long: 5000 tokens > "
                                        "4096 maximum'},'request_id':null}");
    assert_true(cairn_api_error_is_anthropic("/v1/messages") &&
                cairn_api_error_is_anthropic("/v1/messages/batches"));
    assert_false(cairn_api_error_is_anthropic("/v1/messagesx") ||
                 cairn_api_error_is_anthropic("/v1/responses"));
}

static json_t *answer(bool stream, const char *text, size_t step, cairn_finish finish)
{
    cairn_answer_shape shape;
    assert_ok(cairn_anthropic_shape(false, &shape));
    return test_answer_with(&shape, NULL, stream, text, step, finish);
}

static void a_whole_answer_is_a_message(void **state)
{
    (void)state;
    json_t *value = answer(false, "Hello.", 2, CAIRN_FINISH_STOP);
    json_object_del(value, "timings");
    test_same(value, "{'id':'msg_1','type':'message','role':'assistant','model':'m','content':[{'type':'text'"
                     ",'text':'Hello.'}],"
                     "'stop_reason':'end_turn','stop_sequence':null,'usage':{'input_tokens':15,"
                     "'cache_creation_input_tokens':5,'cache_read_input_tokens':30,'cache_creation':"
                     "{'ephemeral_5m_input_tokens':5,'ephemeral_1h_input_tokens':0},'output_tokens':4}}");
}

static void a_stream_has_its_events_in_order(void **state)
{
    (void)state;
    for (size_t step = 1; step < 8; step++) {
        json_t *events = answer(true, "Hello.", step, CAIRN_FINISH_LENGTH);
        test_order(events,
                   "message_start content_block_start content_block_delta content_block_stop message_delta "
                   "message_stop");
        size_t count = json_array_size(events);
        const json_t *last = json_array_get(events, count - 2);
        test_same(json_incref(json_object_get(last, "delta")),
                  "{'stop_reason':'max_tokens','stop_sequence':null}");
        char text[32] = "";
        for (size_t i = 2; i + 3 < count; i++) {
            json_t *delta = json_object_get(json_array_get(events, i), "delta");
            assert_string_equal(json_string_value(json_object_get(delta, "type")), "text_delta");
            size_t used = strlen(text);
            (void)snprintf(text + used, sizeof text - used, "%s",
                           json_string_value(json_object_get(delta, "text")));
        }
        assert_string_equal(text, "Hello.");
        json_decref(events);
    }
}

static void a_stop_sequence_is_named_and_not_shown(void **state)
{
    (void)state;
    json_t *value = answer(false, "Hello STOP there", 3, CAIRN_FINISH_STOP);
    assert_string_equal(json_string_value(json_object_get(value, "stop_reason")), "stop_sequence");
    assert_string_equal(json_string_value(json_object_get(value, "stop_sequence")), "STOP");
    test_same(json_incref(json_object_get(value, "content")), "[{'type':'text','text':'Hello '}]");
    json_decref(value);
}

static void an_empty_answer_has_no_block(void **state)
{
    (void)state;
    json_t *events = answer(true, "", 1, CAIRN_FINISH_STOP);
    test_order(events, "message_start message_delta message_stop");
    json_decref(events);
}

static json_t *shaped(const char *const *deltas, size_t count, const char *message, bool stream,
                      uint32_t calls)
{
    cairn_answer_shape shape;
    assert_ok(cairn_anthropic_shape(false, &shape));
    return test_shaped(&shape, deltas, count, message, stream, calls);
}

static const char *const deltas[] = {
    "{'reasoning_content':'h'}",
    "{'reasoning_content':'m'}",
    "{'content':'I '}",
    "{'content':'call.'}",
    "{'tool_calls':[{'index':0,'id':'c0','type':'function','function':{'name':'f','arguments':''}}]}",
    "{'tool_calls':[{'index':0,'function':{'arguments':'{\\'a\\''}}]}",
    "{'tool_calls':[{'index':0,'function':{'arguments':':1}'}}]}",
    "{'tool_calls':[{'index':1,'id':'c1','type':'function','function':{'name':'g','arguments':'{}'}}]}",
};
static const char message[] =
    "{'role':'assistant','content':'I "
    "call.','reasoning_content':'hm','tool_calls':[{'id':'c0','type':'function',"
    "'function':{'name':'f','arguments':'{\\'a\\':1}'}},{'id':'c1','type':'function','function':{'name':'g',"
    "'arguments':'{}'}}]}";

static void thinking_text_and_calls_are_blocks(void **state)
{
    (void)state;
    json_t *value = shaped(deltas, sizeof deltas / sizeof deltas[0], message, false, 2);
    test_same(
        json_incref(json_object_get(value, "content")),
        "[{'type':'thinking','thinking':'hm','signature':'Y2Fpcm4='},{'type':'text','text':'I call.'},"
        "{'type':'tool_use','id':'c0','name':'f','input':{'a':1}},{'type':'tool_use','id':'c1','name':'g',"
        "'input':{}}]");
    assert_string_equal(json_string_value(json_object_get(value, "stop_reason")), "tool_use");
    json_decref(value);
}

static void each_block_is_opened_filled_and_closed(void **state)
{
    (void)state;
    json_t *events = shaped(deltas, sizeof deltas / sizeof deltas[0], message, true, 2);
    json_array_remove(events, 0);
    size_t count = json_array_size(events);
    json_array_remove(events, count - 1);
    json_array_remove(events, count - 2);
    test_same(
        events,
        "[{'type':'content_block_start','index':0,'content_block':{'type':'thinking','thinking':'','"
        "signature':''}},"
        "{'type':'content_block_delta','index':0,'delta':{'type':'thinking_delta','thinking':'h'}},"
        "{'type':'content_block_delta','index':0,'delta':{'type':'thinking_delta','thinking':'m'}},"
        "{'type':'content_block_delta','index':0,'delta':{'type':'signature_delta','signature':'Y2Fpcm4='}},"
        "{'type':'content_block_stop','index':0},"
        "{'type':'content_block_start','index':1,'content_block':{'type':'text','text':''}},"
        "{'type':'content_block_delta','index':1,'delta':{'type':'text_delta','text':'I '}},"
        "{'type':'content_block_delta','index':1,'delta':{'type':'text_delta','text':'call.'}},"
        "{'type':'content_block_stop','index':1},"
        "{'type':'content_block_start','index':2,'content_block':{'type':'tool_use','id':'c0','name':'f','"
        "input':{}}},"
        "{'type':'content_block_delta','index':2,'delta':{'type':'input_json_delta','partial_json':'{\\'a\\''"
        "}},"
        "{'type':'content_block_delta','index':2,'delta':{'type':'input_json_delta','partial_json':':1}'}},"
        "{'type':'content_block_stop','index':2},"
        "{'type':'content_block_start','index':3,'content_block':{'type':'tool_use','id':'c1','name':'g','"
        "input':{}}},"
        "{'type':'content_block_delta','index':3,'delta':{'type':'input_json_delta','partial_json':'{}'}},"
        "{'type':'content_block_stop','index':3}]");
}

static void arguments_that_were_cut_off_are_kept_as_text(void **state)
{
    (void)state;
    json_t *value =
        shaped(NULL, 0,
               "{'role':'assistant','content':null,'tool_calls':[{'id':'c','type':'function','function':"
               "{'name':'f','arguments':'{\\'a\\':'}}]}",
               false, 1);
    test_same(json_incref(json_object_get(value, "content")),
              "[{'type':'tool_use','id':'c','name':'f','input':{'input':'{\\'a\\':'}}]");
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_with_everything_is_converted),
        cmocka_unit_test(calls_results_and_thinking_are_converted),
        cmocka_unit_test(a_message_whose_mark_leaves_is_the_same_message),
        cmocka_unit_test(thinking_is_off_unless_asked_for),
        cmocka_unit_test(mistakes_name_their_field),
        cmocka_unit_test(a_thread_is_refused_so_that_the_client_sends_all),
        cmocka_unit_test(a_prompt_that_is_too_long_says_it_in_the_clients_words),
        cmocka_unit_test(a_whole_answer_is_a_message),
        cmocka_unit_test(a_stream_has_its_events_in_order),
        cmocka_unit_test(a_stop_sequence_is_named_and_not_shown),
        cmocka_unit_test(an_empty_answer_has_no_block),
        cmocka_unit_test(thinking_text_and_calls_are_blocks),
        cmocka_unit_test(each_block_is_opened_filled_and_closed),
        cmocka_unit_test(arguments_that_were_cut_off_are_kept_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
