"""Figure 1, the cluster, from its file; and Figure 2, which features combine, from verified runs."""
import json
import os

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle

import style

CLUSTER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "configs", "clusters", "gcp_a2.json")
FIGURES = ("figure_01", "figure_02")
YES, PARTLY, NO = style.COLOURS["fsdp"], style.COLOURS["pdp"], "#DDDDDD"

# The study's text on PyTorch 1.11: checkpointing and offloading of activations go (partly) with all
# three, parameter offloading with FSDP alone, micro-batches are the pipeline's own, and DDP's by
# no_sync().
PYTORCH = {("activation checkpointing", name): PARTLY for name in ("ddp", "pdp", "fsdp")}
PYTORCH |= {("activation offloading", name): PARTLY for name in ("ddp", "pdp", "fsdp")}
PYTORCH |= {("parameter offloading", "fsdp"): YES, ("micro-batching", "pdp"): YES, ("micro-batching", "ddp"): YES}


def verified_path(records):
    return os.path.join(records, "figure_02.verified")


def available(records):
    return [figure for figure in FIGURES if figure == "figure_01" or os.path.exists(verified_path(records))]


def _node(axis, x, name, cluster):
    gpus = cluster["gpus_per_node"]
    axis.add_patch(FancyBboxPatch((x, 1.2), 3.5, 2.5, boxstyle="round,pad=0.05", facecolor="#F4F4F4", edgecolor=style.GREY))
    axis.text(x + 1.75, 3.48, name, ha="center", va="center", fontweight="bold")
    for i in range(gpus):
        left = x + 0.1 + i * 3.3 / gpus
        axis.add_patch(Rectangle((left, 2.75), 3.3 / gpus - 0.06, 0.45, facecolor=style.COLOURS["ddp"], alpha=0.75))
        axis.text(left + 1.65 / gpus - 0.03, 2.97, str(i), ha="center", va="center", fontsize=8)
        axis.plot([left + 1.65 / gpus - 0.03] * 2, [2.3, 2.75], color=style.COLOURS["fsdp"], linewidth=1.5)
    axis.add_patch(Rectangle((x + 0.1, 1.95), 3.24, 0.35, facecolor=style.COLOURS["fsdp"], alpha=0.75))
    axis.text(x + 1.75, 2.12, f"NVLink {2 * cluster['nvlink']['gb_per_s']:g} GB/s a GPU", ha="center", va="center", fontsize=8)
    nic = cluster["nic"]
    axis.add_patch(Rectangle((x + 1, 1.3), 1.5, 0.35, facecolor=style.COLOURS["pdp"], alpha=0.75))
    axis.text(x + 1.75, 1.47, "card" if nic["count"] == 1 else f"{nic['count']} cards", ha="center", va="center", fontsize=8)
    axis.plot([x + 1.75] * 2, [0.5, 1.3], color=style.COLOURS["pdp"], linewidth=2)
    axis.text(x + 1.85, 0.85, f"{nic['label_gbit_per_s']:g} Gbit/s", fontsize=8)


def draw_cluster(folder):
    with open(CLUSTER, encoding="utf-8") as file:
        cluster = json.load(file)
    fig, axis = plt.subplots(figsize=(9.2, 3.2))
    for x, name in ((0, "node 0"), (3.9, "node 1"), (8.6, f"node {cluster['nodes'] - 1}")):
        _node(axis, x, name, cluster)
    axis.text(8.03, 2.4, "...", fontsize=16, ha="center")
    axis.add_patch(Rectangle((0, 0.1), 12.1, 0.4, facecolor=style.GREY, alpha=0.35))
    axis.text(6.05, 0.3, f"Ethernet, plain TCP {cluster['nic']['transport']}", ha="center", va="center", fontsize=9)
    axis.set_xlim(-0.15, 12.3)
    axis.set_ylim(0, 3.9)
    axis.axis("off")
    axis.set_title(f"Figure 1. The cluster: {cluster['nodes']} nodes with {cluster['gpus_per_node']} {cluster['gpu']['name']} each")
    style.note(fig, "drawn from configs/clusters/gcp_a2.json; a card's label: plain sockets deliver less. NVLink: both directions together")
    fig.tight_layout(rect=(0, 0.05, 1, 1))
    return style.save(fig, folder, "figure_01")


def _read_verified(path):
    """({(what, paradigm): largest relative difference of a loss}, the paradigms, what was combined), in the order of the runs."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for record in map(json.loads, file):
            passed = record["status"] == "ok" and record["verification"]["status"] == "passed"
            found[record["config"]["name"], record["config"]["paradigm"]] = record["verification"]["largest_relative_difference"] if passed else None
    return found, list(dict.fromkeys(name for _, name in found)), list(dict.fromkeys(what for what, _ in found))


def _table(axis, columns, rows, cell, title):
    for x, column in enumerate(columns):
        for y, row in enumerate(rows):
            colour, text = cell(row, column)
            axis.add_patch(Rectangle((x, len(rows) - 1 - y), 1, 1, facecolor=colour, edgecolor="white", linewidth=2, alpha=0.75))
            axis.text(x + 0.5, len(rows) - 0.5 - y, text, ha="center", va="center", fontsize=7.5)
    axis.set_xlim(0, len(columns))
    axis.set_ylim(0, len(rows))
    axis.set_xticks([i + 0.5 for i in range(len(columns))], [column.replace("_", "\n") for column in columns], fontsize=8)
    axis.set_yticks([len(rows) - 0.5 - i for i in range(len(rows))], rows)
    axis.tick_params(length=0)
    axis.grid(False)
    axis.set_title(title, loc="left", fontsize=9)


def draw_combinations(records, folder):
    found, paradigms, whats = _read_verified(verified_path(records))

    def of_pytorch(what, name):
        colour = PYTORCH.get((what, name), NO)
        return colour, {YES: "yes", PARTLY: "(partly)", NO: "no"}[colour]

    def of_dtbench(what, name):
        if (what, name) not in found:
            return NO, "no"
        off = found[what, name]
        return (YES, f"{off:.0e}") if off is not None else ("#CC3311", "wrong")
    shown = [what for what in whats if any(key[0] == what for key in PYTORCH)]
    fig, (left, right) = plt.subplots(1, 2, figsize=(13, 3.9), width_ratios=(3, len(paradigms)))
    _table(left, ("ddp", "pdp", "fsdp"), shown, of_pytorch, "PyTorch 1.11, as the study's text has it")
    _table(right, paradigms, whats, of_dtbench, "dtbench: runs with --verify, and how far a loss was off from one device's")
    fig.legend(handles=[Patch(facecolor=colour, alpha=0.75, label=label) for label, colour in (("works", YES), ("partly", PARTLY), ("does not", NO))],
               loc="lower right", ncol=3)
    fig.suptitle("Figure 2. What works with what", fontsize=10)
    style.note(fig, f"configs/combinations.json on cpu: {len(found)} runs, 4 ranks; pipelines: of 2 stages (1f1b), replicated by the paradigm; "
                    "all of them: offloading of both kinds with micro-batches")
    fig.tight_layout(rect=(0, 0.06, 1, 1))
    return style.save(fig, folder, "figure_02")


def draw(figure, records, folder):
    return draw_cluster(folder) if figure == "figure_01" else draw_combinations(records, folder)
