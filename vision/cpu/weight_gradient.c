/* The gradient of a convolution's weights:
 *   dw[out channel][tap][in channel] = sum over all positions of dy[position][out channel] *
 *   x[position moved by the tap][in channel]
 *
 * With channels last, the channels of a position are contiguous in both operands, so this is a sum
 * of outer products. A tile of 6 x 16 elements is summed in registers. Before that some lines of
 * both operands are packed into panels of as many channels as a tile has: a tile then reads
 * contiguous memory, and the border exists as zeros. A block is as many packed lines as fit into
 * the second-level cache. Tiles are summed over chunks of a block whose x fits into the first-level
 * cache.
 * Source  Goto, van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM Transactions
 *         on Mathematical Software 34 (3), 2008. */
#include "vision/cpu/kernels.h"

#include "lib/kernels/cpu/team.h"

#include <string.h>

enum {
    ROWS = VISION_TILE_ROWS,
    COLUMNS = VISION_TILE_COLUMNS,
    CHUNK_POSITIONS = 400,   /* of a panel of x: 25 KiB, for a first-level cache of 32 KiB */
    BLOCK_BYTES = 400 << 10, /* of both operands, for a second-level cache of 512 KiB */
    BLOCK_POSITIONS = 256,   /* at least so many of dy: with fewer, tiles are read and written too often */
    LINE_POSITIONS = 256,
};

/* A packed row of x with its border. */
struct row {
    size_t image, number; /* number 0: the first row of the border */
};

struct work {
    const struct vision_loops *loops;
    const struct vision_sliding *over;
    const float *x, *dy;
    float *dw;
    bool fresh; /* overwrite dw instead of adding to it */
    size_t in, out, taps, in_panels, out_panels;
    /* positions of x: from_step, the distance of packed ones in x; x_step, the distance of those
     * that a tile reads in the packed row */
    size_t from_step, x_step;
    size_t width, reach; /* positions of a packed row; rows of a window after its first */
    /* A line is a number of rows of dy that are contiguous in both operands. */
    size_t line_rows, line_positions, image_lines, chunk_lines, block_lines;
    size_t first_line, lines;    /* of this block, counted from the first line of the first image */
    size_t row_count, most_rows; /* rows that are packed */
    struct row *rows;            /* [most_rows] */
    size_t *offsets;             /* [block_lines]: place of a line's first position in a panel of x */
    float *x_panels, *dy_panels; /* [in_panels, row_count, width, COLUMNS]; [out_panels, lines, line_positions, ROWS] */
    size_t parts;                /* parts into which a panel's tiles are divided, for the threads */
};

bool vision_weight_gradient_fits(const struct vision_sliding *over)
{
    return dt_cpu_isa() == DT_ISA_AVX2 && over->in.channels % COLUMNS == 0 &&
           over->samples * (size_t)(over->out.height * over->out.width) >= 64;
}

/* ---- packing ---- */

/* Find the rows of x that the block's lines read, and the place of each line among them. */
static void find_rows(struct work *w)
{
    size_t base = 0; /* place among the block's rows of this image's row 0 */
    w->row_count = 0;
    for (size_t i = 0; i < w->lines; i++) {
        size_t image = (w->first_line + i) / w->image_lines;
        size_t first = (w->first_line + i) % w->image_lines * w->line_rows * w->x_step;
        bool begins = i == 0 || first == 0;
        size_t next = begins ? first : w->rows[w->row_count - 1].number + 1;
        base = begins ? w->row_count - first : base;
        for (; next <= first + (w->line_rows - 1) * w->x_step + w->reach; next++)
            w->rows[w->row_count++] = (struct row){image, next};
        w->offsets[i] = (base + first) * w->width * COLUMNS;
    }
}

