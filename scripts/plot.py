#!/usr/bin/python3 -s
"""Draw dtbench's records as one picture: SVG, PDF or PNG, by the name's end.

Usage: plot.py RECORDS.jsonl... [--x KEY] [--y WHAT,...] [--series KEYS] [--facet KEY] [--where KEY=VALUE]... [--sort KEY] [-o PICTURE]

Without --x every experiment is a row, and each WHAT a panel beside it: a metric by its name in the record (tokens_per_s, step_s, bubble,
peak_bytes.activations), or rate, time (the parts of a step), memory (by category, host memory below it), losses. With --x metrics are drawn over a
key: lines over numbers, bars over words; A+B draws metric B dotted beside A. --series names the keys that tell lines or bars apart (all others that
differ, where it is left out); --facet makes a panel for each value of a key. What ran out of memory is marked, and not left out.

Torn lines are left out with a warning; of several records with one config the last counts.
"""
import argparse
import json
import math
import os
import sys
import textwrap

import colours  # beside this script

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
    "data_s": ("waiting for data", "#999999"),
    "host_s": ("waiting for the host", "#000000"),
    "other": ("other", "#999999"),
}
PARADIGMS = {
    "none": "one device", "ddp": "DDP", "pdp": "PDP", "fsdp": "FSDP", "zero1": "ZeRO-1", "zero2": "ZeRO-2", "hsdp": "HSDP",
    "data_parallel": "DataParallel", "parameter_server": "parameter server",
}
FRACTIONS = ("mfu", "causal_mfu", "scaling_efficiency", "bubble", "bubble_ideal", "step_s.cv", "exposed_comm")
INK, PALE, FAILED = "#222222", "#DDDDDD", "#A00000"
HOST_HATCH = "////"
DPI = 200


