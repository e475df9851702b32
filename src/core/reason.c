/*
 * reason - the words of cairn/record.h, made from its one list.
 */
#include "core/reason.h"

const char *cairn_reason_word(cairn_reason reason)
{
    switch (reason) {
#define WORD(name, word, sentence) \
    case CAIRN_REASON_##name:      \
        return word;
        CAIRN_REASON_MAP(WORD)
#undef WORD
    case CAIRN_REASON_COUNT:
        break;
    }
    return "unknown";
}

const char *cairn_reason_sentence(cairn_reason reason)
{
    switch (reason) {
#define SENTENCE(name, word, sentence) \
    case CAIRN_REASON_##name:          \
        return sentence;
        CAIRN_REASON_MAP(SENTENCE)
#undef SENTENCE
    case CAIRN_REASON_COUNT:
        break;
    }
    return "unknown";
}

const char *cairn_source_word(cairn_source source)
{
    static const char *const words[] = {"none", "slot", "ram", "disk", "shared"};
    return (unsigned)source < sizeof words / sizeof words[0] ? words[source] : "unknown";
}
