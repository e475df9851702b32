/*
 * bridge_request - an OpenAI chat body becomes a checked Request.
 *
 * Everything that a client can get wrong is found here, with the field's path, before the library sees it. Fields
 * that are not named below are not looked at.
 */
#include <cstring>

#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

static std::string quoted(const std::string &text)
{
    std::string cut = text.size() > 40 ? text.substr(0, 40) + "..." : text;
    return json::make(cut).dump_safe();
}

static const char *type_name(const json &value)
{
    return value.is_null()      ? "null"
           : value.is_object()  ? "an object"
           : value.is_array()   ? "an array"
           : value.is_string()  ? "a string"
           : value.is_boolean() ? "a boolean"
                                : "a number";
}

[[noreturn]] static void wrong_type(const std::string &path, const char *wanted, const json &value)
{
    refuse(path, std::string("must be ") + wanted + ", is " + type_name(value));
}

static const json *find(const json &object, const char *key)
{
    return object.contains(key) ? &object.at(key) : nullptr;
}

/* Absent and null mean the same in clients' bodies. */
static const json *find_set(const json &object, const char *key)
{
    const json *value = find(object, key);
    return value != nullptr && !value->is_null() ? value : nullptr;
}

static std::string string_at(const json &object, const char *key, const std::string &path)
{
    const json *value = find_set(object, key);
    if (value == nullptr) {
        return "";
    }
    if (!value->is_string()) {
        wrong_type(path + "." + key, "a string", *value);
    }
    return value->get<std::string>();
}

static std::optional<bool> bool_at(const json &object, const char *key)
{
    const json *value = find_set(object, key);
    if (value == nullptr) {
        return std::nullopt;
    }
    if (!value->is_boolean()) {
        wrong_type(key, "true or false", *value);
    }
    return value->get<bool>();
}

std::string trim(const std::string &text)
{
    const char *blank = " \t\r\n\v\f";
    size_t begin = text.find_first_not_of(blank);
    return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

cairn_role role_of(const std::string &role)
{
    return role == "system"      ? CAIRN_ROLE_SYSTEM
           : role == "user"      ? CAIRN_ROLE_USER
           : role == "assistant" ? CAIRN_ROLE_ASSISTANT
           : role == "tool"      ? CAIRN_ROLE_TOOL
                                 : CAIRN_ROLE_NONE;
}

/* The library's parser and the templates recurse: refuse what is too deep before they see it. */
static void check_depth(const std::string &text, uint32_t depth_max, const std::string &path)
{
    uint32_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > depth_max) {
                refuse(path, "nested deeper than " + std::to_string(depth_max) + " levels, at byte " +
                                 std::to_string(i));
            }
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
}

/* The library's message names itself first and repeats the text last: keep the middle. */
static std::string json_complaint(const std::string &what)
{
    size_t begin = what.find("] ");
    std::string text = begin == std::string::npos ? what : what.substr(begin + 2);
    size_t end = text.find("; last read");
    return end == std::string::npos ? text : text.substr(0, end);
}

json json_parse_limited(const std::string &text, uint32_t depth_max, const std::string &path)
{
    check_depth(text, depth_max, path);
    try {
        return json::parse(text);
    } catch (const common_json_error &error) {
        refuse(path, "not JSON: " + json_complaint(error.what()));
    }
}

/* --- messages -------------------------------------------------------------------------------------------------- */

static bool has_mark(const json &object)
{
    return object.is_object() && find_set(object, "cache_control") != nullptr;
}

static void part_parse(const json &part, const std::string &path, Message &message)
{
    if (!part.is_object()) {
        wrong_type(path, "an object", part);
    }
    std::string type = string_at(part, "type", path);
    message.mark = has_mark(part); /* of the last part: what stands inside is the caller's to find */
    const char *key = type == "refusal" ? "refusal" : type == "thinking" ? "thinking" : "text";
    if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal" &&
        type != "thinking" && type != "reasoning") {
        if (type.empty()) {
            refuse(path + ".type", "missing");
        }
        refuse(path + ".type", quoted(type) + " is not supported: this server takes text only");
    }
    const json *text = find_set(part, key);
    if (text == nullptr) {
        refuse(path + "." + key, "missing");
    }
    if (!text->is_string()) {
        wrong_type(path + "." + key, "a string", *text);
    }
    if (type == "thinking" || type == "reasoning") {
        message.msg.reasoning_content += text->get<std::string>();
    } else {
        message.msg.content_parts.push_back({"text", text->get<std::string>()});
    }
}

static void content_parse(const json &value, const std::string &path, Message &message)
{
    common_chat_msg &msg = message.msg;
    if (value.is_string()) {
        msg.content = value.get<std::string>();
    } else if (value.is_array()) {
        for (size_t i = 0; i < value.size(); i++) {
            part_parse(value.at(i), path + "[" + std::to_string(i) + "]", message);
        }
        /* a list of one text and the text alone are the same prompt in every template */
        if (msg.content_parts.size() == 1) {
            msg.content = msg.content_parts[0].text;
            msg.content_parts.clear();
        }
    } else if (!value.is_null()) {
        wrong_type(path, "a string or a list of parts", value);
    }
}

