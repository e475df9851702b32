/*
 * bridge - the C functions: open, render, grammar.
 *
 * inputs.now is not used: the library takes it and then reads the clock all the same (jinja's strftime_now, and the
 * variables date_string and datetime). So the calls strftime_now("...") are replaced in the template's text by
 * variables, once, at open; each render sets them and both date variables from now_s.
 */
#include <algorithm>
#include <cstring>
#include <ctime>
#include <mutex>

#include "chat-auto-parser.h"
#include "json-schema-to-grammar.h"
#include "llama.h"
#include "log.h"

#include "chat/bridge_internal.h"

using namespace cairn_chat_bridge;

struct cairn_chat {
    Template plain;
    std::optional<Template> tool_use; /* a second template that some models have for requests with tools */
    cairn_chat_caps caps = {};
    std::string source;
};

namespace
{

/* Keeps what the C struct's pointers point to. */
struct Prompt : cairn_chat_prompt {
    std::string text, opener, grammar, format, format_name, think_start;
    std::vector<cairn_chat_boundary> boundaries;
    std::vector<std::string> trigger_texts, preserved, stops, think_ends;
    std::vector<cairn_chat_trigger> triggers;
    std::vector<const char *> preserved_items, stop_items, think_end_items;
};

/* --- open ---------------------------------------------------------------------------------------------------------- */

/* strftime_now('%Y-%m-%d') -> cairn_now_0 */
std::string clocks_replace(const std::string &source, std::vector<ClockUse> &clocks)
{
    static const std::string call = "strftime_now(";
    std::string out;
    size_t done = 0;
    for (size_t at = source.find(call); at != std::string::npos; at = source.find(call, at + call.size())) {
        size_t open = source.find_first_not_of(" \t", at + call.size());
        if (open == std::string::npos || (source[open] != '"' && source[open] != '\'')) {
            continue;
        }
        size_t close = source.find(source[open], open + 1);
        size_t end = close == std::string::npos ? close : source.find_first_not_of(" \t", close + 1);
        if (end == std::string::npos || source[end] != ')') {
            continue;
        }
        std::string format = source.substr(open + 1, close - open - 1);
        std::string variable = "cairn_now_" + std::to_string(clocks.size());
        clocks.push_back({variable, format});
        out += source.substr(done, at - done) + variable;
        done = end + 1;
    }
    return out + source.substr(done);
}

/*
 * Has the library no code of its own for this template? Then it analyses it at each render, which only the parser
 * needs. Where it has code, that may also change the messages, so only the full way shows the prompt.
 */
bool is_analysed(const std::string &text)
{
    try {
        common_chat_template parsed(text, "<s>", "</s>");
        autoparser::generation_params params;
        params.messages = json::array({json{{"role", "user"}, {"content", "qzuser"}}});
        params.add_generation_prompt = true;
        return !common_chat_try_specialized_template(parsed, parsed.source(), params);
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return false;
    }
}

void direct_open(const cairn_chat_source &source, Template &tmpl)
{
    std::string bos = source.bos_text != nullptr ? source.bos_text : "";
    std::string eos = source.eos_text != nullptr ? source.eos_text : "";
    if (source.model != nullptr) {
        const llama_vocab *vocab = llama_model_get_vocab((const llama_model *)source.model);
        auto piece = [&](llama_token token) {
            return token == LLAMA_TOKEN_NULL ? std::string() : common_token_to_piece(vocab, token, true);
        };
        bos = piece(llama_vocab_bos(vocab));
        eos = piece(llama_vocab_eos(vocab));
        tmpl.add_bos = llama_vocab_get_add_bos(vocab);
        tmpl.add_eos = llama_vocab_get_add_eos(vocab);
    }
    tmpl.direct =
        std::make_unique<common_chat_template>(common_chat_templates_source(tmpl.tmpls.get()), bos, eos);
    if (!direct_agrees(tmpl)) {
        tmpl.direct.reset();
    }
}

Template template_open(const cairn_chat_source &source, const std::string &text)
{
    Template tmpl;
    std::string replaced = clocks_replace(text, tmpl.clocks);
    tmpl.tmpls = common_chat_templates_init(
        (const llama_model *)source.model, replaced.empty() ? "chatml" : replaced,
        source.bos_text != nullptr ? source.bos_text : "", source.eos_text != nullptr ? source.eos_text : "");
    tmpl.analysed = is_analysed(common_chat_templates_source(tmpl.tmpls.get()));
    auto caps = common_chat_templates_get_caps(tmpl.tmpls.get());
    tmpl.traits = traits_learn(tmpl, caps["supports_system_role"], caps["supports_object_arguments"]);
    tmpl.openers = openers_learn(tmpl);
    tmpl.partings = partings_learn(tmpl);
    direct_open(source, tmpl);
    return tmpl;
}

std::string model_template(const void *model, const char *name)
{
    const char *text =
        model != nullptr ? llama_model_chat_template((const llama_model *)model, name) : nullptr;
    return text != nullptr ? text : "";
}

common_chat_params render_opener(const Template &tmpl, bool thinking)
{
    common_chat_templates_inputs inputs;
    inputs.messages.push_back(make_msg("user", "qzuser"));
    inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
    inputs.enable_thinking = thinking;
    return common_chat_templates_apply(tmpl.tmpls.get(), inputs);
}

void caps_set(cairn_chat &chat, bool fallback)
{
    const Template &tmpl = chat.tool_use ? *chat.tool_use : chat.plain;
    auto caps = common_chat_templates_get_caps(tmpl.tmpls.get());
    common_chat_params on = render_opener(chat.plain, true), off = render_opener(chat.plain, false);
    const Traits &traits = chat.plain.traits;
    chat.caps.tools = tmpl.traits.tool_turns && caps["supports_tools"];
    chat.caps.parallel_calls = caps["supports_parallel_tool_calls"];
    chat.caps.system_role = traits.system_role;
    chat.caps.system_anywhere = traits.system_anywhere;
    chat.caps.repeated_roles = traits.users_repeated && traits.assistants_repeated;
    chat.caps.thinking = on.supports_thinking;
    chat.caps.thinking_switch = on.prompt != off.prompt;
    chat.caps.preserve_reasoning = caps["supports_preserve_reasoning"];
    chat.caps.reasoning_effort = caps["supports_reasoning_effort"];
    for (const char *word : {"strftime_now", "date_string", "datetime"}) {
        chat.caps.uses_clock = chat.caps.uses_clock || chat.source.find(word) != std::string::npos;
    }
    chat.caps.is_fallback = fallback;
    chat.caps.count_openers = (uint32_t)chat.plain.openers.size();
    chat.caps.renders_once = chat.plain.direct != nullptr;
}

void log_off()
{
    static std::once_flag once;
    std::call_once(once, [] { common_log_set_verbosity_thold(-1); });
}

cairn_chat *chat_open(const cairn_chat_source &source)
{
    log_off();
    auto chat = std::make_unique<cairn_chat>();
    std::string tool_use;
    bool given = source.template_text != nullptr && source.template_text[0] != '\0';
    if (given) {
        chat->source = source.template_text;
    } else {
        chat->source = model_template(source.model, nullptr);
        tool_use = model_template(source.model, "tool_use");
    }
    if (chat->source.empty()) {
        chat->source.swap(tool_use);
    }
    bool fallback = chat->source.empty();
    try {
        chat->plain = template_open(source, chat->source);
        if (!tool_use.empty()) {
            chat->tool_use = template_open(source, tool_use);
        }
        if (fallback) {
            chat->source = common_chat_templates_source(chat->plain.tmpls.get());
        }
        caps_set(*chat, fallback);
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &error) {
        std::string why = error.what();
        refuse("template",
               "can't be used: " + (why == "std::exception" ? std::string("it does not parse") : why));
    }
    return chat.release();
}

/* --- render ---------------------------------------------------------------------------------------------------------- */

std::string clock_text(int64_t now_s, const std::string &format)
{
    std::time_t now = (std::time_t)now_s;
    std::tm local = {};
    char text[256] = "";
    if (localtime_r(&now, &local) == nullptr || format.empty()) {
        return "";
    }
    /* the template's author chose the format */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t size = std::strftime(text, sizeof text, format.c_str(), &local);
#pragma GCC diagnostic pop
    return std::string(text, size);
}

void clock_set(const Template &tmpl, int64_t now_s, std::map<std::string, std::string> &kwargs)
{
    kwargs.emplace("date_string", json::make(clock_text(now_s, "%d %b %Y")).dump_safe());
    kwargs.emplace("datetime", json::make(clock_text(now_s, "%b %d %Y")).dump_safe());
    for (const ClockUse &clock : tmpl.clocks) {
        kwargs[clock.variable] = json::make(clock_text(now_s, clock.format)).dump_safe();
    }
}

/* The template's own words, without the library's framing around them. */
std::string complaint(const std::string &what)
{
    size_t at = what.find("Jinja Exception: ");
    std::string text = at == std::string::npos ? what : what.substr(at + 17);
    return trim(text.substr(0, text.find('\n')));
}

/* After a failure: was it a schema? Then say which. */
void schemas_check(const Request &request)
{
    auto check = [](const std::string &schema, const std::string &path) {
        try {
            (void)json_schema_to_grammar(json::parse(schema));
        } catch (const std::bad_alloc &) {
            throw;
        } catch (const std::exception &error) {
            refuse(path, json_complaint(error.what()));
        }
    };
    if (!request.json_schema.empty()) {
        check(request.json_schema, request.json_schema_path);
    }
    for (size_t i = 0; i < request.tools.size(); i++) {
        check(request.tools[i].parameters, "tools[" + std::to_string(i) + "].function.parameters");
    }
}

common_chat_params apply(const Template &tmpl, const common_chat_templates_inputs &inputs,
                         const Request &request)
{
    std::optional<common_chat_params> direct = direct_apply(tmpl, inputs);
    if (direct) {
        return std::move(*direct);
    }
    try {
        return common_chat_templates_apply(tmpl.tmpls.get(), inputs);
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &error) {
        std::string why = complaint(error.what());
        schemas_check(request);
        refuse("messages", "the model's chat template refuses this conversation: " + why);
    }
}

common_chat_templates_inputs inputs_make(const Template &tmpl, const Request &request,
                                         const std::vector<Message> &messages, int64_t now_s, bool parallel)
{
    common_chat_templates_inputs inputs;
    for (const Message &message : messages) {
        inputs.messages.push_back(message.msg);
    }
    inputs.tools = request.tools;
    inputs.tool_choice = request.tool_choice;
    inputs.parallel_tool_calls = parallel;
    inputs.json_schema = request.json_schema;
    inputs.grammar = request.grammar;
    inputs.chat_template_kwargs = request.kwargs;
    inputs.enable_thinking = request.enable_thinking;
    inputs.reasoning_format = request.reasoning;
    inputs.add_generation_prompt =
        request.add_generation_prompt && request.continuation == COMMON_CHAT_CONTINUATION_NONE;
    inputs.continue_final_message = request.continuation;
    inputs.now = std::chrono::system_clock::from_time_t((std::time_t)now_s);
    clock_set(tmpl, now_s, inputs.chat_template_kwargs);
    return inputs;
}

/*
 * A request that must call one tool keeps all tools in its prompt (or the prompt would change with the choice); only
 * grammar and parser are made for that tool, with a short conversation.
 */
void narrow(const Template &tmpl, const Request &request, const common_chat_templates_inputs &inputs,
            common_chat_params &params)
{
    if (request.only_tool.empty()) {
        return;
    }
    common_chat_templates_inputs small = inputs;
    small.tools.clear();
    for (const common_chat_tool &tool : inputs.tools) {
        if (tool.name == request.only_tool && small.tools.empty()) {
            small.tools.push_back(tool);
        }
    }
    small.messages = {make_msg("user", "qzuser")};
    small.continue_final_message = COMMON_CHAT_CONTINUATION_NONE;
    small.add_generation_prompt = true;
    common_chat_params only = apply(tmpl, small, request);
    params.grammar = only.grammar;
    params.grammar_lazy = only.grammar_lazy;
    params.grammar_triggers = only.grammar_triggers;
    params.parser = only.parser;
    params.format = only.format;
}

std::vector<const char *> items_of(const std::vector<std::string> &texts)
{
    std::vector<const char *> items;
    items.reserve(texts.size());
    for (const std::string &text : texts) {
        items.push_back(text.c_str());
    }
    return items;
}

void triggers_set(const common_chat_params &params, Prompt &out)
{
    std::vector<cairn_chat_trigger_kind> kinds;
    for (const common_grammar_trigger &trigger : params.grammar_triggers) {
        if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN) {
            continue; /* made from words by callers of the library that know the vocabulary; none comes from it */
        }
        kinds.push_back(trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_WORD ? CAIRN_CHAT_TRIGGER_WORD
                        : trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN
                            ? CAIRN_CHAT_TRIGGER_PATTERN
                            : CAIRN_CHAT_TRIGGER_PATTERN_FULL);
        out.trigger_texts.push_back(trigger.value);
    }
    for (size_t i = 0; i < kinds.size(); i++) {
        out.triggers.push_back({kinds[i], out.trigger_texts[i].c_str()});
    }
}

