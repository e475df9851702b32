/*
 * page_bytes - the page at `/`, made of web/ when cairn is built (see web/build.mjs).
 */
#ifndef CAIRN_PAGE_BYTES_H
#define CAIRN_PAGE_BYTES_H

#include <stddef.h>

extern const unsigned char cairn_page_bytes[]; /* unsigned char[cairn_page_len_bytes], HTML in UTF-8 */
extern const size_t cairn_page_len_bytes;

#endif
