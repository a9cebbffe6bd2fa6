"""Figures 14 and 17 (Ethernet over NVLink), 18 and 19 (plain over faster sockets), 20 and 21 (which paradigm wins)."""
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

import style
from runs import ACTIVATIONS, MODELS, PARADIGMS, fastest, of_figure, select, short_count

FAST = "gcp_a2_fast_socket"
RATIOS = {"figure_14": 8, "figure_17": 64, "figure_18": 8, "figure_19": 64}
WINNERS = {"figure_20": (2, "100 Gbit/s Ethernet (4 nodes, 2 GPUs each)"), "figure_21": (8, "600 GB/s NVLink (one node)")}
BATCHES = (8, 16, 32, 64, 128, 256)
MODELS_SHOWN = tuple(name for name in MODELS if name != "GPT1T")


def sides(figure):
    """(is the slow side, is the fast side) of a figure's ratio."""
    if figure in ("figure_14", "figure_17"):
        return (lambda run: run.gpus_per_node == 2), (lambda run: run.gpus_per_node == 8)
    return (lambda run: run.network != FAST), (lambda run: run.network == FAST)


def _variant(run):
    return run.paradigm, run.model, run.stages, run.chunks, run.activation, run.parameter_offload, run.unit


def _ratio_pairs(runs, figure):
    """{variant: (slow run, fast run)} of those that fit on both sides."""
    slow, fast = sides(figure)
    quick = {_variant(run): run for run in runs if fast(run) and run.ok}
    return {_variant(run): (run, quick[_variant(run)]) for run in runs if slow(run) and run.ok and _variant(run) in quick}


def predicted_ratios(predicted, figure):
    """{(series, model): ratio}: of each series the first of keep, checkpoint and offload that fits on both sides."""
    runs = of_figure(predicted, figure)
    found = {}
    for variant, (slow, fast) in sorted(_ratio_pairs(runs, figure).items(), key=lambda item: ACTIVATIONS.index(item[0][4])):
        found.setdefault((style.series_name(slow), slow.model), slow.step_s / fast.step_s)
    return found


def measured_ratios(measured, figure):
    """[(series, model, ratio)] of every pair of measured runs that differ in the placement alone. No row was taken with faster sockets."""
    if figure not in ("figure_14", "figure_17"):
        return []
    runs = select(measured, gpus=8, batch=RATIOS[figure])
    return [(style.series_name(slow), slow.model, slow.step_s / fast.step_s) for slow, fast in _ratio_pairs(runs, figure).values()]


def look_of(name, alone):
    """Of lines without marks: FSDP's is often DDP's, and on top of it."""
    return {"linewidth": 5, "alpha": 0.55} if name == "ddp" and alone else {}


def draw_ratios(figure, predicted, measured, folder):
    mine, theirs = predicted_ratios(predicted, figure), measured_ratios(measured, figure)
    fig, axis = plt.subplots(figsize=(7.2, 4.4))
    names = [name for name in style.COLOURS if any(series == name for series, _ in mine)]
    shown = [model for model in MODELS_SHOWN if any(m == model for _, m in mine)]
    for name in names:
        points = [(shown.index(model), mine[name, model]) for model in shown if (name, model) in mine]
        axis.plot([x for x, _ in points], [y for _, y in points], color=style.COLOURS[name],
                  marker="_" if len(points) == 1 else None, markersize=9, **look_of(name, not theirs))
        points = [(shown.index(model), ratio) for series, model, ratio in theirs if series == name and model in shown]
        style.measured_points(axis, [x for x, _ in points], [y for _, y in points], name)
    axis.axhline(1, color=style.GREY, linewidth=1)
    style.plain_ticks(axis, "x", range(len(shown)), [f"{short_count(model)}\n{model}" for model in shown])
    axis.tick_params(axis="x", labelsize=7)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("parameters")
    if figure in ("figure_14", "figure_17"):
        axis.set_ylabel("step time on 4 nodes / on 1 node")
        title = "8 GPUs on 4 nodes (Ethernet) over 1 node (NVLink)"
        explain = "lines: predicted; markers: pairs measured by the study's authors"
    else:
        axis.set_ylabel("step time, plain / faster sockets")
        title = "Plain over faster sockets, 8 GPUs on 4 nodes"
        explain = "lines: predicted"
        axis.text(0.5, 1.02, "predicted only: no run with faster sockets is among the study's measurements", transform=axis.transAxes, ha="center",
                  color="#A00000", fontsize=9)
    axis.set_title(f"Figure {int(figure[7:9])}. {title}, batch {RATIOS[figure]}", pad=18)
    axis.legend(handles=[Line2D([], [], color=style.COLOURS[name], marker=style.MARKERS[name] if theirs else None, markersize=5,
                                label=style.NAMES[name], **look_of(name, not theirs)) for name in names])
    style.note(fig, explain + "; each with the first of keep, checkpoint, offload that fits")
    fig.tight_layout(rect=(0, 0.03, 1, 1))
    return style.save(fig, folder, figure)


