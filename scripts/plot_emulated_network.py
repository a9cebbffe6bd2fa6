#!/usr/bin/python3 -s
"""Draw what scripts/emulated_network measured: step times over the network's rate, measured as marks and predicted as lines.

Usage: plot_emulated_network.py RECORDS.jsonl [-o PICTURE.png]
"""
import argparse
import json
import os
import re
import sys

import colours
import plot

NAME = re.compile(r"(\w+), (\d+) nodes, (\d+) Mbit/s$")
WAYS = {**plot.PARADIGMS, "tensor": "tensor parallelism"}


def read(path):
    """{nodes: {way: {"cpu" or "sim": {Mbit/s: step in s}}}}"""
    found = {}
    with open(path, encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            name = NAME.match(record["config"]["name"])
            if name:
                way, nodes, mbit = name.group(1), int(name.group(2)), int(name.group(3))
                device = found.setdefault(nodes, {}).setdefault(way, {}).setdefault(record["config"]["device"], {})
                device[mbit] = plot.number(record, "step_s", "median")
    return found


def draw(found, picture):
    plt = plot.matplotlib_pyplot()
    figure, panels = plt.subplots(1, len(found), figsize=(6.5 * len(found), 5.2), layout="constrained", sharey=True, squeeze=False)
    for axes, (nodes, ways) in zip(panels[0], sorted(found.items())):
        for i, (way, devices) in enumerate(ways.items()):
            style = {"color": colours.PARADIGMS.get(way, colours.BROWN), "zorder": 3}
            measured, predicted = devices.get("cpu", {}), devices.get("sim", {})
            axes.plot(sorted(predicted), [1e3 * predicted[x] for x in sorted(predicted)], linewidth=1.8, **style)
            axes.scatter(list(measured), [1e3 * y for y in measured.values()], marker=plot.MARKERS[i], s=45, label=WAYS[way], **style)
        plot.finish(axes, f"{nodes} nodes (marks: measured, lines: predicted)", "ms of a step")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("Mbit/s of each node's card")
        axes.legend(frameon=False, fontsize=9)
    plot.save(figure, picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", metavar="RECORDS.jsonl")
    parser.add_argument("-o", "--output", metavar="PICTURE.png", help="default: the records' name with .png")
    options = parser.parse_args()
    try:
        found = read(options.records)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"plot_emulated_network.py: {options.records}: {error}")
    if not found:
        sys.exit(f"plot_emulated_network.py: no record of scripts/emulated_network in {options.records}")
    picture = options.output or os.path.splitext(options.records)[0] + ".png"
    draw(found, picture)


if __name__ == "__main__":
    main()
