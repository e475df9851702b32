/*
 * bridge_request - an OpenAI chat body becomes a checked Request.
 *
 * Everything that a client can get wrong is found here and in bridge_messages, with the field's path, before the library
 * sees it. Fields that are not named there are not looked at.
 */
#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

/* --- tools ----------------------------------------------------------------------------------------------------- */

static common_chat_tool tool_parse(const json &tool, const std::string &path, SchemaBudget &schemas)
{
    if (!tool.is_object()) {
        wrong_type(path, "an object", tool);
    }
    std::string type = string_at(tool, "type", path);
    if (type != "function") {
        refuse(path + ".type",
               type.empty() ? "missing; a tool is {\"type\": \"function\", \"function\": {\"name\": ...}}"
                            : "only \"function\" is supported, is " + quoted(type));
    }
    const json *function = find_set(tool, "function");
    if (function == nullptr || !function->is_object()) {
        refuse(path + ".function", function == nullptr ? "missing" : "must be an object");
    }
    common_chat_tool out;
    out.name = string_at(*function, "name", path + ".function");
    if (out.name.empty()) {
        refuse(path + ".function.name", "missing");
    }
    if (out.name.size() > NAME_BYTES_MAX) {
        refuse(path + ".function.name", "longer than " + std::to_string(NAME_BYTES_MAX) + " bytes");
    }
    out.description = string_at(*function, "description", path + ".function");
    const json *parameters = find_set(*function, "parameters");
    if (parameters != nullptr && !parameters->is_object()) {
        wrong_type(path + ".function.parameters", "an object", *parameters);
    }
    out.parameters = parameters == nullptr || parameters->empty()
                         ? R"({"type":"object","properties":{}})"
                         : schema_check(schemas, *parameters, path + ".function.parameters").dump_safe();
    return out;
}

static void tool_choice_parse(const json &body, Request &request)
{
    const json *choice = find_set(body, "tool_choice");
    if (choice == nullptr) {
        return;
    }
    if (choice->is_object()) {
        const json *function = find_set(*choice, "function");
        std::string name = function != nullptr && function->is_object()
                               ? string_at(*function, "name", "tool_choice.function")
                               : string_at(*choice, "name", "tool_choice");
        for (const common_chat_tool &tool : request.tools) {
            if (tool.name == name && !name.empty()) {
                request.only_tool = name;
            }
        }
        if (request.only_tool.empty()) {
            refuse("tool_choice", "names " + quoted(name) + ", which is not among the tools");
        }
        request.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
        return;
    }
    std::string text = choice->is_string() ? choice->get<std::string>() : choice->dump_safe();
    if (text == "required" || text == "any") {
        if (request.tools.empty()) {
            refuse("tool_choice", "\"required\" without tools: add them, or leave it out");
        }
        request.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    } else if (text == "none") {
        request.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
    } else if (text != "auto") {
        refuse("tool_choice",
               "must be \"auto\", \"none\", \"required\" or name a function, is " + quoted(text));
    }
}

static void tools_parse(const json &body, uint32_t tools_max, Request &request)
{
    const json *tools = find_set(body, "tools");
    if (tools != nullptr) {
        if (!tools->is_array()) {
            wrong_type("tools", "an array", *tools);
        }
        if (tools->size() > tools_max) {
            throw Refusal(CAIRN_LIMIT, "tools: " + std::to_string(tools->size()) + " of them; at most " +
                                           std::to_string(tools_max) + " are taken");
        }
        for (size_t i = 0; i < tools->size(); i++) {
            request.tools.push_back(
                tool_parse(tools->at(i), "tools[" + std::to_string(i) + "]", request.schemas));
            request.tools_mark = request.tools_mark || has_mark(tools->at(i));
        }
    }
    request.parallel_calls = bool_at(body, "parallel_tool_calls");
    tool_choice_parse(body, request);
}

/* --- what the answer must look like ------------------------------------------------------------------------------ */