def matplotlib_pyplot():
    """Load matplotlib when something is drawn. Without matplotlib the script ends with one line."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot
    except ImportError as error:
        script = os.path.basename(sys.argv[0])
        sys.exit(f"{script}: no matplotlib: {error}; install the package python3-matplotlib (this script is run by {sys.executable} -s)")
    matplotlib.pyplot.rcParams.update({
        "font.size": 10, "axes.edgecolor": "#888888", "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "hatch.linewidth": 0.8,
        "legend.frameon": False, "legend.fontsize": 9, "svg.fonttype": "none", "svg.hashsalt": "dtbench"})
    return matplotlib.pyplot


def save(figure, picture):
    """Write the picture, without a date: the same records make the same file. A kind that matplotlib does not know, and a place that takes no file,
    end with one line."""
    metadata = {"Date": None} if picture.endswith(".svg") else {"CreationDate": None} if picture.endswith(".pdf") else None
    try:
        figure.savefig(picture, dpi=DPI, metadata=metadata)
    except (OSError, ValueError) as error:
        sys.exit(f"{os.path.basename(sys.argv[0])}: cannot write {picture}: {getattr(error, 'strerror', None) or error}")
    print(picture)


def is_record(value):
    kinds = {"config": dict, "metrics": (dict, type(None)), "losses": (list, type(None))}
    return isinstance(value, dict) and all(isinstance(value.get(key), kind) for key, kind in kinds.items())


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
                    if is_record(record):
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


def metric(record, name):
    """A metric by its name, "step_s" and "peak_bytes" being their main values."""
    value = number(record, *name.split("."))
    return value if value is not None else number(record, name, {"step_s": "median"}.get(name, "total"))


def value_of(record, key):
    """A key of the config, or a metric."""
    config = flat(record["config"])
    return config[key] if key in config else metric(record, key)


def rate_name(records):
    """tokens_per_s, or what the family of models counts."""
    names = {key for record in records for key in (record.get("metrics") or {}) if key.endswith("_per_s") and key != "samples_per_s"}
    return names.pop() if len(names) == 1 else "samples_per_s"


def step_times(record):
    times = ((record.get("metrics") or {}).get("step_s") or {}).get("all") or []
    return [t for t in times if isinstance(t, (int, float)) and t > 0]


def names_tell_models(flats):
    """Whether experiments of one name all have one model, and there are several names."""
    models = {}
    for f in flats:
        models.setdefault(f.get("name"), set()).add(json.dumps({key: f[key] for key in f if key.startswith("model.")}, sort_keys=True))
    return len(models) > 1 and all(len(of_name) == 1 for of_name in models.values())


def word_of(key, value):
    """"tensor 8", "parameter offload"; "" for what is as if it were not there."""
    if isinstance(value, bool):
        return label_of(key) if value else f"no {label_of(key)}"
    if key in ("tensor.size", "pipeline.stages"):
        return f"{key.split('.')[0]} {value}" if value != 1 else ""
    if isinstance(value, str):
        return text_of(key, value) if key in ("paradigm", "pipeline.order", "activation", "name") else f"{label_of(key)} {text_of(key, value)}"
    return f"{label_of(key)} {text_of(key, value)}"


def labels(records, without=()):
    """What sets the experiments apart. Models that differ in several keys go by the experiments' names."""
    flats = [flat(record["config"]) for record in records]
    # Keys that belong to some paradigms do not differ in the others: older records have them all.
    own = {
        "pipeline.": {"pdp"}, "fsdp.": {"fsdp", "hsdp"}, "hsdp.": {"hsdp"}, "parameter_server.": {"parameter_server"},
        "ddp.": {"ddp", "pdp", "zero1", "zero2", "data_parallel"},
    }

    def has_part(f, key):
        users = next((p for start, p in own.items() if key.startswith(start)), None)
        older = "parameter_server.servers" in f and f.get("paradigm") != "parameter_server"
        return key in f and (not older or not users or f.get("paradigm") in users or (key.startswith("pipeline.") and f.get("pipeline.paradigms") == "all"))

    varying = []
    for key in dict.fromkeys(key for f in flats for key in f):
        if key in ("name", "sweep", "pipeline.paradigms", *without):
            continue
        unset = key.startswith(("model.", "nccl.", "tuning"))  # a config may leave it out; others have a part in an experiment or not
        if len({json.dumps(f.get(key)) for f in flats if has_part(f, key) or unset}) > 1 or key == "paradigm":
            varying.append(key)
    others = [key for key in varying if not key.startswith("model.")]
    named = len(varying) - len(others) > 1 and names_tell_models(flats)
    varying = sorted((others if named else varying) + ["name"] * named, key=lambda key: (key != "paradigm", key != "name"))
    usual = {}  # for a key that only some records have, the most frequent value is not shown
    for key in varying:
        values = [json.dumps(f[key]) for f in flats if has_part(f, key)]
        if len(values) < len(flats) and key not in ("tensor.size", "pipeline.stages", "pipeline.order", "pipeline.chunks"):
            usual[key] = max(values, key=values.count)
        elif set(values) == {"true", "false"}:
            usual[key] = "false"
    return [", ".join(filter(None, (word_of(key, f[key]) for key in varying if has_part(f, key) and json.dumps(f[key]) != usual.get(key))))
            or str(f.get("name")) for f in flats]


def in_powers_of_two(number):
    """65536 as 64Ki: long numbers of bytes do not fit below an axis."""
    units = ["", "Ki", "Mi", "Gi", "Ti"]
    while number >= 1024 and len(units) > 1:
        number, units = number / 1024, units[1:]
    return f"{number:g}{units[0]}"


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
        if "bench" in record["config"]:
            return "Collectives alone"
        model = record["config"].get("model") or {}
        kind = "Llama-like model" if (model.get("mlp"), model.get("norm"), model.get("position")) == ("swiglu", "rms", "rope") else "GPT"
        return model.get("preset") or kind + " with {layers} layers, {heads} heads, hidden {hidden}".format_map(
            {key: model.get(key, "?") for key in ("layers", "heads", "hidden")}
        )

    def device(record):
        provenance = record.get("provenance") or {}
        return provenance.get("device_name") or provenance.get("device")

    def prediction(record):
        """Cluster and profile of predictions."""
        said = [key + " " + os.path.splitext(os.path.basename(record["config"][key]))[0] for key in ("cluster", "profile") if record["config"].get(key)]
        return "predicted for " + " with ".join(said)

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
    """Why an experiment has no result; None where it has one."""
    status = record.get("status")
    return {"oom": "out of memory"}.get(status, str(status)) if status != "ok" else None


