#!/usr/bin/python3 -s
"""Draw a picture of dtbench's records: throughput, memory, where a step's time goes, and the losses.

Usage: plot.py RECORDS.jsonl... [-o PICTURE.svg|PICTURE.png]

One column per experiment. A line that is no JSON object (a torn tail) is left out; of several records with one config the last counts.
An SVG needs nothing but Python; other kinds are drawn by matplotlib.
"""
import argparse
import json
import math
import os
import sys

import colours  # beside this script
import svg

MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
CATEGORIES = {
    "parameters": colours.BLUE,
    "gradients": colours.SKY,
    "optimizer": colours.PINK,
    "activations": colours.ORANGE,
    "communication": colours.GREEN,
    "workspace": "#999999",
}
PHASES = {
    "forward_s": ("forward", colours.BLUE),
    "backward_s": ("backward", colours.SKY),
    "optimizer_s": ("optimizer", colours.PINK),
    "exposed_comm_s": ("exposed communication", colours.RED),
    "bubble_s": ("pipeline bubble", colours.YELLOW),
    "host_s": ("waiting for the host", "#000000"),
    "other": ("other", "#999999"),
}
PARADIGMS = {
    "none": "one rank", "ddp": "DDP", "pdp": "PDP", "fsdp": "FSDP", "zero1": "ZeRO-1", "zero2": "ZeRO-2", "hsdp": "HSDP",
    "data_parallel": "DataParallel", "parameter_server": "parameter server",
}
FEW_EXPERIMENTS = 12  # columns of more are narrow
INK, PALE = "#222222", "#DDDDDD"


def matplotlib_pyplot():
    """Loaded when something asks for it: that takes longer than drawing an SVG. Exception: ImportError."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def __getattr__(name):
    """plt, for the scripts that need matplotlib."""
    if name != "plt":
        raise AttributeError(name)
    try:
        return matplotlib_pyplot()
    except ImportError as error:
        script = os.path.basename(sys.argv[0])
        sys.exit(f"{script}: no matplotlib: {error}; install the package python3-matplotlib (this script is run by {sys.executable} -s)")


def drawing_of(picture, records):
    """What draws, and the picture's name: one without a name is a PNG where there is matplotlib, and an SVG where there is none."""
    if picture:
        return svg if picture.endswith(".svg") else sys.modules[__name__].plt, picture
    stem = os.path.splitext(records)[0]
    try:
        return matplotlib_pyplot(), stem + ".png"
    except ImportError:
        return svg, stem + ".svg"


def save(figure, picture, dpi):
    """Write the picture. A kind that matplotlib does not know, and a place that takes no file, end with one line."""
    try:
        figure.savefig(picture, dpi=dpi)
    except (OSError, ValueError) as error:
        sys.exit(f"{os.path.basename(sys.argv[0])}: cannot write {picture}: {getattr(error, 'strerror', None) or error}")


def read(paths):
    """The last record of each config, in the order in which the configs came first."""
    records, torn = {}, 0
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    try:
                        record = json.loads(line)
                    except ValueError:
                        torn += bool(line.strip())
                        continue
                    if isinstance(record, dict) and isinstance(record.get("config"), dict):
                        key = record.get("config_hash") or json.dumps(record["config"], sort_keys=True)
                        records[key] = record
                    else:
                        torn += 1
        except OSError as error:
            sys.exit(f"plot.py: cannot read {path}: {error.strerror}")
    if torn:
        print(f"plot.py: {torn} line{'s' * (torn > 1)} left out: not a record", file=sys.stderr)
    if not records:
        sys.exit(f"plot.py: no record in {', '.join(paths)}")
    return list(records.values())


def flat(config, prefix=""):
    """{"model.dtype": "bf16", ...}"""
    out = {}
    for key, value in config.items():
        if isinstance(value, dict):
            out.update(flat(value, prefix + key + "."))
        else:
            out[prefix + key] = value
    return out


def number(record, *path):
    """A number of the record's metrics; None where it is unknown."""
    value = record.get("metrics") or {}
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def step_times(record):
    times = ((record.get("metrics") or {}).get("step_s") or {}).get("all") or []
    return [t for t in times if isinstance(t, (int, float)) and t > 0]


def tokens_per_step(config):
    model = config.get("model") or {}
    return (config.get("world_size") or 1) * (config.get("batch_size") or 1) * (model.get("block_size") or 256)