static void schema_set(const json &schema, const std::string &path, Request &request)
{
    if (!schema.is_object()) {
        wrong_type(path, "an object", schema);
    }
    request.json_schema = schema_check(request.schemas, schema, path).dump_safe();
    request.json_schema_path = path;
}

static void response_format_parse(const json &format, Request &request)
{
    if (!format.is_object()) {
        wrong_type("response_format", "an object", format);
    }
    std::string type = string_at(format, "type", "response_format");
    if (type == "json_object") {
        const json *schema = find_set(format, "schema");
        schema_set(schema != nullptr ? *schema : json{{"type", "object"}}, "response_format.schema", request);
    } else if (type == "json_schema") {
        const json *wrapper = find_set(format, "json_schema");
        if (wrapper == nullptr || !wrapper->is_object()) {
            refuse("response_format.json_schema", wrapper == nullptr ? "missing" : "must be an object");
        }
        const json *schema = find_set(*wrapper, "schema");
        if (schema == nullptr) {
            refuse("response_format.json_schema.schema", "missing");
        }
        schema_set(*schema, "response_format.json_schema.schema", request);
    } else if (type != "text") {
        refuse("response_format.type",
               "must be \"text\", \"json_object\" or \"json_schema\", is " + quoted(type));
    }
}

static void constraint_parse(const json &body, Request &request)
{
    const json *schema = find_set(body, "json_schema");
    if (schema != nullptr) {
        schema_set(*schema, "json_schema", request);
    }
    const json *format = find_set(body, "response_format");
    if (format != nullptr) {
        response_format_parse(*format, request);
    }
    const json *grammar = find_set(body, "grammar");
    if (grammar != nullptr) {
        if (!grammar->is_string()) {
            wrong_type("grammar", "a string", *grammar);
        }
        request.grammar = grammar->get<std::string>();
    }
    if (!request.grammar.empty() && !request.json_schema.empty()) {
        refuse("grammar", "can't be used together with a JSON schema");
    }
    if (!request.grammar.empty() && !request.tools.empty() &&
        request.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE) {
        refuse("grammar", "can't be used together with tools; set tool_choice to \"none\"");
    }
    if (request.grammar.compare(0, 11, "%llguidance") == 0) {
        refuse("grammar", "only GBNF is supported");
    }
}

/* --- template arguments ------------------------------------------------------------------------------------------ */

static void kwargs_add(const json &object, const std::string &path, Request &request)
{
    if (!object.is_object()) {
        wrong_type(path, "an object", object);
    }
    static const std::set<std::string> taken = {"messages", "tools", "bos_token", "eos_token",
                                                "add_generation_prompt"};
    for (const auto &[name, value] : object.items()) {
        if (taken.count(name) != 0 || name.compare(0, 10, "cairn_now_") == 0) {
            std::string field = path;
            field.append(".").append(name);
            refuse(field, "is set by the server");
        }
        request.kwargs[name] = value.dump_safe();
    }
}

static void thinking_parse(const json &body, Request &request)
{
    const json *enable = find_set(body, "enable_thinking");
    if (enable != nullptr) {
        request.kwargs["enable_thinking"] = enable->dump_safe();
    }
    auto found = request.kwargs.find("enable_thinking");
    if (found != request.kwargs.end()) {
        if (found->second != "true" && found->second != "false") {
            refuse("chat_template_kwargs.enable_thinking",
                   "must be true or false, is " + quoted(found->second));
        }
        request.enable_thinking = found->second == "true";
    }
    const json *effort = find_set(body, "reasoning_effort");
    if (effort != nullptr) {
        if (!effort->is_string()) {
            wrong_type("reasoning_effort", "a string", *effort);
        }
        if (effort->get<std::string>() == "none") {
            request.enable_thinking = false;
            request.kwargs.erase("reasoning_effort");
            request.kwargs.erase("enable_thinking");
        } else if (!effort->get<std::string>().empty()) {
            request.kwargs["reasoning_effort"] = effort->dump_safe();
        }
    }
    const json *format = find_set(body, "reasoning_format");
    if (format != nullptr) {
        std::string text = format->is_string() ? format->get<std::string>() : format->dump_safe();
        if (text != "none" && text != "auto" && text != "deepseek" && text != "deepseek-legacy") {
            refuse("reasoning_format", "must be \"none\", \"auto\" or \"deepseek\", is " + quoted(text));
        }
        request.reasoning = text == "none" ? COMMON_REASONING_FORMAT_NONE : COMMON_REASONING_FORMAT_DEEPSEEK;
    }
}

