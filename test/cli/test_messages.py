"""The answers to wrong configs and command lines: the exit code and the first line, word for word. Prints TAP.

Usage: test_messages.py DTBENCH [CASE...]. Runs nothing: each of these is refused before. A message says what is wrong, where, and what
to do; whoever changes one reads it here as its user does.
"""
import json
import os
import re
import subprocess
import sys

from command import CONFIG, DTBENCH, ENVIRONMENT, USAGE, WORK, main  # beside this script
from tap_cases import COMMAND_S, check

TINY = {"model": {"layers": 2, "heads": 2, "hidden": 64}}
# A config that is added to TINY, and its error without "standard input: ".
CONFIGS = [
    ({"sede": 1},
     'sede: unknown key; did you mean "seed"?'),
    ({"world_size": 0},
     'world_size: 0 is out of range; expected an integer from 1 to 65536'),
    ({"world_size": "two"},
     'world_size: "two" is a string; expected an integer from 1 to 65536'),
    ({"world_size": 1.5},
     'world_size: 1.5 is not an integer; expected an integer from 1 to 65536'),
    ({"world_size": 2},
     'world_size: 2 ranks, but paradigm "none" is one device; use 1, or another paradigm'),
    ({"paradigm": "dpp"},
     'paradigm: "dpp" is not one of none, ddp, pdp, fsdp, zero1, zero2, hsdp, data_parallel, parameter_server; did you mean "ddp"?'),
    ({"paradigm": "zero3"},
     'paradigm: "zero3" is not supported by this version; use "fsdp"'),
    ({"paradigm": 7},
     'paradigm: 7 is a number; expected one of none, ddp, pdp, fsdp, zero1, zero2, hsdp, data_parallel, parameter_server'),
    ({"device": "gpu"},
     'device: "gpu" is not one of auto, cpu, cuda, sim; did you mean "cpu"?'),
    ({"batch_size": None},
     'batch_size: expected a number above 0 and up to 65536, not null'),
    ({"batch_size": -8},
     'batch_size: -8 is out of range; expected a number above 0 and up to 65536'),
    ({"micro_batches": 9},
     'micro_batches: 9 is more than batch_size 8'),
    ({"paradigm": "ddp", "world_size": 2, "micro_batches": 9},
     'micro_batches: 9 is more than batch_size 8'),
    ({"paradigm": "pdp"},
     'pipeline.stages: 2 does not divide world_size 1; 1 alone does'),
    ({"paradigm": "pdp", "world_size": 6, "pipeline": {"stages": 4}},
     'pipeline.stages: 4 does not divide world_size 6; 1, 2, 3 and 6 do'),
    ({"paradigm": "pdp", "world_size": 2, "batch_size": 2, "pipeline": {"chunks": 5}},
     "pipeline.chunks: 5 chunks (times micro_batches 1) of the pipeline's 4 samples (stages * batch_size); at most one each"),
    ({"paradigm": "pdp", "world_size": 2, "pipeline": {"stage": 2}},
     'pipeline.stage: unknown key; did you mean "pipeline.stages"?'),
    ({"pipeline.stages": 2},
     'pipeline.stages: a path of two keys; write an object inside an object'),
    ({"paradigm": "hsdp", "world_size": 4, "hsdp": {"shard_size": 3}},
     'hsdp.shard_size: 3 does not divide world_size 4; 1, 2 and 4 do'),
    ({"paradigm": "parameter_server", "world_size": 2, "parameter_server": {"servers": 3}},
     'parameter_server.servers: 3 is more than world_size 2'),
    ({"paradigm": "pdp", "world_size": 2, "pipeline": {"split": [1, 2]}},
     'pipeline.split: 2 points for 2 stages; it takes the first block of each but the first, 1'),
    ({"paradigm": "pdp", "world_size": 2, "pipeline": {"split": "evenly"}},
     'pipeline.split: "evenly" is not one of balanced, parameters, a list of integers from 0 to 4096'),
    ({"network": {"gbit_per_s": 100}},
     'network.gbit_per_s: only device "sim" has a network that a config can choose, and device is "auto"'),
    ({"network": {"latency_us": -2}},
     'network.latency_us: -2 is out of range; expected a number from -1 to 1000000'),
    ({"fsdp": {"unit": "layer"}},
     'fsdp.unit: "layer" is not one of block, linear, auto'),
    ({"fp8": {"recipe": "delayed"}},
     'fp8.recipe: only device "sim" knows products in FP8, and device is "auto"; use "none"'),
    ({"device": "sim", "model": {"layers": 2, "heads": 2, "hidden": 64, "dtype": "fp32"}, "fp8": {"recipe": "delayed"}},
     'fp8.recipe: delayed; operands are cast from 16 bits, and model.dtype is fp32; use "bf16" or "fp16"'),
    ({"device": "sim", "model": {"layers": 2, "heads": 2, "hidden": 64, "dtype": "bf16"}, "fp8": {"recipe": "rowwise", "gather": True}},
     'fp8.gather: goes with fp8.recipe delayed, current or tensorwise, and without parameter_offload'),
    ({"device": "sim", "fp8": {"gather": True}},
     'fp8.gather: nothing is in FP8 with fp8.recipe "none"; use "tensorwise"'),
    ({"optimizer": {"name": "adams"}},
     'optimizer.name: "adams" is not one of sgd, adam, adamw; did you mean "adam"?'),
    ({"optimizer": "adam"},
     'optimizer: expected an object with name, learning_rate, momentum, ..., not "adam"'),
    ({"steps": 5},
     'steps: expected an object with warmup, warmup_s, timed, epochs, not 5'),
    ({"steps": {"timed": 0}},
     'steps.timed: 0 is out of range; expected an integer from 1 to 1000000'),
    ({"seed": -1},
     'seed: -1 is out of range; expected an integer from 0 to 9007199254740991'),
    ({"threads": "all"},
     'threads: "all" is a string; expected an integer from 0 to 4096'),
    ({"ddp": {"bucket_mib": 0}},
     'ddp.bucket_mib: 0 is out of range; expected a number above 0 and up to 65536'),
    ({"timeout": {"step_s": -1}},
     'timeout.step_s: -1 is out of range; expected a number from 0 to 1000000'),
    ({"sweep": []},
     'sweep: the list is empty; give it at least one object'),
    ({"sweep": {"batch_size": 4}},
     'sweep.batch_size: expected a list of values, not 4'),
    ({"sweep": {"batch_size": []}},
     'sweep.batch_size: the list is empty; give it at least one value'),
    ({"sweep": {"batchsize": [1]}},
     'sweep.batchsize: unknown key; did you mean "batch_size"?'),
    ({"sweep": {"batch_size": [1, "x"]}},
     'sweep.batch_size[1]: "x" is a string; expected a number above 0 and up to 65536'),
    ({"sweep": {"cases": [{"paradigm": "ddp", "sweep": {"batch_size": [1]}}]}},
     'sweep.cases[0].sweep: a case has no sweep of its own; put its lists next to "cases"'),
    ({"sweep": {"cases": [{"batch_size": 2}], "batch_size": [1]}},
     'sweep: both "cases" and "batch_size" set batch_size; leave one of them'),
    ({"name": ""},
     'name: "" is out of range; expected a string of 1 to 63 characters'),
    ({"memory_limit_gib": -1},
     'memory_limit_gib: -1 is out of range; expected a number from 0 to 1048576'),
]
# Whole configs.
WHOLE = [
    ('{}', 'model: needs a preset ("GPTSmall", say), or layers, heads and hidden'),
    ('[]', 'expected an object with name, device, world_size, ..., not []'),
    ('{"model": {"preset": "GPTsmal"}}', 'model.preset: "GPTsmal" is none of 61 known names; did you mean "GPTSmall"?'),
    ('{"model": {"preset": "GPTXL", "layers": 2}}', 'model: both a preset and model.layers are given; a preset says the sizes itself'),
    ('{"model": {"layers": 2}}', 'model.hidden: missing; expected layers, heads and hidden, or a preset'),
    ('{"model": {"layers": 2, "heads": 3, "hidden": 64}}', 'model.heads: 3 does not divide model.hidden 64'),
    ('{"model": "GPTSmall"}', 'model: expected an object with preset, from, layers, ..., not "GPTSmall"'),
    ('{"model": {"preset": "GPTSmall", "dtype": "fp8"}}', 'model.dtype: "fp8" is not one of fp32, fp16, bf16'),
    ('{"model": {"preset": "GPTSmall", "dropout": 1}}', 'model.dropout: 1 is out of range; expected a number from 0 to 0.999'),
]
# Command lines; "tiny.json" is TINY. Their first lines, and exit codes.
COMMANDS = [
    ([], USAGE, 'dtbench: needs a command'),
    (['runn'], USAGE, "dtbench: unknown command 'runn'; did you mean 'run'?"),
    (['run'], USAGE, 'dtbench run: needs a config file'),
    (['check'], USAGE, 'dtbench check: needs a config file'),
    (['check', 'nowhere.json'], CONFIG, 'dtbench check: cannot open nowhere.json: No such file or directory'),
    (['check', 'tiny.json', '--set', 'seed'], USAGE, "dtbench check: '--set seed' has no value: --set PATH=VALUE"),
    (['check', 'tiny.json', '--set', 'sede=1'], CONFIG, 'dtbench check: --set sede=1: unknown key; did you mean "seed"?'),
    (['check', 'tiny.json', '--set', 'batch_size=x'], CONFIG, 'dtbench check: --set batch_size=x: "x" is a string; expected a number above 0 and up to 65536'),
    (['check', 'tiny.json', '--set', 'sweep.batch_size=4'], CONFIG, 'dtbench check: --set sweep.batch_size=4: a sweep takes a list, as in sweep.paradigm=["ddp","fsdp"]'),
    (['check', 'tiny.json', '--jsno'], USAGE, "dtbench check: unknown option '--jsno'; did you mean '--json'?"),
    (['run', 'tiny.json', '--output'], USAGE, "dtbench run: '--output' needs a value: --output RECORDS"),
    (['run', 'tiny.json', '--shard', '3/2'], USAGE, 'dtbench run: --shard 3/2: expected K/N with K from 1 to N, such as 1/4'),
    (['run', 'tiny.json', '--time-limit', 'soon'], USAGE, 'dtbench run: --time-limit soon: expected a number of seconds'),
    (['validate'], USAGE, 'dtbench validate: needs a file of measured runs'),
    (['validate', '--data', 'x.csv', '--brief', '--coarse'], USAGE, 'dtbench validate: --brief and --coarse exclude each other: give one'),
    (['validate', '--data', 'nowhere.csv'], CONFIG, 'dtbench validate: cannot open nowhere.csv: No such file or directory'),
    (['compare'], USAGE, 'dtbench compare: expected two arguments, BASE and NEW, not 0'),
    (['compare', 'nowhere.jsonl', 'nowhere.jsonl'], CONFIG, 'dtbench compare: cannot read records from nowhere.jsonl: No such file or directory'),
    (['status', 'nowhere.jsonl'], CONFIG, 'dtbench status: cannot read records from nowhere.jsonl: No such file or directory'),
    (['show', 'nowhere.jsonl'], CONFIG, 'dtbench show: cannot read records from nowhere.jsonl: No such file or directory'),
    (['merge'], USAGE, 'dtbench merge: expected RECORDS, at least one file or folder'),
    (['list', 'everything'], USAGE, "dtbench list: takes no argument, but 'everything' is given"),
    (['calibrate', '--ranks', '0'], USAGE, 'dtbench calibrate: --ranks 0: expected comma-separated integers from 1 to 64'),
]


