#!/usr/bin/python3 -s
"""Draw a traced step: what each rank does when, the messages between ranks, and the memory of the fullest rank over time, by category.

Usage: plot_trace.py TRACE [-o PICTURE.png]     TRACE: a file of dtbench run --trace
"""
import argparse
import json
import os
import sys

import colours
import plot

KINDS = {"forward": colours.BLUE, "backward": colours.ORANGE, "update": colours.PINK, "communication": colours.GREEN, "copies": colours.RED}
LONGEST_GAP_US = 50  # between kernels that are drawn as one bar


def kind_of(event):
    if event["cat"] != "compute":
        return {"communication": "communication", "copy": "copies"}.get(event["cat"])
    return "backward" if event["name"].endswith("_gradient") else "update" if event["name"] in ("sgd", "adam", "zero") else "forward"


def bars_of(events):
    """{kind: [(begin in ms, length in ms)]}, kernels of one kind that follow each other as one."""
    bars, last = {}, None
    for event in sorted((e for e in events if kind_of(e)), key=lambda e: e["ts"]):
        kind, begin, end = kind_of(event), event["ts"], event["ts"] + event["dur"]
        of_kind = bars.setdefault(kind, [])
        if of_kind and last == kind and begin - of_kind[-1][1] < LONGEST_GAP_US:
            of_kind[-1][1] = max(of_kind[-1][1], end)
        else:
            of_kind.append([begin, end])
        last = kind
    return {kind: [(a / 1e3, (b - a) / 1e3) for a, b in found] for kind, found in bars.items()}


def draw(events, picture):
    spans, memory, arrows = {}, {}, {}
    for event in events:
        if event["ph"] == "X" and event.get("cat") in ("compute", "communication", "copy"):
            spans.setdefault(event["pid"], {}).setdefault(event["cat"] == "compute", []).append(event)
        elif event["ph"] == "C" and event["name"] == "device memory":
            memory.setdefault(event["pid"], []).append(event)
        elif event["ph"] in "sf":
            arrows.setdefault(event["id"], {})[event["ph"]] = event
    ranks = sorted(spans)
    figure, (axes, below) = plot.matplotlib_pyplot().subplots(2, 1, figsize=(11, 2.4 + 0.45 * len(ranks) + 2.6), layout="constrained", sharex=True,
                                              height_ratios=[0.45 * len(ranks) + 0.8, 2.6])
    for row, rank in enumerate(ranks):
        for computes, found in spans[rank].items():
            for kind, bars in bars_of(found).items():
                axes.broken_barh(bars, (row - 0.38, 0.56) if computes else (row + 0.22, 0.16), color=KINDS[kind], linewidth=0)
    for ends in arrows.values():
        if "s" in ends and "f" in ends:
            axes.plot([ends[end]["ts"] / 1e3 for end in "sf"], [ranks.index(ends[end]["pid"]) + 0.3 for end in "sf"], color=plot.INK, linewidth=0.7)
    for kind, colour in KINDS.items():
        axes.plot([], [], color=colour, linewidth=7, label=kind)
    plot.bare(axes, "x")
    axes.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in ranks])
    axes.set_ylim(len(ranks) - 0.4, -0.6)
    axes.set_title("What each rank does (thin bars: messages and collectives; lines: from sender to receiver)", loc="left", fontsize=11, weight="bold")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    if memory:
        fullest = max(memory, key=lambda rank: max(sum(e["args"].values()) for e in memory[rank]))
        found = memory[fullest]
        below.stackplot([e["ts"] / 1e3 for e in found], [[e["args"].get(c, 0) / 2**30 for e in found] for c in plot.CATEGORIES], step="post",
                        colors=list(plot.CATEGORIES.values()), labels=list(plot.CATEGORIES), linewidth=0)
        below.legend(loc="upper left", bbox_to_anchor=(1, 1))
        plot.finish(below, f"Device memory of rank {fullest}, the fullest", "GiB")
    below.set_xlabel("ms of the step")
    below.set_xlim(left=0)
    plot.save(figure, picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="PICTURE.png", help="default: the trace's name with .png")
    options = parser.parse_args()
    try:
        with open(options.trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        if not any(event["ph"] == "X" and event.get("cat") == "compute" for event in events):
            sys.exit(f"plot_trace.py: {options.trace}: no kernel in it")
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"plot_trace.py: {options.trace}: no trace of dtbench run --trace: {error}")
    draw(events, options.output or os.path.splitext(options.trace)[0] + ".png")


if __name__ == "__main__":
    main()
