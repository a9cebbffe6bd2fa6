"""Figures 3 to 5 (throughput against GPUs), 8 and 9 (against batch size), 10 to 13 (against model size)."""
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

import style
from runs import ACTIVATIONS, fastest, of_figure, select, short_count

SCALING = {"figure_03": "GPTSmall", "figure_04": "GPTLarge", "figure_05": "GPT2.7B"}
BATCHES = {"figure_08": "GPTLarge", "figure_09": "GPT2.7B"}
SMALL = ("GPTSmall", "GPTMedium", "GPTLarge", "GPTXL", "GPT2.7B")
LARGE = ("GPT6.7B", "GPT13B", "GPT39B", "GPT76B", "GPT100B", "GPT175B")
MODEL_SIZES = {"figure_10": ("throughput", SMALL), "figure_11": ("peak memory", SMALL),
               "figure_12": ("throughput", LARGE), "figure_13": ("peak memory", LARGE)}
GPU_GB = 42.5  # 39.6 GiB, what the driver leaves of an A100-40GB
EXPLAIN = "lines: predicted; markers: measured by the study's authors (results/study/measured.csv); a line ends where memory does"


def in_scope(measured, predicted):
    """Measurements that have a place in the predictions' picture: the same series, at any x."""
    def series(run):
        return run.paradigm, run.stages, run.chunks, run.activation, run.parameter_offload, run.unit, run.network
    known = {series(run) for run in predicted}
    return [run for run in measured if series(run) in known]


def _log_axis(axis, label):
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_ylabel(label)


def _line(axis, points, name, **look):
    points = sorted(points)
    if points:
        axis.plot([x for x, _ in points], [y for _, y in points], color=style.COLOURS[name], **look)


def _scaling_bars(axis, runs, points):
    """A group of bars for each number of GPUs, as the study's figure has it: linear, so that the largest say most."""
    gpus = [1, 2, 4, 8, 16, 32, 64, 128]
    series = [(name, batch) for name in ("ddp", "pdp", "fsdp") for batch in (8, 20)]
    width = 0.84 / len(series)
    for i, (name, batch) in enumerate(series):
        places = {count: j + (i - (len(series) - 1) / 2) * width for j, count in enumerate(gpus)}
        mine = [run for run in select(runs, paradigm=name, batch=batch) if run.ok]
        axis.bar([places[run.gpus] for run in mine], [run.tokens_per_s / 1e3 for run in mine], width=0.94 * width, color=style.COLOURS[name],
                 alpha=1 if batch == 20 else 0.45)
        theirs = select(points, paradigm=name, batch=batch)
        axis.scatter([places[run.gpus] for run in theirs], [run.tokens_per_s / 1e3 for run in theirs], s=13, marker=style.MARKERS[name],
                     facecolors=style.COLOURS[name] if batch == 20 else "white", edgecolors="black", linewidths=0.7, zorder=3)
    axis.set_xticks(range(len(gpus)), gpus)
    axis.grid(axis="x", visible=False)
    axis.set_ylabel("throughput (1k tokens/s)")
    axis.set_title("linear: bars predicted, pale for batch 8", loc="left", fontsize=9)


def draw_scaling(figure, predicted, measured, folder):
    """Global throughput against the number of GPUs: bars as in the study, and on logarithmic axes lines, with the perfect scaling of the fastest single
    GPU in grey."""
    model = SCALING[figure]
    runs = of_figure(predicted, figure)
    points = select(in_scope(measured, runs), model=model, batch=(8, 20), gpus=[1, 2, 4, 8, 16, 32, 64, 128])
    points = [run for run in points if run.gpus_per_node == min(run.gpus, 8)]
    fig, (bars, axis) = plt.subplots(1, 2, figsize=(12.4, 4.6))
    _scaling_bars(bars, runs, points)
    handles = []
    for batch, dash in ((8, "--"), (20, "-")):
        alone = fastest(select(runs, gpus=1, batch=batch))
        if alone:
            axis.plot([1, 128], [alone.tokens_per_s / 1e3, 128 * alone.tokens_per_s / 1e3], color=style.GREY, linestyle=dash, linewidth=1)
            handles.append(Line2D([], [], color=style.GREY, linestyle=dash, linewidth=1, label=f"opt{batch}"))
        for name in ("ddp", "pdp", "fsdp"):
            mine = [run for run in select(runs, paradigm=name, batch=batch) if run.ok]
            _line(axis, [(run.gpus, run.tokens_per_s / 1e3) for run in mine], name, linestyle=dash)
            theirs = select(points, paradigm=name, batch=batch)
            axis.scatter([run.gpus for run in theirs], [run.tokens_per_s / 1e3 for run in theirs], s=34, marker=style.MARKERS[name],
                         facecolors=style.COLOURS[name] if batch == 20 else "white",
                         edgecolors="black" if batch == 20 else style.COLOURS[name], linewidths=0.6 if batch == 20 else 1.4, zorder=3)
            handles.append(Line2D([], [], color=style.COLOURS[name], linestyle=dash, marker=style.MARKERS[name], markersize=5,
                                  markerfacecolor=style.COLOURS[name] if batch == 20 else "white", label=f"{name}{batch}"))
    axis.set_xscale("log", base=2)
    style.plain_ticks(axis, "x", [1, 2, 4, 8, 16, 32, 64, 128])
    _log_axis(axis, "throughput (1k tokens/s)")
    axis.set_title("logarithmic: lines predicted, grey with perfect scaling", loc="left", fontsize=9)
    for one in (bars, axis):
        one.set_xlabel("number of GPUs (8 per node)")
    fig.suptitle(f"Figure {int(figure[7:9])}. {model} ({short_count(model)}): throughput against GPUs; batch 8 and 20 per GPU", fontsize=10)
    axis.legend(handles=handles, ncol=2, loc="upper left")
    style.note(fig, EXPLAIN.replace("lines:", "bars and lines:"))
    fig.tight_layout(rect=(0, 0.03, 1, 1))
    return style.save(fig, folder, figure)


