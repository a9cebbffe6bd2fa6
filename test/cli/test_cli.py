"""The command line, and predictions: exit codes, texts, documents. Prints TAP.

Usage: test_cli.py DTBENCH [CASE...]. Runs nothing but device sim, and one rank on the cpu.
"""
import json
import os
import re
import resource
import subprocess
import sys

from command import (CONFIG, DTBENCH, ENVIRONMENT, OK, OOM, USAGE,
                     WORK, by_rank, config, main, one, read_records, records_path, run)  # beside this script
from tap_cases import COMMAND_S, check

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def processor_s():
    """Processor time of all commands so far, without their waits on a busy machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- the command line ----


def test_help_is_instant_and_complete():
    begin = processor_s()
    text = run("--help", code=OK).stdout
    check(processor_s() - begin < 1, "help took", processor_s() - begin)
    for word in ("run", "check", "show", "report", "compare", "merge", "status", "list", "130", "--config"):
        check(word in text, word, "is not in the help")
    check("rank " not in text, "the hidden command shows")
    for command in ("run", "check", "show", "report", "compare", "merge", "status", "list"):
        own = run(command, "--help", code=OK).stdout
        check(own.startswith("Usage: dtbench " + command), own)
        check(run("help", command, code=OK).stdout == own, "help and --help differ")
        lines = own.splitlines()
        check(all(line == line.rstrip() for line in lines), "blanks at a line's end:", own)
        begins = {found.end() for found in (re.match(r"  (-\w,|   ) --\S+( \S+)?  +(?=\S)| {20,}(?=\S)", line) for line in lines) if found}
        check(len(begins) == 1, "texts do not begin below each other:", begins, own)
        longest = max(len(line) for line in lines if not line.startswith(("Usage:", "  -", "      --")))
        check(100 < longest <= 110, "texts are", longest, "columns wide:", own)
    check(re.fullmatch(r"dtbench \d+\.\d+\.\d+ \(\S+\)\n", run("--version", code=OK).stdout), "version")
    # help ignores a launcher
    run("--help", code=OK, environment={"SLURM_PROCID": "x", "OMPI_COMM_WORLD_RANK": "nonsense"})


def test_wrong_command_lines():
    path = config()
    for arguments, text in (
            ([], "needs a command"),
            (["rum"], "did you mean 'run'"),
            ([path], f"dtbench run {path}"),
            (["run"], "needs a config file"),
            (["run", path, "--verfy"], "did you mean '--verify'"),
            (["run", path, "--out=x"], "did you mean '--output'"),
            (["--confg", path], "did you mean '--config'"),
            (["run", path, "--frobnicate"], "unknown option '--frobnicate'"),
            (["run", path, "--output"], "'--output' needs a value"),
            (["run", path, "--output", "--quiet"], "'--output' needs a value"),
            (["run", path, "--output=a", "--output", "b"], "given twice"),
            (["run", path, "--quiet=yes"], "takes no value"),
            (["run", path, path], "takes one config file, not two"),
            (["run", path, "--config", path], "takes one config file, not two"),
            (["run", path, "--set", "seed"], "has no value"),
            (["run", path, "--resume"], "--resume needs"),
            (["run", path, "--skip-oom"], "'--skip-oom' needs --resume"),
            (["run", path, "--skip-failed"], "'--skip-failed' needs --resume"),
            (["run", path, "--shard", "0/2"], "K from 1 to N"),
            (["run", path, "--shard", "3/2"], "K from 1 to N"),
            (["run", path, "--shard", "1"], "K from 1 to N"),
            (["run", path, "--time-limit", "1h"], "expected a number of seconds"),
            (["run", path, "--output", path], f"--output {path}: the command reads or writes that file already"),
            (["run", path, "--trace", path], f"--trace {path}: the command reads or writes that file already"),
            (["run", path, "--output", "new", "--trace", "new"], "--trace new: the command reads or writes that file already"),
            (["list", "models"], "takes no argument"),
            (["check", path, "-x"], "unknown option '-x'"),
            (["rank"], "only dtbench itself starts this"),
    ):
        result = run(*arguments, code=USAGE)
        check(text in result.stderr, f"{arguments}: '{text}' is not in", result.stderr)
        check(not result.stdout, "a wrong command line has results:", result.stdout)
        check(len(result.stderr.splitlines()) <= 2, "more than one line and a hint:", result.stderr)


def test_wrong_configs_run_nothing():
    output = records_path("none.jsonl")
    for content, text in (
            ({"sweep": {"paradigm": ["ddp", "pdq"]}}, "pdp"),
            ({"sweep": None, "paradigm": "none"}, "one device"),
            ({"batch_sise": 2}, "did you mean"),
            ({"device": "cuda"}, "cuda"),
            ({"gpus_per_node": 1}, "gpus_per_node"),
            ({"device": "sim", "cluster": "clusters/none.json"}, "cluster: clusters/none.json: not found"),
            ({"device": "sim", "profile": "clusters/dgx_a100.json"}, "dgx_a100.json: "),
            ({"device": "sim", "sweep": None, "paradigm": "ddp", "world_size": 12, "cluster": "clusters/dgx_a100_1.json"},
             "world_size: 12 ranks, and cluster clusters/dgx_a100_1.json has 8"),
            ({"device": "sim", "gpus_per_node": 9}, "gpus_per_node: 9, and the nodes of cluster clusters/dgx_a100.json have 8"),
    ):
        result = run("run", config("wrong.json", **content), "-o", output, code=CONFIG)
        check(text in result.stderr, f"'{text}' is not in", result.stderr)
        check(all(line.startswith("dtbench run: ") for line in result.stderr.splitlines()), "a line for each mistake:", result.stderr)
    check("No such file" in run("run", "nowhere.json", "-o", output, code=CONFIG).stderr, "missing file")
    check("--set" in run("run", config(), "--set", "seed=-1", "-o", output, code=CONFIG).stderr, "bad --set")
    run("check", config("wrong.json", seed=-1), code=CONFIG)
    check(not os.path.exists(output), "a record file was made")


def test_check_refuses_what_cannot_be_simulated():
    """Every form of an impossible experiment gives no numbers, one line and exit code 3, like the run."""
    broken = os.path.join(WORK, "broken.json")
    with open(broken, "w", encoding="utf-8") as file:
        file.write('{"name": 3}')
    forms = (["check"], ["check", "--json"], ["check", "--plan"], ["check", "--plan", "--json"], ["run", "--dry-run"],
             ["check", "--plan", "--times", "forward=1,backward_input=1,backward_weight=1,send=0"])
    for setting, text in (
            ("cluster=typo", "cluster: clusters/typo.json: not found in .*; there are aws_p3, .*superpod_h100$"),
            ("profile=typo", "profile: profiles/typo.json: not found in .*; there are dtbench_cpu, .*torchtitan_h100$"),
            ("cluster=" + broken, "cluster: .*broken.json: name: 3 is a number"), ("profile=" + broken, "profile: .*broken.json: name: 3 is a number"),
            ("profile=pytorch_1.11_v100", "profile: .* is for V100, and cluster"), ("gpus_per_node=9", "gpus_per_node: 9, and the nodes"),
            ("tensor.size=3", "tensor.size: 3 ranks that belong together would straddle nodes"), ("world_size=6000", "world_size: 6000 ranks, and cluster"),
            ("sweep.cluster=[\"gcp_a2\",\"typo\"]", "(experiment 2 of 2: )?cluster: clusters/typo.json: not found"),
    ):
        path = config("simulated.json", device="sim", sweep=None, paradigm="pdp", world_size=24, pipeline={"stages": 2},
                      model={"layers": 4, "heads": 6, "hidden": 96, "vocab_size": 600, "block_size": 96})
        for form in forms:
            result = run(*form, path, "--set", setting, code=CONFIG)
            check(re.match(f"dtbench {form[0]}: {text}", result.stderr) and result.stderr.count("\n") == 1 and not result.stdout, form, setting, result)


def test_check_tells_sizes():
    path = config("large.json", paradigm="fsdp", sweep=None, world_size=512, device="cuda",
                  model={"preset": "GPT1T", "dtype": "fp16"})
    begin = processor_s()
    text = run("check", path, code=OK).stdout
    check(processor_s() - begin < 5, "check took", processor_s() - begin)
    check("1,009,242,163,200" in text and "512" in text, text)
    check("note: cannot run here" in text, "no note about the device:", text)
    text = run("check", config("small.json", model={"preset": "GPTSmall"}), code=OK).stdout
    check(re.search(r"^tiny: GPTSmall, [^-]* parameters 162,052,608", text), "what all have in common stands above:", text)
    swept = run("check", config("small.json"), "--set", "sweep.batch_size=[1,2,4]", code=OK).stdout
    check("shown for 4 of 9 experiments; --json has all" in swept, swept)
    check(re.match(r"tiny: \d+ layers, \d+ heads, ", swept), "a model without a preset:", swept)
    rows = [line for line in text.splitlines() if re.match(r"(ddp|pdp|fsdp) ", line)]
    check(len(rows) == 3 and len({len(row) for row in rows}) == 1, "the table does not line up:", text)
    checks = json.loads(run("check", "--json", config("small.json", model={"preset": "GPTSmall"}), code=OK).stdout)
    check(len(checks) == 3 and checks[0]["parameters"] == 162052608, "JSON")
    check(checks[0]["predicted_peak_bytes"]["parameters"] >= 2 * 162052608, "parameters of fp16")
    text = run("check", config("limit.json", memory_limit_gib=0.001), code=OOM).stdout
    check("will run out of memory" in text, text)
    text = run("check", config("limit.json", device="sim", sweep=None, world_size=1, model={"preset": "GPT13B"}, memory_limit_gib=1), code=OOM).stdout
    check(text.count("will run out of memory") == 1, "said once:", text)
    check("parameters, gradients and optimizer state take most" in text and "parameter_offload, more ranks" in text, "what helps:", text)
    text = run("check", config("limit.json", device="sim", sweep={"activation": ["keep", "checkpoint"]}, world_size=1, batch_size=64,
                               model={"preset": "GPTLarge"}, memory_limit_gib=20), code=OOM).stdout
    check("activations take most" in text and "activation checkpoint, more micro_batches, a smaller batch_size" in text, "what helps:", text)
    text = run("check", config("limit.json", sweep=None, paradigm="ddp", parameter_offload=True, host_memory_limit_gib=0.001), code=OOM).stdout
    check("out of host memory" in text and "take most" not in text, "only the host's memory is short:", text)


SIMULATED = dict(device="sim", sweep=None, world_size=32, batch_size=8, model={"preset": "GPTLarge"}, cluster="clusters/gcp_a2.json",
                 steps={"warmup": 1, "timed": 1})


def predicted(**changes):
    """The one check of a simulated experiment, as JSON."""
    check_of, = json.loads(run("check", "--json", config("simulated.json", **{**SIMULATED, **changes})).stdout)
    return check_of


def refusal(**changes):
    """The reason why it cannot be simulated."""
    return run("check", "--json", config("simulated.json", **{**SIMULATED, **changes}), code=CONFIG).stderr


def test_check_predicts_a_step():
    path = config("simulated.json", **SIMULATED, paradigm="fsdp")
    output = records_path("simulated.jsonl")
    run("run", path, "-q", "-o", output, code=OK)
    step, = (r["metrics"]["step_s"]["median"] for r in read_records(output))
    check(predicted(paradigm="fsdp")["predicted_step_s"] == step, "the step of run", step)
    text = run("check", path, code=OK).stdout
    check("the step is predicted, not measured: cluster gcp_a2, profile " in " ".join(text.split()) and " step\n" in text, text)
    too_large = predicted(paradigm="ddp", model={"preset": "GPT13B"})
    check(not too_large["fits"] and too_large["predicted_step_s"] is None and any("run out of memory" in n for n in too_large["notes"]),
          too_large)
    run("check", config("simulated.json", **{**SIMULATED, "model": {"preset": "GPT13B"}}, paradigm="ddp"), code=OOM)


def test_placement_on_sim_is_that_of_real_ranks():
    """By default shard groups are nodes, and groups that straddle nodes are refused."""
    node, eight = (predicted(paradigm="hsdp", hsdp={"shard_size": n}) for n in (0, 8))
    check(node["predicted_step_s"] == eight["predicted_step_s"] < predicted(paradigm="fsdp")["predicted_step_s"], "shards of a node")
    for changes in ({"pipeline": {"stages": 16}}, {"pipeline": {"stages": 4}, "gpus_per_node": 2, "world_size": 16}):
        refused = refusal(paradigm="pdp", **changes)
        check("straddle nodes" in refused, changes, refused)
        allowed = predicted(paradigm="pdp", straddle_nodes=True, **changes)
        check(allowed["predicted_step_s"] > 0 and not allowed["notes"], allowed["notes"])


def test_a_profile_is_of_the_clusters_gpu():
    h100, a100 = predicted(paradigm="ddp", cluster="clusters/dgx_h100.json"), predicted(paradigm="ddp")
    check(h100["config"]["profile"] == "profiles/general_h100.json", h100["config"]["profile"])
    check(a100["config"]["profile"] == "profiles/pytorch_1.11_a100.json" and h100["predicted_step_s"] < a100["predicted_step_s"], a100)
    named = predicted(paradigm="ddp", cluster="dgx_h100", profile="general_h100")
    check(named["config_hash"] == h100["config_hash"] and named["config"]["cluster"] == "clusters/dgx_h100.json", named["config"])
    for cluster, profile in (("dgx_h100", "pytorch_1.11_a100"), ("gcp_a2", "dtbench_cuda_h100"), ("cpu_node", "dtbench_cuda_a100")):
        files = {"cluster": f"clusters/{cluster}.json", "profile": f"profiles/{profile}.json", "world_size": 1, "paradigm": "none"}
        files["model"] = {"preset": "GPTSmall", "dtype": "fp32"}
        refused = refusal(**files)
        check(f"profile: profiles/{profile}.json is for" in refused, refused)
        check(predicted(**files, any_profile=True)["predicted_step_s"] > 0, "allowed")


def test_records_of_many_ranks_are_short():
    path, output = config("wide.json", device="sim", world_size=128, sweep={"paradigm": ["fsdp", "pdp"]}), records_path("wide.jsonl")
    run("run", path, "-q", "-o", output, code=OK)
    fsdp, pdp = read_records(output)
    check(sorted(by_rank(fsdp["metrics"]["peak_bytes"])) == sorted(by_rank(pdp["metrics"]["host_peak_bytes"])) == list(range(128)), "all ranks")
    check(len(pdp["metrics"]["peak_bytes"]["by_ranks"]) == 2, pdp["metrics"]["peak_bytes"])  # two stages
    check(max(len(json.dumps(record)) for record in (fsdp, pdp)) < 6000, "long records")


def as_of_an_older_version(record):
    """With the keys of all paradigms, without those that came later and have their defaults, and with another hash."""
    old = json.loads(json.dumps(record))
    pipeline = {"stages": 2, "chunks": 2, "order": "gpipe", "virtual_stages": 2, "memory_limit": 0}
    old["config"] |= {"straddle_nodes": False, "share_gpus": False, "pipeline": pipeline, "fsdp": {"unit": "block"}, "graph": True,
                      "hsdp": {"shard_size": 0}, "ddp": {"bucket_mib": 25}, "parameter_server": {"servers": 1}, "tensor": {"size": 1}}
    for key in ("mesh", "network", "any_profile"):
        old["config"].pop(key, None)
    for key in ("mlp", "ffn", "norm", "norm_epsilon", "position", "kv_heads", "bias", "tied", "qk_norm"):
        old["config"]["model"].pop(key)
    old["config_hash"] = "0" * 15 + old["config"]["paradigm"][0]
    return old


def test_records_of_older_versions():
    """Older records count where their config determines the experiment. That of a pipeline does not, because its division was not written."""
    path, output = config("older.json", device="sim", sweep={"paradigm": ["ddp", "fsdp", "pdp"]}), records_path("older.jsonl")
    new = records_path("newer.jsonl")
    run("run", path, "-q", "-o", new, code=OK)
    with open(output, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(as_of_an_older_version(record)) + "\n" for record in read_records(new))
    shown = run("status", output, "--config", path, code=OK).stdout
    check("3 experiments: 2 done, 1 missing" in shown, shown)
    shown = run("run", path, "-o", output, "--resume", "-n", code=OK).stdout
    check(shown.count("skipped") == 2, shown)
    pairs = json.loads(run("compare", "--format", "json", output, new).stdout)["experiments"]
    check(sorted(pair["verdict"] for pair in pairs) == ["missing", "new", "same", "same"], pairs)
    for record in read_records(new):  # all records can be read again, with their recorded hash
        with open(os.path.join(WORK, "again.json"), "w", encoding="utf-8") as file:
            json.dump(record["config"], file)
        found, = json.loads(run("check", "--json", "again.json", code=OK).stdout)
        check(found["config_hash"] == record["config_hash"] and found["config"] == record["config"], found["config"])
    for name in ("orders_sim", "parallel_sim", "memory_amd_epyc_zen5"):
        committed = os.path.join(ROOT, "results", name + ".jsonl")
        check("left out" not in run("status", committed, code=OK).stderr, name)


def test_check_predicts_with_a_calibration():
    """A calibration beside the config, if it is of this machine's processor, predicts what device sim does with it."""
    folder = os.path.join(WORK, "calibrated")
    os.makedirs(folder, exist_ok=True)
    name = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), None)
    if not name:
        return
    root = os.path.join(ROOT, "configs")
    with open(os.path.join(root, "clusters", "cpu_node.json"), encoding="utf-8") as file:
        cluster = json.load(file)
    with open(os.path.join(root, "profiles", "dtbench_cpu.json"), encoding="utf-8") as file:
        profile = file.read()
    with open(os.path.join(folder, "profile.json"), "w", encoding="utf-8") as out:
        out.write(profile)
    path = config("calibrated/tiny.json", sweep=None, device="cpu", world_size=2, paradigm="ddp")
    for processor, known in ((name, True), ("another processor", False)):
        cluster["gpu"]["name"] = processor
        with open(os.path.join(folder, "cluster.json"), "w", encoding="utf-8") as out:
            json.dump(cluster, out)
        here, = json.loads(run("check", "--json", path, code=OK).stdout)
        check((here["predicted_step_s"] is not None) == known, processor, here["predicted_step_s"])
        if known:
            files = [f"{key}={os.path.join(folder, key)}.json" for key in ("cluster", "profile")]
            sim, = json.loads(run("check", "--json", path, "--set", "device=sim", "--set", files[0], "--set", files[1], code=OK).stdout)
            check(here["predicted_step_s"] == sim["predicted_step_s"], here["predicted_step_s"], sim["predicted_step_s"])