/* Point the C struct at what `out` keeps. */
void expose(Prompt &out)
{
    out.preserved_items = items_of(out.preserved);
    out.stop_items = items_of(out.stops);
    out.think_end_items = items_of(out.think_ends);
    cairn_chat_prompt &c = out;
    c.text = out.text.c_str();
    c.text_bytes = out.text.size();
    c.boundaries = out.boundaries.data();
    c.count_boundaries = out.boundaries.size();
    c.opener = out.opener.c_str();
    c.grammar = out.grammar.empty() ? nullptr : out.grammar.c_str();
    c.triggers = out.triggers.data();
    c.count_triggers = out.triggers.size();
    c.preserved = {out.preserved_items.data(), out.preserved_items.size()};
    c.stops = {out.stop_items.data(), out.stop_items.size()};
    c.think_start = out.think_start.c_str();
    c.think_ends = {out.think_end_items.data(), out.think_end_items.size()};
    c.format = out.format.c_str();
    c.format_bytes = out.format.size();
    c.format_name = out.format_name.c_str();
}

cairn_chat_prompt *render(const cairn_chat &chat, const std::string &body, const cairn_chat_options &options)
{
    Request request = request_parse(body, options);
    const Template &tmpl = chat.tool_use && !request.tools.empty() ? *chat.tool_use : chat.plain;
    bool continues = request.continuation != COMMON_CHAT_CONTINUATION_NONE;
    std::vector<Message> messages = shape(request.messages, tmpl.traits);
    common_chat_templates_inputs inputs = inputs_make(
        tmpl, request, messages, options.now_s, request.parallel_calls.value_or(chat.caps.parallel_calls));
    common_chat_params params = apply(tmpl, inputs, request);
    narrow(tmpl, request, inputs, params);
    calls_only(request, params);
    if (continues) {
        messages.pop_back(); /* it is part of the opener now */
    }

    auto out = std::make_unique<Prompt>();
    Bounds bounds = bounds_find({tmpl, inputs, messages, request, params});
    out->boundaries = std::move(bounds.list);
    out->opener_bytes = params.prompt.size() - bounds.opener_at;
    out->grammar_from_user = !request.grammar.empty();
    out->grammar = request.grammar.empty() ? params.grammar : request.grammar;
    out->grammar_lazy = request.grammar.empty() && params.grammar_lazy;
    if (out->grammar_lazy) {
        triggers_set(params, *out);
    }
    out->thinking = params.supports_thinking;
    out->continues = continues;
    out->has_tools = !request.tools.empty() && request.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
    out->format = format_save(params, request, continues);
    out->format_name = common_chat_format_name(params.format);
    out->opener = params.generation_prompt;
    out->think_start = params.thinking_start_tag;
    out->think_ends = params.thinking_end_tags;
    out->preserved = params.preserved_tokens;
    out->stops = params.additional_stops;
    out->text = std::move(params.prompt);
    expose(*out);
    return out.release();
}

} // namespace

