"""Pictures where matplotlib is missing: as much of its pyplot as plot.py uses, drawn as SVG.

Lengths are points, as in matplotlib; y of the page runs downwards. How wide a text is, is estimated for DejaVu Sans and Verdana.
"""
import collections
import math
from html import escape

GREY, PALE = "#888888", "#DDDDDD"
MARGIN = 0.05  # of the data's range, around it
rcParams = {"font.size": 10, "axes.labelcolor": "#222222", "xtick.color": "#222222", "ytick.color": "#222222"}
# Corners of a marker, in units of half its size, y upwards. The circle is none of them.
STAR = [(r * math.sin(math.pi * i / 5), r * math.cos(math.pi * i / 5)) for i, r in enumerate([1.2, 0.5] * 5)]
PLUS = [(-0.4, 1), (0.4, 1), (0.4, 0.4), (1, 0.4), (1, -0.4), (0.4, -0.4), (0.4, -1), (-0.4, -1), (-0.4, -0.4), (-1, -0.4), (-1, 0.4), (-0.4, 0.4)]
MARKERS = {
    "s": [(-1, -1), (-1, 1), (1, 1), (1, -1)], "^": [(-1, -1), (1, -1), (0, 1)], "v": [(-1, 1), (1, 1), (0, -1)],
    "D": [(-1.2, 0), (0, 1.2), (1.2, 0), (0, -1.2)], "P": PLUS, "X": [((x - y) * 0.75, (x + y) * 0.75) for x, y in PLUS], "*": STAR,
}


def width_of(text, size):
    return max(len(line) for line in text.split("\n")) * 0.62 * size


def height_of(text, size):
    return (text.count("\n") + 1) * 1.2 * size


def ticks_between(low, high):
    """Round numbers, four to nine of them."""
    rough = (high - low) / 8
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def tick_labels(ticks):
    """With as many decimals as tell them apart."""
    for decimals in range(10):
        if all(abs(round(tick, decimals) - tick) < 1e-9 * max(abs(tick), 1) for tick in ticks):
            break
    return [f"{tick:.{decimals}f}" for tick in ticks]


def attributes(values):
    return "".join(f' {name.replace("_", "-")}="{value:.2f}"' if isinstance(value, float) else f' {name.replace("_", "-")}="{escape(str(value))}"'
                   for name, value in values.items() if value is not None)


class Page:
    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def line(self, points, colour, width):
        corners = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self.parts.append(f'<polyline points="{corners}" fill="none"{attributes({"stroke": colour, "stroke_width": width})}/>')

    def rectangle(self, x, y, width, height, colour):
        self.parts.append(f'<rect{attributes({"x": x, "y": y, "width": width, "height": height, "fill": colour})}/>')

    def marker(self, kind, x, y, size, colour):
        if kind in MARKERS:
            corners = " ".join(f"{x + size / 2 * dx:.2f},{y - size / 2 * dy:.2f}" for dx, dy in MARKERS[kind])
            self.parts.append(f'<polygon points="{corners}" fill="{colour}"/>')
        else:
            self.parts.append(f'<circle{attributes({"cx": x, "cy": y, "r": size / 2, "fill": colour})}/>')

    def text(self, x, y, text, size=10, ha="left", va="baseline", color="#000000", weight=None, rotation=0):
        lines = text.split("\n")
        below = (len(lines) - 1) * 1.2 * size  # of the first line
        y += {"baseline": 0, "bottom": -0.2 * size - below, "center": 0.36 * size - below / 2, "top": 0.95 * size}[va]
        turned = f"rotate({-rotation:.0f} {x:.2f} {y:.2f})" if rotation else None
        anchor = {"left": None, "center": "middle", "right": "end"}[ha]
        head = attributes({"font_size": size, "text_anchor": anchor, "fill": color, "font_weight": weight, "transform": turned})
        spans = "".join(f"<tspan{attributes({'x': float(x), 'y': y + i * 1.2 * size})}>{escape(line)}</tspan>" for i, line in enumerate(lines))
        self.parts.append(f"<text{head}>{spans}</text>")

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="{self.width * 4 / 3:.0f}" height="{self.height * 4 / 3:.0f}" '
                       f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" font-family="DejaVu Sans, Verdana, sans-serif">\n'
                       '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