def names_tell_models(flats):
    """Whether experiments of one name all have one model, and there are several names."""
    models = {}
    for f in flats:
        models.setdefault(f.get("name"), set()).add(json.dumps({key: f[key] for key in f if key.startswith("model.")}, sort_keys=True))
    return len(models) > 1 and all(len(of_name) == 1 for of_name in models.values())


def labels(records):
    """The paradigm, and whatever else sets the experiments apart. Models that differ in several keys go by the experiments' names."""
    flats = [flat(record["config"]) for record in records]
    # Keys that belong to some paradigms do not differ in the others.
    own = {
        "pipeline.": {"pdp"}, "fsdp.": {"fsdp", "hsdp"}, "hsdp.": {"hsdp"}, "parameter_server.": {"parameter_server"},
        "ddp.": {"ddp", "pdp", "zero1", "zero2", "data_parallel"},
    }
    varying = []
    for key in dict.fromkeys(key for f in flats for key in f):
        if key in ("paradigm", "name", "sweep"):
            continue
        users = next((p for start, p in own.items() if key.startswith(start)), None)
        unset = key.startswith(("model.", "nccl.", "tuning"))  # a config may leave it out; others have a part in an experiment or not
        values = {json.dumps(f.get(key)) for f in flats if (key in f or unset) and (not users or f.get("paradigm") in users)}
        if len(values) > 1:
            varying.append((key, users))
    others = [(key, users) for key, users in varying if not key.startswith("model.")]
    named = len(varying) - len(others) > 1 and names_tell_models(flats)
    varying = others if named else varying
    out = []
    for f in flats:
        parts = [PARADIGMS.get(f.get("paradigm"), str(f.get("paradigm")))]
        parts += [str(f.get("name"))] if named else []
        for key, users in varying:
            if (not users or f.get("paradigm") in users) and key in f:
                parts.append(f"{key.rsplit('.', 1)[-1].replace('_', ' ')} {f[key]}")
        out.append("\n".join(parts))
    return out


def title_of(records):
    """Model, device and world size, as far as the experiments have them in common."""

    def common(get):
        values = {json.dumps(get(record)) for record in records}
        return get(records[0]) if len(values) == 1 else None

    def config(*path):
        def get(record):
            value = record["config"]
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            return value

        return common(get)

    def sizes(record):
        model = record["config"].get("model") or {}
        kind = "Llama-like model" if (model.get("mlp"), model.get("norm"), model.get("position")) == ("swiglu", "rms", "rope") else "GPT"
        return model.get("preset") or kind + " with {layers} layers, {heads} heads, hidden {hidden}".format_map(
            {key: model.get(key, "?") for key in ("layers", "heads", "hidden")}
        )

    def device(record):
        provenance = record.get("provenance") or {}
        return provenance.get("device_name") or provenance.get("device")

    def prediction(record):
        """Cluster and profile of what nobody measured."""
        names = [os.path.splitext(os.path.basename(record["config"].get(key) or "?"))[0] for key in ("cluster", "profile")]
        return "predicted for cluster {} with profile {}".format(*names)

    facts = [config("model", "dtype")]
    if config("model", "block_size"):
        facts.append(f"{config('model', 'block_size')} tokens a sample")
    if config("batch_size"):
        facts.append(f"batch {config('batch_size')} per rank")
    world = config("world_size")
    predictions = [prediction(record) for record in records if is_predicted(record)]
    said = predictions[0] if len(set(predictions)) == 1 else "predicted for several clusters or profiles"
    where = [("in part " if len(predictions) < len(records) else "") + said if predictions else None, common(device)]
    if world:
        where.append(f"{world} rank{'s' * (world > 1)}")
    first = common(sizes) or "Several models"
    return first, ", ".join(str(f) for f in facts if f), ", ".join(str(w) for w in where if w)


def is_predicted(record):
    return record["config"].get("device") == "sim"


def why_not(record):
    status = record.get("status")
    return {"oom": "out of\nmemory"}.get(status, str(status)) if status != "ok" else None


def mark_failures(axes, records):
    """Say in an experiment's own column that it has no result."""
    for i, record in enumerate(records):
        if why_not(record):
            axes.axvspan(i - 0.4, i + 0.4, color="#F6E3E3", zorder=0, linewidth=0)
            axes.text(i, 0.5, why_not(record), transform=axes.get_xaxis_transform(), ha="center", va="center", color="#A00000", weight="bold")


