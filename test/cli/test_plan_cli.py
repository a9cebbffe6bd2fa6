"""dtbench plan: what it prints and writes, and one line for each wrong request. Prints TAP.

Usage: test_plan_cli.py DTBENCH [CASE...]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tap_cases import check, chosen, run_all  # beside this script

DTBENCH = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = tempfile.mkdtemp(prefix="dtbench-test-")
SMALL = ["--set", "model.layers=4", "--set", "model.heads=4", "--set", "model.hidden=256", "--cluster", "gcp_a2",
         "--forbid", "activation=offload,selective,selective_op", "--forbid", "parameter_offload=true"]


def plan(*arguments, code=0):
    result = subprocess.run([DTBENCH, "plan", *arguments], cwd=WORK, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    check(result.returncode == code, f"exit code {result.returncode}, not {code}:", *arguments, "\n", result.stdout, result.stderr)
    check("waits 0 %" not in " ".join(result.stdout.split()), "what nobody waits for is told:", result.stdout)
    check("\033" not in result.stdout + result.stderr, "progress in a pipe:", result.stderr)
    return result


def refused(words, *arguments, code=3):
    text = plan(*arguments, code=code).stderr
    check(text.count("\n") == 1 and words in text, f"{words!r} in one line, not {text!r}")


def test_plans_are_experiments():
    found = json.loads(plan(*SMALL, "--max-batch", "2", "--nodes", "2", "--json", "--all", "all.jsonl", "--top", "3").stdout)
    check(len(found["plans"]) == 3 and found["search"]["candidates"] > 100, found["search"])
    rates = [one["tokens_per_s"] for one in found["plans"]]
    check(rates == sorted(rates, reverse=True) and all(one["why"] and one["peak_bytes"] > 0 for one in found["plans"]), rates)
    run = subprocess.run([DTBENCH, "run", "plan.json", "--quiet", "--output", "again.jsonl"], cwd=WORK, capture_output=True, text=True,
                         timeout=60)
    check(run.returncode == 0, run.stderr)
    with open(os.path.join(WORK, "again.jsonl"), encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    for one, record in zip(found["plans"], records, strict=True):
        check(abs(record["metrics"]["tokens_per_s"] / one["tokens_per_s"] - 1) < 1e-6, record["metrics"]["tokens_per_s"], one["tokens_per_s"])
        check(record["metrics"]["peak_bytes"]["total"] == one["peak_bytes"] and record["config"] == one["config"], "another experiment")
    with open(os.path.join(WORK, "all.jsonl"), encoding="utf-8") as lines:
        check(len(lines.readlines()) >= found["search"]["simulated"], "a record of each simulated candidate")


def test_a_job_that_is_divided_is_planned():
    """The search chooses the job's division: the file's own one is no reason to refuse fewer ranks."""
    with open(os.path.join(WORK, "divided.json"), "w", encoding="utf-8") as out:
        json.dump({"paradigm": "ddp", "world_size": 16, "batch_size": 2, "tensor": {"size": 2}, "pipeline": {"stages": 4, "split": [1, 2, 3]},
                   "model": {"layers": 4, "heads": 4, "hidden": 256, "vocab_size": 1000, "block_size": 64}}, out)
    found = json.loads(plan("divided.json", "--cluster", "gcp_a2", "--gpus", "2", "--fix", "activation=keep", "--forbid", "parameter_offload=true",
                            "--json").stdout)
    check(found["plans"] and all(one["config"]["world_size"] == 2 for one in found["plans"]), found["plans"])


def test_people_read_it():
    text = plan(*SMALL, "--gpus", "8", "--global-batch", "16", "--fix", "paradigm=fsdp", "--price", "2", "--tokens", "1e9").stdout
    for words in ("8 x NVIDIA A100", "FSDP", "why the first", "how sure", "hours", "price per", "margin"):
        check(words in text, words, "\n", text)


def test_what_holds_for_several_modes_is_said_once():
    """The runs that a general profile was fitted to tell the same of all modes."""
    text = plan("--model", "GPTLarge", "--cluster", "gcp_a2", "--profile", "general_a100", "--gpus", "8", "--top", "8",
                *(word for key in ("batch_size=8", "activation=keep", "tensor.size=1", "pipeline.stages=1", "parameter_offload=false",
                                          "ddp.overlap_param_gather=false") for word in ("--fix", key))).stdout
    sure = " ".join(text.split("how sure")[1].split())
    check("ZeRO-1, ZeRO-2, FSDP: step times of measured runs are off by" in sure, text)
    check(sure.count("step times of measured runs") == sure.count("eight of ten") == 1, text)


def test_a_cluster_may_have_more_nodes():
    """More nodes than the file has are refused unless they are allowed; no key of the hardware is part of a strategy."""
    request = [*SMALL, "--nodes", "65", "--global-batch", "520", "--fix", "paradigm=ddp", "--fix", "tensor.size=1",
               "--fix", "pipeline.stages=1", "--fix", "activation=keep", "--fix", "parameter_offload=false"]
    refused("has 64 nodes of 8 GPUs; --set more_nodes=true allows more of this kind", *request)
    keys = ["more_nodes=true", "network.gbit_per_s=50", "seed=7", "memory_limit_gib=30"]
    found = json.loads(plan(*request, *(word for key in keys for word in ("--set", key)), "--json", "--fix", "ddp.bucket_mib=25").stdout)
    check({one["strategy"] for one in found["plans"]} == {"DDP"}, [one["strategy"] for one in found["plans"]])


def test_a_free_batch_is_told():
    request = [*SMALL, "--gpus", "2", "--fix", "paradigm=ddp", "--fix", "tensor.size=1"]
    text = " ".join(plan(*request, "--max-batch", "4").stdout.split())
    check("no batch was asked for: a step has 2,048 tokens in 8 samples. Larger batches are faster" in text, text)
    check("no batch was asked for" not in plan(*request, "--global-batch", "8").stdout, "a batch was asked for")


def test_fewer_samples_than_gpus():
    """Each copy of the model is then on several GPUs, which share a sample."""
    found = json.loads(plan(*SMALL, "--gpus", "8", "--global-batch", "2", "--json").stdout)
    check(found["plans"], found)
    for one in found["plans"]:
        check(one["config"]["batch_size"] == 0.25, one["config"])
    text = " ".join(plan(*SMALL, "--gpus", "8", "--global-batch", "2").stdout.split())
    check("all rows: batch 0.25" in text, text)


def test_two_replicas_are_told():
    text = " ".join(plan(*SMALL, "--gpus", "2", "--global-batch", "4", "--fix", "paradigm=ddp", "--fix", "tensor.size=1").stdout.split())
    check("averaged over 2 replicas once a step" in text, text)
    text = " ".join(plan(*SMALL, "--gpus", "2", "--global-batch", "256", "--fix", "tensor.size=1").stdout.split())
    others = text.split("why not the others")[1].split("how sure")[0]
    check("waiting for communication or copies" in others, text)
    for said in re.findall(r"a step of [\d.]+ s: ([^;-]*)", text):
        check(sum(map(int, re.findall(r"(\d+) %", said))) == 100, "the parts sum to the step:", said)


def test_the_workload_is_said_first():
    """The defaults are Adam and bf16; a config, an option or the GPU takes precedence."""
    few = ["--model", "GPTSmall", "--gpus", "1", "--global-batch", "2", "--fix", "activation=keep", "--fix", "parameter_offload=false"]
    config = {"model": {"preset": "GPTSmall", "dtype": "fp16", "block_size": 128}, "optimizer": {"name": "sgd"}, "device": "sim"}
    with open(os.path.join(WORK, "silent.json"), "w", encoding="utf-8") as silent, \
            open(os.path.join(WORK, "said.json"), "w", encoding="utf-8") as said:
        json.dump({"model": {"preset": "GPTSmall"}, "optimizer": {"learning_rate": 0.5}}, silent)
        json.dump(config, said)
    for arguments, first in (
            ([*few, "--cluster", "gcp_a2"], "adam, bf16, 256 tokens a sample"), (["silent.json", *few[2:], "--cluster", "gcp_a2"], "adam, bf16, 256"),
            (["said.json", *few[2:], "--cluster", "gcp_a2"], "sgd, fp16, 128"),
            ([*few, "--cluster", "gcp_a2", "--optimizer", "sgd", "--set", "model.dtype=fp32", "--sequence", "64"], "sgd, fp32, 64"),
            ([*few, "--cluster", "aws_p3"], "adam, fp16, 256")):
        lines = plan(*arguments, "--quiet").stdout.split("\n")
        check(lines[0].startswith("GPTSmall, ") and " parameters; " + first in lines[0], lines[0])
        check("predicted, not measured: cluster " + arguments[arguments.index("--cluster") + 1] + ", profile pytorch_1.11_" in lines[2], lines[2])
        with open(os.path.join(WORK, "plan.json"), encoding="utf-8") as file:
            written = json.load(file)
        check([written["optimizer"]["name"], written["model"]["dtype"]] == first.split(", ")[:2], written)


def test_the_memory_that_is_short_is_named():
    text = " ".join(plan("--model", "GPT1T", "--cluster", "gcp_a2_1", "--max-batch", "1", "--fix", "tensor.size=8", "--fix", "activation=offload",
                         "--fix", "paradigm=fsdp", "--fix", "parameter_offload=true", "--quiet", code=5).stdout.split())
    check(re.search(r"FSDP: the smallest candidate takes [\d.]+ of a GPU's 37.73 GiB, but lacks other memory: the ranks of node 0 need "
                    r"[\d.]+ TiB of host memory, and it has 633 GiB", text), text)


def test_columns_of_rates_that_are_not_used():
    with open(os.path.join(WORK, "rates.csv"), "w", encoding="utf-8") as to:
        to.write("m,n,k,tflops,clock\n512,512,512,100,1410\n")
    command = (DTBENCH, "run", os.path.join(ROOT, "configs/smoke.json"), "--device", "sim", "--rates", "rates.csv", "-o", "rates.jsonl")
    for more, notes in (([], 1), (["-q"], 0)):
        said = subprocess.run([*command, *more], cwd=WORK, capture_output=True, text=True, timeout=120, check=True).stderr
        check(said.count("dtbench: note: rates rates.csv: columns not used: clock\n") == notes, said)


def test_a_slow_part():
    """The loss of each plan to a slow part; the written config has the part, and without it nothing changes."""
    few = ["--model", "GPTMedium", "--cluster", "gcp_a2_1", "--fix", "paradigm=ddp", "--fix", "tensor.size=1", "--global-batch", "256", "--quiet",
           "--fix", "activation=keep", "--fix", "parameter_offload=false", "--forbid", "pipeline.stages=2,4,8"]
    equal, slow = (json.loads(plan(*few, *more, "--json").stdout)["plans"][0] for more in ([], ["--slow", "rank=3,by=50%"]))
    check(equal["lost_to_slow"] is None and 0 < slow["lost_to_slow"] < 0.5, slow["lost_to_slow"])
    check("slow" not in equal["config"] and slow["config"]["slow"] == {"by": 0.5, "rank": 3, "part": "gpu"}, slow["config"])
    check(abs(1 - slow["tokens_per_s"] / equal["tokens_per_s"] - slow["lost_to_slow"]) < 1e-6, slow)
    text = " ".join(plan(*few, "--slow", "rank=3,by=50%").stdout.split())
    check("the GPU of rank 3 has 50 % of the usual speed: the first plan loses" in text and "loses the least of those shown" in text, text)
    refused('--slow: "whom=3": expected rank=3,by=10%', *few, "--slow", "whom=3,by=1%")
    refused("expected by how much, such as by=10%", *few, "--slow", "rank=3")
    refused("--slow: rank is given twice", *few, "--slow", "rank=1,by=10%,rank=0")
    refused("slow.rank: 8, and world_size is 8", *few, "--slow", "rank=8,by=1%")
    refused("slow.by", *few, "--slow", "by=100%")


def kind_of(config):
    return (config["paradigm"], config["world_size"], *(json.dumps(config.get(key)) for key in ("tensor", "hsdp")),
            config.get("pipeline", {}).get("stages"))


def test_the_first_five_are_of_five_kinds():
    """Similar candidates are one row with a count; --top N shows the N best, however similar."""
    few = [*SMALL, "--nodes", "2", "--max-batch", "8", "--json", "--quiet"]
    found = json.loads(plan(*few).stdout)["plans"]
    kinds = [kind_of(one["config"]) for one in found]
    check(len(found) == 5 and len(set(kinds)) == 5, kinds)
    check([one["margin"] for one in found] == sorted(one["margin"] for one in found) and found[0]["alike"] > 0, found)
    best = json.loads(plan(*few, "--top", "5").stdout)["plans"]
    check(len(set(kind_of(one["config"]) for one in best)) < 5 and not any(one["alike"] for one in best), best)
    check(best[0]["config"] == found[0]["config"] and best[4]["margin"] <= found[4]["margin"], "another best")
    check("alike: the number of others" in plan(*few[:-2]).stdout, "no row that stands for others")


def test_changes_are_above_the_noise():
    few = [*SMALL, "--json", "--quiet", "--top", "1", "--forbid", "paradigm=hsdp,fsdp,pdp", "--forbid", "tensor.size=2,4,8"]
    check(json.loads(plan(*few, "--gpus", "8", "--global-batch", "16").stdout)["what_would_change_it"] == [], "ZeRO-2 is no better by bytes alone")
    lines = json.loads(plan(*few, "--nodes", "4", "--global-batch", "64").stdout)["what_would_change_it"]
    gains = [float(re.search(r"([\d.]+) % better than the first one in that case", line)[1]) for line in lines]
    check(gains and min(gains) >= 4, lines)
    plan("--model", "GPTSmall", "--cluster", "gcp_a2_1", "--global-batch", "64", "--quiet", "--fix", "activation=keep", "--fix", "parameter_offload=false")  # has no network for a second node


def test_twice_the_nodes_have_as_many_gpus_each():
    """Five GPUs of a node of eight: a second node has five as well, and groups of five straddle none."""
    found = json.loads(plan("--model", "GPT13B", "--cluster", "dgx_a100", "--gpus", "5", "--global-batch", "10", "--json", "--quiet", "--top", "1").stdout)
    check(any(line.startswith("on 2 nodes: ") for line in found["what_would_change_it"]), found["what_would_change_it"])


def test_a_deadline_leaves_out_what_is_cheap_and_slow():
    few = ["--model", "GPTSmall", "--cluster", "gcp_a2", "--nodes", "4", "--max-batch", "16", "--fix", "activation=keep", "--fix", "paradigm=ddp", "--fix", "tensor.size=1", "--objective", "cost", "--quiet",
           "--tokens", "1e12"]
    free = json.loads(plan(*few, "--json").stdout)["plans"][0]
    check(abs(free["hours"] * free["tokens_per_s"] * 3600 / 1e12 - 1) < 1e-9, free["hours"])
    days = 0.6 * free["hours"] / 24
    soon = json.loads(plan(*few, "--json", "--deadline", f"{days}d").stdout)["plans"]
    check(soon and all(one["hours"] <= 24 * days for one in soon), soon)
    check(soon[0]["gpu_hours_per_1e9_tokens"] > free["gpu_hours_per_1e9_tokens"], soon[0], free)
    same = json.loads(plan(*few, "--json", "--deadline", f"{24 * days}h").stdout)["plans"]
    check([one["config"] for one in same] == [one["config"] for one in soon], "hours and days differ")
    check("days for" in plan(*few, "--deadline", f"{days}d").stdout, "the time does not stand beside the cost")
    saves = ["--set", "checkpoint.path=saved", "--set", "checkpoint.save_every=5"]
    check("nothing meets the deadline" in plan(*few, *saves, "--deadline", f"{days}d", code=5).stdout, "saves do not count")
    text = " ".join(plan(*few, "--deadline", "1h", code=5).stdout.split())
    check("are too slow" in text and "nothing meets the deadline" in text and "DDP: too slow: at most" in text, text)
    refused("days or hours with their unit", *few, "--deadline", "30")
    refused("needs --tokens", *few[:-2], "--deadline", "30d")
    refused("give one of them", *SMALL, "--objective", "memory", "--tokens", "1e12", "--floor", "3", "--deadline", "30d")


def test_a_plan_stopped_at_once_has_a_result():
    found = json.loads(plan(*SMALL, "--nodes", "2", "--max-batch", "2", "--seconds", "1e-6", "--json").stdout)
    check(found["plans"] and found["search"]["interrupted"], found["search"])


def test_energy_is_power_and_time():
    found = json.loads(plan(*SMALL, "--nodes", "2", "--max-batch", "2", "--objective", "energy", "--json", "--top", "3").stdout)
    joules = [one["joules_per_token"] for one in found["plans"]]
    check(joules == sorted(joules), joules)
    for one in found["plans"]:  # 400 W each
        check(abs(one["joules_per_token"] * one["tokens_per_s"] / one["config"]["world_size"] / 400 - 1) < 1e-9, one["joules_per_token"])
    text = " ".join(plan(*SMALL, "--gpus", "8", "--global-batch", "16", "--fix", "paradigm=ddp", "--objective", "energy").stdout.split())
    check("J per token" in text and "400 W" in text, text)
    with open(os.path.join(ROOT, "configs", "clusters", "gcp_a2.json"), encoding="utf-8") as file:
        cluster = json.load(file)
    del cluster["gpu"]["power_w"]
    with open(os.path.join(WORK, "unknown_power.json"), "w", encoding="utf-8") as out:
        json.dump(cluster, out)
    refused("gpu.power_w", "--model", "GPTSmall", "--cluster", "unknown_power.json", "--profile", "pytorch_1.11_a100", "--objective", "energy")


def test_tables_are_narrow():
    text = plan(*SMALL, "--gpus", "8", "--global-batch", "8", "--top", "9", "--quiet").stdout
    rows = text[text.index("strategy"):text.index("why the first")].split("\n")
    check(max(map(len, rows)) <= 80, text)


def test_the_first_are_measured():
    here = os.path.join(WORK, "here")
    os.mkdir(here)
    tiny = ["plan", "--device", "cpu", "--gpus", "1", "--max-batch", "2", "--fix", "activation=keep", "--set", "model.layers=2",
            "--set", "model.heads=2", "--set", "model.hidden=32", "--set", "model.vocab_size=100", "--set", "model.block_size=16", "--quiet"]
    missing = subprocess.run([DTBENCH, *tiny], cwd=here, capture_output=True, text=True, timeout=60)
    check(missing.returncode == 3 and "dtbench calibrate" in missing.stderr, missing.stderr)
    made = subprocess.run([DTBENCH, "calibrate", "--quick", "--quiet", "--ranks", "1"], cwd=here, capture_output=True, text=True, timeout=60)
    if made.returncode != 0:
        check("cpu" in made.stderr or "MPI" in made.stderr, made.stderr)  # a build without them
        return
    done = subprocess.run([DTBENCH, *tiny, "--measure", "2", "--rounds", "3", "--top", "100", "--json", "--all", "all.jsonl"], cwd=here, capture_output=True, text=True,
                          timeout=120)
    check(done.returncode == 0, done.stderr)
    text = subprocess.run([DTBENCH, *tiny[:3], *tiny[5:], "--seconds", "1"], cwd=here, capture_output=True, text=True, timeout=60).stdout
    check("GPU" not in text and "1 rank on" in text and "on the fullest rank" in text, text)
    with open(os.path.join(here, "cluster.json"), encoding="utf-8") as file:
        cluster = json.load(file)
    with open(os.path.join(here, "large.json"), "w", encoding="utf-8") as file:
        json.dump({**cluster, "gpus_per_node": 64}, file)
    large = ["--cluster", "large.json", "--profile", "profile.json"]
    none = subprocess.run([DTBENCH, *tiny[:3], "--gpus", "64", *tiny[5:], *large], cwd=here, capture_output=True, text=True, timeout=60)
    check(len(os.sched_getaffinity(0)) >= 64 or none.returncode == 3 and "--gpus 64: 64 ranks, but this machine has" in none.stderr, none.stderr)
    measured = json.loads(done.stdout)["measured"]
    runs = measured["runs"]
    check(measured["device"] == "cpu" and len(runs) == 2 and all(run["status"] == "ok" for run in runs), measured)
    fastest = max(range(2), key=lambda place: runs[place]["tokens_per_s"])
    check(measured["won"] == fastest + 1, measured)
    with open(os.path.join(here, "all.jsonl"), encoding="utf-8") as lines:
        real = [record for record in map(json.loads, lines) if record["config"]["device"] == "cpu"]
    plans = json.loads(done.stdout)["plans"]
    predicted = [plans[run["place"] - 1]["step_s"] for run in runs]
    apart = [number for number, one in enumerate(plans, 1) if one["margin"] >= 0.02]
    check(runs[0]["place"] == 1 and runs[1]["place"] == (apart[0] if apart else 2), runs, apart, "candidates that nobody could tell apart")
    check(len(real) == 6, len(real), "records, not those of three rounds: there, back and there")
    for number, (run, step_s) in enumerate(zip(runs, predicted, strict=True)):
        steps = [real[place]["metrics"]["step_s"]["median"] for place in (number, 3 - number, 4 + number)]
        check(run["steps_s"] == steps and run["step_s"] == sorted(steps)[1], steps, run)
        check(abs(run["error"] - (step_s / run["step_s"] - 1)) < 1e-9, run, step_s)
    rates = [[run["tokens_per_s"] * run["step_s"] / step_s for step_s in run["steps_s"]] for run in runs]
    slower = 1 - fastest
    check(runs[fastest]["wins"] and runs[slower]["wins"] == (max(rates[slower]) >= min(rates[fastest])), runs, "three runs tell by all of them")


DEEP = ("--fix", "activation=checkpoint", "--fix", "parameter_offload=true", "--fix", "paradigm=fsdp")


def test_stages_are_more_than_few_blocks():
    """Memory is not predicted from few blocks for a pipeline with more stages."""
    text = plan("--model", "GPT76B", "--global-batch", "64", "--cluster", "ib_a100", "--nodes", "4", *DEEP, "--fix", "pipeline.stages=8",
                "--fix", "tensor.size=1", "--fix", "pipeline.order=1f1b").stdout
    check("8 stages" in text, text)


def test_the_decision_tree_has_three_dimensions():
    """The decision tree's text counts from tens of billions of parameters on several nodes, its function where there is no NVLink."""
    def rule(*more):
        found = json.loads(plan("--model", "GPT76B", "--global-batch", "64", "--rule", *DEEP, "--fix", "tensor.size=8", *more, "--json").stdout)
        return found["rules"][0]["says"]
    check(rule("--cluster", "ib_a100", "--nodes", "4").startswith("tensor parallelism in a node, pipelines between nodes, FSDP over them"), "four nodes")
    check(rule("--cluster", "ib_a100", "--nodes", "1").startswith("tensor parallelism with FSDP"), "one node")