class Line(collections.namedtuple("Line", "xs ys color marker markersize linewidth")):
    def get_ydata(self):
        return self.ys

    def points(self):
        return [(x, y) for x, y in zip(self.xs, self.ys) if math.isfinite(y)]


class Spine:
    def set_visible(self, visible):
        pass  # the left and the lower one are


class Axes:
    """What is drawn is kept as functions of the page, called when the scales are known."""

    transAxes, spines = "axes", collections.defaultdict(Spine)

    def __init__(self):
        self.visible = True
        self.behind, self.drawings, self.lines, self.handles, self.labels = [], [], [], [], []
        self.xs, self.ys, self.floor = [], [], False  # the data; whether bars stand on 0
        self.xlim = self.ylim = self.legend_of = self.xticks = self.xticklabels = None
        self.title, self.xlabel, self.ylabel, self.rotation = ("", {}), "", "", 0

    # Grids, ticks and frames always look as plot.py wants them.
    def grid(self, *_, **__):
        pass

    set_axisbelow = tick_params = ticklabel_format = grid

    def set_visible(self, visible):
        self.visible = visible

    def get_xaxis_transform(self):
        return "x"

    def set_title(self, text, **look):
        self.title = text, {"size": look["fontsize"], "weight": look.get("weight"), "color": look.get("color", "#000000")}

    def set_xlabel(self, text):
        self.xlabel = text

    def set_ylabel(self, text):
        self.ylabel = text or ""

    def set_xticks(self, ticks):
        self.xticks = list(ticks)

    def set_xticklabels(self, labels, rotation=0, **_):
        self.xticklabels, self.rotation = list(labels), rotation

    def get_xlim(self):
        if self.xlim:
            return self.xlim
        low, high = (min(self.xs), max(self.xs)) if self.xs else (0, 1)
        room = MARGIN * (high - low) or 0.05
        return low - room, high + room

    def set_xlim(self, left=None, right=None):
        now = self.get_xlim()
        self.xlim = now[0] if left is None else left, now[1] if right is None else right

    def get_ylim(self):
        if self.ylim:
            return self.ylim
        low, high = (min(self.ys), max(self.ys)) if self.ys else (0, 1)
        room = MARGIN * (high - low) or MARGIN * (abs(high) or 1)
        return (0 if self.floor and low >= 0 else low - room), high + room

    def set_ylim(self, bottom, top):
        self.ylim = bottom, top

    def bar(self, x, height, width=0.8, bottom=0, color=None, label=None):
        many = [value if hasattr(value, "__iter__") else [value] for value in (x, height, bottom)]
        for at, tall, base in zip(many[0], many[1], many[2] * (len(many[0]) if len(many[2]) == 1 else 1)):
            self.xs += [at - width / 2, at + width / 2]
            self.ys += [base, base + tall]
            self.drawings.append(lambda page, a=at, t=tall, b=base: page.rectangle(
                self.x(a - width / 2), self.y(b + t), self.x(a + width / 2) - self.x(a - width / 2), self.y(b) - self.y(b + t), color))
        self.floor = True
        self.note(label, ("patch", color))

    def plot(self, xs, ys, color=None, marker=None, markersize=6, linewidth=1.5, label=None):
        line = Line(list(xs), list(ys), color, marker, markersize, linewidth)
        self.lines.append(line)
        self.xs += [x for x, _ in line.points()]
        self.ys += [y for _, y in line.points()]

        def draw(page):
            points = [(self.x(x), self.y(y)) for x, y in line.points()]
            page.line(points, color, linewidth)
            for point in points if marker else []:
                page.marker(marker, *point, markersize, color)

        self.drawings.append(draw)
        self.note(label, ("line", line))

    def errorbar(self, x, y, yerr, color=None, capsize=0, linewidth=1.2):
        low, high = y - yerr[0][0], y + yerr[1][0]
        self.ys += [low, high]

        def draw(page):
            at, ends = self.x(x), [self.y(low), self.y(high)]
            page.line([(at, end) for end in ends], color, linewidth)
            for end in ends:
                page.line([(at - capsize, end), (at + capsize, end)], color, linewidth)

        self.drawings.append(draw)

    def axvspan(self, low, high, color=None, **_):
        self.behind.append(lambda page: page.rectangle(self.x(low), self.top, self.x(high) - self.x(low), self.bottom - self.top, color))

    def text(self, x, y, text, transform=None, fontsize=10, **look):
        def draw(page):
            at = self.left + x * (self.right - self.left) if transform == "axes" else self.x(x)
            page.text(at, self.bottom + y * (self.top - self.bottom) if transform else self.y(y), text, fontsize, **look)

        self.drawings.append(draw)

    def annotate(self, text, xy, xytext, textcoords, fontsize=10, **look):
        assert textcoords == "offset points"
        self.drawings.append(lambda page: page.text(self.x(xy[0]) + xytext[0], self.y(xy[1]) - xytext[1], text, fontsize, **look))

    def note(self, label, handle):
        if label is not None:
            self.handles.append(handle)
            self.labels.append(label)

    def get_lines(self):
        return self.lines

    def get_legend_handles_labels(self):
        return list(self.handles), list(self.labels)

    def legend(self, handles=None, labels=None, bbox_to_anchor=None, fontsize=9, **_):
        self.legend_of = handles or self.handles, labels or self.labels, bbox_to_anchor is not None, fontsize

    # From here on: what a figure asks for when it is written.
    def yticks(self):
        return ticks_between(*self.get_ylim())

    def legend_size(self):
        _, labels, _, size = self.legend_of
        return max(width_of(label, size) for label in labels) + 3 * size + 8, sum(height_of(label, size) + 4 for label in labels)

    def margins(self):
        """What it needs around the axes: left, right, above, below."""
        beside = self.legend_size()[0] + 6 if self.legend_of and self.legend_of[2] else 0
        size = 10
        longest = max([width_of(label, size) for label in self.xticklabels or [""]])
        tallest = max([height_of(label, size) for label in self.xticklabels or [""]])
        turned = math.radians(self.rotation)
        below = 8 + tallest * math.cos(turned) + longest * math.sin(turned) + (18 if self.xlabel else 0)
        left = 26 + max(width_of(label, size) for label in tick_labels(self.yticks()))
        return left, beside, 20, below

    def place(self, left, top, right, bottom):
        self.left, self.top, self.right, self.bottom = left, top, right, bottom

    def x(self, value):
        low, high = self.get_xlim()
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value):
        low, high = self.get_ylim()
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def draw(self, page):
        for draw in self.behind:
            draw(page)
        for tick, label in zip(self.yticks(), tick_labels(self.yticks())):
            page.line([(self.left, self.y(tick)), (self.right, self.y(tick))], PALE, 0.8)
            page.line([(self.left - 3.5, self.y(tick)), (self.left, self.y(tick))], GREY, 0.8)
            page.text(self.left - 7, self.y(tick), label, ha="right", va="center", color=rcParams["ytick.color"])
        for draw in self.drawings:
            draw(page)
        page.line([(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)], GREY, 0.8)
        ticks = self.xticks if self.xticks is not None else []
        for tick, label in zip(ticks, self.xticklabels or tick_labels(ticks)):
            if self.rotation:
                page.text(self.x(tick), self.bottom + 12, label, ha="right", color=rcParams["xtick.color"], rotation=self.rotation)
            else:
                page.text(self.x(tick), self.bottom + 6, label, ha="center", va="top", color=rcParams["xtick.color"])
        page.text(self.left, self.top - 7, self.title[0], **self.title[1])
        widest = max(width_of(label, 10) for label in tick_labels(self.yticks()))
        page.text(self.left - widest - 14, (self.top + self.bottom) / 2, self.ylabel, ha="center", color=rcParams["axes.labelcolor"], rotation=90)
        page.text((self.left + self.right) / 2, self.bottom + 34, self.xlabel, ha="center", color=rcParams["axes.labelcolor"])
        if self.legend_of:
            self.draw_legend(page)

    def emptiest_corner(self, width, height):
        """The place of the legend within the axes that has the fewest points of the lines below it."""
        points = []
        for line in self.lines:
            ends = [(self.x(x), self.y(y)) for x, y in line.points()]
            points += ends[:1] + [(a[0] + (b[0] - a[0]) * i / 20, a[1] + (b[1] - a[1]) * i / 20) for a, b in zip(ends, ends[1:]) for i in range(1, 21)]
        corners = [(x, y) for x in (self.right - width - 6, self.left + 6) for y in (self.top + 6, self.bottom - height - 6)]
        return min(corners, key=lambda at: sum(at[0] - 8 < x < at[0] + width + 8 and at[1] - 8 < y < at[1] + height + 8 for x, y in points))

    def draw_legend(self, page):
        handles, labels, beside, size = self.legend_of
        left, top = (self.right + 6, self.top + 4) if beside else self.emptiest_corner(*self.legend_size())
        for handle, label in zip(handles, labels):
            tall = height_of(label, size)
            kind, look = handle
            if kind == "patch":
                page.rectangle(left, top + tall / 2 - 0.35 * size, 2 * size, 0.7 * size, look)
            else:
                page.line([(left, top + tall / 2), (left + 2 * size, top + tall / 2)], look.color, look.linewidth)
                if look.marker:
                    page.marker(look.marker, left + size, top + tall / 2, look.markersize, look.color)
            page.text(left + 3 * size, top + tall / 2, label, size, va="center")
            top += tall + 4