/* An assistant message at the end is continued, as llama-server does, unless the request says otherwise. */
static void continuation_parse(const json &body, Request &request)
{
    const json *wanted = find_set(body, "continue_final_message");
    std::optional<bool> opener = bool_at(body, "add_generation_prompt");
    request.add_generation_prompt = opener.value_or(true);
    bool declined =
        (wanted != nullptr && wanted->is_boolean() && !wanted->get<bool>()) || opener.value_or(false);
    bool asked =
        wanted != nullptr && common_chat_continuation_parse(*wanted) != COMMON_CHAT_CONTINUATION_NONE;
    const common_chat_msg &last = request.messages.back().msg;
    bool possible = last.role == "assistant" && last.tool_calls.empty();
    if (wanted != nullptr && !asked && !(wanted->is_boolean() && !wanted->get<bool>())) {
        refuse("continue_final_message", "must be true, false, \"content\" or \"reasoning_content\"");
    }
    if (asked && opener.value_or(false)) {
        refuse("continue_final_message", "can't be used together with add_generation_prompt");
    }
    if (asked && !possible) {
        refuse("continue_final_message", last.role != "assistant"
                                             ? "the last message is not the assistant's"
                                             : "a message with tool calls can't be continued");
    }
    if (asked) {
        request.continuation = common_chat_continuation_parse(*wanted);
    } else if (possible && !declined) {
        request.continuation = COMMON_CHAT_CONTINUATION_AUTO;
    }
    /* an empty message has nothing to be continued: the opener is all */
    if (request.continuation != COMMON_CHAT_CONTINUATION_NONE && last.content.empty() &&
        last.content_parts.empty() && last.reasoning_content.empty()) {
        request.continuation = COMMON_CHAT_CONTINUATION_NONE;
        request.messages.pop_back();
        if (request.messages.empty()) {
            refuse("messages", "nothing but an empty assistant message");
        }
    }
}

Request request_parse(const std::string &body_text, const cairn_chat_options &options)
{
    uint32_t depth_max = options.depth_max != 0 ? options.depth_max : 128;
    json body = json_parse_limited(body_text, depth_max, "body");
    if (!body.is_object()) {
        wrong_type("body", "an object", body);
    }
    Request request;
    request.enable_thinking = !options.thinking_off;
    request.reasoning = options.reasoning == CAIRN_CHAT_REASONING_INLINE ? COMMON_REASONING_FORMAT_NONE
                                                                         : COMMON_REASONING_FORMAT_DEEPSEEK;
    messages_parse(body, options.messages_max != 0 ? options.messages_max : 20000, depth_max, request);
    tools_parse(body, options.tools_max != 0 ? options.tools_max : 1024, request);
    constraint_parse(body, request);
    if (options.kwargs_json != nullptr) {
        kwargs_add(json_parse_limited(options.kwargs_json, depth_max, "kwargs_json"), "kwargs_json", request);
    }
    const json *kwargs = find_set(body, "chat_template_kwargs");
    if (kwargs != nullptr) {
        kwargs_add(*kwargs, "chat_template_kwargs", request);
    }
    thinking_parse(body, request);
    continuation_parse(body, request);
    return request;
}

} // namespace cairn_chat_bridge
