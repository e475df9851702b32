/*
 * Responses requests become chat completions; answers become items, whole or as events.
 */
#include "convert_support.h"

#include "serve/responses.h"

static json_t *convert(const char *text, const char *previous_text)
{
    json_t *request = test_json(text), *previous = previous_text != NULL ? test_json(previous_text) : NULL;
    cairn_api_error error = {0};
    cairn_responses_request made;
    if (!cairn_responses_to_chat(request, previous, &made, &error))
        fail_msg("refused: %s", error.message);
    json_t *body = json_incref(made.chat);
    cairn_responses_release(&made);
    json_decref(request);
    json_decref(previous);
    return body;
}

static void refused(const char *text, const char *param, const char *message)
{
    json_t *request = test_json(text);
    cairn_api_error error = {0};
    cairn_responses_request made;
    assert_false(cairn_responses_to_chat(request, NULL, &made, &error));
    assert_int_equal(error.http, 400);
    assert_string_equal(error.param, param);
    if (strstr(error.message, message) == NULL)
        fail_msg("%s", error.message);
    json_decref(request);
}

static void a_request_with_everything_is_converted(void **state)
{
    (void)state;
    test_same(
        convert(
            "{'model':'x','instructions':'Be brief.','input':'hi','max_output_tokens':9,'temperature':0,"
            "'stream':true,'store':false,'include':['reasoning.encrypted_content'],'client_metadata':{'a':'b'"
            "},"
            "'prompt_cache_key':'k','parallel_tool_calls':true,'reasoning':{'effort':'xhigh','summary':'auto'"
            "},"
            "'text':{'verbosity':'low','format':{'type':'json_schema','name':'n','strict':true,"
            "'schema':{'type':'object'}}},'tool_choice':{'type':'function','name':'f'},'tools':["
            "{'type':'function','name':'f','description':'d','strict':false,'parameters':{'type':'object'}},"
            "{'type':'namespace','name':'space','tools':[{'type':'function','name':'f','parameters':{}}]},"
            "{'type':'web_search','external_web_access':true},{'type':'custom','name':'patch','format':{}}]}",
            NULL),
        "{'max_tokens':9,'temperature':0,'stream':true,'parallel_tool_calls':true,'reasoning_effort':'high',"
        "'prompt_cache_key':'k',"
        "'response_format':{'type':'json_schema','json_schema':{'schema':{'type':'object'}}},"
        "'tool_choice':{'type':'function','function':{'name':'f'}},'tools':["
        "{'type':'function','function':{'name':'f','description':'d','parameters':{'type':'object'}}},"
        "{'type':'function','function':{'name':'space__f','parameters':{}}},"
        "{'type':'function','function':{'name':'patch','parameters':{'type':'object','properties':{'input':"
        "{'type':'string'}},'required':['input']}}}],"
        "'messages':[{'role':'system','content':'Be brief.'},{'role':'user','content':'hi'}]}");
}