def answer(arguments, text=None):
    """Exit code and lines."""
    result = subprocess.run([DTBENCH, *arguments], cwd=WORK, input=text if text is not None else "", capture_output=True, text=True, timeout=COMMAND_S,
                            env=ENVIRONMENT, check=False)
    return result.returncode, result.stderr.splitlines()


def test_there_are_sixty():
    check(len(CONFIGS) + len(WHOLE) + len(COMMANDS) >= 60, len(CONFIGS) + len(WHOLE) + len(COMMANDS))


def test_wrong_configs():
    for text, line in [(json.dumps({**TINY, **changes}), line) for changes, line in CONFIGS] + WHOLE:
        code, lines = answer(["check", "-"], text)
        check(code == CONFIG and lines == ["dtbench check: standard input: " + line], text, code, lines)


def test_wrong_command_lines():
    with open(os.path.join(WORK, "tiny.json"), "w", encoding="utf-8") as file:
        json.dump(TINY, file)
    for arguments, expected, line in COMMANDS:
        code, lines = answer(arguments)
        check(code == expected and lines and lines[0] == line, arguments, code, lines)


def test_all_that_is_wrong_is_said_at_once():
    wrong = {"world_size": 0, "sede": 1, "model": {"layers": -1, "hidden": "x"}, "sweep": {"batch_size": [0, 2], "cases": 3}}
    code, lines = answer(["check", "-"], json.dumps(wrong))
    paths = [line.split(": ")[2] for line in lines]
    check(code == CONFIG and paths == ["world_size", "sede", "model.layers", "model.hidden", "sweep.batch_size[0]", "sweep.cases"], lines)
    code, lines = answer(["check", "-", "--set", "seed=x", "--set", "sede=1"], json.dumps(TINY))
    check(code == CONFIG and len(lines) == 2 and "--set seed=x" in lines[0] and "--set sede=1" in lines[1], lines)