def test_rules_cost_something():
    few = [*SMALL, "--gpus", "8", "--global-batch", "8", "--fix", "activation=keep", "--forbid", "paradigm=hsdp,zero1,zero2", "--rule"]
    found = json.loads(plan(*few, "--json").stdout)
    best = found["plans"][0]["tokens_per_s"]
    check([rule["name"] for rule in found["rules"]] == ["the decision tree", "the study's Best Practices"], found["rules"])
    for rule in found["rules"]:
        check(rule["strategy"].startswith("DDP") and abs(rule["regret"] - (1 - rule["tokens_per_s"] / best)) < 1e-9 and rule["regret"] >= 0,
              rule, best)
    text = " ".join(plan(*few, "--fix", "paradigm=pdp").stdout.split())
    check("rules of thumb" in text and text.count("left out by --fix") == 2, text)


def test_a_map_has_a_box_for_each():
    few = ["--cluster", "gcp_a2", "--gpus", "8", "--fix", "activation=keep", "--fix", "parameter_offload=false", "--forbid", "paradigm=hsdp,pdp"]
    found = json.loads(plan(*few, "--map", "model=GPTSmall,GPTMedium", "batch=8,16", "--json", "--output", "map.jsonl").stdout)["boxes"]
    check([(box["model"], box["global_batch"]) for box in found] == [(m, b) for m in ("GPTSmall", "GPTMedium") for b in (8, 16)], found)
    with open(os.path.join(WORK, "map.jsonl"), encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    for box, record in zip(found, records, strict=True):
        best = box["plan"]["plans"][0]
        check(record["status"] == "ok" and record["config"]["model"]["preset"] == box["model"], record)
        check(abs(record["metrics"]["tokens_per_s"] / best["tokens_per_s"] - 1) < 1e-9, record["metrics"], best)
    text = plan(*few, "--map", "model=GPTSmall batch=8", "--rule", "--output", "table.jsonl").stdout
    check("tokens/s" in text and "the decision tree" in text and text.count("GPTSmall") <= 2, text)
    refused("17", *few, "--map", "model=GPTSmall", "batch=8,17")
    refused("is not known", *few, "--map", "model=GPT5")
    refused("expected model=", *few, "--map", "models=GPTSmall")
    refused("twice", *few, "--map", "model=GPTSmall,GPTSmall")
    refused("both choose models", *few, "--model", "GPTSmall", "--map", "model=GPTSmall")
    refused("leave out --map", *few, "--map", "model=GPTSmall", "--measure", "2")
    check("one config file" in plan("a.json", "b.json", code=2).stderr, "two configs")


def test_nothing_fits():
    plan("--model", "GPT175B", "--cluster", "gcp_a2_1", "--fix", "paradigm=ddp", "--fix", "tensor.size=1", "--max-batch", "1",
         "--fix", "parameter_offload=false", code=5)


def test_wrong_requests_get_a_line():
    refused("needs a model", "--cluster", "gcp_a2")
    refused('did you mean "activation"', *SMALL, "--fix", "actvation")
    refused("the nearest are", *SMALL, "--fix", "nonsense")
    refused("is not known", "--model", "GPT5")
    refused("clusters/nowhere.json", "--model", "GPTSmall", "--cluster", "nowhere")
    refused("64 nodes of 8", "--model", "GPTSmall", "--cluster", "gcp_a2", "--nodes", "65")
    refused("cannot be divided", *SMALL, "--nodes", "2", "--global-batch", "17", "--fix", "tensor.size=1", "--fix", "pipeline.stages=1")
    refused("no candidate is left", *SMALL, "--nodes", "1", "--forbid", "paradigm=ddp,zero1,zero2,fsdp,hsdp,pdp")
    refused("did you mean", *SMALL, "--fix", "paradigm=fspd")
    refused("unknown key", *SMALL, "--fix", "paradigms=fsdp")
    refused("whole number", *SMALL, "--top", "none")
    refused("expected tokens, memory, cost or energy", *SMALL, "--objective", "speed")
    refused("--measure 3: needs a device", *SMALL, "--measure", "3")
    refused("--rounds needs --measure", *SMALL, "--rounds", "3")
    refused("expected sim, cpu or cuda", *SMALL, "--device", "tpu")
    refused("needs --cluster", "--model", "GPTSmall", "--device", "cuda")
    refused("--floor needs", *SMALL, "--floor", "3")
    with open(os.path.join(WORK, "none.json"), "w", encoding="utf-8") as out, \
            open(os.path.join(ROOT, "configs", "clusters", "gcp_a2.json"), encoding="utf-8") as file:
        json.dump({**json.load(file), "gpus_per_node": 0}, out)
    refused("gpus_per_node", "--model", "GPTSmall", "--cluster", "none.json")
    refused("cpu", "--model", "GPTSmall", "--cluster", "cpu_node", "--profile", "pytorch_1.11_a100")


def test_profiles_are_compared():
    """A row for each profile that is for the cluster's GPU; the answer names its profile."""
    model = ("--model", "GPTSmall", "--cluster", "dgx_a100", "--gpus", "2", "--global-batch", "16", "--fix", "micro_batches=1",
             "--fix", "activation=keep", "--fix", "parameter_offload=false", "-o", os.path.join(WORK, "boxes.jsonl"))
    text = plan(*model, "--profiles", "all").stdout
    for name in ("dtbench_cuda_a100", "llm_foundry_a100", "megatron_lm_a100", "pytorch_1.11_a100"):
        check(re.search(r"^%s +\S" % re.escape(name), text, re.MULTILINE), name, text)
    check("h100" not in text and "cpu" not in text, "those of other hardware are left out:", text)
    check("depends on the profile" in text or "the same plan is best with each of these profiles" in text, text)
    boxes = json.loads(plan(*model, "--profiles", "llm_foundry_a100,pytorch_1.11_a100", "--json").stdout)["boxes"]
    check([box["profile"] for box in boxes] == ["llm_foundry_a100", "pytorch_1.11_a100"], boxes)
    check("profile general_a100 (any software, A100: " in plan(*model).stdout.split("\n\n")[0], "a cluster's profile is of its time")
    for wrong in ("nowhere", "llm_foundry_h100", ","):
        result = plan(*model, "--profiles", wrong, code=3)
        check(result.stderr.count("\n") == 1 and "profile" in result.stderr, wrong, result.stderr)


def test_errors_are_those_of_the_study():
    """The profile's errors are those of results/study/README.md."""
    with open(os.path.join(ROOT, "configs", "profiles", "pytorch_1.11_a100.json"), encoding="utf-8") as file:
        error = json.load(file)["error"]
    with open(os.path.join(ROOT, "results", "study", "README.md"), encoding="utf-8") as file:
        row = re.search(r"^all +(\d+) +([\d.]+) +([\d.]+)", file.read(), re.MULTILINE)
    check(abs(error["median"] - float(row[2]) / 100) < 0.0006 and abs(error["most"] - float(row[3]) / 100) < 0.0006 and row[1] in error["of"], error, row[0])
    most = error["most"]
    found = json.loads(plan("--model", "GPTSmall", "--cluster", "gcp_a2", "--gpus", "1", "--global-batch", "4", "--top", "1", "--json").stdout)
    doubts = [line for line in found["confidence"] if line.startswith("not measured: ")]
    check(len(found["plans"]) == 1 and doubts, "one plan, and how sure it is:", found["confidence"])
    alone = found["plans"][0]
    check(alone["known_error"] == most and not alone["mode_measured"], "the study has no paradigm none:", alone["known_error"])
    check(alone["known_error_of_unseen"] is None, "nothing is known of other software:", alone)
    with open(os.path.join(ROOT, "configs", "profiles", "llm_foundry_a100.json"), encoding="utf-8") as file:
        error = json.load(file)["error"]
    found = json.loads(plan("--model", "GPTSmall", "--cluster", "dgx_a100_1", "--profile", "llm_foundry_a100", "--gpus", "2", "--global-batch", "8",
                            "--fix", "micro_batches=1", "--top", "2", "--json").stdout)
    check(found["plans"][0]["known_error_of_unseen"] == error["unseen"] > error["eight"], found["plans"][0], error)
    check(any(line.startswith("eight of ten step times with software that the profile was not fitted to are off") for line in found["confidence"]) and
          any(line.startswith("with such software n") for line in found["confidence"]), found["confidence"])


if __name__ == "__main__":
    try:
        failed = run_all(chosen(globals()))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(failed)