def finish(axes, names, title, unit):
    axes.set_title(title, loc="left", fontsize=11, weight="bold", color=INK)
    axes.set_ylabel(unit)
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if names is not None:
        axes.set_xticks(range(len(names)))
        crowded = len(names) > 8 or max(len(line) for name in names for line in name.split("\n")) * len(names) > 60
        if len(names) > FEW_EXPERIMENTS:
            names = [name.replace("\n", ", ") for name in names]
        axes.set_xticklabels(names, rotation=(90 if len(names) > FEW_EXPERIMENTS else 60) if crowded else 0, ha="right" if crowded else "center",
                             va="center" if len(names) > FEW_EXPERIMENTS else "top", rotation_mode="anchor" if crowded else None)
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.08)  # room for the figures above the bars


def write_above(axes, x, top, text):
    axes.annotate(text, (x, top), xytext=(0, 4), textcoords="offset points", ha="center", va="bottom", fontsize=9, color=INK)


def colour_of(record):
    return colours.of_paradigm(record["config"].get("paradigm"))


def draw_throughput(axes, records, names):
    for i, record in enumerate(records):
        rate = number(record, "tokens_per_s")
        if rate is None:
            continue
        axes.bar(i, rate, width=0.62, color=colour_of(record))
        rates = [tokens_per_step(record["config"]) / t for t in step_times(record)]
        top = rate
        if len(rates) > 1:
            low, high = min(rates), max(rates)
            axes.errorbar(i, rate, yerr=[[max(rate - low, 0)], [max(high - rate, 0)]], color=INK, capsize=4, linewidth=1.2)
            top = max(rate, high)
        shares = [(name, number(record, key)) for name, key in (("MFU", "mfu"), ("scaling", "scaling_efficiency"))]
        few = len(records) <= FEW_EXPERIMENTS  # figures of more columns would collide
        write_above(axes, i, top, "\n".join([f"{name} {share:.0%}" for name, share in shares if share is not None] + [f"{rate:,.0f}"]) if few else "")
    mark_failures(axes, records)
    finish(axes, names, "Throughput (line: slowest to fastest step)", "tokens/s")
    if any(number(record, key) is not None for record in records for key in ("mfu", "scaling_efficiency")):
        axes.set_ylim(0, axes.get_ylim()[1] * 1.1)  # room for more lines


def stack(axes, columns, colours, legend_names, unit_of):
    """Stacked bars; columns: a {part: height} or None per experiment."""
    for part, colour in colours.items():
        heights = [(column or {}).get(part, 0.0) for column in columns]
        if not any(heights):
            continue
        floors = []
        for column in columns:
            below = 0.0
            for earlier in colours:
                if earlier == part:
                    break
                below += (column or {}).get(earlier, 0.0)
            floors.append(below)
        axes.bar(range(len(columns)), heights, width=0.62, bottom=floors, color=colour, label=legend_names[part])
    for i, column in enumerate(columns):
        if column and len(columns) <= FEW_EXPERIMENTS:
            write_above(axes, i, sum(column.values()), unit_of(i))


def legend_beside(axes):
    handles, texts = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles[::-1], texts[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)


def draw_memory(axes, records, names):
    columns, totals = [], []
    for record in records:
        parts = {c: (number(record, "peak_bytes", c) or 0) / 2**30 for c in CATEGORIES}
        total = (number(record, "peak_bytes", "total") or 0) / 2**30
        columns.append(parts if any(parts.values()) else None)
        totals.append(total)
    stack(axes, columns, CATEGORIES, {c: c for c in CATEGORIES}, lambda i: f"{totals[i]:.2f}")
    for i, total in enumerate(totals):
        if total and columns[i]:
            axes.plot([i - 0.36, i + 0.36], [total, total], color=INK, linewidth=2, label="held at once" if i == 0 else None)
    mark_failures(axes, records)
    finish(axes, names, "Peak memory of the fullest rank (figure: held at once)", "GiB")
    legend_beside(axes)


def draw_time(axes, records, names):
    columns = []
    for record in records:
        step = number(record, "step_s", "median")
        parts = {phase: number(record, phase) or 0.0 for phase in PHASES if phase != "other"}
        if step is None:
            columns.append(None)
            continue
        parts["other"] = max(step - sum(parts.values()), 0.0)
        columns.append(parts)
    stack(axes, columns, {p: colour for p, (_, colour) in PHASES.items()}, {p: name for p, (name, _) in PHASES.items()},
          lambda i: f"{sum(columns[i].values()):.2f}")
    mark_failures(axes, records)
    finish(axes, names, "Where a step's time goes (mean of the ranks)", "s per step")
    legend_beside(axes)