def test_communicated_bytes_and_scaling():
    """The textbook's: P for DDP's gradients, twice that for ZeRO, thrice for FSDP but for what stays from forward to backward; check and the
    record agree; and more ranks of a node pay for the tail of the last bucket, and for what collectives take from kernels."""
    sizes = {"layers": 4, "heads": 4, "hidden": 64, "vocab_size": 512, "block_size": 32, "dtype": "fp16"}
    base = {"device": "sim", "cluster": "clusters/dgx_h100_1.json", "profile": "dtbench_cuda_h100", "model": sizes, "world_size": 8, "batch_size": 4,
            "steps": {"warmup": 1, "timed": 1}}
    output = records_path("bytes.jsonl")
    paradigms = ["ddp", "zero1", "zero2", "fsdp", "hsdp", "data_parallel", "parameter_server", "pdp"]
    path = config("bytes.json", **{**base, "hsdp": {"shard_size": 4}, "sweep": {"paradigm": paradigms}})
    checks = json.loads(run("check", "--json", path, code=OK).stdout)
    run("run", path, "-q", "-o", output, code=OK)
    found = {}
    for predicted_bytes, record in zip(checks, read_records(output)):
        kinds = {}
        for axis in predicted_bytes["comm_bytes_per_step"].values():
            for kind, count in axis.items():
                kinds[kind] = kinds.get(kind, 0) + count
        counted = {k[:-6]: v for k, v in record["metrics"].items() if k.endswith("_bytes") and k not in ("comm_bytes", "link_bytes", "peak_bytes", "host_peak_bytes") and v}
        check(counted == kinds and record["metrics"]["comm_bytes"] == sum(kinds.values()), record["config"]["paradigm"], counted, kinds)
        found[record["config"]["paradigm"]] = predicted_bytes["comm_bytes_per_step"]
    P = 2 * checks[0]["parameters"]
    check(found["ddp"] == {"replica": {"all_reduce": P}}, found["ddp"], P)
    for zero in ("zero1", "zero2"):
        check(found[zero] == {"shard": {"reduce_scatter": P, "all_gather": P}}, found[zero], P)  # all sizes are multiples of 8
    embedding, head = 2 * 64 * (512 + 32), 2 * 64 * (512 + 2)
    check(found["fsdp"] == {"shard": {"reduce_scatter": P, "all_gather": 2 * P - embedding - head}}, found["fsdp"], P)
    check(found["hsdp"]["replica"] == {"all_reduce": P // 4} and found["hsdp"]["shard"]["reduce_scatter"] == P, found["hsdp"], P)
    check(found["data_parallel"] == {"replica": {"broadcast": P, "reduce": P}}, found["data_parallel"], P)
    check(found["parameter_server"] == {"replica": {"send": 7 * P}}, found["parameter_server"], P)
    check(found["pdp"]["pipeline"] == {"send": 8 * 32 * 64 * 2}, found["pdp"])
    tensor = {**base, "tensor": {"size": 2, "sequence_parallel": False}, "paradigm": "none", "world_size": 2, "sweep": None}
    rows = 2 * 4 * 32 * 64 * 2  # for two ranks' samples in fp16: two all-reduces a block in each direction, the embedding's and the head's
    moved = json.loads(run("check", "--json", config("tensor.json", **tensor), code=OK).stdout)[0]["comm_bytes_per_step"]["tensor"]
    check(moved["all_reduce"] == (4 * 4 + 2) * rows, moved, rows)
    text = run("check", config("tensor.json", **tensor), code=OK).stdout
    check("in a step a rank communicates tensor all_reduce" in text, text)

    node = {**base, "model": {"preset": "GPTLarge"}, "batch_size": 16, "paradigm": "ddp", "profile": None}
    for cluster in ("gcp_a2_1", "dgx_a100_1", "dgx_h100_1"):
        node["cluster"] = f"clusters/{cluster}.json"
        run("run", config("scaling.json", **{**node, "sweep": {"world_size": [1, 2, 4, 8]}}), "-q", "-o", (output := records_path("scaling.jsonl")), code=OK)
        metrics = [r["metrics"] for r in read_records(output)]
        scaling, tail = [m["scaling_efficiency"] for m in metrics], [m["exposed_comm_s"] for m in metrics]
        check(scaling[0] == 1 > scaling[1] > scaling[2] > scaling[3] > 0.9, cluster, scaling)
        check(tail[0] == 0 < tail[1] < tail[2] < tail[3], cluster, tail)
    table = run("run", config("scaling.json", **{**node, "sweep": {"world_size": [2, 1]}}), "-o", (output := records_path("late.jsonl")), code=OK).stdout
    check("scaling" in table and "MFU" in table and "comm" in table, table)
    check([r["metrics"]["scaling_efficiency"] for r in read_records(output)] == [None, 1], "the fewest ranks come last")


def test_the_network_can_be_chosen():
    """Two nodes of gcp_a2: faster cards are faster, slower ones slower, its own make no difference, and a real device has its own network."""
    times = {gbit: predicted(world_size=16, paradigm="ddp", network={"gbit_per_s": gbit})["predicted_step_s"] for gbit in (0, 100, 10, 400)}
    check(times[400] < times[0] == times[100] < times[10], times)
    rdma = [predicted(world_size=16, paradigm="ddp", cluster="clusters/dgx_a100.json", network={"gbit_per_s": gbit})["predicted_step_s"]
            for gbit in (25, 200, 0, 400)]
    check(rdma[0] > rdma[1] == rdma[2] >= rdma[3], rdma)
    late = predicted(world_size=16, paradigm="ddp", network={"latency_us": 2000})["predicted_step_s"]
    check(late > times[0], late)
    one_node = refusal(world_size=8, paradigm="ddp", cluster="clusters/gcp_a2_1.json", network={"gbit_per_s": 100})
    check("network.gbit_per_s: cluster" in one_node, one_node)
    swept = config("network.json", **{**SIMULATED, "world_size": 16, "paradigm": "ddp", "sweep": {"network.gbit_per_s": [5, 10, 25]}})
    found = [e["predicted_step_s"] for e in json.loads(run("check", "--json", swept, code=OK).stdout)]
    check(found[0] > found[1] > found[2], found)


def test_a_unit_that_the_framework_decides_is_said():
    block, linear = (predicted(paradigm="fsdp", fsdp={"unit": unit}) for unit in ("block", "linear"))
    check(block["predicted_step_s"] == linear["predicted_step_s"] and not linear["notes"], linear["notes"])
    check(block["notes"] and block["notes"][0].startswith('fsdp.unit: "block" is predicted as "linear"'), block["notes"])
    own = predicted(paradigm="fsdp", fsdp={"unit": "block"}, profile="profiles/dtbench_cuda_a100.json")
    check(not own["notes"], own["notes"])
    run_notes = run("run", config("simulated.json", **SIMULATED, paradigm="fsdp"), "-o", records_path("unit.jsonl"), code=OK).stderr
    check(run_notes.count('note: fsdp.unit: "block"') == 1, run_notes)


def test_a_validation_of_nothing_fails():
    rows = os.path.join(WORK, "rows.csv")
    with open(rows, "w", encoding="utf-8") as file:
        file.write("paradigm,model,gpus,batch_per_replica,step_s\nddp,GPTSmall,8,8,0.2\n")
    run("validate", "--data", rows, code=OK)
    result = run("validate", "--data", rows, "--set", "pipeline.order=2f2b", code=CONFIG)
    check("nothing was validated: 1 of 1 rows" in result.stderr and "pipeline.order" in result.stderr, result.stderr)


def test_a_bucket_that_is_just_full():
    """A bucket ends with the group of parameters that fills it to the byte: here a layer of 4 x 64 x 64 weights and 64 biases in fp32."""
    counts = []
    for bucket_bytes in (1, 4 * (4 * 64 * 64 + 64), 4 * (4 * 64 * 64 + 64) + 1):
        plans = json.loads(run("check", "--plan", "--json", one(), "--set", f"ddp.bucket_mib={bucket_bytes / 2**20!r}", code=OK).stdout)
        counts.append([a["action"] for a in plans[0]["ranks"][0]["actions"]].count("reduce"))
    check(counts[0] == counts[1] > counts[2], counts)


def test_check_shows_plans():
    """A column is the time of a forward pass: the bubble is that of the papers, and 1F1B's is where theirs is."""
    path = config("plan.json", sweep=None, paradigm="pdp", world_size=4, pipeline={"stages": 4, "chunks": 4})
    ranks = lambda text: [line.split(maxsplit=2)[2] for line in text.splitlines() if line.startswith("rank ")]
    check(ranks(run("check", "--plan", path, code=OK).stdout) == [
        "FFFF.........BBBBBBBBU",
        ".FFFF......BBBBBBBBU",
        "..FFFF...BBBBBBBBU",
        "...FFFFBBBBBBBBU"], "gpipe")
    text = run("check", "--plan", path, "--set", "pipeline.order=1f1b", code=OK).stdout
    check(ranks(text) == [
        "FFFF......BB.BB.BB.BBU",
        ".FFF....BBFBB.BB.BBU",
        "..FF..BBFBBFBB.BBU",
        "...FBBFBBFBBFBBU"], text)
    check("F forward, B backward" in text and "1f1b" in text, text)
    sharded = ["--set", "paradigm=fsdp", "--set", "fsdp.unit=block"]
    text = run("check", "--plan", path, *sharded, code=OK).stdout
    line, = ranks(text)
    check(line.startswith("ggFxgFx") and line.endswith("BrU") and line.count("g") == line.count("x"), text)
    plans = json.loads(run("check", "--plan", "--json", path, code=OK).stdout)
    check(len(plans) == 1 and [r["rank"] for r in plans[0]["ranks"]] == [0, 1, 2, 3], plans)
    check([a["action"] for a in plans[0]["ranks"][0]["actions"]].count("send output") == 4, plans[0]["ranks"][0])
    check(plans[0]["ranks"][0]["slots"] == 4, "stashes of gpipe")
    check("use \"interleaved\"" in run("check", path, "--set", "pipeline.order=interleaved_1f1b", code=CONFIG).stderr, "an old name")
    text = run("check", "--plan", config("v.json", sweep=None, paradigm="pdp", pipeline={"stages": 2, "chunks": 3, "order": "zb_v"}), code=OK).stdout
    check("FFFfiw" in text and "small letters" in text, text)


def stages_of(*sets, **changes):
    path = config("split.json", **{"sweep": None, "paradigm": "pdp", "batch_size": 4, **changes})
    return json.loads(run("check", "--json", path, *[word for s in sets for word in ("--set", s)], code=OK).stdout)


def test_stages_and_their_split():
    """The head is part of its stage's work; points name blocks; all of the model is somewhere."""
    sizes = {"layers": 12, "heads": 4, "hidden": 64, "vocab_size": 2000, "block_size": 32, "dtype": "fp32"}
    pipeline = {"stages": 3, "chunks": 2}
    even = stages_of(world_size=3, model=sizes, pipeline=pipeline)[0]
    stages = even["pipeline"]["stages"]
    check([s["layers"] for s in stages] == ["embedding, blocks 0 to 4", "blocks 5 to 9", "blocks 10 to 11, final_norm, head"], stages)
    check(sum(s["parameters"] for s in stages) == even["parameters"], stages)
    check(abs(sum(s["flops_per_step"] for s in stages) / even["flops_per_step"] - 1) < 1e-12, stages)
    pointed, parameters = stages_of("sweep.pipeline.split=[[2,3],\"parameters\"]", world_size=3, model=sizes, pipeline=pipeline)
    check([s["layers"] for s in pointed["pipeline"]["stages"]] == ["embedding, blocks 0 to 1", "block 2", "blocks 3 to 11, final_norm, head"], pointed)
    check(pointed["config"]["pipeline"]["split"] == [2, 3] and len({c["config_hash"] for c in (even, pointed, parameters)}) == 3, pointed)
    parts = stages_of("pipeline.split=[1,4,12]", world_size=2, model=sizes, pipeline={"stages": 2, "chunks": 2, "order": "zb_v"})[0]
    check([s["layers"] for s in parts["pipeline"]["stages"]] == ["embedding, block 0 | final_norm, head", "blocks 1 to 3 | blocks 4 to 11"], parts)
    same = config(sweep={"seed": [1, 2]}, paradigm="pdp", world_size=3, model=sizes, pipeline=pipeline)
    text = run("check", same, code=OK).stdout
    check(text.count("stages of experiment") == 1 == text.count("order gpipe, 3 stages"), "what is the same is said once:", text)
    order_file("two.csv", "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0\n" * 2)
    ring = stages_of("pipeline.split=[1,2,3]", world_size=2, model=sizes, pipeline={"stages": 2, "chunks": 2, "order": "two.csv"})[0]
    check(ring["pipeline"]["stages"][1]["layers"] == "block 1 | blocks 3 to 11, final_norm, head", ring)
    on_sim = stages_of(**{**SIMULATED, "world_size": 4, "pipeline": {"stages": 4, "chunks": 4}})[0]
    times = [s["predicted_compute_s"] for s in on_sim["pipeline"]["stages"]]
    check(all(0 < t < on_sim["predicted_step_s"] for t in times), on_sim)
    uneven = stages_of("pipeline.split=[1,3]", world_size=6, device="sim", cluster="clusters/dgx_a100.json", model={**sizes, "hidden": 2048},
                       pipeline={"stages": 3, "chunks": 2})[0]
    first, second, third = (s["predicted_compute_s"] for s in uneven["pipeline"]["stages"])  # of 1, 2 and 9 blocks
    check(1.5 < second / first < 2.5 and 3 < third / second < 6, uneven["pipeline"]["stages"])
    by_parameters = stages_of("pipeline.split=parameters", **{**SIMULATED, "world_size": 4, "pipeline": {"stages": 4, "chunks": 4}})[0]
    check(max(times) <= max(s["predicted_compute_s"] for s in by_parameters["pipeline"]["stages"]), by_parameters)
    path = config("split.json", sweep=None, paradigm="pdp", world_size=3, batch_size=4, model=sizes, pipeline=pipeline)
    for points, why in (("[4]", "pipeline.split: 1 point for 3 stages; it takes the first block of each but the first, 2"),
                        ("[4,4]", "pipeline.split: 4 comes after 4; each point must be larger than the one before it"),
                        ("[4,13]", "pipeline.split: 13 of a model of 12 blocks"), ("[]", "a list of 0 numbers; expected 1 to 255")):
        error = run("check", path, "--set", f"pipeline.split={points}", code=CONFIG).stderr
        check(why in error and error.count("\n") == 1, error)
    text = run("check", path, "--set", "pipeline.split=[1,2,3,4,9]", code=CONFIG).stderr
    check("5 points for 3 stages; it takes the first block of each but the first, 2; several parts on each stage are pipeline.order int" in text, text)
    listed = ["--set", "pipeline.order=interleaved", "--set", "pipeline.split=[1,2,3,4,5,6,7,9]", "--json"]
    pipeline = json.loads(run("check", path, *listed).stdout)[0]["config"]["pipeline"]
    check(pipeline["virtual_stages"] == 3 and pipeline["split"] == [1, 2, 3, 4, 5, 6, 7, 9], pipeline)
    text = run("check", path, *listed, "--set", "pipeline.virtual_stages=2", code=CONFIG).stderr
    check("8 points for 3 stages with 2 parts each" in text, text)
    text = run("check", path, "--set", "pipeline.order=interleaved", "--set", "pipeline.split=[4,8]", code=CONFIG).stderr
    check("2 points for 3 stages with 2 parts each; it takes the first block of each part but the first, 5" in text, text)
    text = run("check", path, "--set", "pipeline.split=[4,8]", code=OK).stdout
    check("stages of experiment 1" in text and "blocks 4 to 7" in text, text)


def test_ranks_have_the_activations_of_what_they_keep():
    """Stages with the same layers: each micro-batch that one keeps more is the same number of bytes more, and so is each message that the
    neighbours may not have received yet."""
    sizes = {"layers": 5, "heads": 4, "hidden": 64, "vocab_size": 200, "block_size": 32, "dtype": "fp32"}
    checks = stages_of("pipeline.split=[1,2,3,4]", "sweep.pipeline.order=[\"gpipe\",\"1f1b\"]", "pipeline.chunks=8", world_size=5, batch_size=8, model=sizes,
                       pipeline={"stages": 5})
    gpipe, one = ([s["predicted_peak_bytes"] for s in c["pipeline"]["stages"]] for c in checks)
    check([c["pipeline"]["kept_micro_batches"] for c in checks] == [[8] * 5, [5, 4, 3, 2, 1]], checks)
    middle = [one[i]["activations"] for i in (1, 2, 3)]
    each, message = middle[1] - middle[2], 5 * 32 * 64 * 4
    sent = {1: 4, 2: 3, 3: 3}  # messages kept under 1f1b at the peak; under gpipe all 8
    check(each > message and middle[0] - middle[1] == each + message, middle)
    check([gpipe[i]["activations"] - one[i]["activations"] for i in (1, 2, 3)] == [(3 + i) * each + (8 - sent[i]) * message for i in (1, 2, 3)], gpipe, one)
    for c in checks:
        peaks = [s["predicted_peak_bytes"] for s in c["pipeline"]["stages"]]
        check(c["predicted_peak_bytes"] == max(peaks, key=lambda peak: peak["total"]) and [peak["rank"] for peak in peaks] == [0, 1, 2, 3, 4], c)


def test_check_plays_plans_with_given_times():
    def plan(*settings):
        sets = [word for setting in settings for word in ("--set", setting)]
        return json.loads(run("check", "--plan", "--json", path, "--times", times, *sets, code=OK).stdout)["plan"]

    path = config("timed.json", sweep=None, paradigm="pdp", world_size=8, batch_size=4,
                  pipeline={"stages": 8, "chunks": 24, "virtual_stages": 3})  # 24 parts of a model of two layers
    times = "forward=18.522,backward_input=18.086,backward_weight=9.337,send=0.601"
    check(abs(plan("pipeline.order=1f1b")["bubble"] - 0.2431) < 0.0005, "1f1b")
    check(abs(plan("pipeline.order=interleaved")["bubble"] - 0.1055) < 0.01, "interleaved")
    found = plan("pipeline.order=zb_auto", "pipeline.memory_limit=16", "device=sim")
    check(found["bubble"] < 0.0533 and len(found["ranks"]) == 8, found)
    check(max(r["kept_weighted"] for r in found["ranks"]) <= 16, found)
    check("bubble 0.2431" in run("check", "--plan", path, "--times", times, "--set", "pipeline.order=1f1b", code=OK).stdout, "text")
    for wrong in ("forward=1", "forward=1,backward_input=1,backward_weight=x", "forward=0,backward_input=1,backward_weight=1", "f=1"):
        check("--times" in run("check", "--plan", path, "--times", wrong, code=USAGE).stderr, wrong)
    run("check", path, "--times", times, code=USAGE)


def order_file(name, text):
    with open(os.path.join(WORK, name), "w", encoding="utf-8") as out:
        out.write(text)
    return name


def test_a_search_is_made_once():
    """The search is made once, and not for each rank; its result is printed."""
    path = config("searched.json", sweep=None, paradigm="pdp", world_size=64, batch_size=1024, device="cuda", pipeline={"stages": 64, "chunks": 1024, "order": "zb_auto"},
                  model={"layers": 64, "heads": 4, "hidden": 64, "vocab_size": 500, "block_size": 32})
    begin = processor_s()
    found, = json.loads(run("check", "--json", path, code=OK).stdout)
    check(processor_s() - begin < 4, "check took", processor_s() - begin)
    check(found["pipeline"]["tried"].startswith("50 of 50 settings") and found["pipeline"]["closed_form"] is False, found["pipeline"]["tried"])
    text = run("check", path, "--set", "pipeline.chunks=64", "--set", "batch_size=64", code=OK).stdout
    check("when played; 50 of 50 settings tried with 64 micro-batches, and the best 4 with all" in text, text)


def test_orders_in_files_are_checked():
    order_file("good.csv", "F0 F1 B0 B1\nF0 I0 W0 F1 I1 W1\n")
    order_file("circle.csv", "F0 B0 F1 B1\nF0 F1 B0 B1\n")
    path = config("file.json", sweep=None, paradigm="pdp", pipeline={"stages": 2, "chunks": 2, "order": "good.csv"})
    check("keep 2, 1 micro-batches" in run("check", path, code=OK).stdout, "what ranks keep")
    error = run("run", path, "--set", "pipeline.order=circle.csv", code=CONFIG).stderr
    check("pipeline.order: circle.csv: deadlock: rank 0 cannot run B0, which needs the gradient from rank 1; rank 1 cannot run F1" in error, error)
    check("none.csv" in run("check", path, "--set", "pipeline.order=none.csv", code=CONFIG).stderr, "no file")


def test_list():
    text = run("list", code=OK).stdout
    for word in ("GPTSmall", "162,052,608", "GPT1T", "ddp", "pdp", "fsdp", "cpu", "cuda", "sim", "mpi"):
        check(word in text, word, "is not listed:", text)
    found = json.loads(run("check", "--json", one("none"), "--set", "world_size=1", "--set", 'model={"preset":"GPTSmall"}', code=OK).stdout)[0]
    row = next(line.split() for line in text.splitlines() if line.startswith("GPTSmall "))
    check(abs(float(row[7]) / (found["flops_per_step"] / found["tokens_per_step"] / 1e9) - 1) < 1e-3, row, found["flops_per_step"])
    # By this line scripts/quickstart chooses the dtype and the model's size.
    machine = subprocess.run(["bash", "-c", '. scripts/build_dir.sh && machine "$0"', DTBENCH], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    check(re.match(r"cpu +(no |yes .*, \d+ threads?, [\d.]+ GiB; .*fp32 \(native\).* bf16 \()", machine), machine)


def test_list_of_files():
    """A row for each shipped file, with its facts."""
    for option, folder in (("--clusters", "clusters"), ("--profiles", "profiles")):
        rows = [line.split() for line in run("list", option, code=OK).stdout.splitlines()]
        files = sorted(name[:-5] for name in os.listdir(os.path.join(ROOT, "configs", folder)))
        check([row[0] for row in rows if row and row[0] in files] == files, option, rows)
    text = run("list", "-c", "-p", "-m", code=OK).stdout
    row = next(line for line in text.splitlines() if line.startswith("dgx_h200 "))
    check(all(word in row for word in ("32 x 8", "NVIDIA H200-SXM5-141GB", "8 x 400 RDMA")), row)
    check("GPTSmall" in text and "nanotron_h100" in text and "communicator" not in text, text)
    for name, words in (("pytorch_1.11_a100 ", "fitted to runs"), ("dtbench_cuda_b200 ", "estimate"), ("guess_mi300x ", "guess; RCCL as NCCL")):
        row = next(line for line in text.splitlines() if line.startswith(name))
        check(row.endswith(words) or words == "estimate" and words in row, row)


def test_every_cluster_goes_with_its_profile():
    """Each shipped cluster predicts a step with the profile that it names."""
    for name in sorted(os.listdir(os.path.join(ROOT, "configs", "clusters"))):
        gpus = json.load(open(os.path.join(ROOT, "configs", "clusters", name)))["gpus_per_node"]
        found = run("check", config(), "--json", "--device", "sim", "--set", f'cluster="clusters/{name}"', "--set", f"world_size={min(gpus, 8)}",
                    "--set", 'sweep={"paradigm":["ddp","fsdp"]}', code=OK).stdout
        check(all(row["predicted_step_s"] > 0 for row in json.loads(found)), name, found)


def test_long_folders_that_begin_alike_are_told_apart():
    for middle in ("x", "\u00fc"):  # a byte, and two
        folders = [f"/checkpoints/{120 * middle}/step-{step}" for step in (1, 20)]
        text = run("check", config("folders.json", sweep={"checkpoint.from": folders, "paradigm": ["ddp"]}), code=OK).stdout
        shown = re.findall(r"^ *(\.\.\.\S+) ", text, re.M)
        check(len(shown) == 2 and all(name[3:] and folder.endswith(name[3:]) and "step-" in name for name, folder in zip(shown, folders)), text)


def test_dry_run():
    output = records_path("dry.jsonl")
    result = run("run", config(), "--dry-run", "-o", output, "--set", "sweep.batch_size=[2,4]", code=OK)
    rows = re.findall(r"^\d  \w+ .*", result.stdout, re.M)
    check(len(rows) == 6 and len({line.split()[-1] for line in rows}) == 6 and "name tiny, ranks 2" in result.stdout, result.stdout)
    check(not os.path.exists(output) and not result.stderr, "a dry run leaves something", result.stderr)


def test_options_change_the_config():
    output = records_path("set.jsonl")
    run("run", one("none"), "--set", "world_size=1", "--set=seed=5", "--set", "steps.timed=1", "--device", "cpu", "-o", output, "-q", code=OK)
    found = read_records(output)[0]["config"]
    check(found["seed"] == 5 and found["steps"]["timed"] == 1 and found["device"] == "cpu", found)
    with open(one("none"), encoding="utf-8") as file:
        result = subprocess.run([DTBENCH, "--config", "-", "--set", "world_size=1"], cwd=WORK, stdin=file, capture_output=True, text=True,
                                timeout=COMMAND_S, env=ENVIRONMENT)
    check(result.returncode == OK and json.loads(result.stdout)["status"] == "ok", "standard input:", result)


def completions(*words):
    return run("complete", *words, code=OK).stdout.split("\n")


def test_every_option_and_key_is_completed():
    for command in ("run", "check", "show", "report", "compare", "merge", "status", "list"):
        for option in re.findall(r"^  (?:-\w, |    )--([a-z-]+)", run(command, "--help", code=OK).stdout, re.M):
            check("--" + option in completions(command, "--"), option, "is not completed")

    def paths(value, prefix=""):
        for key, inner in value.items():
            yield from paths(inner, prefix + key + ".") if isinstance(inner, dict) else [prefix + key]

    keys = completions("check", "--set", "")
    for changes in ({}, {"model": {"preset": "GPTSmall"}}):
        for path in paths(json.loads(run("check", "--json", config(**changes), code=OK).stdout)[0]["config"]):
            check(f"{path}=" in keys, path, "is not completed")


# ---- predictions ----

def test_simulated_runs():
    output, trace = records_path("sim.jsonl"), os.path.join(WORK, "trace.json")
    path = config("sim.json", device="sim", world_size=16, model={"preset": "GPTSmall"}, cluster="clusters/gcp_a2.json",
                  profile="profiles/dtbench_cuda_a100.json")
    text = run("run", path, "-o", output, "--trace", trace, code=OK).stdout
    check("status ok" in text and len(re.findall(r"^(?:ddp|pdp|fsdp) ", text, re.M)) == 3, "three rows:", text)
    check(max(map(len, text.splitlines())) <= 80 and "loss" not in text, "80 columns, and no columns of losses:", text)
    text = run("run", path, "-o", output, "--set", 'sweep.profile=["profiles/dtbench_cuda_a100.json","pytorch_1.11_a100"]',
               "--set", "sweep.batch_size=[1,2,4]", code=OK).stdout
    check(max(map(len, text.split("\n\n", 1)[1].splitlines())) <= 80 and "profiles/" not in text.split("\n\n", 1)[1], text)
    check(text.count("dtbench_cuda_a100") >= 18, "what has no place follows in a second table:", text)
    os.remove(output)
    run("run", path, "-o", output, "--trace", trace, code=OK)
    records = read_records(output)
    for number, record in enumerate(records, 1):
        check(record["status"] == "ok" and record["metrics"]["step_s"]["median"] > 0, record)
        check(record["losses"] == [None] * 4 and record["metrics"]["startup_s"] is None, "nothing is computed:", record["losses"])
        check(sorted(by_rank(record["metrics"]["peak_bytes"])) == list(range(16)) and 0 < record["metrics"]["mfu"] < 1, "metrics")
        check(record["provenance"]["simulated"]["cluster"]["name"] == "gcp_a2", record["provenance"])
        with open(os.path.join(WORK, f"trace-{number}.json"), encoding="utf-8") as lines:
            events = json.load(lines)["traceEvents"]
        rows = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
        check({pid for pid, _ in rows} == set(range(16)), "a process for each rank")
        end = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") / 1e6
        check(abs(end - record["metrics"]["step_s"]["median"]) < 1e-6, "the trace ends with the step:", end)
    checks = json.loads(run("check", "--json", path, code=OK).stdout)
    for record, predicted in zip(records, checks):
        check(record["metrics"]["peak_bytes"]["total"] == predicted["predicted_peak_bytes"]["total"], "bytes are those of check")
    again = records_path("again.jsonl")
    run("run", path, "-o", again, code=OK)
    run("run", path, "-o", again, code=OK)
    records = read_records(again)
    for first, second in zip(records[:3], records[3:]):
        for record in (first, second):
            del record["provenance"]["started"], record["metrics"]["wall_s"], record["sweep"]
        check(first == second, "two predictions differ")


def test_predictions_follow_their_files():
    output, profile = records_path("profile.jsonl"), os.path.join(WORK, "profile.json")
    root = ROOT
    with open(os.path.join(root, "configs", "profiles", "pytorch_1.11_a100.json"), encoding="utf-8") as lines:
        text = lines.read()
    with open(profile, "w", encoding="utf-8") as out:
        out.write(text)
    path = config("sim.json", device="sim", profile="profile.json")  # beside the config
    check("not run" not in run("run", path, "-o", output, code=OK).stderr, "first")
    check("nothing is left to run" in run("run", path, "-o", output, "--resume", code=OK).stderr, "resume")
    with open(profile, "w", encoding="utf-8") as out:
        out.write(text + "\n")
    run("run", path, "-o", output, "--resume", code=OK)
    check(len(read_records(output)) == 6, "another profile, another prediction")
    with open(profile, "w", encoding="utf-8") as out:
        out.write(text.replace('"peak_fraction"', '"peak_friction"'))
    check("gemm.peak_friction" in run("run", path, "-o", output, code=CONFIG).stderr, "the place of a mistake in a profile")


def test_predicted_out_of_memory():
    output = records_path("simoom.jsonl")
    path = config("sim.json", device="sim", world_size=8, sweep=None, paradigm="ddp", model={"preset": "GPT13B"},
                  cluster="clusters/gcp_a2.json")
    run("run", path, "-o", output, code=OOM)
    record, = read_records(output)
    check(record["status"] == "oom" and record["metrics"]["peak_bytes"]["total"] > 60e9, record["error"])
    for arguments, text in ((["--verify"], "--verify needs losses"), ([], "")):
        result = run("run", config("sim.json", device="sim"), "-o", output, *arguments, code=CONFIG if arguments else OK)
        check(text in result.stderr, text, result.stderr)
    # all experiments are checked before the first one runs
    result = run("run", one("none"), "-o", output, "--verify", "--set", "world_size=1", "--set", 'sweep.device=["cpu","sim"]',
                 "--set", "sweep.seed=[1,2]", code=CONFIG)
    check("--verify needs losses" in result.stderr, result.stderr)


if __name__ == "__main__":
    sys.exit(main(globals()))
