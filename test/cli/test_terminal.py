"""The output of all commands on a terminal of 80 columns: no line is wider. Prints TAP.

Usage: test_terminal.py DTBENCH [CASE...]. A line may be wider where it is one word, such as the path of a file: there is nowhere to break it.
"""
import json
import os
import re
import sys

from command import OK, OOM, USAGE, WORK, config, main, on_terminal, one, read_records, records_path, run  # beside this script
from tap_cases import check

COLUMNS = 80
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MESHES = os.path.join(ROOT, "results", "validation", "ultrascale_playbook.csv")
PLAIN = {"TERM": "xterm", "NO_COLOR": "1"}
STUDY = os.path.join(ROOT, "results", "study", "measured.csv")
COLLECTIVES = os.path.join(ROOT, "results", "validation", "nccl_busbw_h100_efa.csv")


def fits(*arguments, code=OK, words=(), **options):
    """Run a command, check that each line fits and that `words` are printed, and return its output."""
    text = on_terminal(PLAIN, *arguments, columns=COLUMNS, code=code, **options)
    shown = [re.sub(r"\033\[[0-9;]*[A-Za-z]", "", piece) for line in text.split("\n") for piece in line.split("\r")]
    wide = [line for line in shown if len(line) > COLUMNS and len(line.split()) > 1]
    check(not wide, len(wide), "lines are wider, of", " ".join(arguments), "\n" + "\n".join(f"{len(line)}: {line}" for line in wide[:20]))
    check(all(word in " ".join(text.split()) for word in words), "of", words, "something is not shown:\n", text)
    return text


def sweep(name, **keys):
    """A config of device sim with that sweep."""
    return config(name, device="sim", world_size=8, batch_size=8, cluster="clusters/dgx_h100.json", model={"preset": "GPTSmall", "dtype": "bf16"}, sweep=keys)


# Sweeps whose tables have few columns and many, short labels and long ones, paths, numbers of all
# sizes, and what fails.
SHAPES = {
    "one": lambda: one(),
    "paradigms": lambda: sweep("paradigms.json", paradigm=["ddp", "pdp", "fsdp", "zero2"]),
    "many": lambda: sweep("many.json", paradigm=["ddp", "fsdp"], activation=["keep", "checkpoint"], parameter_offload=[False, True],
                          micro_batches=[1, 2], gradient_reduction=["last", "each"]),
    "worlds": lambda: sweep("worlds.json", world_size=[1, 8, 64, 256], paradigm=["ddp", "hsdp"], batch_size=[4, 128], **{"model.dtype": ["fp32", "bf16"]}),
    "models": lambda: sweep("models.json", paradigm=["ddp"], model=[{"preset": "GPTSmall"}, {"preset": "Llama-3.2-1B", "dtype": "bf16"}, {"preset": "GPT1T", "dtype": "bf16"}]),
    "files": lambda: sweep("files.json", paradigm=["ddp"], cluster=["clusters/superpod_h100.json", "clusters/gcp_a2_fast_socket.json"], any_profile=[True],
                           profile=["profiles/pytorch_1.11_a100.json", "profiles/dtbench_cuda_h100.json"]),
    "pipelines": lambda: config("pipelines.json", device="sim", world_size=16, paradigm="pdp", batch_size=32, cluster="clusters/dgx_h100.json",
                                model={"layers": 32, "heads": 12, "hidden": 768, "vocab_size": 50000, "block_size": 256, "dtype": "bf16"},
                                sweep={"pipeline.order": ["gpipe", "1f1b", "interleaved", "zb_h1", "zb_auto"], "pipeline.stages": [8, 16]}, straddle_nodes=True),
    "tensor": lambda: sweep("tensor.json", paradigm=["ddp", "hsdp"], **{"tensor.size": [1, 2, 4], "tensor.sequence_parallel": [False, True]}),
}


def test_help():
    for name in ("--help", *re.findall(r"^  (\w+)  ", run("--help", code=OK).stdout.split("\n\n")[2], re.M)):
        fits(name, *([] if name == "--help" else ["--help"]), words=["Usage: dtbench"])
    fits("halp", code=USAGE)
    fits("run", "--no-such-option-of-this-program", "--nor-this-one", "whatever/else/it/may/be/called.json", code=USAGE)
    fits("run", one(), "--set", "model.layers=many", "--set", "paradigm=dpd", code=3)


def test_list():
    for option in ([], ["--models"], ["--clusters"], ["--profiles"]):
        fits("list", *option)


def test_check():
    for shape, path in SHAPES.items():
        fits("check", path(), code=OOM if shape == "models" else OK)
        fits("check", path(), "--plan")
    fits("check", SHAPES["pipelines"](), "--plan", "--times", "forward=1.25,backward_input=1.5,backward_weight=1.75,send=0.125")
    fits("check", config())


