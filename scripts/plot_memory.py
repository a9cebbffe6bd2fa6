#!/usr/bin/python3 -s
"""Draw what saving memory costs: peak bytes by category, on the device and on the host, with throughput beside them.

Usage: plot_memory.py RECORDS.jsonl... [-o PICTURE.png]

One row of panels per paradigm, one pair of bars per experiment: the upper one is the fullest rank's device, the lower, hatched one its
host memory. The parts are each category's own highest, which need not coincide; the black mark and the figure are what was held at once.
Made for the records of configs/memory.json; any others do. What plot.py says of torn lines and repeated configs holds here too.
"""
import argparse
import os
import sys

import plot  # beside this script
from plot import plt

HOST_HATCH = "////"
WORDS = {
    "activation": lambda v: str(v),
    "parameter_offload": lambda v: "parameters on the host" if v else "",
    "micro_batches": lambda v: f"{v} micro-batch{'es' * (v != 1)}",
}
MIB = 2**20


def by_paradigm(records):
    groups = {}
    for record in records:
        groups.setdefault(record["config"].get("paradigm"), []).append(record)
    return groups


def experiment_labels(records):
    """For each record what sets it apart from the others, paradigm aside; the same keys for all records, so that panels compare."""
    flats = [plot.flat(record["config"]) for record in records]
    keys = [k for k in dict.fromkeys(k for f in flats for k in f) if k not in ("paradigm", "name")]
    varying = [k for k in keys if len({str(f.get(k)) for f in flats}) > 1]
    varying.sort(key=lambda k: list(WORDS).index(k) if k in WORDS else len(WORDS))
    out = []
    for f in flats:
        words = [WORDS[k](f[k]) if k in WORDS else f"{k} {f[k]}" for k in varying if k in f]
        out.append(", ".join(w for w in words if w) or str(f.get("paradigm")))
    return out


def bytes_of(record, memory):
    parts = {c: (plot.number(record, memory, c) or 0) / MIB for c in plot.CATEGORIES}
    return parts, (plot.number(record, memory, "total") or 0) / MIB


def draw_bytes(axes, records):
    for i, record in enumerate(records):
        for memory, place, height, hatch in (("peak_bytes", i - 0.1, 0.44, None), ("host_peak_bytes", i + 0.26, 0.24, HOST_HATCH)):
            parts, total = bytes_of(record, memory)
            start = 0.0
            for category, colour in plot.CATEGORIES.items():
                if parts[category]:
                    axes.barh(place, parts[category], left=start, height=height, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
                    start += parts[category]
            if total:
                axes.plot([total, total], [place - height / 2, place + height / 2], color=plot.INK, linewidth=2, solid_capstyle="butt")
                axes.annotate(f"{total:,.0f}", (max(start, total), place), xytext=(4, 0), textcoords="offset points", va="center",
                              fontsize=8.5 if hatch is None else 7, color=plot.INK)


def draw_throughput(axes, records):
    for i, record in enumerate(records):
        rate = plot.number(record, "tokens_per_s")
        if plot.why_not(record):
            axes.text(0.02, i, plot.why_not(record).replace("\n", " "), transform=axes.get_yaxis_transform(), va="center", color="#A00000",
                      weight="bold", fontsize=9)
        elif rate is not None:
            axes.barh(i, rate, height=0.6, color="#5B5B5B")
            axes.annotate(f"{rate:,.0f}", (rate, i), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5, color=plot.INK)


def finish(axes, names, title, unit, most, last):
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, most * 1.14 if most else 1)
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels(names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=plot.PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11, weight="bold", color=plot.INK)
    if last:
        axes.set_xlabel(unit)


def legend(figure, records, top):
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for c, colour in plot.CATEGORIES.items() if used(records, c)]
    texts = [c for c in plot.CATEGORIES if used(records, c)]
    handles.append(plt.Line2D([], [], color=plot.INK, linewidth=2))
    texts.append("held at once")
    if any(bytes_of(record, "host_peak_bytes")[1] for record in records):
        handles.append(plt.Rectangle((0, 0), 1, 1, facecolor="#BBBBBB", hatch=HOST_HATCH, edgecolor="white", linewidth=0))
        texts.append("in host memory")
    figure.legend(handles, texts, loc="upper left", ncol=len(texts), frameon=False, fontsize=9.5, bbox_to_anchor=(0.006, top),
                  columnspacing=1.4, handlelength=1.4)


def used(records, category):
    return any(plot.number(record, memory, category) for record in records for memory in ("peak_bytes", "host_peak_bytes"))


def main():
    parser = argparse.ArgumentParser(description="Draw peak memory by category, and throughput, of dtbench's records as one PNG.")
    parser.add_argument("records", nargs="+", help="files of JSON lines, as dtbench writes them")
    parser.add_argument("-o", "--output", help="the picture (default: the first file's name with .png)")
    options = parser.parse_args()
    records = plot.read(options.records)
    output = options.output or os.path.splitext(options.records[0])[0] + ".png"

    plt.rcParams.update({"font.size": 10, "axes.edgecolor": "#888888", "axes.labelcolor": plot.INK, "xtick.color": plot.INK,
                         "ytick.color": plot.INK, "hatch.linewidth": 0.8})
    named = dict(zip(map(id, records), experiment_labels(records)))
    groups = by_paradigm(records)
    inches = 0.36 * len(records) + 0.6 * len(groups) + 1.5
    figure, panels = plt.subplots(len(groups), 2, figsize=(13, inches), squeeze=False,
                                  gridspec_kw={"width_ratios": [2.6, 1], "height_ratios": [len(g) for g in groups.values()]})
    most_bytes = max(max(sum(bytes_of(r, m)[0].values()) for m in ("peak_bytes", "host_peak_bytes")) for r in records)
    most_rate = max(plot.number(r, "tokens_per_s") or 0 for r in records)
    for row, (paradigm, group) in enumerate(groups.items()):
        names, last = [named[id(r)] for r in group], row == len(groups) - 1
        draw_bytes(panels[row][0], group)
        draw_throughput(panels[row][1], group)
        finish(panels[row][0], names, f"{plot.PARADIGMS.get(paradigm, paradigm)}: peak memory of the fullest rank", "MiB", most_bytes, last)
        finish(panels[row][1], [""] * len(names), "Throughput", "tokens/s", most_rate, last)
    model, facts, where = plot.title_of(records)
    figure.suptitle(model, x=0.012, y=1 - 0.12 / inches, ha="left", va="top", fontsize=15, weight="bold", color=plot.INK)
    figure.text(0.012, 1 - 0.5 / inches, "; ".join(t for t in (facts, where) if t), ha="left", va="top", fontsize=10.5, color="#555555")
    legend(figure, records, 1 - 0.72 / inches)
    figure.tight_layout(rect=(0, 0, 1, 1 - 1.05 / inches), h_pad=1.6, w_pad=1.5)
    plot.save(figure, output, dpi=110)


if __name__ == "__main__":
    main()
