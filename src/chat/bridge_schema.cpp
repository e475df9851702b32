/*
 * bridge_schema - how large a JSON schema may be, so that making a grammar of it takes a bounded time.
 *
 * The library's grammar for an object lists, for each property that may be absent, all that may follow it: work and text grow
 * with the square of their number. So the squares are counted, over the whole schema.
 */
#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

constexpr size_t NODES_MAX = 50000;   /* values in the schema */
constexpr size_t SQUARES_MAX = 90000; /* 300 optional properties in one object: about half a second */

struct SchemaSize {
    size_t nodes = 0, squares = 0;
    bool is_over() const { return nodes > NODES_MAX || squares > SQUARES_MAX; }
};

static size_t count_optional(const json &object)
{
    if (!object.contains("properties") || !object.at("properties").is_object()) {
        return 0;
    }
    size_t all = object.at("properties").size(), named = 0;
    if (object.contains("required") && object.at("required").is_array()) {
        named = object.at("required").size();
    }
    return all > named ? all - named : 0;
}

static void measure(const json &value, SchemaSize &size)
{
    size.nodes++;
    if (value.is_object()) {
        size_t optional = count_optional(value);
        size.squares += optional * optional;
        for (const auto &[name, inner] : value.items()) {
            if (size.is_over()) {
                return;
            }
            measure(inner, size);
        }
    } else if (value.is_array()) {
        for (size_t i = 0; i < value.size() && !size.is_over(); i++) {
            measure(value.at(i), size);
        }
    }
}

const common_json &schema_check(const common_json &schema, const std::string &path)
{
    SchemaSize size;
    measure(schema, size);
    if (size.squares > SQUARES_MAX) {
        refuse(path, "too many optional properties: squared and summed over all objects they may be " +
                         std::to_string(SQUARES_MAX));
    }
    if (size.nodes > NODES_MAX) {
        refuse(path, "more than " + std::to_string(NODES_MAX) + " values");
    }
    return schema;
}

} // namespace cairn_chat_bridge