def draw_losses(axes, records, names):
    for i, record in enumerate(records):
        losses = [v if isinstance(v, (int, float)) else math.nan for v in record.get("losses") or []]
        # Curves that coincide, as they should, stay visible: later ones are thinner and lie on top.
        axes.plot(range(1, len(losses) + 1), losses, color=colour_of(record), marker=MARKERS[i % len(MARKERS)],
                  markersize=max(10 - 2 * i, 4), linewidth=max(5 - 1.6 * i, 1.2), label=names[i].replace("\n", ", "))
    warmup = {len(record.get("losses") or []) - len(((record.get("metrics") or {}).get("step_s") or {}).get("all") or []) for record in records}
    finish(axes, None, "Loss (the curves should coincide)", "mean loss of the step")
    axes.set_xlabel("step")
    most = max((len(record.get("losses") or []) for record in records), default=0)
    axes.set_xticks(range(1, most + 1, most // 10 + 1))
    axes.ticklabel_format(axis="y", useOffset=False)
    if len(warmup) == 1 and next(iter(warmup)):
        left = axes.get_xlim()[0]
        axes.axvspan(left, next(iter(warmup)) + 0.5, color="#F2F2F2", zorder=0, linewidth=0)
        axes.set_xlim(left=left)
        starts = [line.get_ydata()[0] for line in axes.get_lines()]
        bottom, top = axes.get_ylim()
        low = max(starts) > (bottom + top) / 2  # away from where the curves begin
        axes.text(left, 0.02 if low else 0.98, "  warm-up", transform=axes.get_xaxis_transform(), va="bottom" if low else "top", fontsize=9,
                  color="#777777")
    if len(records) <= FEW_EXPERIMENTS:
        axes.legend(loc="best", frameon=False, fontsize=9)


def draw_records(description, draw):
    """The command line of a script that makes one picture of records: draw(records, picture)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", metavar="RECORDS.jsonl")
    parser.add_argument("-o", "--output", metavar="PICTURE.png", help="default: the records' name with .png")
    arguments = parser.parse_args()
    picture = arguments.output or os.path.splitext(arguments.records[0])[0] + ".png"
    draw(read(arguments.records), picture)
    print(picture)


def drawings_of(records):
    """The panels of some experiments; losses where there are any. What is measured and what is predicted have axes of their own: a cluster
    is a thousand times as fast as a laptop."""
    has_losses = [record for record in records if any(isinstance(v, (int, float)) for v in record.get("losses") or [])]
    names = dict(zip(map(id, records), labels(records)))
    drawings = [(draw_throughput, records), (draw_memory, records), (draw_losses, has_losses), (draw_time, records)]
    return [(draw, some, [names[id(record)] for record in some]) for draw, some in drawings if some]


def main():
    parser = argparse.ArgumentParser(description="Draw dtbench's records as one picture.")
    parser.add_argument("records", nargs="+", help="files of JSON lines, as dtbench writes them")
    parser.add_argument("-o", "--output", help="the picture: .svg, or, with matplotlib, another kind (default: the first file's name with .png or .svg)")
    options = parser.parse_args()
    records = read(options.records)
    plt, output = drawing_of(options.output, options.records[0])

    plt.rcParams.update({"font.size": 10, "axes.edgecolor": "#888888", "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK})
    drawings = [drawing for measured in (True, False) for drawing in drawings_of([r for r in records if is_predicted(r) != measured])]
    columns, width, height = (2, 1.5, 4.0) if len(records) <= FEW_EXPERIMENTS else (1, 0.25, 7.5)
    rows = max((len(drawings) + columns - 1) // columns, 2)  # one row alone is no list of rows
    figure, panels = plt.subplots(rows, columns, figsize=(max(12.5, width * len(records) + 6), height * rows))
    panels = [panel for row in panels for panel in (row if columns > 1 else [row[0]] if isinstance(row, list) else [row])]
    for panel, (draw, some, names) in zip(panels, drawings):
        draw(panel, some, names)
        if len(set(map(is_predicted, records))) > 1:
            panel.text(1, 1.03, "predicted" if is_predicted(some[0]) else "measured", transform=panel.transAxes, ha="right", color="#A00000")
    for panel in panels[len(drawings):]:
        panel.set_visible(False)
    model, facts, where = title_of(records)
    figure.suptitle(model, x=0.012, y=0.985, ha="left", fontsize=15, weight="bold", color=INK)
    figure.text(0.012, 0.935, "; ".join(t for t in (facts, where) if t), ha="left", va="top", fontsize=10.5, color="#555555")
    figure.tight_layout(rect=(0, 0, 1, 0.925), h_pad=2.2, w_pad=2.5)
    save(figure, output, dpi=110)


if __name__ == "__main__":
    main()