static void pack_row(const struct work *w, size_t index)
{
    const struct vision_shape in = w->over->in;
    long padding = w->over->window.padding, y = (long)(w->rows[index].number * w->from_step) - padding;
    bool in_image = y >= 0 && y < in.height;
    const float *from = w->x + (w->rows[index].image * (size_t)in.height + (in_image ? (size_t)y : 0)) * (size_t)in.width * w->in;
    size_t panel = w->row_count * w->width * COLUMNS;
    float *to = w->x_panels + index * w->width * COLUMNS;
    for (size_t column = 0; column < w->width; column++, to += COLUMNS) {
        long x = (long)(column * w->from_step) - padding;
        bool inside = in_image && x >= 0 && x < in.width;
        for (size_t p = 0; p < w->in_panels; p++)
            if (inside)
                memcpy(to + p * panel, from + (size_t)x * w->in + p * COLUMNS, COLUMNS * sizeof *to);
            else
                memset(to + p * panel, 0, COLUMNS * sizeof *to);
    }
}

static void pack_dy_position(const struct work *w, size_t position)
{
    const float *from = w->dy + (w->first_line * w->line_positions + position) * w->out;
    size_t panel = w->lines * w->line_positions * ROWS, whole = w->out / ROWS, rest = w->out % ROWS;
    float *to = w->dy_panels + position * ROWS;
    for (size_t p = 0; p < whole; p++, to += panel, from += ROWS)
        memcpy(to, from, ROWS * sizeof *to);
    for (size_t i = 0; rest && i < ROWS; i++)
        to[i] = i < rest ? from[i] : 0;
}

static void pack(void *argument, int thread, int threads)
{
    const struct work *w = argument;
    struct dt_cpu_share rows = dt_cpu_share(w->row_count, 1, thread, threads);
    struct dt_cpu_share positions = dt_cpu_share(w->lines * w->line_positions, 16, thread, threads);
    for (size_t i = rows.first; i < rows.end; i++)
        pack_row(w, i);
    for (size_t i = positions.first; i < positions.end; i++)
        pack_dy_position(w, i);
}

/* ---- tiles ---- */

/* Compute all tiles of a panel of x and a panel of dy, over a chunk of lines. */
static void add_tiles(const struct work *w, size_t in_panel, size_t out_panel, size_t first_line, size_t lines)
{
    int kernel = w->over->window.kernel, apart = w->over->window.dilation;
    size_t rows = w->out - out_panel * ROWS < ROWS ? w->out - out_panel * ROWS : ROWS;
    const float *x = w->x_panels + in_panel * w->row_count * w->width * COLUMNS;
    struct vision_weight_tile tile = {
        .dw_step = w->taps * w->in,
        .rows = (int)rows,
        .fresh = w->fresh && first_line == 0,
        .dy = w->dy_panels + (out_panel * w->lines + first_line) * w->line_positions * ROWS,
        .offsets = w->offsets + first_line,
        .lines = lines,
        .positions = w->line_positions,
        .x_step = w->x_step * COLUMNS,
    };
    for (int tap = 0; tap < kernel * kernel; tap++) {
        size_t down = (size_t)(tap / kernel * apart), right = (size_t)(tap % kernel * apart);
        tile.x = x + (down * w->width + right) * COLUMNS;
        tile.dw = w->dw + (out_panel * ROWS * w->taps + (size_t)tap) * w->in + in_panel * COLUMNS;
        w->loops->weight_tile(&tile);
    }
}

static void multiply(void *argument, int thread, int threads)
{
    const struct work *w = argument;
    struct dt_cpu_share mine = dt_cpu_share(w->in_panels * w->parts, 1, thread, threads);
    for (size_t line = 0; line < w->lines; line += w->chunk_lines)
        for (size_t unit = mine.first; unit < mine.end; unit++) {
            size_t part = unit % w->parts, end = w->out_panels * (part + 1) / w->parts;
            for (size_t p = w->out_panels * part / w->parts; p < end; p++)
                add_tiles(w, unit / w->parts, p, line, w->lines - line < w->chunk_lines ? w->lines - line : w->chunk_lines);
        }
}

/* ---- a call ---- */

static size_t at_least_one(size_t n)
{
    return n > 0 ? n : 1;
}

