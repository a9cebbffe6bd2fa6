"""Runs of the study, predicted and measured, in one form.

Predictions are dtbench's records (JSON lines); measurements are the authors' own, in the columns of results/study/measured.csv. In both a
run is one `Run`: batch sizes are per GPU, and tokens/s count all GPUs, as the study does.
"""
import csv
import glob
import json
import os
from dataclasses import dataclass, field

BLOCK_SIZE = 256
VOCABULARY = 50000
GPUS_PER_NODE = 8
LINEAR_UNITS_FROM = 80e9  # parameters; dtbench's fsdp.unit "auto"
FP16_PARAMETER_AND_GRADIENT_BYTES = 4

# name: layers, hidden size, parameters as the study's axes write them; smallest first
MODELS = {
    "GPTSmall": (12, 768, "162M"), "GPTMedium": (24, 1024, "405M"), "GPTLarge": (24, 1536, "834M"), "GPTXL": (24, 2064, "1.4B"),
    "GPT2.7B": (32, 2560, "2.8B"), "GPT6.7B": (32, 4096, "6.8B"), "GPT13B": (48, 5184, "16B"), "GPT39B": (48, 7680, "34B"),
    "GPT76B": (64, 10240, "81B"), "GPT100B": (80, 10240, "102B"), "GPT175B": (96, 12288, "175B"), "GPT1T": (128, 25600, "1T"),
}
PARADIGMS = ("ddp", "pdp", "fsdp")
ACTIVATIONS = ("keep", "checkpoint", "offload")
SAME_RUNS = {"figure_11": "figure_10", "figure_13": "figure_12"}


def parameters(model):
    layers, hidden, _ = MODELS[model]
    return layers * (12 * hidden**2 + 13 * hidden) + 2 * VOCABULARY * hidden + BLOCK_SIZE * hidden + 2 * hidden


def short_count(model):
    """162M, 2.8B; "none" of no model."""
    return MODELS[model][2] if model else "none"


@dataclass(frozen=True)
class Run:
    paradigm: str
    model: str
    gpus: int
    gpus_per_node: int
    stages: int
    chunks: int
    batch: int               # samples per GPU
    activation: str
    parameter_offload: bool
    unit: str                # fsdp: "block" or "linear", "" where unknown; "" with the others
    network: str = "gcp_a2"  # the cluster file's name
    step_s: float = None     # None: it ran out of memory
    peak_bytes: float = None
    aco_ms: float = None     # predictions: amortised communication overhead, ms per sample
    host_s: float = None     # predictions: how long the device waits for the host in a step
    error: str = None
    figure: str = field(default="", compare=False)

    @property
    def ok(self):
        return self.step_s is not None

    @property
    def tokens_per_s(self):
        return BLOCK_SIZE * self.batch * self.gpus / self.step_s

    def key(self):
        """The key by which a prediction and a measurement are the same experiment."""
        return (self.paradigm, self.model, self.gpus, self.gpus_per_node, self.stages, self.chunks, self.batch, self.activation,
                self.parameter_offload, self.unit, self.network)


def _prediction(record, figure):
    config, metrics = record["config"], record["metrics"]
    paradigm, model = config["paradigm"], config["model"]["preset"]
    pipeline = config["pipeline"] if paradigm == "pdp" else {"stages": 1, "chunks": 1}
    unit = ""
    if paradigm == "fsdp":
        unit = config["fsdp"]["unit"]
        if unit == "auto":
            unit = "linear" if parameters(model) >= LINEAR_UNITS_FROM else "block"
    ok = record["status"] == "ok"
    return Run(
        paradigm, model, config["world_size"], config["gpus_per_node"] or min(GPUS_PER_NODE, config["world_size"]), pipeline["stages"],
        pipeline["chunks"], config["batch_size"], config["activation"], config["parameter_offload"], unit,
        network=record["provenance"]["simulated"]["cluster"]["name"],
        step_s=metrics["step_s"]["median"] if ok else None,
        peak_bytes=metrics["peak_bytes"]["total"], aco_ms=metrics["aco_ms_per_sample"] if ok else None,
        host_s=metrics["host_s"] if ok else None, error=record["error"], figure=figure)


def read_predictions(folder):
    """The runs of all records in a folder, and the provenance of one of them. Failures other than memory are errors."""
    runs, provenance, days = [], None, set()
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        figure = os.path.splitext(os.path.basename(path))[0]
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue  # a torn tail
                if record["status"] not in ("ok", "oom"):
                    raise SystemExit(f"{path}: {record['config']['name']}: {record['status']}: {record['error']}")
                runs.append(_prediction(record, figure))
                provenance = record["provenance"]
                days.add(provenance["started"][:10])
    if not runs:
        raise SystemExit(f"{folder}: no records (*.jsonl)")
    provenance["days"] = sorted(days)
    return runs, provenance


def read_measured(path):
    """The authors' measurements. Whether parameters were offloaded is not recorded, but memory shows it: a rank's share of parameters and
    gradients is on its GPU, unless it lives on the host."""
    runs = []
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            gpus, stages, model = int(row["gpus"]), int(row["stages"]), row["model"]
            peak = float(row["peak_mb"]) * 1e6 if row["peak_mb"] else None
            fsdp = row["paradigm"] == "fsdp"
            offloaded = fsdp and peak is not None and peak < FP16_PARAMETER_AND_GRADIENT_BYTES * parameters(model) / gpus
            if int(row["batch_per_replica"]) % stages or not row["step_s"]:
                continue
            runs.append(Run(
                row["paradigm"], model, gpus, min(int(row["gpus_per_node"]), gpus), stages, int(row["chunks"]),
                int(row["batch_per_replica"]) // stages, row["activation"], offloaded,
                {"block": "block", "linear": "linear"}.get(row["fsdp_wrap"], "") if fsdp else "",
                step_s=float(row["step_s"]), peak_bytes=peak))
    return runs


def select(runs, **wanted):
    """The runs whose fields have the wanted values (a tuple, list or set: one of them)."""
    def fits(run):
        return all(getattr(run, name) in value if isinstance(value, (tuple, list, set)) else getattr(run, name) == value
                   for name, value in wanted.items())
    return [run for run in runs if fits(run)]


def fastest(runs):
    """The fastest of those that fit; None where none does."""
    return max((run for run in runs if run.ok), key=lambda run: run.tokens_per_s, default=None)


def of_figure(runs, figure):
    """The runs of a figure's configs: figure_14, figure_14_large, and so on. Figures 11 and 13 are drawn from the runs of 10 and 12."""
    source = SAME_RUNS.get(figure, figure)
    return [run for run in runs if run.figure == source or run.figure.startswith(source + "_")]


def pairs(predicted, measured):
    """(prediction, measurement) of the same experiment, where there are both and the prediction fits."""
    known = {run.key(): run for run in predicted if run.ok}
    return [(known[run.key()], run) for run in measured if run.key() in known]