def dry(config, *sets):
    """Rows of a dry run: a word for each column."""
    arguments = [word for one in sets for word in ("--set", one)]
    result = subprocess.run([DTBENCH, "run", "-", "--dry-run", *arguments], cwd=WORK, input=json.dumps(config), capture_output=True, text=True,
                            timeout=COMMAND_S, env=ENVIRONMENT, check=True)
    return [line.split() for line in re.split("^-+\n", result.stdout, flags=re.M)[1].splitlines()]


def test_a_config_may_name_its_schema():
    code, lines = answer(["check", "-", "--json"], json.dumps({"$schema": "configs/schema/config.schema.json", **TINY}))
    check(code == 0 and not lines, lines)
    hashes = [dry({**one, **SWEPT, "paradigm": "ddp"})[0][-1] for one in ({}, {"$schema": "x"})]
    check(hashes[0] == hashes[1], "it is in the hash")
    check(answer(["check", "-"], json.dumps({**TINY, "model": {**TINY["model"], "$schema": "x"}}))[0] == CONFIG, "in an object it is no key")


SWEPT = {"device": "cpu", "world_size": 8, "model": {"preset": "GPTSmall"}}


def test_keys_of_other_paradigms_do_not_multiply():
    sweep = {"paradigm": ["ddp", "fsdp", "pdp", "zero1"], "pipeline.stages": [2, 4, 8], "batch_size": [1, 2, 4, 8]}
    rows = dry({**SWEPT, "sweep": sweep})
    check(len(rows) == 24 and len({row[-1] for row in rows}) == 24, "48 combinations, 24 experiments", len(rows))
    hashes = [dry({**SWEPT, "paradigm": "ddp", "hsdp": {"shard_size": size}})[0][-1] for size in (0, 4)]
    check(hashes[0] == hashes[1], "hsdp's key in ddp's hash")
    hashes = [dry({**SWEPT, "paradigm": "hsdp", "hsdp": {"shard_size": size}})[0][-1] for size in (0, 4)]
    check(hashes[0] != hashes[1], "and in hsdp's")