static void items_of_a_turn_become_one_message(void **state)
{
    (void)state;
    json_t *body = convert(
        "{'input':[{'type':'message','id':'m1','role':'developer','content':[{'type':'input_text','text':'"
        "rules'}]},"
        "{'role':'user','content':'go'},"
        "{'type':'reasoning','id':'r1','summary':[{'type':'summary_text','text':'hm'}],'content':null,"
        "'encrypted_content':'x'},"
        "{'type':'message','id':'m2','role':'assistant','status':'completed','content':[{'type':'output_text'"
        ","
        "'text':'I call.','annotations':[]}]},"
        "{'type':'function_call','id':'f1','call_id':'c1','name':'f','arguments':'{ \\'a\\': "
        "1}','status':'completed'},"
        "{'type':'function_call','id':'f2','call_id':'c2','name':'g','namespace':'space','arguments':'{}'},"
        "{'type':'custom_tool_call','call_id':'c3','name':'patch','input':'raw'},"
        "{'type':'function_call_output','id':'o1','call_id':'c1','output':'one'},"
        "{'type':'function_call_output','call_id':'c2','output':[{'type':'input_text','text':'two'}]},"
        "{'type':'custom_tool_call_output','call_id':'c3','output':''},"
        "{'type':'web_search_call','id':'w','status':'completed'},"
        "{'type':'reasoning','summary':[],'content':[{'type':'reasoning_text','text':'again'}]},"
        "{'type':'message','role':'user','content':[{'type':'input_text','text':'stop'}]}],'tools':[]}",
        NULL);
    test_same(
        json_incref(json_object_get(body, "messages")),
        "[{'role':'developer','content':[{'type':'text','text':'rules'}]},"
        "{'role':'user','content':[{'type':'text','text':'go'}]},"
        "{'role':'assistant','content':[{'type':'text','text':'I "
        "call.'}],'reasoning_content':'hm','tool_calls':["
        "{'id':'c1','type':'function','function':{'name':'f','arguments':'{ \\'a\\': 1}'}},"
        "{'id':'c2','type':'function','function':{'name':'space__g','arguments':'{}'}},"
        "{'id':'c3','type':'function','function':{'name':'patch','arguments':'{\\'input\\':\\'raw\\'}'}}]},"
        "{'role':'tool','tool_call_id':'c1','content':[{'type':'text','text':'one'}]},"
        "{'role':'tool','tool_call_id':'c2','content':[{'type':'text','text':'two'}]},"
        "{'role':'tool','tool_call_id':'c3','content':[{'type':'text','text':''}]},"
        "{'role':'assistant','content':'','reasoning_content':'again'},"
        "{'role':'user','content':[{'type':'text','text':'stop'}]}]");
    assert_null(json_object_get(body, "tools"));
    json_decref(body);
}

static void ids_of_items_do_not_matter(void **state)
{
    (void)state;
    json_t *one = convert("{'input':[{'type':'message','id':'a','role':'user','content':'x'}]}", NULL);
    json_t *two = convert("{'input':[{'type':'message','id':'b','role':'user','content':'x'}]}", NULL);
    assert_true(json_equal(one, two));
    json_decref(one);
    json_decref(two);
}

static void a_previous_response_comes_between_instructions_and_input(void **state)
{
    (void)state;
    json_t *body = convert("{'instructions':'new','input':'more','previous_response_id':'resp_1'}",
                           "[{'role':'user','content':'first'},{'role':'assistant','content':'answer'}]");
    test_same(json_incref(json_object_get(body, "messages")),
              "[{'role':'system','content':'new'},{'role':'user','content':'first'},"
              "{'role':'assistant','content':'answer'},{'role':'user','content':'more'}]");
    json_decref(body);
}

static void mistakes_name_their_field(void **state)
{
    (void)state;
    refused("{}", "input", "must be");
    refused("{'input':7}", "input", "must be");
    refused("{'input':[]}", "input", "empty");
    refused("{'input':[7]}", "input[0]", "object");
    refused("{'input':[{'type':'message','role':'x','content':''}]}", "input[0].role", "must be");
    refused("{'input':[{'role':'user','content':[{'type':'input_image','image_url':'x'}]}]}",
            "input[0].content[0]", "text only");
    refused("{'input':[{'role':'user','content':[{'type':'input_text'}]}]}", "input[0].content[0]",
            "missing");
    refused("{'input':[{'role':'user','content':7}]}", "input[0].content", "must be");
    refused("{'input':[{'type':'function_call','name':'f'}]}", "input[0]", "call_id");
    refused("{'input':[{'type':'function_call_output','output':''}]}", "input[0].call_id", "missing");
    refused("{'input':[{'type':'item_reference','id':'x'}]}", "input[0].type", "item_reference");
    refused("{'input':'a','instructions':7}", "instructions", "string");
    refused("{'input':'a','max_output_tokens':0}", "max_output_tokens", "between");
    refused("{'input':'a','conversation':'conv_1'}", "conversation", "whole");
    refused("{'input':'a','conversation':{'id':'conv_1'}}", "conversation", "whole");
    refused("{'input':'a','prompt':{'id':'pmpt_1'}}", "prompt", "instructions");
    refused("{'input':'a','background':true}", "background", "open");
    refused("{'input':'a','text':{'format':{'type':'x'}}}", "text.format", "must be");
    refused("{'input':'a','tools':[{'type':'function','name':'f'}],'tool_choice':{'type':'mcp'}}",
            "tool_choice", "must be");
    refused("{'input':'a','tools':[{'type':'function'}]}", "tools", "no name");
    refused("{'input':'a','tools':[{'type':'function','name':'a__b'},{'type':'namespace','name':'a','tools':["
            "{'type':'function','name':'b'}]}]}",
            "tools", "two of them");
}

