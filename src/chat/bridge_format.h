/*
 * bridge_format - how a template's answers are written: the library's parser and the tags of reasoning. Not for C.
 *
 * A Format is saved with the prompt and loaded for each answer. WholeCharacters makes text of bytes that come cut anywhere.
 *
 * Thread   a Format is not changed after load; WholeCharacters belong to one stream
 */
#ifndef CAIRN_CHAT_BRIDGE_FORMAT_H
#define CAIRN_CHAT_BRIDGE_FORMAT_H

#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

struct Format {
    common_chat_parser_params params;
    std::string think_start;
    std::vector<std::string> think_ends;
    bool split = false; /* reasoning is told apart */

    /* What format_save gave, by this build. */
    static Format load(const std::string &text);
    /*
     * False: the text can't be a beginning of anything in this format. common_chat_parse would not do: it gives a
     * message even when it stopped half way, and what it did not read would be lost.
     *
     *   ret_end [out]  set when it stopped half way: the length of text that `ret` stands for; null: that is false, too
     */
    bool parse(const std::string &text, common_chat_msg &ret, size_t *ret_end) const;
    /* Does the prompt's opener begin the reasoning? */
    bool opener_thinks() const;
};

class WholeCharacters
{
  public:
    /* Append the whole characters of `bytes`; what may still become one is kept, what can't becomes U+FFFD. */
    void feed(const char *bytes, size_t size, std::string &out);
    /* No more bytes come. */
    void finish(std::string &out);

  private:
    std::string held_;
};

/* Only white space from there on? */
bool blank(const std::string &text, size_t from);

} // namespace cairn_chat_bridge

#endif