def in_cell(runs, figure, model, batch):
    """The runs that compete in a cell. Pipelines do not go from node to node: those of more stages than a node of figure 20 has are on fewer, larger
    nodes, but not on one."""
    per_node = WINNERS[figure][0]
    return [run for run in runs if run.model == model and run.batch == batch and run.gpus == 8 and
            run.gpus_per_node == (max(per_node, run.stages) if run.paradigm == "pdp" and run.stages < run.gpus else per_node)]


def best_of(runs):
    """The fastest run of each paradigm that fits: {paradigm: run}."""
    runs = list(runs)
    best = {name: fastest(select(runs, paradigm=name)) for name in PARADIGMS}
    return {name: run for name, run in best.items() if run}


def winner(best):
    return max(best, key=lambda name: best[name].tokens_per_s) if best else None


def winner_cells(predicted, measured, figure):
    """[(model, batch, predicted {paradigm: run}, measured {paradigm: run})] of a figure's cells."""
    mine = of_figure(predicted, figure)
    return [(model, batch, best_of(in_cell(mine, figure, model, batch)), best_of(in_cell(measured, figure, model, batch)))
            for model in MODELS_SHOWN for batch in BATCHES]


def _words(run):
    words = [{"keep": "", "checkpoint": "cp", "offload": "ao"}[run.activation]]
    if run.paradigm == "pdp":
        words.append(f"{run.chunks}ch" if run.stages == 2 else f"{run.stages}st {run.chunks}ch")
    if run.parameter_offload:
        words.append("po")
    return " ".join(word for word in words if word)


def draw_winners(figure, predicted, measured, folder):
    """A cell for each model and batch: the paradigm that is predicted to be fastest, and the measured one in its corner."""
    fig, axis = plt.subplots(figsize=(8.6, 4.2))
    for model, batch, mine, theirs in winner_cells(predicted, measured, figure):
        x, y = MODELS_SHOWN.index(model), BATCHES.index(batch)
        best = winner(mine)
        if best:
            axis.add_patch(Rectangle((x, y), 1, 1, facecolor=style.COLOURS[best], edgecolor="white", linewidth=2, alpha=0.75))
            axis.text(x + 0.5, y + 0.62, style.NAMES[best], ha="center", va="center", fontsize=8, fontweight="bold")
            axis.text(x + 0.5, y + 0.32, _words(mine[best]), ha="center", va="center", fontsize=7)
        if len(theirs) >= 2:
            name = winner(theirs)
            axis.scatter([x + 0.87], [y + 0.17], marker=style.MARKERS[name], s=38, color=style.COLOURS[name], edgecolors="black",
                         linewidths=0.8, zorder=3)
    axis.set_xlim(0, len(MODELS_SHOWN))
    axis.set_ylim(0, len(BATCHES))
    axis.set_xticks([i + 0.5 for i in range(len(MODELS_SHOWN))], [f"{short_count(m)}\n{m}" for m in MODELS_SHOWN], fontsize=7.5)
    axis.set_yticks([i + 0.5 for i in range(len(BATCHES))], BATCHES)
    axis.grid(False)
    axis.tick_params(length=0)
    axis.set_xlabel("parameters")
    axis.set_ylabel("batch size per GPU")
    axis.set_title(f"Figure {int(figure[7:9])}. The fastest paradigm, 8 GPUs, {WINNERS[figure][1]}")
    handles = [Patch(facecolor=style.COLOURS[name], alpha=0.75, label=style.NAMES[name]) for name in PARADIGMS]
    handles += [Line2D([], [], linestyle="", color=style.COLOURS[name], marker=style.MARKERS[name], markeredgecolor="black",
                       label=f"{style.NAMES[name]}, measured") for name in PARADIGMS]
    axis.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncol=6, columnspacing=1.2, handletextpad=0.5)
    style.note(fig, "cp, ao: activation checkpointing, offloading; po: parameters on the host; st: stages, if more than 2; ch: chunks;\n"
                    + ("4 stages are on 2 nodes of 4 GPUs; " if figure == "figure_20" else "") + "white: nothing fits. Markers: measured winner of two paradigms or three")
    fig.tight_layout(rect=(0, 0.06, 1, 1))
    return style.save(fig, folder, figure)