/* --- answers ----------------------------------------------------------------------------------------------------- */

static cairn_answer_shape shape_of(const char *request_text, const cairn_responses_keep *keep)
{
    json_t *request = test_json(request_text);
    cairn_api_error error = {0};
    cairn_responses_request made;
    assert_true(cairn_responses_to_chat(request, NULL, &made, &error));
    cairn_answer_shape shape;
    assert_ok(cairn_responses_shape(&made, keep, &shape));
    cairn_responses_release(&made);
    json_decref(request);
    return shape;
}

static void a_whole_answer_is_a_response(void **state)
{
    (void)state;
    cairn_responses_keep keep = {0};
    cairn_answer_shape shape = shape_of("{'input':'a','metadata':{'k':'v'}}", &keep);
    json_t *value = test_answer_with(&shape, NULL, false, "Hello.", 2, CAIRN_FINISH_STOP);
    json_object_del(value, "timings");
    test_same(
        value,
        "{'id':'resp_1','object':'response','created_at':7,'status':'completed','error':null,"
        "'incomplete_details':null,'instructions':null,'previous_response_id':null,'parallel_tool_calls':"
        "true,"
        "'tools':[],'tool_choice':'auto','store':false,'max_output_tokens':null,'metadata':{'k':'v'},"
        "'usage':{'input_tokens':50,'input_tokens_details':{'cached_tokens':30},'output_tokens':4,"
        "'output_tokens_details':{'reasoning_tokens':0},'total_tokens':54},'model':'m','output':[{'type':'"
        "message','id':'msg_1_0','status':'completed',"
        "'role':'assistant','content':[{'type':'output_text','text':'Hello.','annotations':[]}]}]}");
}

static void a_stream_has_its_events_in_order(void **state)
{
    (void)state;
    cairn_responses_keep keep = {0};
    for (size_t step = 1; step < 8; step++) {
        cairn_answer_shape shape = shape_of("{'input':'a','stream':true}", &keep);
        json_t *events = test_answer_with(&shape, NULL, true, "Hello.", step, CAIRN_FINISH_LENGTH);
        test_order(events, "response.created response.in_progress response.output_item.added "
                           "response.content_part.added response.output_text.delta response.output_text.done "
                           "response.content_part.done response.output_item.done response.incomplete");
        size_t count = json_array_size(events);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(
                json_integer_value(json_object_get(json_array_get(events, i), "sequence_number")), i);
        const json_t *response = json_object_get(json_array_get(events, count - 1), "response");
        test_same(json_incref(json_object_get(response, "incomplete_details")),
                  "{'reason':'max_output_tokens'}");
        const json_t *item = json_object_get(json_array_get(events, count - 2), "item");
        assert_true(json_equal(item, json_array_get(json_object_get(response, "output"), 0)));
        json_decref(events);
    }
}

static json_t *shaped(const char *request, const cairn_responses_keep *keep, const char *const *deltas,
                      size_t count, const char *message, bool stream)
{
    cairn_answer_shape shape = shape_of(request, keep);
    return test_shaped(&shape, deltas, count, message, stream, 0);
}

static const char request[] = "{'input':'a','include':['reasoning.encrypted_content'],'tools':[{'type':'"
                              "namespace','name':'space','tools':["
                              "{'type':'function','name':'f'}]},{'type':'custom','name':'patch'}]}";