def colour_of(record):
    return colours.of_paradigm(record["config"].get("paradigm"))


# ---- words and units ----

NAMES = {  # of metrics whose names do not say it, with a unit where their ends do not
    "algorithm_gb_per_s": ("algorithm bandwidth", "GB/s"), "bus_gb_per_s": ("bus bandwidth", "GB/s"),
    "tflops_per_gpu": ("computed by a GPU", "TFLOP/s"), "causal_tflops_per_gpu": ("computed by a GPU, causal", "TFLOP/s"),
    "aco_ms_per_sample": ("amortised communication overhead", "ms per sample"), "mfu": ("MFU", None), "causal_mfu": ("causal MFU", None),
    "step_s.p95": ("step time, 95th percentile", None), "step_s.cv": ("step time, coefficient of variation", None),
    "exposed_comm": ("exposed communication", "%"), "exposed_comm_s": ("exposed communication", None), "bubble_ideal": ("bubble of the order alone", None),
    "host_s": ("waiting for the host", None), "data_s": ("waiting for data", None), "wall_s": ("time of the whole run", None),
    "comm_bytes": ("communicated by a rank", None), "link_bytes": ("sent over links by a rank", None), "send_bytes": ("messages of a rank", None),
    "overflow_steps": ("steps that overflowed", "steps"), "overflow_elements": ("parameters that overflowed", "parameters"),
    "server_link_busy": ("server's link in use", "%"), "server_update_busy": ("server updates", "%"),
    "skipped_steps": ("steps that were skipped", "steps"), "saves": ("checkpoints saved", "checkpoints"),
}


def words_of(name):
    """"peak_bytes.activations" as "activations at their peak"."""
    if name in NAMES:
        return NAMES[name][0]
    main, _, part = name.partition(".")
    if main.endswith("_per_s"):
        return "throughput"
    if main.endswith("peak_bytes") and part not in ("", "total"):
        return f"{part} at their peak" + ", in host memory" * main.startswith("host")
    for end in ("_per_s", "_bytes", "_s"):
        main = main.removesuffix(end)
    main = {"peak": "peak memory", "host_peak": "host memory", "step": "step time"}.get(main, main)
    return f"{main} {part}".replace("_", " ").strip() if part not in ("median", "total") else main


def unit_of(name, values):
    """(unit, its size) that fit the largest of the values."""
    largest = max((abs(v) for v in values if v is not None), default=0)
    if name in FRACTIONS:
        return "%", 0.01
    if NAMES.get(name, ("", None))[1]:
        return NAMES[name][1], 1
    if name.endswith("_per_s"):
        return name[:-len("_per_s")] + "/s", 1
    if name.split(".")[0].endswith("_bytes"):
        return next(((unit, size) for unit, size in (("GiB", 2**30), ("MiB", 2**20)) if largest >= size), ("KiB", 2**10))
    if name.split(".")[0].endswith("_s"):
        return next(((unit, size) for unit, size in (("s", 1), ("ms", 1e-3)) if largest >= size), ("us", 1e-6))
    return "", 1


def short(value):
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def label_of(key):
    return {"world_size": "ranks", "batch_size": "batch of a rank", "pipeline.chunks": "micro-batches", "step": "step"}.get(
        key, key.rsplit(".", 1)[-1].replace("_", " "))


def text_of(key, value):
    if key == "paradigm":
        return PARADIGMS.get(value, str(value))
    if isinstance(value, str) and value.endswith(".json"):
        return os.path.splitext(os.path.basename(value))[0]
    return "none" if value is None else str(value)