def draw_batches(figure, predicted, measured, folder):
    """Throughput and peak memory against the batch per GPU, on 32 GPUs."""
    model = BATCHES[figure]
    runs = of_figure(predicted, figure)
    points = select(in_scope(measured, runs), model=model, gpus=32, gpus_per_node=8)
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.2, 4.3))
    handles = []
    for name, paradigm, chunks, dash in (("DDP", "ddp", 1, "-"), ("FSDP", "fsdp", 1, "-"), ("PDP, 2 chunks (pdp2)", "pdp", 2, "-"),
                                         ("PDP, 4 chunks (pdp4)", "pdp", 4, "--")):
        mine = [run for run in select(runs, paradigm=paradigm, chunks=chunks) if run.ok]
        theirs = select(points, paradigm=paradigm, chunks=chunks)
        marker = "D" if chunks == 4 else style.MARKERS[paradigm]
        for axis, value in ((left, lambda run: run.tokens_per_s / 1e3), (right, lambda run: run.peak_bytes / 1e9)):
            _line(axis, [(run.batch, value(run)) for run in mine], paradigm, linestyle=dash)
            style.measured_points(axis, [run.batch for run in theirs], [value(run) for run in theirs], paradigm, marker)
        handles.append(Line2D([], [], color=style.COLOURS[paradigm], linestyle=dash, marker=marker, markersize=5, label=name))
    left.set_ylabel("throughput (1k tokens/s)")
    left.set_ylim(bottom=0)
    right.set_ylabel("peak GPU memory (GB)")
    right.set_ylim(0, 45)
    right.axhline(GPU_GB, color=style.GREY, linewidth=1)
    right.text(0, GPU_GB + 0.4, "the GPU", fontsize=7, color=style.GREY)
    right.axhline(32, color=style.GREY, linewidth=1, linestyle=":")
    right.text(0, 32.4, "32 GB (claim C6)", fontsize=7, color=style.GREY)
    for axis in (left, right):
        axis.set_xlabel("batch size per GPU")
    right.legend(handles=handles, loc="lower right")
    fig.suptitle(f"Figure {int(figure[7:9])}. {model} ({short_count(model)}): throughput and peak memory against batch size, 32 GPUs",
                 fontsize=10)
    style.note(fig, EXPLAIN)
    fig.tight_layout(rect=(0, 0.03, 1, 1))
    return style.save(fig, folder, figure)


def draw_model_sizes(figure, predicted, measured, folder):
    """Throughput, or peak memory, against model size, for every paradigm and activation policy: 32 GPUs, batch 16 per GPU."""
    what, models = MODEL_SIZES[figure]
    runs = select(of_figure(predicted, figure), model=models)
    points = select(in_scope(measured, runs), model=models, gpus=32, gpus_per_node=8, batch=16)
    names = [name for name in style.COLOURS if any(style.series_name(run) == name and run.ok for run in runs)]
    value = (lambda run: run.tokens_per_s / 1e3) if what == "throughput" else (lambda run: run.peak_bytes / 1e9)
    fig, panels = plt.subplots(1, len(ACTIVATIONS), figsize=(12.4, 4.6), sharey=True)
    for axis, activation in zip(panels, ACTIVATIONS):
        for name in names:
            mine = [run for run in runs if run.ok and run.activation == activation and style.series_name(run) == name]
            theirs = [run for run in points if run.activation == activation and style.series_name(run) == name]
            look = {}
            if name == "fsdp, host":
                look = {"linewidth": 5, "alpha": 0.55, "zorder": 1.5}  # FSDP's own line is often the same, and on top of it
            if len(mine) == 1:  # fits at one size alone
                look = {"marker": style.MARKERS[name], "markersize": 13, "markerfacecolor": "none", "markeredgewidth": 1.8}
            _line(axis, [(models.index(run.model), value(run)) for run in mine], name, **look)
            style.measured_points(axis, [models.index(run.model) for run in theirs], [value(run) for run in theirs], name)
        style.plain_ticks(axis, "x", range(len(models)), [f"{short_count(model)}\n{model.replace('GPT', '')}" for model in models])
        axis.set_xlim(-0.3, len(models) - 0.7)
        axis.set_xlabel("parameters, and the GPT of the study")
        axis.set_title(f"activations: {activation}", loc="left")
        if what != "throughput":
            axis.axhline(GPU_GB, color=style.GREY, linewidth=1)
            axis.text(-0.2, GPU_GB + 0.4, "the GPU", fontsize=7, color=style.GREY)
    if what == "throughput":
        _log_axis(panels[0], "throughput (1k tokens/s)")
    else:
        panels[0].set_ylabel("peak GPU memory (GB)")
        panels[0].set_ylim(0, 45)
    handles = [Line2D([], [], color=style.COLOURS[name], marker=style.MARKERS[name], markersize=5, label=style.NAMES[name],
                      linewidth=5 if name == "fsdp, host" else None, alpha=0.55 if name == "fsdp, host" else 1) for name in names]
    fig.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 0.035), ncol=len(handles))
    fig.suptitle(f"Figure {int(figure[7:9])}. {what.capitalize()} against model size "
                 f"({short_count(models[0])} to {short_count(models[-1])}), 32 GPUs, batch 16", fontsize=10)
    style.note(fig, EXPLAIN + "; a large open marker: predicted, and fits at this size alone")
    fig.tight_layout(rect=(0, 0.09, 1, 1))
    return style.save(fig, folder, figure)
