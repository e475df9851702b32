/*
 * report - results of replays as a table for people, as JSON, and as a plot.
 *
 * Units    as in replay.h; budgets are printed with units, plots have them on a logarithmic axis
 * Thread   any
 */
#ifndef CAIRN_SIM_REPORT_H
#define CAIRN_SIM_REPORT_H

#include "base/buf.h"
#include "replay.h"

/* One line a result: traffic, rule, budget, read / least, hit rate, of perfect, TTFT, bytes, snapshots. */
CAIRN_MUST_CHECK cairn_status cairn_report_table(const cairn_replay_result *results, uint32_t count,
                                                 cairn_buf *out);

/* {"results":[{..},..]}; every number of a result, and the derived ones. */
CAIRN_MUST_CHECK cairn_status cairn_report_json(const cairn_replay_result *results, uint32_t count,
                                                cairn_buf *out);

/*
 * Results that belong together as one: sums of tokens, worst of nothing. Names are taken from the first; the times to
 * first token can't be joined and are 0.
 */
cairn_replay_result cairn_report_join(const cairn_replay_result *results, uint32_t count);

typedef struct cairn_plot_line {
    const char *name;
    const double *x, *y; /* double[count], x ascending and > 0 */
    uint32_t count;
} cairn_plot_line;

typedef struct cairn_plot {
    const char *title, *x_label, *y_label;
    const cairn_plot_line *lines;
    uint32_t count_lines;
    double y_low, y_high; /* values beyond are drawn at the edge */
    const char *(*x_text)(double x, char text[32]);
} cairn_plot;

/* The plot as an SVG document, the x axis logarithmic. */
CAIRN_MUST_CHECK cairn_status cairn_plot_svg(const cairn_plot *plot, cairn_buf *out);

/* read / least against the budget, one line a rule, over all results that are not of a fleet. */
CAIRN_MUST_CHECK cairn_status cairn_report_plot(const cairn_mem *mem, const cairn_replay_result *results,
                                                uint32_t count, cairn_buf *out);

#endif
