/*
 * bridge_required - a grammar for requests that must call a tool: nothing stands before the call but reasoning.
 *
 * The library's own lets the model write any text before a required call, so that one may be all it writes. Its grammar
 * is made from its parser, a graph that can be saved; here it is made again from one whose content is empty:
 *
 *   reasoning? content(until "<tool_call>")? calls    -->    reasoning? ()? calls
 *
 * Answers are still parsed with the library's parser.
 */
#include "chat-peg-parser.h"
#include "json-schema-to-grammar.h"

#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

static std::string grammar_of(const common_peg_arena &arena, const std::vector<common_chat_tool> &tools)
{
    return build_grammar([&](const common_grammar_builder &builder) {
        for (const common_chat_tool &tool : tools) {
            json schema = json::parse(tool.parameters);
            builder.resolve_refs(schema);
        }
        arena.build_grammar(builder, false);
    });
}

/* Text up to a tag becomes nothing. False: there is none. */
static bool drop_content(common_peg_arena &arena)
{
    bool any = false;
    for (size_t id = 0; id < arena.size(); id++) {
        const auto *tag = std::get_if<common_peg_tag_parser>(&arena.get(id));
        if (tag != nullptr && tag->tag == common_chat_peg_builder::CONTENT &&
            std::holds_alternative<common_peg_until_parser>(arena.get(tag->child))) {
            common_peg_gbnf_parser nothing = {tag->child, "()"};
            arena.get(id) = nothing;
            any = true;
        }
    }
    return any;
}

void calls_only(const Request &request, common_chat_params &params)
{
    bool required = request.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED && !request.tools.empty();
    /* reasoning that is not told apart is content, too */
    if (!required || request.reasoning == COMMON_REASONING_FORMAT_NONE || params.grammar_lazy ||
        params.grammar.empty() || params.parser.empty()) {
        return;
    }
    std::vector<common_chat_tool> tools;
    for (const common_chat_tool &tool : request.tools) {
        if (request.only_tool.empty() || tool.name == request.only_tool) {
            tools.push_back(tool);
        }
    }
    common_peg_arena arena;
    arena.load(params.parser);
    if (grammar_of(arena, tools) == params.grammar && drop_content(arena)) {
        params.grammar = grammar_of(arena, tools);
    }
}

} // namespace cairn_chat_bridge