def test_cases_are_merged_and_multiplied():
    cases = [{"paradigm": "ddp"}, {"paradigm": "pdp", "pipeline": {"stages": 4}}, {"paradigm": "fsdp", "model": {"preset": "GPTMedium"}}]
    rows = dry({**SWEPT, "model": {"layers": 2, "heads": 2, "hidden": 64}, "sweep": {"cases": cases, "batch_size": [1, 2]}})
    check([row[1] for row in rows] == ["ddp", "ddp", "pdp", "pdp", "fsdp", "fsdp"], rows)
    check("GPTMedium" in rows[-1] and "GPTMedium" not in rows[0], "a preset in a case replaces the sizes", rows)
    code, lines = answer(["check", "-", "--set", "paradigm=ddp"], json.dumps({**SWEPT, "sweep": {"cases": cases}}))
    check(code == CONFIG and 'the sweep\'s "cases" sets it too' in lines[0], lines)


def test_overrides_replace_and_reset():
    sizes = {**SWEPT, "paradigm": "ddp", "model": {"layers": 2, "heads": 2, "hidden": 64}, "batch_size": 3}
    check("GPTLarge" in dry(sizes, "model.preset=GPTLarge")[0], "a preset over sizes")
    check(dry(sizes, "batch_size=null")[0][4] == "8", "the default", dry(sizes, "batch_size=null"))
    swept = {**sizes, "sweep": {"batch_size": [1, 2]}}
    check(len(dry(swept)) == 2 and len(dry(swept, "batch_size=null")) == 1 and len(dry(swept, "sweep.batch_size=null")) == 1, "axes go")


if __name__ == "__main__":
    sys.exit(main(globals()))
