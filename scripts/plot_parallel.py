#!/usr/bin/python3 -s
"""Draw ways of dividing one model over the same ranks: where a step's time goes, and what the fullest rank holds.

Usage: plot_parallel.py RECORDS.jsonl... [-o PICTURE.png]

A row for each experiment, the fastest first. Made for the records of configs/parallel.json; others of one model and number of ranks do.
"""
import sys

import plot

GIB = 2**30


def way(config):
    """"ZeRO-1, tensor 4, pipeline 4 (1f1b, 32 micro-batches)"."""
    words = [plot.PARADIGMS.get(config["paradigm"], config["paradigm"])]
    tensor, pipeline = config.get("tensor", {"size": 1}), config.get("pipeline", {"stages": 1})
    older = "parameter_server" in config and config["paradigm"] != "parameter_server"  # has the keys of all paradigms
    stages = 1 if older and config["paradigm"] != "pdp" and pipeline.get("paradigms") != "all" else pipeline["stages"]
    if tensor["size"] > 1:
        words.append(f"tensor {tensor['size']}" + (" without sequence parallelism" if tensor.get("sequence_parallel") is False else ""))
    if stages > 1:
        words.append(f"pipeline {stages} ({pipeline['order']})")
    if config.get("fsdp", {}).get("gather") == "step":
        words.append("gathered once")
    if config.get("mesh", {}).get("order", "tensor-pipeline-data") != "tensor-pipeline-data":
        words.append(config["mesh"]["order"])
    count = config["micro_batches"] * (pipeline["chunks"] if stages > 1 else 1)
    words.append(f"{count} micro-batch{'es' if count > 1 else ''}")
    if config["activation"] != "keep":
        words.append(config["activation"])
    return ", ".join(words)


def stack(axes, records, parts, value):
    """Bars of parts (key, label, colour), one after the other; those too thin to see are left out. The bars' ends."""
    done = [0.0] * len(records)
    largest = max(value(record, key) or 0 for record in records for key, _, _ in parts)
    for key, label, colour in parts:
        sizes = [value(record, key) or 0 for record in records]
        if max(sizes) > 0.005 * largest:
            axes.barh(range(len(records)), sizes, left=done, color=colour, label=label, height=0.7)
            done = [a + b for a, b in zip(done, sizes)]
    return done


def draw(records, picture):
    ok = sorted((r for r in records if r.get("status") == "ok"), key=lambda r: plot.number(r, "step_s", "median"))
    if not ok:
        sys.exit("plot_parallel.py: no experiment has ended well")
    figure, (time, memory) = plot.plt.subplots(1, 2, figsize=(15, 1.6 + 0.34 * len(ok)), layout="constrained", sharey=True)
    phases = [(key, label, colour) for key, (label, colour) in plot.PHASES.items() if key != "other"]
    ends = stack(time, ok, phases, lambda r, key: plot.number(r, key))
    for row, record in enumerate(ok):
        time.text(ends[row], row, f" {plot.number(record, 'tokens_per_s'):,.0f}", va="center", fontsize=9, color=plot.INK)
    stack(memory, ok, [(c, c, colour) for c, colour in plot.CATEGORIES.items()], lambda r, key: (plot.number(r, "peak_bytes", key) or 0) / GIB)
    held = [plot.number(record, "peak_bytes", "total") / GIB for record in ok]
    memory.scatter(held, range(len(ok)), marker="|", s=200, color=plot.INK, zorder=5, label="held at once")
    plot.finish(time, None, "Where a step's time goes (figure: tokens/s)", None)
    plot.finish(memory, None, "Memory of the fullest rank", None)
    time.set_yticks(range(len(ok)), [way(record["config"]) for record in ok], fontsize=9)
    time.invert_yaxis()
    time.set_xlim(0, 1.12 * max(ends))
    time.set_xlabel("s per step, mean of the ranks")
    memory.set_xlabel("GiB")
    for axes in (time, memory):
        axes.grid(axis="y", visible=False)
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.11), ncol=3, columnspacing=1.2, handlelength=1.2)
    first, second, where = plot.title_of(ok)
    figure.suptitle(f"{first}; {second}; {where}", fontsize=11, color=plot.INK)
    plot.save(figure, picture, dpi=120)


if __name__ == "__main__":
    plot.draw_records(__doc__, draw)