/* --- the C functions --------------------------------------------------------------------------------------------------- */

cairn_status cairn_chat_open(const cairn_chat_source *source, cairn_chat **ret_chat, cairn_error *reterr)
{
    return guarded("chat/open", CAIRN_INVALID, reterr, [&] { *ret_chat = chat_open(*source); });
}

void cairn_chat_close(cairn_chat *chat)
{
    delete chat;
}

const cairn_chat_caps *cairn_chat_get_caps(const cairn_chat *chat)
{
    return &chat->caps;
}

const char *cairn_chat_get_template(const cairn_chat *chat)
{
    return chat->source.c_str();
}

cairn_status cairn_chat_render(const cairn_chat *chat, const char *request, size_t request_bytes,
                               const cairn_chat_options *options, cairn_chat_prompt **ret_prompt,
                               cairn_error *reterr)
{
    return guarded("chat/render", CAIRN_INTERNAL, reterr, [&] {
        const cairn_chat_options none = {};
        const cairn_chat_options &opt = options != nullptr ? *options : none;
        size_t bytes_max = opt.request_bytes_max != 0 ? opt.request_bytes_max : (size_t)32 << 20;
        if (request_bytes > bytes_max) {
            throw Refusal(CAIRN_LIMIT, "body: " + std::to_string(request_bytes) + " bytes; at most " +
                                           std::to_string(bytes_max) + " are taken");
        }
        *ret_prompt = render(*chat, std::string(request, request_bytes), opt);
    });
}

void cairn_chat_prompt_free(cairn_chat_prompt *prompt)
{
    delete static_cast<Prompt *>(prompt);
}

cairn_status cairn_chat_schema_to_grammar(const char *schema, size_t schema_bytes, char **ret_grammar,
                                          cairn_error *reterr)
{
    static const std::string path = "json_schema";
    return guarded("chat/schema", CAIRN_INVALID, reterr, [&] {
        SchemaBudget budget;
        json parsed = json_parse_limited(std::string(schema, schema_bytes), 128, path);
        std::string grammar;
        schema_check(budget, parsed, path);
        try {
            grammar = json_schema_to_grammar(parsed);
        } catch (const std::bad_alloc &) {
            throw;
        } catch (const std::exception &error) {
            refuse(path, json_complaint(error.what()));
        }
        char *copy = new char[grammar.size() + 1];
        memcpy(copy, grammar.c_str(), grammar.size() + 1);
        *ret_grammar = copy;
    });
}

void cairn_chat_string_free(char *text)
{
    delete[] text;
}
