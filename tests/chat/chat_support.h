/*
 * chat_support - what the chat tests share: templates from the llama.cpp checkout, requests as text.
 */
#ifndef CAIRN_TEST_CHAT_SUPPORT_H
#define CAIRN_TEST_CHAT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chat/bridge.h"

/* The clock of all tests: 2026-01-02 03:04:05 UTC. */
#define TEST_NOW 1767323045

/* char[]; the caller's to free. Fails the test when the file can't be read. */
char *test_read_file(const char *path);

/* Open models/templates/<name>.jinja with "<s>" and "</s>" as begin and end texts. */
cairn_chat *test_open_template(const char *name);

/* Qwen3.5-4B, between the two: a group's set-up and tear-down. */
extern cairn_chat *qwen;
int open_qwen(void **state);
int close_qwen(void **state);

/* Names without ".jinja", sorted; the caller's to free with test_free_names. */
char **test_template_names(size_t *ret_count);
void test_free_names(char **names, size_t count);

/* Render with TEST_NOW; fails the test on an error. */
cairn_chat_prompt *test_render(const cairn_chat *chat, const char *request);

/* Fails unless rendering `request` is refused with this status and a detail that contains `detail`. */
void test_refused(const cairn_chat *chat, const char *request, cairn_status status, const char *detail);

/* A growing text; starts as {0}; the caller frees .text. */
typedef struct test_text {
    char *text;
    size_t size, room;
} test_text;
void test_text_add(test_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first boundary that has all of these kinds and is of this message (UINT32_MAX: any); NULL: none. */
const cairn_chat_boundary *test_boundary(const cairn_chat_prompt *prompt, unsigned kinds, uint32_t message);

#endif