static common_chat_tool_call call_parse(const json &call, const std::string &path)
{
    if (!call.is_object()) {
        wrong_type(path, "an object", call);
    }
    const json *type = find_set(call, "type");
    if (type != nullptr && (!type->is_string() || type->get<std::string>() != "function")) {
        refuse(path + ".type", "only \"function\" is supported, is " + quoted(type->dump_safe()));
    }
    const json *function = find_set(call, "function");
    if (function == nullptr || !function->is_object()) {
        refuse(path + ".function", function == nullptr ? "missing" : "must be an object");
    }
    common_chat_tool_call out;
    out.id = string_at(call, "id", path);
    out.name = string_at(*function, "name", path + ".function");
    if (out.name.empty()) {
        refuse(path + ".function.name", "missing");
    }
    const json *arguments = find_set(*function, "arguments");
    if (arguments == nullptr) {
        out.arguments = "{}";
    } else if (arguments->is_string()) {
        out.arguments = arguments->get<std::string>();
    } else if (arguments->is_object()) {
        out.arguments = arguments->dump_safe();
    } else {
        wrong_type(path + ".function.arguments", "a string or an object", *arguments);
    }
    if (trim(out.arguments).empty()) {
        out.arguments = "{}";
    }
    return out;
}

static void calls_parse(const json &message, const std::string &path, common_chat_msg &msg)
{
    const json *calls = find_set(message, "tool_calls");
    if (calls == nullptr) {
        return;
    }
    if (!calls->is_array()) {
        wrong_type(path + ".tool_calls", "an array", *calls);
    }
    if (msg.role != "assistant") {
        if (!calls->empty()) {
            refuse(path + ".tool_calls", "only an assistant message can have them");
        }
        return;
    }
    for (size_t i = 0; i < calls->size(); i++) {
        msg.tool_calls.push_back(call_parse(calls->at(i), path + ".tool_calls[" + std::to_string(i) + "]"));
    }
}

static Message message_parse(const json &value, const std::string &path)
{
    Message message;
    if (!value.is_object()) {
        wrong_type(path, "an object", value);
    }
    if (find_set(value, "role") == nullptr) {
        refuse(path + ".role", "missing");
    }
    std::string role = string_at(value, "role", path);
    std::string plain = role == "developer" ? "system" : role == "function" ? "tool" : role;
    if (role_of(plain) == CAIRN_ROLE_NONE) {
        refuse(path + ".role",
               "unknown role " + quoted(role) + "; known are system, developer, user, assistant and tool");
    }
    message.msg.role = plain;
    const json *content = find(value, "content");
    if (content == nullptr && plain != "assistant") {
        refuse(path + ".content", "missing");
    }
    if (content != nullptr) {
        content_parse(*content, path + ".content", message);
    }
    message.mark = message.mark || has_mark(value);
    calls_parse(value, path, message.msg);
    if (plain == "assistant") {
        for (const char *key : {"reasoning_content", "reasoning"}) {
            const json *reasoning = find_set(value, key);
            if (message.msg.reasoning_content.empty() && reasoning != nullptr && reasoning->is_string()) {
                message.msg.reasoning_content = reasoning->get<std::string>();
            }
        }
    }
    message.msg.tool_name = string_at(value, "name", path);
    message.msg.tool_call_id = plain == "tool" ? string_at(value, "tool_call_id", path) : "";
    return message;
}

/* Templates that print the tool's name with its result find it in the call when the client left it out. */
static void name_results(std::vector<Message> &messages)
{
    std::map<std::string, std::string> names;
    for (Message &message : messages) {
        for (const common_chat_tool_call &call : message.msg.tool_calls) {
            if (!call.id.empty()) {
                names[call.id] = call.name;
            }
        }
        if (message.msg.role == "tool" && message.msg.tool_name.empty()) {
            auto found = names.find(message.msg.tool_call_id);
            if (found != names.end()) {
                message.msg.tool_name = found->second;
            }
        }
    }
}

static void messages_parse(const json &body, uint32_t messages_max, Request &request)
{
    const json *messages = find_set(body, "messages");
    if (messages == nullptr) {
        refuse("messages", "missing");
    }
    if (!messages->is_array()) {
        wrong_type("messages", "an array", *messages);
    }
    if (messages->empty()) {
        refuse("messages", "empty; at least one message is needed");
    }
    if (messages->size() > messages_max) {
        throw Refusal(CAIRN_LIMIT, "messages: " + std::to_string(messages->size()) + " of them; at most " +
                                       std::to_string(messages_max) + " are taken");
    }
    for (size_t i = 0; i < messages->size(); i++) {
        Message message = message_parse(messages->at(i), "messages[" + std::to_string(i) + "]");
        message.index = (uint32_t)i;
        request.messages.push_back(std::move(message));
    }
    request.count_messages = (uint32_t)request.messages.size();
    name_results(request.messages);
}

/* --- tools ----------------------------------------------------------------------------------------------------- */

static common_chat_tool tool_parse(const json &tool, const std::string &path)
{
    if (!tool.is_object()) {
        wrong_type(path, "an object", tool);
    }
    std::string type = string_at(tool, "type", path);
    if (type != "function") {
        refuse(path + ".type",
               type.empty() ? "missing" : "only \"function\" is supported, is " + quoted(type));
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
    out.description = string_at(*function, "description", path + ".function");
    const json *parameters = find_set(*function, "parameters");
    if (parameters != nullptr && !parameters->is_object()) {
        wrong_type(path + ".function.parameters", "an object", *parameters);
    }
    out.parameters = parameters == nullptr || parameters->empty()
                         ? R"({"type":"object","properties":{}})"
                         : schema_check(*parameters, path + ".function.parameters").dump_safe();
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
            refuse("tool_choice", "\"required\" without tools");
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
            request.tools.push_back(tool_parse(tools->at(i), "tools[" + std::to_string(i) + "]"));
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
    request.json_schema = schema_check(schema, path).dump_safe();
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
    messages_parse(body, options.messages_max != 0 ? options.messages_max : 20000, request);
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