/* The largest divisor of `height` whose rows have no more positions than a line may have. */
static size_t rows_of_line(size_t height, size_t width)
{
    size_t rows = 1;
    for (size_t n = 2; n <= height && n * width <= LINE_POSITIONS; n++)
        rows = height % n == 0 ? n : rows;
    return rows;
}

static struct work work_of(const struct vision_sliding *o, int threads)
{
    bool single = o->window.kernel == 1; /* then only positions that are read are packed, and rows are contiguous */
    size_t height = (size_t)o->out.height, width = (size_t)o->out.width, stride = (size_t)o->window.stride;
    struct work w = {.over = o,
                     .in = (size_t)o->in.channels,
                     .out = (size_t)o->out.channels,
                     .taps = (size_t)(o->window.kernel * o->window.kernel),
                     .from_step = single ? stride : 1,
                     .x_step = single ? 1 : stride,
                     .reach = (size_t)((o->window.kernel - 1) * o->window.dilation),
                     .line_rows = single ? rows_of_line(height, width) : 1};
    w.in_panels = w.in / COLUMNS;
    w.out_panels = (w.out + ROWS - 1) / ROWS;
    w.width = (width - 1) * w.x_step + w.reach + 1;
    w.line_positions = w.line_rows * width;
    w.image_lines = height / w.line_rows;
    size_t border = w.reach * w.width, most = CHUNK_POSITIONS * w.x_step, room = most > border ? most - border : 0;
    w.chunk_lines = at_least_one(room / (w.line_rows * w.x_step * w.width));
    size_t positions = BLOCK_BYTES / sizeof(float) / (w.in + w.out), all = o->samples * w.image_lines;
    w.block_lines = at_least_one((positions > BLOCK_POSITIONS ? positions : BLOCK_POSITIONS) / w.line_positions);
    w.block_lines = w.block_lines < all ? w.block_lines : all;
    size_t images = w.block_lines / w.image_lines + 2; /* images of which a block has a part */
    w.most_rows = w.block_lines * w.line_rows * w.x_step + images * (w.reach + 1);
    w.parts = at_least_one(2 * (size_t)threads / w.in_panels);
    w.parts = w.parts < w.out_panels ? w.parts : w.out_panels;
    return w;
}

/* Find the places of all arrays in the scratch memory. */
static dt_status find_room(struct work *w, struct dt_cpu_scratch *scratch)
{
    size_t x = w->most_rows * w->width * w->in, dy = w->block_lines * w->line_positions * w->out_panels * ROWS;
    DT_TRY(dt_cpu_scratch_reserve(scratch,
                                  w->most_rows * sizeof *w->rows + w->block_lines * sizeof *w->offsets + (x + dy + 1) * sizeof(float)));
    w->x_panels = scratch->data; /* page-aligned, so that a position of a panel is one cache line */
    w->dy_panels = w->x_panels + x;
    w->rows = (struct row *)(w->dy_panels + dy + dy % 2);
    w->offsets = (size_t *)(w->rows + w->most_rows);
    return DT_OK;
}

dt_status vision_weight_gradient(const struct vision_sliding *over, const float *x, const float *dy, float *dw, bool accumulate,
                                 int threads, struct dt_cpu_scratch *scratch)
{
    struct work w = work_of(over, threads);
    size_t all = over->samples * w.image_lines;
    w.loops = vision_loops_for(dt_cpu_isa(), DT_FP32);
    w.x = x;
    w.dy = dy;
    w.dw = dw;
    w.fresh = !accumulate;
    DT_TRY(find_room(&w, scratch));
    for (; w.first_line < all; w.first_line += w.block_lines) {
        w.lines = all - w.first_line < w.block_lines ? all - w.first_line : w.block_lines;
        find_rows(&w);
        dt_cpu_parallel(threads, pack, &w);
        dt_cpu_parallel(threads, multiply, &w);
        w.fresh = false;
    }
    return DT_OK;
}