class Figure:
    def __init__(self, panels, figsize):
        self.panels, self.width, self.height, self.texts = panels, 72 * figsize[0], 72 * figsize[1], []

    def text(self, x, y, text, fontsize=10, **look):
        self.texts.append(lambda page: page.text(x * self.width, (1 - y) * self.height, text, fontsize, **look))

    def suptitle(self, text, x, y, **look):
        self.text(x, y, text, va="top", **look)

    def tight_layout(self, rect, h_pad, w_pad):
        """Axes of one size, as large as what stands around them lets them be."""
        rows, columns = len(self.panels), len(self.panels[0])
        margins = [[axes.margins() for axes in row] for row in self.panels]
        left = [max(margins[i][j][0] for i in range(rows)) for j in range(columns)]
        right = [max(margins[i][j][1] for i in range(rows)) for j in range(columns)]
        above = [max(margin[2] for margin in row) for row in margins]
        below = [max(margin[3] for margin in row) for row in margins]
        edge = 10
        wide = (self.width - 2 * edge - sum(left) - sum(right) - (columns - 1) * 10 * w_pad) / columns
        tall = (self.height * (rect[3] - rect[1]) - 2 * edge - sum(above) - sum(below) - (rows - 1) * 10 * h_pad) / rows
        y = (1 - rect[3]) * self.height + edge
        for i, row in enumerate(self.panels):
            x, y = edge, y + above[i]
            for j, axes in enumerate(row):
                axes.place(x + left[j], y, x + left[j] + wide, y + tall)
                x += left[j] + wide + right[j] + 10 * w_pad
            y += tall + below[i] + 10 * h_pad

    def savefig(self, path, **_):
        page = Page(self.width, self.height)
        for draw in self.texts:
            draw(page)
        for row in self.panels:
            for axes in filter(lambda one: one.visible, row):
                axes.draw(page)
        page.write(path)


def subplots(rows, columns, figsize):
    panels = [[Axes() for _ in range(columns)] for _ in range(rows)]
    return Figure(panels, figsize), panels
