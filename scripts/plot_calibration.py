#!/usr/bin/python3 -s
"""Draw what dtbench calibrate measured: products and passes over memory beside their ceilings, collectives beside what device sim makes of them.

Usage: plot_calibration.py DIR [--bench RECORDS.jsonl]... [-o PICTURE.png]

DIR has calibrate's cluster.json and profile.json. RECORDS: of dtbench bench; those of device sim are lines, others crosses. Without them lines
connect what was measured, as device sim does between two sizes.
"""
import argparse
import json
import os
import sys
import textwrap

import colours
import plot

PRODUCTS = {"linear": "forward", "linear_input_gradient": "gradient of the input", "linear_weight_gradient": "gradient of the weights"}
PASSES = {"copy": 2, "gelu": 2, "layer_norm": 2, "add": 3, "dropout_residual": 3}  # over memory, of as many elements each
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}  # of an element; a copy's are bytes
BUS = {"all_reduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n, "all_gather": lambda n: (n - 1) / n}


def alone(rows):
    """One of the fewest ranks that were measured, while the others rest, as the ceilings are; of the type that was measured most."""
    ranks, dtypes = min(row["ranks"] for row in rows), [row["dtype"] for row in rows]
    dtype = max(sorted(set(dtypes)), key=dtypes.count)
    return [row for row in rows if row["ranks"] == ranks and row["dtype"] == dtype], ranks, dtype


def ceiling(axes, value, text):
    if value > 0:
        axes.axhline(value, color=plot.INK, linewidth=1, linestyle="--")
        axes.annotate(text, (1, value), xycoords=axes.get_yaxis_transform(), ha="right", va="bottom", fontsize=9)


def logarithmic(axes):
    """Both axes, with plain numbers, at 2 and 5 as well where an axis has fewer than three powers of ten; the legend below, where no point lies."""
    from matplotlib import ticker

    for axis, scale, limits in ((axes.xaxis, axes.set_xscale, axes.get_xlim), (axes.yaxis, axes.set_yscale, axes.get_ylim)):
        scale("log")
        low, high = limits()
        axis.set_major_locator(ticker.LogLocator(subs=(1,) if high > 1e3 * low else (1, 2, 5)))
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(ticker.NullFormatter())
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def points(axes, rows, names, x, y):
    for i, (kernel, name) in enumerate(names.items()):
        found = sorted((x(row), y(row)) for row in rows if row["kernel"] == kernel and row["variant"] == "plain" and row["alone_s"] > 0)
        axes.scatter([a for a, _ in found], [b for _, b in found], marker=plot.MARKERS[i], s=26, color=colours.SERIES[i], label=name, zorder=3)
    logarithmic(axes)


def draw_kernels(products, memory, cluster, profile):
    rows, ranks, dtype = alone(profile["measured"])
    gpu, where = cluster["gpu"], f"{dtype}, {'one of ' * (ranks > 1)}{ranks} rank{'s' * (ranks > 1)}"
    points(products, rows, PRODUCTS, lambda r: 2e-9 * r["rows"] * r["columns"] * r["inner"],
           lambda r: 2e-9 * r["rows"] * r["columns"] * r["inner"] / r["alone_s"])
    ceiling(products, 1e3 * gpu["peak_tflops"].get(dtype, 0), "peak_tflops")
    plot.finish(products, f"Matrix products ({where})", "GFLOP/s")
    products.set_xlabel("GFLOP of the product")
    moved = lambda r: PASSES[r["kernel"]] * (1 if r["kernel"] == "copy" else BYTES[r["dtype"]]) * r["rows"] * max(r["columns"], 1)
    points(memory, rows, {name: name for name in PASSES}, lambda r: moved(r) / 2**20, lambda r: 1e-9 * moved(r) / r["alone_s"])
    ceiling(memory, gpu["memory_gb_per_s"], "memory_gb_per_s")
    plot.finish(memory, f"Passes over memory ({where})", "GB/s, read and written")
    memory.set_xlabel("MiB read and written (caches hold the small ones)")


def of_bench(paths):
    """{(device is sim, collective, ranks): [(bytes, GB/s)]}"""
    found = {}
    for record in plot.read(paths) if paths else []:
        bench = record["config"].get("bench", {})
        if bench.get("beside") == "nothing":
            key = record["config"]["device"] == "sim", bench["collective"], bench["group"]
            found.setdefault(key, []).append((bench["bytes"], plot.number(record, "bus_gb_per_s")))
    return found


def draw_collectives(axes, measured, bench):
    most = max((row["ranks"] for row in measured), default=0)
    for i, (kind, factor) in enumerate(BUS.items()):
        rows = sorted((row["bytes"], 1e-9 * factor(most) * row["bytes"] / row["seconds"]) for row in measured
                      if row["kind"] == kind and row["ranks"] == most and row["seconds"] > 0)
        line, crosses = sorted(bench.get((True, kind, most), rows)), bench.get((False, kind, most), [])
        style = {"color": colours.SERIES[i], "zorder": 3}
        axes.scatter([b / 2**10 for b, _ in rows], [y for _, y in rows], marker=plot.MARKERS[i], s=30, label=kind, **style)
        axes.plot([b / 2**10 for b, _ in line], [y for _, y in line], linewidth=1.4, **style)
        axes.scatter([b / 2**10 for b, _ in crosses], [y for _, y in crosses], marker="x", s=36, **style)
    logarithmic(axes)
    has_crosses = any(not simulated for simulated, *_ in bench)
    plot.finish(axes, f"Collectives of {most} ranks", "GB/s of bus bandwidth")
    axes.set_xlabel(f"KiB of the buffer (lines: device sim{', crosses: dtbench bench' * has_crosses})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--bench", metavar="RECORDS.jsonl", action="append", default=[])
    parser.add_argument("-o", "--output", metavar="PICTURE.png", help="default: DIR/calibration.png")
    options = parser.parse_args()
    described = {}
    for name in ("cluster", "profile"):
        path = os.path.join(options.folder, name + ".json")
        try:
            with open(path, encoding="utf-8") as file:
                described[name] = json.load(file)
            measured = (described["profile"] if name == "profile" else described["cluster"]["collectives"])["measured"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"plot_calibration.py: {path}: not written by dtbench calibrate: {error}")
        if name == "profile" and not measured:
            sys.exit(f"plot_calibration.py: {path}: no kernel was measured")
    figure, panels = plot.matplotlib_pyplot().subplots(1, 3, figsize=(16, 5.4), layout="constrained")
    draw_kernels(panels[0], panels[1], described["cluster"], described["profile"])
    draw_collectives(panels[2], described["cluster"]["collectives"]["measured"], of_bench(options.bench))
    title = textwrap.fill(f"Calibration of {described['cluster']['source']}", 120)  # as much as the picture is wide
    figure.suptitle(title, x=0.01, ha="left", fontsize=14, weight="bold", color=plot.INK)
    plot.save(figure, options.output or os.path.join(options.folder, "calibration.png"))


if __name__ == "__main__":
    main()
