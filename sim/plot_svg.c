/*
 * plot_svg - a small line plot as SVG: logarithmic x, linear y, a legend. No scripts, no fonts of its own; readable on
 * light and dark pages (it brings its own background).
 */
#include <math.h>
#include <stdio.h>

#include "report.h"

enum { WIDTH = 860, HEIGHT = 480, LEFT = 70, RIGHT = 190, TOP = 46, BOTTOM = 64 };

static const char *const colours[] = {"#111111", "#c1272d", "#0b6e4f", "#1f77b4", "#ff7f0e", "#9467bd",
                                      "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"};

typedef struct plot_frame {
    double x_low, x_high, y_low, y_high; /* x as logarithms */
} plot_frame;

static double place_x(const plot_frame *f, double x)
{
    double span = f->x_high - f->x_low;
    double part = span > 0 ? (log2(x) - f->x_low) / span : 0.5;
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double place_y(const plot_frame *f, double y)
{
    double limited = y > f->y_high ? f->y_high : y < f->y_low ? f->y_low : y;
    return HEIGHT - BOTTOM - (limited - f->y_low) / (f->y_high - f->y_low) * (HEIGHT - TOP - BOTTOM);
}

static cairn_status put_text(cairn_buf *out, double x, double y, const char *anchor, int size,
                             const char *text)
{
    cairn_status status = cairn_buf_printf(
        out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor, size);
    for (const char *c = text; status == CAIRN_OK && *c != '\0'; c++) {
        if (*c == '<' || *c == '&') {
            status = cairn_buf_append_str(out, *c == '<' ? "&lt;" : "&amp;");
        } else {
            status = cairn_buf_append_byte(out, (uint8_t)*c);
        }
    }
    return status == CAIRN_OK ? cairn_buf_append_str(out, "</text>\n") : status;
}

static cairn_status put_line(cairn_buf *out, double x1, double y1, double x2, double y2, const char *colour)
{
    return cairn_buf_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n",
                            x1, y1, x2, y2, colour);
}

static cairn_status put_axes(const cairn_plot *plot, const plot_frame *f, cairn_buf *out)
{
    cairn_status status = put_text(out, LEFT, TOP - 20, "start", 15, plot->title);
    double step = (f->y_high - f->y_low) / 5;
    for (int i = 0; status == CAIRN_OK && i <= 5; i++) {
        double y = f->y_low + step * i;
        char text[32];
        (void)snprintf(text, sizeof text, "%.2f", y);
        status = put_line(out, LEFT, place_y(f, y), WIDTH - RIGHT, place_y(f, y), "#dddddd");
        if (status == CAIRN_OK) {
            status = put_text(out, LEFT - 8, place_y(f, y) + 4, "end", 12, text);
        }
    }
    /* A tick at every x of the longest line. */
    const cairn_plot_line *longest = &plot->lines[0];
    for (uint32_t i = 1; i < plot->count_lines; i++) {
        longest = plot->lines[i].count > longest->count ? &plot->lines[i] : longest;
    }
    for (uint32_t i = 0; status == CAIRN_OK && i < longest->count; i++) {
        char text[32];
        double x = place_x(f, longest->x[i]);
        status = put_line(out, x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, "#555555");
        if (status == CAIRN_OK) {
            status = put_text(out, x, HEIGHT - BOTTOM + 20, "middle", 12, plot->x_text(longest->x[i], text));
        }
    }
    if (status == CAIRN_OK) {
        status = put_text(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 18, "middle", 13, plot->x_label);
    }
    return status == CAIRN_OK ? put_text(out, 8, TOP - 4, "start", 12, plot->y_label) : status;
}

static cairn_status put_curve(const cairn_plot_line *line, uint32_t index, const plot_frame *f,
                              cairn_buf *out)
{
    const char *colour = colours[index % (sizeof colours / sizeof colours[0])];
    cairn_status status =
        cairn_buf_printf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s points=\"", colour,
                         index < 2 ? "3" : "1.6",
                         index >= sizeof colours / sizeof colours[0] ? " stroke-dasharray=\"5 3\"" : "");
    for (uint32_t i = 0; status == CAIRN_OK && i < line->count; i++) {
        status = cairn_buf_printf(out, "%.1f,%.1f ", place_x(f, line->x[i]), place_y(f, line->y[i]));
    }
    if (status == CAIRN_OK) {
        status = cairn_buf_append_str(out, "\"/>\n");
    }
    for (uint32_t i = 0; status == CAIRN_OK && i < line->count; i++) {
        status = cairn_buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"/>\n",
                                  place_x(f, line->x[i]), place_y(f, line->y[i]), colour);
    }
    double y = TOP + 10 + 20.0 * index;
    if (status == CAIRN_OK) {
        status = cairn_buf_printf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"16\" height=\"4\" fill=\"%s\"/>\n",
                                  WIDTH - RIGHT + 18, y - 4, colour);
    }
    return status == CAIRN_OK ? put_text(out, WIDTH - RIGHT + 40, y + 2, "start", 12, line->name) : status;
}

cairn_status cairn_plot_svg(const cairn_plot *plot, cairn_buf *out)
{
    plot_frame f = {.x_low = INFINITY, .x_high = -INFINITY, .y_low = plot->y_low, .y_high = plot->y_high};
    for (uint32_t i = 0; i < plot->count_lines; i++) {
        for (uint32_t k = 0; k < plot->lines[i].count; k++) {
            f.x_low = fmin(f.x_low, log2(plot->lines[i].x[k]));
            f.x_high = fmax(f.x_high, log2(plot->lines[i].x[k]));
        }
    }
    if (plot->count_lines == 0 || !isfinite(f.x_low) || f.y_high <= f.y_low) {
        return CAIRN_INVALID;
    }
    cairn_status status = cairn_buf_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
        "font-family=\"sans-serif\" fill=\"#222222\">\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    if (status == CAIRN_OK) {
        status = put_axes(plot, &f, out);
    }
    for (uint32_t i = 0; status == CAIRN_OK && i < plot->count_lines; i++) {
        status = put_curve(&plot->lines[i], i, &f, out);
    }
    return status == CAIRN_OK ? cairn_buf_append_str(out, "</svg>\n") : status;
}
