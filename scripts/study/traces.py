"""Figures 6, 7, 15 and 16: one step of a rank as the simulator's trace shows it, and what the study read from its own traces."""
import json
import os
import statistics
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

import style
from runs import of_figure

TRACES = {
    "figure_06": ("DDP, 16 GPUs, GPTLarge, batch 8", (0,)),
    "figure_07": ("PDP, 16 GPUs, GPTLarge, batch 8: both stages of a pipeline", (0, 1)),
    "figure_15": ("FSDP with parameters on the host, 8 GPUs of 1 node, GPT13B, batch 8", (0,)),
    "figure_16": ("FSDP with parameters on the GPUs, 8 GPUs of 1 node, GPT13B, batch 8", (0,)),
}
KINDS = [  # the beginning of an event's name, what the legend calls it, its colour
    ("all_reduce", "all-reduce", "#D55E00"),
    ("all_gather", "all-gather", "#E69F00"),
    ("reduce_scatter", "reduce-scatter", "#CC79A7"),
    ("send", "send, receive", "#F0E442"),
    ("recv", "send, receive", "#F0E442"),
    ("copy from host", "copy from the host", "#56B4E9"),
    ("copy to host", "copy to the host", "#009E73"),
]
COMPUTE = ("computation", "#0072B2")
HOST = ("host", "#8A8A8A")


@dataclass(frozen=True)
class Span:
    rank: int
    row: str
    name: str
    start_ms: float
    ms: float
    bytes: float

    @property
    def end_ms(self):
        return self.start_ms + self.ms


def read_trace(path, ranks, step_s=None):
    """The spans of the ranks. step_s: only the last step_s seconds, counted from 0; a trace may also have the step before."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    events = [e for e in events if e["ph"] == "X"]
    begin = max(e["ts"] + e["dur"] for e in events) - step_s * 1e6 if step_s else 0
    spans = []
    for e in events:
        start = max(e["ts"], begin)
        if e["pid"] in ranks and e["ts"] + e["dur"] > begin:
            spans.append(Span(e["pid"], rows[e["pid"], e["tid"]], e["name"], (start - begin) / 1e3, (e["ts"] + e["dur"] - start) / 1e3,
                              e.get("args", {}).get("bytes", 0)))
    return spans


def _kind(span):
    if span.row == "host":
        return HOST
    for prefix, label, colour in KINDS:
        if span.name.startswith(prefix):
            return label, colour
    return COMPUTE


def step_of(figure, predicted, traces, ranks=(0,)):
    """One step of a figure's experiment."""
    return read_trace(os.path.join(traces, figure + ".trace"), ranks, of_figure(predicted, figure)[0].step_s)


def _draw_rows(axis, spans, rows, begin, end):
    """The rows from begin to end (ms). What is drawn: {label: colour}."""
    used = {}
    for rank, name in rows:
        y = len(rows) - 1 - rows.index((rank, name))
        groups = {}
        for span in spans:
            if (span.rank, span.row) == (rank, name) and span.end_ms > begin and span.start_ms < end:
                groups.setdefault(_kind(span), []).append((span.start_ms, span.ms))
        for (label, colour), bars in groups.items():
            wide = statistics.median(ms for _, ms in bars) > 0.01 * (end - begin)  # else an edge would hide the bar
            edge = {"edgecolor": "white", "linewidth": 0.3} if wide else {"linewidth": 0}
            axis.broken_barh(bars, (y + 0.14, 0.72), facecolors=colour, **edge)
            if sum(ms for _, ms in bars) > 0.002 * (end - begin):
                used[label] = colour
    label = (lambda rank, name: f"rank {rank}: {name}") if len({rank for rank, _ in rows}) > 1 else (lambda rank, name: name)
    axis.set_yticks([len(rows) - 0.5 - i for i in range(len(rows))], [label(*row) for row in rows])
    axis.set_ylim(0, len(rows))
    axis.set_xlim(begin, end)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    return used


def draw_trace(figure, predicted, traces, folder):
    """A step; where its pieces are too short to see, an excerpt of it below: a fortieth, from its middle on."""
    title, ranks = TRACES[figure]
    spans = step_of(figure, predicted, traces, ranks)
    rows = []
    for rank in ranks:
        names = list(dict.fromkeys(span.row for span in spans if span.rank == rank))
        first = [name for name in ("host", "compute", "network") if name in names]
        rows += [(rank, name) for name in first + [name for name in names if name not in first]]
    end = max(span.end_ms for span in spans)
    hairlines = len(spans) > 400 * len(rows)
    parts = [(0, end)] + [(end / 2, end / 2 + end / 40)] * hairlines
    fig, panels = plt.subplots(len(parts), 1, figsize=(9.2, 1.1 + (0.6 + 0.36 * len(rows)) * len(parts)), squeeze=False)
    used = {}
    for axis, (begin, until) in zip(panels[:, 0], parts):
        used |= _draw_rows(axis, spans, rows, begin, until)
    panels[-1, 0].set_xlabel("virtual time in the last step (ms)")
    panels[0, 0].set_title(f"Figure {int(figure[7:9])}. Trace: {title}")
    if hairlines:
        panels[0, 0].axvspan(*parts[1], facecolor="none", edgecolor="black", linewidth=1.2, zorder=4)
        panels[1, 0].set_title("the excerpt that is framed above", loc="left", fontsize=9)
    fig.legend(handles=[Patch(facecolor=colour, label=label) for label, colour in used.items()], loc="lower center",
               ncol=len(used), bbox_to_anchor=(0.5, 0))
    fig.tight_layout(rect=(0, 0.4 / fig.get_figheight(), 1, 1))
    return style.save(fig, folder, figure)


def busy_ms(spans, wanted):
    """How long at least one of the wanted spans lasts: `wanted` tells of a span that is not on the host whether it counts."""
    total, until = 0.0, float("-inf")
    for span in sorted((s for s in spans if s.row != "host" and wanted(s)), key=lambda s: s.start_ms):
        total += max(0.0, span.end_ms - max(span.start_ms, until))
        until = max(until, span.end_ms)
    return total


def all_reduces(traces):
    """The study's reading of its figures 6 and 7: how long the all-reduce of one bucket takes in DDP, and in PDP where the other stage's
    overlaps it all the time. Of the bucket size that is commonest, in ms: (bytes, DDP's, PDP's overlapped); None where nothing overlaps."""
    ddp = [s for s in read_trace(os.path.join(traces, "figure_06.trace"), (0,)) if s.row == "network"]
    pdp = [s for s in read_trace(os.path.join(traces, "figure_07.trace"), (0, 1)) if s.row == "network"]
    size = statistics.mode(s.bytes for s in ddp)
    others = {rank: sorted((s.start_ms, s.end_ms) for s in pdp if s.rank != rank) for rank in (0, 1)}

    def covered(span):
        return sum(max(0.0, min(span.end_ms, end) - max(span.start_ms, start)) for start, end in others[span.rank])

    alone = [s.ms for s in ddp if s.bytes == size]
    both = [s.ms for s in pdp if s.bytes == size and covered(s) > 0.98 * s.ms]
    return (size, statistics.median(alone), statistics.median(both)) if alone and both else None


def lone_all_reduce_ms(traces, size):
    """The time of an all-reduce of this size among the ranks of a single stage of figure 7, without concurrent work; None without such a trace."""
    path = os.path.join(traces, "claim_04_lone.trace")
    spans = [s.ms for s in read_trace(path, (0,)) if s.row == "network" and s.bytes == size] if os.path.exists(path) else []
    return statistics.median(spans) if spans else None