# ---- axes ----

def bare(axes, grid):
    axes.grid(axis=grid, color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def finish(axes, title, unit):
    """Title and unit of axes with values upwards."""
    axes.set_title(title, loc="left", fontsize=11, weight="bold", color=INK)
    axes.set_ylabel(unit)
    bare(axes, "y")


def say_what_it_is(figure, records, right=0.0, note=None):
    """Model and machine above all panels; a prediction says so. right: inches that are kept free for a legend."""
    model, facts, where = title_of(records)
    width, height = figure.get_size_inches()
    lines = textwrap.wrap("; ".join(t for t in (facts, where, note) if t), int(14 * width))
    figure.text(0.1 / width, 1 - 0.1 / height, model, ha="left", va="top", fontsize=14, weight="bold", color=INK)
    figure.text(0.1 / width, 1 - 0.42 / height, "\n".join(lines), ha="left", va="top", fontsize=9.5, color="#555555")
    figure.get_layout_engine().set(rect=(0, 0, 1 - right / width, 1 - (0.5 + 0.17 * len(lines)) / height))


# ---- every experiment a row ----

def end_rows(axes, title, unit, most):
    axes.set_title(title, loc="left", fontsize=11, weight="bold", color=INK)
    axes.set_xlabel(unit)
    axes.set_xlim(0, most * 1.2 if most else 1)
    axes.xaxis.get_major_locator().set_params(nbins=5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.tick_params(axis="y", length=0)
    bare(axes, "x")


def mark_failed_rows(axes, records, what):
    """Where the panel has no bar of it: memory's is longer than the device."""
    for row, record in enumerate(records):
        if why_not(record) and not (what == "memory" and metric(record, "peak_bytes")):
            axes.text(0.01, row, why_not(record), transform=axes.get_yaxis_transform(), va="center", color=FAILED, weight="bold", fontsize=9)


def write_after(axes, x, row, text):
    axes.annotate(text, (x, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK)


def stack_rows(axes, columns, parts, place=0.0, height=0.62, hatch=None):
    """Bars of parts {key: (label, colour)}, one after the other. The bars' ends."""
    ends = [0.0] * len(columns)
    for key, (label, colour) in parts.items():
        sizes = [(column or {}).get(key) or 0.0 for column in columns]
        if any(sizes):
            axes.barh([row + place for row in range(len(columns))], sizes, left=ends, height=height, color=colour, hatch=hatch, edgecolor="white",
                      linewidth=0, label=None if hatch else label)
            ends = [a + b for a, b in zip(ends, sizes)]
    return ends


def draw_metric(axes, records, name):
    values = [metric(record, name) for record in records]
    unit, size = unit_of(name, values)
    ends = []
    for row, (record, value) in enumerate(zip(records, values)):
        if value is None:
            continue
        axes.barh(row, value / size, height=0.62, color=colour_of(record))
        ends.append(value / size)
        times, median = step_times(record), number(record, "step_s", "median")
        if name.endswith("_per_s") and len(times) > 1 and median:
            low, high = (value / size * median / t for t in (max(times), min(times)))
            axes.errorbar(value / size, row, xerr=[[max(value / size - low, 0)], [max(high - value / size, 0)]], color=INK, capsize=3, linewidth=1.1)
            ends[-1] = max(high, value / size)
        write_after(axes, ends[-1], row, short(value / size))
    rate = name.endswith("_per_s")
    title = words_of(name)
    steps = " (line: slowest to fastest step)" if rate and any(len(step_times(r)) > 1 for r in records) else ""
    end_rows(axes, title[0].upper() + title[1:], unit + steps, max(ends, default=0))


def draw_time(axes, records):
    columns = []
    for record in records:
        step = number(record, "step_s", "median")
        parts = {phase: number(record, phase) or 0.0 for phase in PHASES if phase != "other"}
        parts["other"] = max((step or 0) - sum(parts.values()), 0.0)
        columns.append(parts if step else None)
    unit, size = unit_of("step_s", [sum(column.values()) for column in columns if column])
    ends = stack_rows(axes, [column and {k: v / size for k, v in column.items()} for column in columns], PHASES)
    for row, end in enumerate(ends):
        if columns[row]:
            write_after(axes, end, row, short(end))
    end_rows(axes, "Where a step's time goes", f"{unit} of a step, mean of the ranks", max(ends))


def draw_memory(axes, records):
    parts = {c: (c, colour) for c, colour in CATEGORIES.items()}
    unit, size = unit_of("peak_bytes", [metric(record, memory) for record in records for memory in ("peak_bytes", "host_peak_bytes")])
    host = any(metric(record, "host_peak_bytes") for record in records)
    most = 0.0
    for memory, place, height, hatch in (("peak_bytes", -0.1 * host, 0.62 - 0.18 * host, None), ("host_peak_bytes", 0.28, 0.2, HOST_HATCH)):
        if memory != "peak_bytes" and not host:
            continue
        columns = [{c: (number(record, memory, c) or 0) / size for c in CATEGORIES} for record in records]
        ends = stack_rows(axes, columns, parts, place, height, hatch)
        for row, record in enumerate(records):
            total = (metric(record, memory) or 0) / size
            if total:
                axes.plot([total, total], [row + place - height / 2, row + place + height / 2], color=INK, linewidth=2, solid_capstyle="butt")
                failed = f", {why_not(record)}" if why_not(record) and memory == "peak_bytes" else ""
                write_after(axes, max(ends[row], total), row + place, short(total) + failed)
            most = max(most, ends[row], total)
    axes.plot([], [], color=INK, linewidth=2, label="held at once")
    if host:
        axes.barh([0], [0], color="#BBBBBB", hatch=HOST_HATCH, edgecolor="white", linewidth=0, label="in host memory")
    end_rows(axes, "Peak memory", f"{unit} of the fullest rank (black: held at once)", most)


def training_of(record):
    """What losses follow from, whatever the ranks are: those of two records with the same should coincide."""
    config = record["config"]
    context = config.get("context") or {}
    samples = config.get("batch_size", 1) * config.get("world_size", 1) / (context.get("size") or 1)
    keys = ("model", "optimizer", "loss", "loss_scaling", "seed", "data")
    return json.dumps([samples, record.get("losses_depend_on"), *[config.get(key) for key in keys]], sort_keys=True)


def draw_losses(axes, records, names):
    """Curves that coincide, as they should, stay visible: later ones are thinner and lie on top."""
    for i, (record, name) in enumerate(zip(records, names)):
        losses = [v if isinstance(v, (int, float)) else math.nan for v in record.get("losses") or []]
        axes.plot(range(1, len(losses) + 1), losses, color=colour_of(record), marker=MARKERS[i % len(MARKERS)],
                  markersize=max(10 - 2 * i, 4), linewidth=max(5 - 1.6 * i, 1.2), label=name)
    one = len({training_of(record) for record in records}) == 1
    finish(axes, "Loss (the curves should coincide)" if one else "Loss (curves of the same training should coincide)", "mean loss of the step")
    axes.set_xlabel("step, warm-up included")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.ticklabel_format(axis="y", useOffset=False)
    if len(records) <= 8:
        axes.legend(loc="best")


def legend_below(figure, axes):
    """Below the axes' own label, which is within half an inch. Inches of the figure that it takes."""
    from matplotlib.transforms import ScaledTranslation

    columns, (handles, texts) = 3, axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, texts, loc="upper center", bbox_to_anchor=(0.45, 0), ncol=columns, columnspacing=1.0, handlelength=1.0, handletextpad=0.5,
                    bbox_transform=axes.transAxes + ScaledTranslation(0, -0.5, figure.dpi_scale_trans))
    return 0.2 * math.ceil(len(handles) / columns)


def draw_rows(records, wanted, facet, picture):
    """A row of panels for each value of `facet`; losses have the last one."""
    plt = matplotlib_pyplot()
    names = dict(zip(map(id, records), labels(records, (facet,))))
    groups, of_panel = {}, {}
    for record in records:
        groups.setdefault((is_predicted(record), text_of(facet, value_of(record, facet)) if facet else ""), []).append(record)
    panels = [what for what in wanted if what != "losses"]
    with_losses = [r for r in records if any(isinstance(v, (int, float)) for v in r.get("losses") or [])] if "losses" in wanted else []
    heights = [0.30 * len(group) + 0.9 for group in groups.values()] + [3.2] * bool(with_losses)
    figure = plt.figure(figsize=(1.2 + 0.08 * max(map(len, names.values())) + 4.6 * max(len(panels), 1), sum(heights) + 1.5), layout="constrained")
    grid = figure.add_gridspec(len(heights), max(len(panels), 1), height_ratios=heights)
    mixed, below = len({predicted for predicted, _ in groups}) > 1, 0.0
    for i, ((predicted, value), group) in enumerate(groups.items()):
        first = None
        for column, what in enumerate(panels):
            axes = figure.add_subplot(grid[i, column], sharey=first)
            first = first or axes
            {"time": draw_time, "memory": draw_memory}.get(what, lambda a, r, name=what: draw_metric(a, r, name))(axes, group)
            mark_failed_rows(axes, group, what)
            axes.set_ylim(len(group) - 0.4, -0.6)
            axes.tick_params(labelleft=column == 0)
            of_panel.setdefault((predicted, what), []).append(axes)
            if i == len(groups) - 1:
                below = max(below, legend_below(figure, axes))
        first.set_yticks(range(len(group)), [names[id(record)] for record in group], fontsize=9)
        said = ", ".join(t for t in ((["measured", "predicted"][predicted] if mixed else ""), value) if t)
        if said:
            first.set_ylabel(said, fontsize=11, weight="bold", color=FAILED if predicted and mixed else INK)
    for panel in of_panel.values():
        for axes in panel:
            axes.set_xlim(right=max(other.get_xlim()[1] for other in panel))
    if with_losses:
        draw_losses(figure.add_subplot(grid[len(groups), :]), with_losses, [names[id(r)] for r in with_losses])
    figure.set_figheight(sum(heights) + 1.2 + below)
    say_what_it_is(figure, records)
    save(figure, picture)


# ---- metrics over a key ----

def coincide(line, other):
    """Do two lines {x: y} lie on each other for most of their length?"""
    common = [x for x in line if x in other]
    most = max((abs(y) for y in list(line.values()) + list(other.values())), default=0)
    return bool(common) and 2 * sum(abs(line[x] - other[x]) <= 0.01 * most for x in common) >= max(len(line), len(other))


def style_of(i, name, lines):
    """A line that earlier ones lie under is thin and dashed, so that these show on both sides of it and in its gaps."""
    under = sum(coincide(lines[name], lines[other]) for other in list(lines)[:list(lines).index(name)])
    over = any(coincide(lines[name], lines[other]) for other in list(lines)[list(lines).index(name) + 1:])
    width = 1.6 if under or not over else 4.5
    return {"linewidth": width, "linestyle": (0, (3, 2 + under)) if under else "-", "marker": MARKERS[i % len(MARKERS)],
            "markersize": 9 if over and not under else 5.5, "zorder": 3 + under}


def draw_lines(axes, series, x, name, dotted, size):
    values = {label: {value_of(r, x): metric(r, name) for r in found if metric(r, name) is not None} for label, (_, found) in series.items()}
    for i, (label, (colour, found)) in enumerate(series.items()):
        points = sorted(values[label].items())
        axes.plot([p for p, _ in points], [y / size for _, y in points], color=colour, label=label, **style_of(i, label, values))
        if dotted:
            points = sorted((value_of(r, x), metric(r, dotted)) for r in found if metric(r, dotted) is not None)
            axes.plot([p for p, _ in points], [y / size for _, y in points], color=colour, linestyle=":", linewidth=1.4)
        failed = [value_of(r, x) for r in found if why_not(r)]
        axes.scatter(failed, [0.02 + 0.035 * i] * len(failed), transform=axes.get_xaxis_transform(), marker="x", s=45, color=colour, zorder=6, clip_on=False)
    places = sorted({value_of(r, x) for _, found in series.values() for r in found})
    if places[0] > 0 and places[-1] >= 8 * places[0]:
        axes.set_xscale("log", base=2)
    ticks = places if len(places) <= 12 else places[::len(places) // 8]
    axes.set_xticks(ticks, [in_powers_of_two(p) if ticks[-1] >= 1 << 20 else f"{p:g}" for p in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0, auto=True)  # a panel beside it may have more on the same axis


def draw_bars(axes, series, x, name, size):
    places = list(dict.fromkeys(text_of(x, value_of(r, x)) for _, found in series.values() for r in found))
    width = 0.8 / len(series)
    for i, (label, (colour, found)) in enumerate(series.items()):
        axes.bar([0], [0], width=0, color=colour, label=label)
        for record in found:
            at, value = places.index(text_of(x, value_of(record, x))) + (i - (len(series) - 1) / 2) * width, metric(record, name)
            if value is not None:
                axes.bar(at, value / size, width=0.92 * width, color=colour)
            if why_not(record):
                axes.text(at, 0.02, why_not(record), transform=axes.get_xaxis_transform(), rotation=90, ha="center", va="bottom", fontsize=8, color=FAILED)
    crowded = sum(len(place) + 2 for place in places) > 60
    axes.set_xlim(-0.55, len(places) - 0.45)
    axes.set_xticks(range(len(places)), places, rotation=30 if crowded else 0, ha="right" if crowded else "center")


def series_of(records, keys):
    """{label: (colour, its records)}"""
    found = {}
    for record in records:
        words = [text_of(key, value_of(record, key)) if key in ("paradigm", "name") or not is_number(value_of(record, key))
                 else f"{label_of(key)} {value_of(record, key):g}" for key in keys if value_of(record, key) is not None]
        found.setdefault(", ".join(words), []).append(record)
    by_paradigm = len({r["config"].get("paradigm") for r in records}) == len(found) and keys == ["paradigm"]
    return {label: (colour_of(some[0]) if by_paradigm else colours.SERIES[i % len(colours.SERIES)], some)
            for i, (label, some) in enumerate(found.items())}


def differing(records, without):
    """Keys of the config in which records differ, but for some."""
    flats = [flat(record["config"]) for record in records]
    return [key for key in dict.fromkeys(k for f in flats for k in f)
            if key not in without and len({json.dumps(f[key]) for f in flats if key in f}) > 1]


def draw_over(records, options, wanted, picture):
    plt = matplotlib_pyplot()
    keys = options.series.split(",") if options.series else differing(records, (options.x, options.facet, "name"))
    facets = {}
    for record in records:
        facets.setdefault(f"{label_of(options.facet)} {text_of(options.facet, value_of(record, options.facet))}" if options.facet else "", []).append(record)
    figure, panels = plt.subplots(len(wanted), len(facets), figsize=(max(1.2 + 5.2 * len(facets), 7.5), 0.9 + 4.0 * len(wanted)), layout="constrained",
                                  squeeze=False, sharey="row") if len(facets) > 1 else \
        plt.subplots(1, len(wanted), figsize=(max(1.2 + 5.6 * len(wanted), 7.5), 5.0), layout="constrained", squeeze=False)
    everything = series_of(records, keys)
    places = [(axes, what, facet) for row, axes_row in enumerate(panels) for column, axes in enumerate(axes_row)
              for what, facet in [(wanted[row], list(facets)[column]) if len(facets) > 1 else (wanted[column], list(facets)[0])]]
    for axes, what, facet in places:
        name, _, dotted = what.partition("+")
        inside = {id(r) for r in facets[facet]}
        series = {label: (colour, [r for r in some if id(r) in inside]) for label, (colour, some) in everything.items()}
        series = {label: pair for label, pair in series.items() if pair[1]}
        numbers = all(is_number(value_of(r, options.x)) for r in facets[facet])
        unit, size = unit_of(name, [metric(r, name) for r in records])  # of all panels: they share the axis
        if numbers:
            draw_lines(axes, series, options.x, name, dotted, size)
        else:
            draw_bars(axes, series, options.x, name, size)
        title = words_of(name)[0].upper() + words_of(name)[1:] + (f" (dotted: {words_of(dotted)})" if dotted else "")
        finish(axes, f"{title}{', ' if facet else ''}{facet}", unit)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.set_xlabel(label_of(options.x))
    handles, texts = panels[0][0].get_legend_handles_labels()
    for axes in panels.flat:
        more = [(h, t) for h, t in zip(*axes.get_legend_handles_labels()) if t not in texts]
        handles, texts = handles + [h for h, _ in more], texts + [t for _, t in more]
    right, (width, height) = 0.7 + 0.075 * max(map(len, texts), default=-9), figure.get_size_inches()
    figure.legend(handles, texts, loc="upper left", bbox_to_anchor=(1 - (right - 0.1) / width, 1 - 0.75 / height))
    failed = any(why_not(r) for r in records)
    say_what_it_is(figure, records, right, "crosses at the bottom: out of memory, or failed" if failed else None)
    save(figure, picture)


# ---- the command line ----

def holds(record, condition):
    key, equal, value = condition.partition("=")
    if not equal:
        sys.exit(f"plot.py: --where {condition}: expected KEY=VALUE")
    return text_of(key, value_of(record, key)).lower() in value.lower().split(",") or str(value_of(record, key)) in value.split(",")


def check_keys(records, options, wanted):
    known = {key for record in records for key in flat(record["config"])}
    for option in ("x", "facet", "series"):
        for key in (getattr(options, option) or "").split(","):
            if key and key not in known:
                sys.exit(f"plot.py: --{option} {key}: no record's config has this key; some are {', '.join(sorted(known)[:6])}")
    for name in (part for what in wanted for part in what.split("+") if what not in ("time", "memory", "losses")):
        if not any(name.split(".")[0] in (record.get("metrics") or {}) for record in records):
            sys.exit(f"plot.py: --y {name}: no record has this metric")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", metavar="RECORDS.jsonl")
    parser.add_argument("--x", metavar="KEY", help="draw over this key of the config")
    parser.add_argument("--y", metavar="WHAT,...", help="the panels; default: rate,time,memory,losses, and with --x rate,peak_bytes")
    parser.add_argument("--series", metavar="KEYS", help="with --x: the keys that tell lines or bars apart")
    parser.add_argument("--facet", metavar="KEY", help="panels for each value of this key")
    parser.add_argument("--where", metavar="KEY=VALUE", action="append", default=[], help="only these records; VALUE may be a list a,b")
    parser.add_argument("--sort", metavar="KEY", help="rows in the order of this key, -KEY: largest first")
    parser.add_argument("-o", "--output", metavar="PICTURE", help=".png, .svg or .pdf; default: the first file's name with .png")
    options = parser.parse_args()
    records = [record for record in read(options.records) if all(holds(record, condition) for condition in options.where)]
    if not records:
        sys.exit(f"plot.py: no record meets the condition: {', '.join(options.where)}")
    wanted = (options.y or ("rate,peak_bytes" if options.x else "rate,time,memory,losses")).split(",")
    wanted = [rate_name(records) if what == "rate" else what for what in wanted]
    check_keys(records, options, wanted if options.y else [])
    if options.sort:
        key = options.sort.lstrip("-")
        records.sort(key=lambda r: (value_of(r, key) is None, value_of(r, key) or 0), reverse=options.sort.startswith("-"))
    picture = options.output or os.path.splitext(options.records[0])[0] + ".png"
    if options.x:
        draw_over(records, options, wanted, picture)
    else:
        draw_rows(records, wanted, options.facet, picture)


if __name__ == "__main__":
    main()