def test_run():
    for shape, path in SHAPES.items():
        output = records_path(f"{shape}.jsonl")
        fits("run", path(), "-o", output, code=OOM if shape == "models" else OK)
        fits("run", path(), "--dry-run")
        for more in ([], ["--config", path()], ["--all", "--config", path()]):
            fits("status", output, *more)
        fits("compare", output, output)
        fits("merge", output, "-o", records_path("merged.jsonl"))
        for more in ([], ["--best", "paradigm"], ["--columns", "paradigm,tokens_per_s,git_commit,config_hash,device,step_s"]):
            fits("show", output, *more)
    fits("run", config(), "--verify", "--repeat", "2", "-o", records_path("verified.jsonl"))
    fits("run", config(), "--resume", "-o", os.path.join(WORK, "verified.jsonl"))


def test_failures():
    """Failures, left-out combinations and refusals have the longest lines."""
    output = records_path("failed.jsonl")
    large = sweep("large.json", paradigm=["ddp", "fsdp", "pdp"], batch_size=[8, 4096])
    fits("run", large, "-o", output, code=OOM, words=["oom"])
    fits("status", output, "--config", large, words=["failed"])
    fits("status", output, "--config", sweep("more.json", paradigm=["ddp", "hsdp"], activation=["keep", "offload"], micro_batches=[1, 2, 4]))
    lines = open(output, encoding="utf-8").read().splitlines()
    with open(os.path.join(WORK, "half.jsonl"), "w", encoding="utf-8") as out:
        out.write("\n".join(lines[::2]) + "\n{")
    fits("status", "half.jsonl")
    fits("compare", output, "half.jsonl")
    fits("compare", "--by", "batch_size", output)
    fits("run", config("none.json", cluster="clusters/of/another/planet/with/a/name/that/is/long.json"), "--device", "sim", code=3)
    fits("tune", config(), code=3)


def test_compare():
    """Measured runs: intervals, doubts, and the reasons of verdicts."""
    first = records_path("first.jsonl")
    run("run", config(), "--set", "sweep.micro_batches=[1,2]", "-q", "-o", first, code=OK)
    for name, slower in (("base", 1), ("new", 1.4)):
        with open(records_path(f"{name}.jsonl"), "w", encoding="utf-8") as out:
            for time in range(4):
                for place, record in enumerate(read_records(first)):
                    record["provenance"]["started"] = f"2025-01-0{time + 1}T00:00:00Z"
                    record["metrics"]["step_s"]["all"] = [(slower if place % 2 else 1) * (1 + 0.002 * (5 * time + step) % 7) for step in range(3)]
                    out.write(json.dumps(record) + "\n")
    fits("compare", "base.jsonl", "new.jsonl", words=["differ as much as the sides do"])
    fits("compare", "--single", "base.jsonl", "new.jsonl", code=8, words=["REGRESSION"])
    fits("compare", "--by", "micro_batches", "base.jsonl", code=None)
    fits("compare", "--by", "paradigm,micro_batches", "base.jsonl", "new.jsonl", code=None)


def test_validate():
    fits("validate", "--data", STUDY, "--where", "gpus<=8", "--where", "model=GPTSmall", words=["fastest paradigm named right"])
    fits("validate", "--data", COLLECTIVES, "--cluster", "aws_p5", "--where", "gpus<=16")
    fits("validate", "--data", MESHES, "--cluster", "superpod_h100", "--profile", "nanotron_h100", "--where", "gpus<=8", "--where", "layers<=16")
    output = records_path("measured.jsonl")
    run("run", config(), "-q", "-o", output, code=OK)
    fits("validate", "--data", output, "--cluster", "cpu_node", "--profile", "dtbench_cpu")


def test_plan():
    model = ["plan", "--model", "GPT2.7B", "--cluster", "dgx_h100", "-o", records_path("plan.json"), "--fix", "batch_size=8", "--fix", "micro_batches=1",
             "--fix", "parameter_offload=false", "--forbid", "activation=offload,selective,selective_op"]
    fits(*model, "--gpus", "8", words=["why the first", "how sure"])
    fits(*model, "--nodes", "1", "--objective", "cost", "--tokens", "15e12", "--price", "2.5", "--rule", words=["price", "rules of thumb"])
    fits(*model, "--nodes", "1", "--objective", "energy", "--tokens", "1e12", "--top", "12")
    fits("plan", "--model", "GPT1T", "--cluster", "l40s", "--gpus", "2", "--fix", "batch_size=1", "--fix", "micro_batches=1", "--fix", "activation=keep", code=None)
    fits("plan", "--map", "model=GPTSmall,GPTMedium", "batch=64,256", "--cluster", "dgx_h100", "--gpus", "2", "--rule", "--fix", "micro_batches=1",
         "--fix", "activation=keep", "--fix", "parameter_offload=false", "-o", records_path("map.jsonl"))
    fits("plan", config("own.json", sweep=None), "--device", "cpu", "--cluster", "cpu_node", "--profile", "dtbench_cpu", "--gpus", "2", "--measure", "1",
         "--rounds", "1", "--fix", "activation=keep", "-o", records_path("own_plan.json"), code=None)


def test_calibrate():
    fits("calibrate", "--quick", "--ranks", "1", "--dtype", "fp32", "-o", os.path.join(WORK, "calibration"), words=["written"])


if __name__ == "__main__":
    sys.exit(main(globals()))
