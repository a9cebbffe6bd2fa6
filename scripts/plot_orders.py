#!/usr/bin/python3 -s
"""Draw what pipeline orders cost: the bubble, and the activations that the fullest rank keeps, over the micro-batches of a step.

Usage: plot_orders.py RECORDS.jsonl... [-o PICTURE.png]

Made for the records of configs/orders.json; others of one pipeline length do. Whole lines are the bubble of the run, dotted ones what the
order alone waits with equal passes and without messages (metrics.bubble_ideal). Crosses are the published bubbles of GPipe.
"""
import colours
import plot

# Bubble of P stages and M micro-batches where backward takes twice as long as forward: "Distributed Training Benchmarks: Data Parallel, Model
# Parallel, and Pipeline Parallel Compared", the output of its simulation.
PUBLISHED = {
    2: {4: 0.200, 8: 0.111, 16: 0.059, 32: 0.030, 64: 0.015},
    4: {4: 0.429, 8: 0.273, 16: 0.158, 32: 0.086, 64: 0.045},
    8: {4: 0.636, 8: 0.467, 16: 0.304, 32: 0.179, 64: 0.099},
}


def micro_batches(config):
    return config["micro_batches"] * config["pipeline"]["chunks"]


def by_order(records):
    """Of each order its records, by micro-batches."""
    orders = {}
    for record in records:
        if record.get("status") == "ok":
            orders.setdefault(record["config"]["pipeline"]["order"], []).append(record)
    for found in orders.values():
        found.sort(key=lambda record: micro_batches(record["config"]))
    return orders


def line(axes, records, value, **style):
    points = [(micro_batches(record["config"]), value(record)) for record in records]
    points = [(x, y) for x, y in points if y is not None]
    axes.plot([x for x, _ in points], [y for _, y in points], **style)


def published(axes, records):
    lengths = {record["config"]["pipeline"]["stages"] for record in records}
    seen = {micro_batches(record["config"]) for record in records}
    table = PUBLISHED.get(lengths.pop(), {}) if len(lengths) == 1 else {}
    points = [(x, y) for x, y in table.items() if min(seen) <= x <= max(seen)]
    axes.scatter([x for x, _ in points], [y for _, y in points], marker="x", s=70, color=plot.INK, zorder=5, label="published for gpipe, 1f1b")


def draw(records, picture):
    plt = plot.plt
    figure, (bubble, memory) = plt.subplots(1, 2, figsize=(13, 5.4), layout="constrained")
    for i, (order, found) in enumerate(by_order(records).items()):
        style = {"color": colours.SERIES[i % len(colours.SERIES)], "linewidth": 1.8}
        marker = plot.MARKERS[i % len(plot.MARKERS)]
        line(bubble, found, lambda r: plot.number(r, "bubble"), marker=marker, label=order, **style)
        line(bubble, found, lambda r: plot.number(r, "bubble_ideal"), linestyle=":", **style)
        line(memory, found, lambda r: (plot.number(r, "peak_bytes", "activations") or 0) / 2**30, marker=marker, label=order, **style)
    published(bubble, records)
    plot.finish(bubble, None, "Bubble (dotted: of the order alone)", "part of the step")
    plot.finish(memory, None, "Activations of the fullest rank", "GiB")
    ticks = sorted({micro_batches(record["config"]) for record in records})
    for axes in (bubble, memory):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(x) for x in ticks])
        axes.minorticks_off()
        axes.set_xlabel("micro-batches of a step")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=9)
    first, second, where = plot.title_of(records)
    figure.suptitle(f"{first}: {records[0]['config']['pipeline']['stages']} pipeline stages\n{second}; {where}", fontsize=11, color=plot.INK)
    plot.save(figure, picture, dpi=120)


if __name__ == "__main__":
    plot.draw_records(__doc__, draw)
