/*
 * term - see the header.
 */
#include "cli/term.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static bool progress_shown;

void cairn_term_head(cairn_term_table *table, const char *const *names, size_t count)
{
    cairn_term_row(table);
    for (size_t c = 0; c < count; c++)
        cairn_term_cell(table, c, "%s", names[c]);
}

void cairn_term_row(cairn_term_table *table)
{
    if (table->rows < CAIRN_TERM_ROWS_MAX)
        table->rows++;
}

void cairn_term_cell(cairn_term_table *table, size_t column, const char *format, ...)
{
    CAIRN_ASSERT(table->rows > 0 && column < CAIRN_TERM_COLUMNS_MAX);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(table->cells[table->rows - 1][column], CAIRN_TERM_CELL, format, args);
    va_end(args);
    if (column >= table->columns)
        table->columns = column + 1;
}

void cairn_term_print(const cairn_term_table *table, FILE *out)
{
    size_t width[CAIRN_TERM_COLUMNS_MAX] = {0};
    bool right[CAIRN_TERM_COLUMNS_MAX] = {false};
    for (size_t c = 0; c < table->columns; c++) {
        right[c] = table->cells[0][c][0] == '>';
        for (size_t r = 0; r < table->rows; r++) {
            size_t n = strlen(table->cells[r][c]) - (r == 0 && right[c] ? 1 : 0);
            width[c] = n > width[c] ? n : width[c];
        }
    }
    for (size_t r = 0; r < table->rows; r++) {
        for (size_t c = 0; c < table->columns; c++) {
            const char *text = table->cells[r][c] + (r == 0 && right[c] ? 1 : 0);
            if (c > 0)
                (void)fputs("  ", out);
            if (right[c]) {
                (void)fprintf(out, "%*s", (int)width[c], text);
            } else if (c + 1 < table->columns) {
                (void)fprintf(out, "%-*s", (int)width[c], text);
            } else {
                (void)fputs(text, out);
            }
        }
        (void)fputc('\n', out);
    }
}

void cairn_term_progress(const char *format, ...)
{
    if (isatty(STDERR_FILENO) == 0)
        return;
    char text[160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)pthread_mutex_lock(&progress_lock);
    if (text[0] != '\0' || progress_shown)
        (void)fprintf(stderr, "\r\033[K%s", text);
    progress_shown = text[0] != '\0';
    (void)fflush(stderr);
    (void)pthread_mutex_unlock(&progress_lock);
}

void cairn_term_fail(const char *what, const cairn_error *error, const char *advice)
{
    cairn_term_progress("%s", "");
    (void)fprintf(stderr, "cairn: %s", what);
    if (error != NULL && error->detail[0] != '\0') {
        (void)fprintf(stderr, ": %s", error->detail);
    } else if (error != NULL && error->status != CAIRN_OK) {
        (void)fprintf(stderr, ": %s", cairn_status_message(error->status));
    }
    (void)fputc('\n', stderr);
    if (advice != NULL)
        (void)fprintf(stderr, "%s\n", advice);
}

int cairn_term_usage(const char *command, const char *problem)
{
    (void)fprintf(stderr, "cairn: %s\nTry `cairn%s%s --help`.\n", problem, command[0] != '\0' ? " " : "",
                  command);
    return 2;
}