static const char *const deltas[] = {
    "{'reasoning_content':'hm'}",
    "{'content':'I call.'}",
    "{'tool_calls':[{'index':0,'id':'c0','type':'function','function':{'name':'space__f','arguments':''}}]}",
    "{'tool_calls':[{'index':0,'function':{'arguments':'{\\'a\\''}}]}",
    "{'tool_calls':[{'index':0,'function':{'arguments':':1}'}}]}",
    "{'tool_calls':[{'index':1,'id':'c1','type':'function','function':{'name':'patch','arguments':'{\\'"
    "input\\':"
    "\\'raw\\'}'}}]}",
};
static const char message[] = "{'role':'assistant','content':'I "
                              "call.','reasoning_content':'hm','tool_calls':[{'id':'c0','type':'function',"
                              "'function':{'name':'space__f','arguments':'{\\'a\\':1}'}},{'id':'c1','type':'"
                              "function','function':{'name':'patch',"
                              "'arguments':'{\\'input\\':\\'raw\\'}'}}]}";
static const char output[] =
    "[{'type':'reasoning','id':'rs_1_0','summary':[{'type':'summary_text','text':'hm'}],'status':'completed',"
    "'encrypted_content':'Y2Fpcm4='},{'type':'message','id':'msg_1_1','status':'completed','role':'assistant'"
    ","
    "'content':[{'type':'output_text','text':'I "
    "call.','annotations':[]}]},{'type':'function_call','id':'fc_1_2',"
    "'call_id':'c0','name':'f','status':'completed','namespace':'space','arguments':'{\\'a\\':1}'},"
    "{'type':'custom_tool_call','id':'fc_1_3','call_id':'c1','name':'patch','status':'completed','input':'"
    "raw'}]";

static void reasoning_text_and_calls_are_items_with_the_clients_names(void **state)
{
    (void)state;
    cairn_responses_keep keep = {0};
    json_t *value = shaped(request, &keep, NULL, 0, message, false);
    test_same(json_incref(json_object_get(value, "output")), output);
    json_decref(value);
}

static void each_item_is_opened_filled_and_closed(void **state)
{
    (void)state;
    cairn_responses_keep keep = {0};
    json_t *events = shaped(request, &keep, deltas, sizeof deltas / sizeof deltas[0], message, true);
    test_order(events,
               "response.created response.in_progress response.output_item.added "
               "response.reasoning_summary_part.added "
               "response.reasoning_summary_text.delta response.reasoning_summary_text.done "
               "response.reasoning_summary_part.done response.output_item.done response.output_item.added "
               "response.content_part.added response.output_text.delta response.output_text.done "
               "response.content_part.done response.output_item.done response.output_item.added "
               "response.function_call_arguments.delta response.function_call_arguments.done "
               "response.output_item.done "
               "response.output_item.added response.custom_tool_call_input.delta "
               "response.custom_tool_call_input.done response.output_item.done response.completed");
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    test_same(json_incref(json_object_get(json_object_get(last, "response"), "output")), output);
    json_decref(events);
}

static void an_answer_is_kept_for_its_id(void **state)
{
    (void)state;
    cairn_replies *replies = NULL;
    assert_ok(cairn_replies_new(cairn_mem_default(), 4, 1 << 16, &replies));
    cairn_responses_keep keep = {.replies = replies};
    json_decref(shaped("{'instructions':'not kept','input':'a'}", &keep, NULL, 0,
                       "{'role':'assistant','content':null,'reasoning_content':'hm'}", false));
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 16);
    assert_ok(cairn_replies_get(replies, &keep.space, "resp_1", CAIRN_REPLY_CONVERSATION, &out));
    test_same(json_loads(cairn_buf_str(&out), 0, NULL),
              "[{'role':'user','content':'a'},{'role':'assistant','content':'','reasoning_content':'hm'}]");
    cairn_buf_release(&out);
    cairn_replies_free(replies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_with_everything_is_converted),
        cmocka_unit_test(items_of_a_turn_become_one_message),
        cmocka_unit_test(ids_of_items_do_not_matter),
        cmocka_unit_test(a_previous_response_comes_between_instructions_and_input),
        cmocka_unit_test(mistakes_name_their_field),
        cmocka_unit_test(a_whole_answer_is_a_response),
        cmocka_unit_test(a_stream_has_its_events_in_order),
        cmocka_unit_test(reasoning_text_and_calls_are_items_with_the_clients_names),
        cmocka_unit_test(each_item_is_opened_filled_and_closed),
        cmocka_unit_test(an_answer_is_kept_for_its_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
