/*
 * status - one list of outcomes, and the errors that explain them.
 *
 * CAIRN_STATUS_MAP makes the enum, the names, the messages and the HTTP mapping, so that they cannot drift apart.
 *
 * A function that can fail returns cairn_status and is marked CAIRN_MUST_CHECK. Most take a `cairn_error *reterr` as
 * their last argument: NULL is allowed; it is written only on failure. "Nothing found" during a lookup is not an
 * error but a result with a reason; CAIRN_NOTFOUND is for things named by the caller (a file, a model, a route).
 *
 * Thread   any; the counters are atomic
 * See      docs/ARCHITECTURE.md
 */
#ifndef CAIRN_STATUS_H
#define CAIRN_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, code, HTTP status when it reaches a client, message) */
#define CAIRN_STATUS_MAP(X)                                         \
    X(OK, 0, 200, "ok")                                             \
    X(NOMEM, -1, 503, "out of memory")                              \
    X(INVALID, -2, 400, "argument out of range")                    \
    X(CORRUPT, -3, 500, "stored bytes fail checks")                 \
    X(IO, -4, 500, "input or output failed")                        \
    X(NOSPACE, -5, 507, "no space left")                            \
    X(ENGINE, -6, 500, "the engine refused")                        \
    X(UNSUPPORTED, -7, 501, "not supported")                        \
    X(BUSY, -8, 503, "busy")                                        \
    X(CANCELLED, -9, 499, "cancelled")                              \
    X(NOTFOUND, -10, 404, "not found")                              \
    X(FOREIGN, -11, 409, "made by another model, setting or build") \
    X(LIMIT, -12, 413, "a limit was reached")                       \
    X(EXISTS, -13, 409, "exists already")                           \
    X(TIMEOUT, -14, 504, "took too long")                           \
    X(INTERNAL, -15, 500, "internal error")                         \
    X(LOCKED, -16, 409, "written with another key")

typedef enum cairn_status {
#define CAIRN_STATUS_ENUM(name, code, http, message) CAIRN_##name = (code),
    CAIRN_STATUS_MAP(CAIRN_STATUS_ENUM)
#undef CAIRN_STATUS_ENUM
} cairn_status;

#if defined(__GNUC__) || defined(__clang__)
#define CAIRN_MUST_CHECK                 __attribute__((warn_unused_result))
#define CAIRN_PRINTF(fmt_arg, first_arg) __attribute__((format(printf, fmt_arg, first_arg)))
#define CAIRN_NORETURN                   __attribute__((noreturn))
#else
#define CAIRN_MUST_CHECK
#define CAIRN_PRINTF(fmt_arg, first_arg)
#define CAIRN_NORETURN
#endif

#define CAIRN_ERROR_DETAIL_BYTES 160
#define CAIRN_OFFSET_NONE        UINT64_MAX

/* What went wrong. A value: it owns nothing and may be copied. */
typedef struct cairn_error {
    cairn_status status;
    int os_errno;          /* 0 when not from the OS */
    const char *where;     /* a constant: "store/read: header"; never NULL after cairn_error_set */
    uint64_t offset_bytes; /* where in the input; CAIRN_OFFSET_NONE when not meaningful */
    char detail
        [CAIRN_ERROR_DETAIL_BYTES]; /* for people; NUL-terminated, cut at a character's edge when too long */
} cairn_error;

/* The enum's name without prefix ("NOMEM"); "UNKNOWN" for a number that is not in the list. */
const char *cairn_status_name(cairn_status status);

/* One short sentence for people. */
const char *cairn_status_message(cairn_status status);

/* The HTTP status that a client sees when a request ends with this. */
int cairn_status_http(cairn_status status);

/*
 * Fill `reterr` and give back `status`, so that a failing function can end with `return cairn_error_set(...)`.
 *
 *   reterr  [out]  NULL is allowed: then only `status` is passed through
 *   where   [in]   a string constant, "module/function: step"
 *   format  [in]   printf format of the detail; NULL for none
 *
 * After    os_errno is 0 and offset_bytes CAIRN_OFFSET_NONE. errno is left alone.
 */
cairn_status cairn_error_set(cairn_error *reterr, cairn_status status, const char *where, const char *format,
                             ...) CAIRN_PRINTF(4, 5);

/* The same for a failed system call: the detail ends with the error number's text. ENOSPC and EDQUOT give
 * CAIRN_NOSPACE, ENOENT gives CAIRN_NOTFOUND, EEXIST gives CAIRN_EXISTS, ENOMEM gives CAIRN_NOMEM, others CAIRN_IO. */
cairn_status cairn_error_set_os(cairn_error *reterr, int os_errno, const char *where, const char *format, ...)
    CAIRN_PRINTF(4, 5);

/* The same with the place in the input at which it went wrong. */
cairn_status cairn_error_set_at(cairn_error *reterr, cairn_status status, uint64_t offset_bytes,
                                const char *where, const char *format, ...) CAIRN_PRINTF(5, 6);

/* Everything in one line: "where: message: detail (at byte n)". Cut to room_bytes, always NUL-terminated. */
void cairn_error_print(const cairn_error *error, char *text, unsigned room_bytes);

/* Stop the program: prints file, line and condition to stderr, then aborts. Called by CAIRN_ASSERT only. */
CAIRN_NORETURN void cairn_assert_failed(const char *file, int line, const char *condition);

/* Count a failed expectation; stops the program when `aborts`. Called by CAIRN_EXPECT only. Gives false. */
bool cairn_expect_failed(const char *file, int line, const char *condition, bool aborts);

/* How many expectations failed since the start. For the metrics and for tests. */
uint64_t cairn_expect_failures(void);

/* A mistake of ours, proved impossible. On in every build; O(1), free of side effects. */
#define CAIRN_ASSERT(condition) ((condition) ? (void)0 : cairn_assert_failed(__FILE__, __LINE__, #condition))

/*
 * A mistake of ours, only believed impossible: `if (!CAIRN_EXPECT(x)) return a_miss;`. Gives the condition's truth.
 * Builds with CAIRN_EXPECT_ABORTS=1 (tests) stop the program, others count it and go on.
 */
#ifndef CAIRN_EXPECT_ABORTS
#define CAIRN_EXPECT_ABORTS 0
#endif
#define CAIRN_EXPECT(condition) \
    ((condition) ? true : cairn_expect_failed(__FILE__, __LINE__, #condition, CAIRN_EXPECT_ABORTS != 0))

#ifdef __cplusplus
}
#endif

#endif
