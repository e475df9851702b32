/*
 * term - what a person at a terminal sees: tables, a progress line, errors with a way out.
 *
 * Results go to stdout, progress and errors to stderr. The progress line appears on terminals only and leaves no trace.
 *
 * Thread   progress: any, one lock; the rest: the main thread
 */
#ifndef CAIRN_CLI_TERM_H
#define CAIRN_CLI_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cairn/status.h"

enum { CAIRN_TERM_CELL = 48, CAIRN_TERM_COLUMNS_MAX = 12, CAIRN_TERM_ROWS_MAX = 64 };

/* A table of texts; the first row is the head. Columns whose name starts with '>' are set to the right. */
typedef struct cairn_term_table {
    size_t columns, rows;
    char cells[CAIRN_TERM_ROWS_MAX][CAIRN_TERM_COLUMNS_MAX][CAIRN_TERM_CELL];
} cairn_term_table;

/* The first row: const char *names[count]. */
void cairn_term_head(cairn_term_table *table, const char *const *names, size_t count);
/* A new row, filled with the next calls of cell. Rows beyond the last one are dropped. */
void cairn_term_row(cairn_term_table *table);
/* The next cell of the row. */
void cairn_term_cell(cairn_term_table *table, size_t column, const char *format, ...) CAIRN_PRINTF(3, 4);
void cairn_term_print(const cairn_term_table *table, FILE *out);

/* Show or replace the progress line; "" removes it. Nothing happens when stderr is no terminal. */
void cairn_term_progress(const char *format, ...) CAIRN_PRINTF(1, 2);

/* "cairn: <what>: <detail>" and, on the next line, what to do. Both to stderr. `advice` NULL: none. */
void cairn_term_fail(const char *what, const cairn_error *error, const char *advice);

/* "cairn: <text>" and a pointer to --help; gives 2. */
int cairn_term_usage(const char *command, const char *problem);

#endif
