"""Shared by all pictures of the study: colours, markers, sizes."""
import os
import sys

import matplotlib

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import colours  # noqa: E402  the folder above

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {**{name: colours.PARADIGMS[name] for name in ("ddp", "pdp", "fsdp")}, "pdp 4 stages": colours.RED, "pdp 8 stages": colours.BROWN,
           "fsdp, host": colours.PINK}
COLOURS = {name: COLOURS[name] for name in ("ddp", "pdp", "pdp 4 stages", "pdp 8 stages", "fsdp", "fsdp, host")}  # in the legends' order
NAMES = {"ddp": "DDP", "pdp": "PDP", "pdp 4 stages": "PDP, 4 stages", "pdp 8 stages": "PDP, 8 stages", "fsdp": "FSDP", "fsdp, host": "FSDP, parameters on the host"}
MARKERS = {"ddp": "o", "pdp": "s", "pdp 4 stages": "D", "pdp 8 stages": "P", "fsdp": "^", "fsdp, host": "v"}
ACTIVATION_LINES = {"keep": "-", "checkpoint": "--", "offload": ":"}
ACTIVATION_MARKERS = {"keep": "o", "checkpoint": "s", "offload": "^"}
GREY = "#6E6E6E"

matplotlib.rcParams.update({
    "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False, "legend.fontsize": 8, "lines.linewidth": 1.6,
    "svg.hashsalt": "dtbench",
})


def series_name(run):
    """Which of COLOURS a run has."""
    if run.paradigm == "pdp" and run.stages > 2:
        return f"pdp {run.stages} stages"
    if run.paradigm == "fsdp" and run.parameter_offload:
        return "fsdp, host"
    return run.paradigm


def measured_points(axis, x, y, name, marker=None, size=30):
    """The authors' measurements: filled markers with a dark edge, over the lines of the predictions."""
    axis.scatter(x, y, s=size, marker=marker or MARKERS[name], color=COLOURS[name], edgecolors="black", linewidths=0.6, zorder=3)


def plain_ticks(axis, which, values, labels=None):
    """Ticks at these values only, written as they are, on a logarithmic axis too."""
    part = axis.xaxis if which == "x" else axis.yaxis
    part.set_major_locator(matplotlib.ticker.FixedLocator(list(values)))
    part.set_major_formatter(matplotlib.ticker.FixedFormatter([str(v) for v in (labels or values)]))
    part.set_minor_locator(matplotlib.ticker.NullLocator())


def note(figure, text):
    figure.text(0.01, 0.005, text, fontsize=7, color=GREY, ha="left", va="bottom")


def save(figure, folder, name):
    path = os.path.join(folder, name + ".png")
    figure.savefig(path, dpi=110, metadata={"Software": None})  # no version: the same records make the same file
    plt.close(figure)
    return path
