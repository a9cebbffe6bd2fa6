"""compare, merge and status on records: verdicts, formats, refusals, and the records of many writers. Prints TAP.

Usage: test_compare.py DTBENCH [CASE...]. One tiny sweep is run; the records of all cases are made from its records.
"""
import copy
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from tap_cases import COMMAND_S, Skip, check, chosen, run_all  # beside this script

DTBENCH = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = tempfile.mkdtemp(prefix="dtbench-test-")
CONFIG = {
    "name": "tiny", "device": "cpu", "world_size": 1, "batch_size": 1,
    "model": {"layers": 1, "heads": 1, "hidden": 16, "vocab_size": 50, "block_size": 8, "dtype": "fp32"},
    "steps": {"warmup": 1, "timed": 9},
    "sweep": {"batch_size": [1, 2, 4]},
}
OK, USAGE, CONFIG_CODE, OUTPUT, REGRESSION, INCOMPARABLE = 0, 2, 3, 7, 8, 9
noise = random.Random(9)


def run(*arguments, code=OK, **options):
    result = subprocess.run([DTBENCH, *arguments], cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL, **options)
    check(code in (result.returncode, None), f"exit code {result.returncode}, not {code}:", *arguments, "\n", result.stdout, result.stderr)
    return result


def real_records():
    """The records of the one sweep that is run, and its config's file."""
    path = os.path.join(WORK, "real.jsonl")
    with open(os.path.join(WORK, "tiny.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    if not os.path.exists(path):
        run("run", "tiny.json", "--output", path, "--quiet")
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(name, records, tail=""):
    with open(os.path.join(WORK, name), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
        file.write(tail)
    return name


def timed(record, steps, **changes):
    """The record with these step times, and with changes such as status="oom", "provenance.driver"="1"."""
    new = copy.deepcopy(record)
    median = statistics.median(steps) if steps else None
    new["metrics"]["step_s"].update(median=median, all=list(steps))
    new["metrics"]["tokens_per_s"] = record["config"]["batch_size"] * 8 / median if steps else None
    for path, value in changes.items():
        here, keys = new, path.split(".")
        for key in keys[:-1]:
            here = here[key]
        here[keys[-1]] = value
    return new


def steps(mean, relative=0.05, count=9):
    return [mean * (1 + noise.gauss(0, relative)) for _ in range(count)]


def compare(base, new, *options, code=OK, single=True):
    return json.loads(run("compare", base, new, "--format=json", *["--single"] * single, *options, code=code).stdout)


def verdicts(result):
    return [row["verdict"] for row in result["experiments"]]


# ---- compare ----


def test_every_verdict():
    one, two, four = real_records()
    steady = [0.1, 0.101, 0.099, 0.1, 0.1, 0.101, 0.1, 0.099, 0.1]
    base = write("base.jsonl", [timed(r, steady) for r in (one, two, four)])

    def against(steps_of_two, *options, code=OK, **changes):
        new = write("new.jsonl", [timed(one, steady), timed(two, steps_of_two, **changes), timed(four, steady)])
        result = compare(base, new, *options, code=code)
        check(verdicts(result)[::2] == ["same", "same"], result)
        return result["experiments"][1]

    check(against(steady)["verdict"] == "same", "equal steps")
    row = against([s * 1.2 for s in steady], code=REGRESSION)
    check(row["verdict"] == "slower" and row["regressions"] == ["throughput"] and abs(row["throughput_ratio"] - 1 / 1.2) < 0.005, row)
    check(row["interval"][0] <= row["throughput_ratio"] <= row["interval"][1] < 0.9, row)
    check(against([s * 1.2 for s in steady], "--threshold=30%")["verdict"] == "same", "a threshold of 30 %")
    check(against([s * 1.2 for s in steady], "--gate=losses,memory")["verdict"] == "slower", "throughput is not gated")
    check(against([s / 1.2 for s in steady])["verdict"] == "faster", "faster")
    row = against([0.08, 0.12, 0.13, 0.1, 0.07, 0.14, 0.1, 0.11, 0.09])
    check(row["verdict"] == "unclear" and not row["regressions"], row)
    row = against([0.3])
    check(row["verdict"] == "unclear" and "too few timed steps" in row["reason"] and row["interval"] == [None, None], row)
    row = against(steady, code=REGRESSION, status="oom", error="rank 0: no memory")
    check(row["verdict"] == "failed" and row["regressions"] == ["status"] and "rank 0: no memory" in row["reason"], row)
    check(against(steady, "--gate=throughput", status="failed", error="x")["verdict"] == "failed", "status is not gated")


def test_missing_new_fixed_and_still_broken():
    one, two, four = real_records()
    steady = [0.1] * 9
    base = write("base.jsonl", [timed(one, steady), timed(two, steady, status="oom", error="e"), timed(four, steady, status="oom", error="e")])
    new = write("new.jsonl", [timed(four, steady, status="oom", error="e"), timed(two, steady)])
    result = compare(base, new, code=REGRESSION)
    check(verdicts(result) == ["missing", "fixed", "same"] and result["regressions"] == 1, result)
    check(result["experiments"][0]["regressions"] == ["missing"] and result["experiments"][0]["new"] is None, result)
    compare(base, new, "--gate=throughput,status")
    result = compare(new, base, "--gate=throughput")
    check(verdicts(result) == ["same", "failed", "new"], verdicts(result))


def test_noise_of_five_percent():
    """Draws through the whole command: many experiments in two files. test_ratio.c has more of them."""
    record, draws = real_records()[0], 300
    for true_ratio, wanted, least in ((1.0, ("same", "unclear"), 0.95), (0.9, ("slower",), 0.95)):
        bases, news = [], []
        for seed in range(draws):
            bases.append(timed(record, steps(0.2), **{"config.seed": seed, "config_hash": f"{seed:016x}"}))
            news.append(timed(record, steps(0.2 / true_ratio), **{"config.seed": seed, "config_hash": f"{seed:016x}"}))
        code = run_code(write("noisy_base.jsonl", bases), write("noisy_new.jsonl", news))
        found = verdicts(code)
        right = sum(v in wanted for v in found)
        check(len(found) == draws and right >= least * draws, f"a ratio of {true_ratio}: {right} of {draws} are", *wanted)


def run_code(base, new):
    result = subprocess.run([DTBENCH, "compare", base, new, "--single", "--format=json"], cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S)
    check(result.returncode in (OK, REGRESSION), result.stderr)
    return json.loads(result.stdout)


def test_losses_and_memory():
    one, two, _ = real_records()
    base = write("base.jsonl", [one, two])
    losses = list(one["losses"])
    losses[3] = math.nextafter(losses[3], 0)
    row = compare(base, write("new.jsonl", [timed(one, one["metrics"]["step_s"]["all"], losses=losses), two]), code=REGRESSION)["experiments"][0]
    check(row["losses"] == "rounding" and row["first_step_with_other_loss"] == 4 and row["regressions"] == ["losses"], row)
    check("losses differ from step 4 on" in row["reason"], row)
    first = [math.nextafter(one["losses"][0], 0), *one["losses"][1:]]
    row = compare(base, write("new.jsonl", [timed(one, one["metrics"]["step_s"]["all"], losses=first), two]), code=REGRESSION)["experiments"][0]
    check(row["first_step_with_other_loss"] == 1, row)
    # on other devices only differences that rounding does not explain
    other = timed(one, one["metrics"]["step_s"]["all"], losses=losses, **{"provenance.device_name": "another processor"})
    row = compare(base, write("new.jsonl", [other, two]), "--allow-different")["experiments"][0]
    check(row["losses"] == "rounding" and not row["regressions"], row)
    losses[3] += 0.01
    row = compare(base, write("new.jsonl", [dict(other, losses=losses), two]), "--allow-different", code=REGRESSION)["experiments"][0]
    check(row["losses"] == "differ" and row["regressions"] == ["losses"], row)
    check(all(r["losses"] == "equal" for r in compare(base, base)["experiments"]), "a file with itself")

    peak = one["metrics"]["peak_bytes"]["total"]
    for grown, code in ((1, OK), (-100, OK), (peak // 10, REGRESSION)):
        new = timed(one, one["metrics"]["step_s"]["all"], **{"metrics.peak_bytes.total": peak + grown})
        row = compare(base, write("new.jsonl", [new, two]), code=code)["experiments"][0]
        check(row["peak_bytes_change"] == grown and f"{grown:+d} bytes" in row["reason"], row)
        check(row["regressions"] == (["memory"] if code else []), row)
    # Predictions have no losses, and two without losses are not equal; an ok record without its
    # earlier losses has changed.
    null, none = write("null.jsonl", [timed(one, [0.1] * 9, losses=[None] * 10)]), write("none.jsonl", [timed(one, [0.1] * 9, losses=[])])
    row = json.loads(run("compare", null, null, "--format=json").stdout)["experiments"][0]
    check(row["losses"] == "unknown", row)
    run("compare", write("with.jsonl", [timed(one, [0.1] * 9)]), none, code=REGRESSION)


def test_other_machines_are_refused():
    records = real_records()
    base = write("base.jsonl", records)
    records = [timed(r, r["metrics"]["step_s"]["all"], **{"provenance.products": "amx"}) for r in records]
    write("base.jsonl", records)
    for path, value in (("products", "onednn"), ("processor", "another"), ("device", "cuda"), ("device_name", "H100"), ("driver", "550.54"), ("threads_per_rank", 99), ("tuning", {"hash": "0123456789abcdef"}), ("hosts", ["a", "b"]),
                        ("versions", {**records[0]["provenance"]["versions"], "oneDNN": "9.9"})):
        new = write("new.jsonl", [timed(r, r["metrics"]["step_s"]["all"], **{"provenance." + path: value}) for r in records])
        said = run("compare", base, new, code=INCOMPARABLE)
        name = {"hosts": "machines", "versions": "oneDNN"}.get(path, path)
        check(name + " (" in said.stderr and said.stderr.count("\n") == 1 and not said.stdout, path, said.stderr)
        check(name + " (" in compare(base, new, "--allow-different")["different"], path)
    # a changed system is noted, and no reason to refuse; facts that older records lack are not
    # known to differ
    new = write("new.jsonl", [timed(r, r["metrics"]["step_s"]["all"], **{"provenance.kernel": "Linux 9"}) for r in records])
    check("kernel (" in compare(base, new)["noted"] and "also different: kernel (" in run("compare", base, new).stdout, "another kernel")
    check("kernel (" in run("compare", base, new, "--format=markdown").stdout, "another kernel in Markdown")
    unknown = {"provenance.products": None, "provenance.processor": None, "provenance.kernel": None}
    result = compare(base, write("new.jsonl", [timed(r, r["metrics"]["step_s"]["all"], **unknown) for r in records]))
    check(result["different"] is None and result["noted"] is None, result)
    # the device of a failed run is unknown
    lost = timed(records[0], [], status="failed", error="x", provenance=None)
    compare(write("lost.jsonl", [lost] + records[1:]), base)
    # builds of dtbench are compared
    new = [timed(r, r["metrics"]["step_s"]["all"], **{"provenance.git_commit": "0" * 12, "provenance.dtbench": "9.0.0"}) for r in records]
    compare(base, write("new.jsonl", new))


def test_predictions_are_called_so():
    """Predicted figures are marked wherever they are shown, with cluster and profile."""
    for cluster, name in (("gcp_a2", "base"), ("dgx_h100", "other")):
        text = run("run", "tiny.json", "--device", "sim", "--set", "cluster=" + cluster, "--output", name + "_sim.jsonl", "--quiet").stdout
        check("predicted, not measured: cluster " + cluster in text, text)
    said = "predicted, not measured: cluster gcp_a2, profile pytorch_1.11_a100"
    for text in (run("status", "base_sim.jsonl").stdout, run("merge", "base_sim.jsonl").stderr, run("compare", "base_sim.jsonl", "base_sim.jsonl").stdout,
                 run("compare", "base_sim.jsonl", "base_sim.jsonl", "--format=markdown").stdout.replace("\\", ""),
                 run("compare", "base_sim.jsonl", "base_sim.jsonl", "--format=junit").stdout,
                 compare("base_sim.jsonl", "base_sim.jsonl")["predicted"]):
        check(said in text, text)
    real_records()
    check("predicted" not in run("status", "real.jsonl").stdout + run("merge", "real.jsonl").stderr + run("compare", "real.jsonl", "real.jsonl").stdout,
          "measurements are none")
    mixed = run("status", "real.jsonl", "other_sim.jsonl", "base_sim.jsonl").stdout
    check(mixed.count(said) == 1 and mixed.count("cluster dgx_h100, profile general_h100") == 1, mixed)
    mixed = run("run", "tiny.json", "--set", 'sweep.device=["cpu","sim"]', "--set", "cluster=gcp_a2", "--output", "mixed.jsonl", "--quiet").stdout
    check("the rows of device sim are " + said in mixed, mixed)
    changed = [json.loads(line) for line in open(os.path.join(WORK, "base_sim.jsonl"), encoding="utf-8")]
    for record in changed:
        record["provenance"].update(processor="another", kernel="another")
        record["provenance"]["simulated"]["profile"]["hash"] = "0" * 16
    result = compare("base_sim.jsonl", write("changed.jsonl", changed))
    check(result["different"] is None and "profile (" in result["noted"] and "kernel" not in result["noted"], result)


def test_pairs_newest_and_by_config():
    one, two, _ = real_records()

    def at(record, seconds, started, **changes):
        return timed(record, [seconds] * 9, **{"provenance.started": started, **changes})

    base = write("base.jsonl", [at(one, 0.1, "2024-01-01T00:00:00Z")])
    new = write("new.jsonl", [at(one, 0.1, "2024-01-03T00:00:00Z"), at(one, 9, "2024-01-02T00:00:00Z"),
                              at(one, 9, "2024-01-04T00:00:00Z", status="failed", error="x")], tail='{"schema_ver')
    said = run("compare", base, new)
    check("new.jsonl: 1 line left out" in said.stderr, said.stderr)
    check(verdicts(compare(base, new)) == ["same"], "the newest ok record")
    # a record that is older than a key has another hash and the same config
    old = at(one, 0.1, "2024-01-01T00:00:00Z", config_hash="0123456789abcdef")
    check(verdicts(compare(write("old.jsonl", [old]), base)) == ["same"], "the same config with another hash")
    # folders and patterns
    os.makedirs(os.path.join(WORK, "parts"), exist_ok=True)
    write("parts/1.jsonl", [one])
    write("parts/2.jsonl", [two])
    check(len(compare("parts", "parts/[12].jsonl")["experiments"]) == 2, "folder and pattern")
    run("compare", base, write("none.jsonl", [two]), code=INCOMPARABLE)
    suite = xml.etree.ElementTree.fromstring(run("compare", base, "none.jsonl", "--format=junit", code=INCOMPARABLE).stdout)[0]
    check(suite.get("errors") == "1" and suite[0][0].tag == "error" and suite[0][0].text, "a report of what cannot be compared is one, too")
    run("compare", base, write("empty.jsonl", []), code=INCOMPARABLE)


def test_two_settings():
    one, two, _ = real_records()

    def at(record, seconds, number, **changes):
        return timed(record, [seconds] * 9, config_hash=f"{number:016x}", **{"config." + k.replace("__", "."): v for k, v in changes.items()})

    records = [at(one, 0.1, 1), at(two, 0.2, 2), at(one, 0.2, 3, activation="checkpoint"), at(two, 0.1, 4, activation="checkpoint"),
               at(one, 0.1, 5, activation="checkpoint", seed=9), at(one, 0.1, 6, activation="offload")]
    # threads follow from settings; different losses are reported, and are no regression
    records[2]["provenance"]["threads_per_rank"] = 99
    records[3]["losses"][0] += 1
    base = write("settings.jsonl", records)
    found = compare("--by", "activation", base)
    pairs = [(row["base"]["config_hash"][-1], row["new"]["config_hash"][-1]) for row in found["experiments"]]
    check(pairs == [("1", "3"), ("2", "4"), ("1", "6")] and found["alone"] == 1 and found["by"] == "activation", pairs, found["alone"])
    check(verdicts(found) == ["slower", "faster", "same"] and found["experiments"][1]["losses"] == "differ", verdicts(found))
    check("activation keep -> activation checkpoint" in found["experiments"][0]["experiment"], found["experiments"][0]["experiment"])
    run("compare", "--by", "activation", "--gate", "throughput", "--single", base, code=REGRESSION)
    check(len(compare("--by=activation,seed", base)["experiments"]) == 4, "two keys")
    # the first of BASE that fits
    new = write("new.jsonl", [records[2], records[4]])
    found = compare("--by", "activation", write("base.jsonl", records[:2]), new)
    check([row["base"]["config_hash"][-1] for row in found["experiments"]] == ["1"] and found["alone"] == 2, found)
    # a model's sizes follow its preset, what is scaled its dtype; keys of pipelines are nothing to
    # others
    models = [at(one, 0.1, 1, model={"preset": name, "dtype": dtype}) for name in ("GPTSmall", "GPTLarge") for dtype in ("fp32", "fp16")]
    for number, record in enumerate(models):
        record["config_hash"] = f"{number:016x}"
        record["config"]["loss_scaling"] = 65536 if record["config"]["model"]["dtype"] == "fp16" else 1
    path = write("models.jsonl", models)
    check([len(compare("--by", key, path)["experiments"]) for key in ("model.preset", "model.dtype", "model")] == [2, 2, 3], "models")
    pipelines = [at(one, 0.1, 1, paradigm="ddp", world_size=4)] + [
        at(one, 0.1, n, paradigm="pdp", world_size=4, pipeline={"stages": n, "chunks": n}) for n in (2, 4)]
    check(len(compare("--by", "paradigm", write("pipelines.jsonl", pipelines))["experiments"]) == 2, "pipelines")
    run("compare", "--by", "batch_size", path, code=INCOMPARABLE)
    said = run("compare", "--by", "activation,sead", base, code=USAGE).stderr
    check("--by activation,sead: 'sead' is no key of a config; the nearest is seed" in said, said)
    run("compare", base, code=USAGE)


def test_formats():
    one, two, four = real_records()
    steady = [0.1] * 9
    base = write("base.jsonl", [timed(one, steady, **{"config.name": "a|b<&\">"}), timed(two, steady), timed(four, steady)])
    new = write("new.jsonl", [timed(one, [0.2] * 9), timed(two, steady, status="oom", error="<no> & \"memory\" \ufffe")])
    text = run("compare", base, new, "--single", "--gate=throughput,status", code=REGRESSION).stdout
    lines = text.splitlines()
    check(lines[2].startswith("---") and max(map(len, lines[:7])) <= 80 and "slower" in lines[3] and "failed" in text, text)
    check("REGRESSION a|b<&\">: none, batch 1 (throughput): throughput -50.0 %" in text and "2 regressions" in text and "threshold 5 %" in text, text)
    table = [line for line in run("compare", base, new, "--format=markdown", code=REGRESSION).stdout.splitlines() if line.startswith("|")]
    check(len(table) == 5 and all(line.replace("\\|", "").count("|") == 10 for line in table), table)
    suite = xml.etree.ElementTree.fromstring(run("compare", base, new, "--single", "--format=junit", "--gate=throughput,status", code=REGRESSION).stdout)[0]
    check((suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "2", "1"), suite.attrib)
    cases = suite.findall("testcase")
    check([c.find("failure") is not None for c in cases] == [True, True, False] and cases[2].find("skipped") is not None, "cases")
    check("<no> & \"memory\"" in cases[1].find("failure").text and float(cases[0].get("time")) > 1.7, cases[1].find("failure").text)


def test_wrong_command_lines():
    base = write("base.jsonl", real_records())
    for arguments, said in (((), "BASE and NEW"), ((base,), "BASE and NEW, not 1"), ((base, base, base), "not 3; put a pattern in quotes"), ((base, base, "--threshold=5"), "5%"),
                            ((base, base, "--threshold=-1%"), "percentage"), ((base, base, "--threshold=100%"), "percentage"),
                            ((base, base, "--format=xml"), "markdown"), ((base, base, "--gate=speed"), "'speed' is not known"),
                            ((base, base, "--tolerance=1"), "unknown option")):
        result = run("compare", *arguments, code=USAGE)
        check(said in result.stderr and "Try 'dtbench compare --help'" in result.stderr, arguments, result.stderr)
    check("nowhere.jsonl" in run("compare", base, "nowhere.jsonl", code=CONFIG_CODE).stderr, "a file that is not there")
    check("nowhere*.jsonl" in run("compare", base, "nowhere*.jsonl", code=CONFIG_CODE).stderr, "a pattern of nothing")
    os.makedirs(os.path.join(WORK, "void"), exist_ok=True)
    for command in ("merge", "status"):
        check("void" in run(command, "void", code=CONFIG_CODE).stderr, "an empty folder")
        run(command, code=USAGE)
    check("--config" in run("status", base, "--set=seed=2", code=USAGE).stderr, "status --set")
    run("status", base, "--config=nowhere.json", code=CONFIG_CODE)


def test_pooled_runs():
    """One run of each side is slow as a whole; alternating runs show that it was the machine."""
    one = real_records()[0]
    fast, slow = [timed(one, steps(0.1, 0.01)) for _ in range(4)], [timed(one, steps(0.13, 0.01)) for _ in range(4)]
    base, new = write("base.jsonl", [slow[0], slow[1], fast[0], fast[1]]), write("new.jsonl", [fast[2], fast[3], slow[2], slow[3]])
    check(verdicts(compare(base, new, code=REGRESSION)) == ["slower"], "the newest alone")
    row = compare(base, new, single=False)["experiments"][0]
    check(row["verdict"] in ("same", "unclear") and row["base"]["steps"] == row["new"]["steps"] == 36 and row["interval_widened"] > 2, row)
    lost = write("new.jsonl", [timed(one, steps(0.16, 0.01)), timed(one, steps(0.165, 0.01)), timed(one, steps(0.1625, 0.01))])
    row = compare(base, lost, single=False, code=REGRESSION)["experiments"][0]
    check(abs(row["new"]["tokens_per_s"] - 8 / 0.1625) < 3 and row["new"]["runs"] == 3, row)
    # another build's record in the same file is no repeat
    other = write("other.jsonl", [timed(one, [9] * 9, **{"provenance.git_commit": "0" * 12}), *fast[:2]])
    check(compare(other, base, single=False)["experiments"][0]["base"]["runs"] == 2, "another build")


def test_one_run_is_no_evidence():
    """All formats report it, with what to do, and none has a regression; other regressions need no repeats."""
    one = real_records()[0]
    fast, slow = timed(one, steps(0.1, 0.01)), timed(one, steps(0.2, 0.01))
    base, new, news = write("base.jsonl", [fast]), write("new.jsonl", [slow]), write("news.jsonl", [slow] * 4)
    said = "one run each: no evidence (throughput -"
    row = compare(base, new, single=False)["experiments"][0]
    check(row["verdict"] == "unclear" and said in row["reason"] and row["reason"].endswith("run --repeat 5"), row)
    check(not row["regressions"] and row["slowdown_excluded"] is False and row["new"]["runs"] == 1, row)
    for form in ("table", "markdown", "junit"):
        text = run("compare", base, new, "--format", form).stdout.replace("\\", "")
        check(said in " ".join(text.split()) and "unclear" in text and 'failures="1' not in text, form, text)
    check("1 and 4 runs: no evidence" in compare(base, news, single=False)["experiments"][0]["reason"], "one side alone")
    check(compare(new, base, single=False)["experiments"][0]["verdict"] == "unclear", "nor faster")
    check(compare(base, new, code=REGRESSION)["experiments"][0]["verdict"] == "slower", "--single")
    mixed = [timed(one, steps(s, 0.01)) for s in (0.1, 0.2, 0.2, 0.2)]  # the steps of all runs show a clear difference, the runs do not
    row = compare(write("mixed.jsonl", [fast] * 3 + [slow]), write("others.jsonl", mixed), single=False)["experiments"][0]
    check(row["verdict"] == "unclear" and not row["regressions"], row)
    check(verdicts(compare(write("fasts.jsonl", [fast] * 3), "news.jsonl", single=False, code=REGRESSION)) == ["slower"], "three and four")
    wrong = write("wrong.jsonl", [timed(one, steps(0.2, 0.01), losses=[9.0] * 10)])
    check(compare(base, wrong, single=False, code=REGRESSION)["experiments"][0]["regressions"] == ["losses"], "losses")
    wide = write("wide.jsonl", [timed(one, [0.1 * factor for factor in (1, 3, 0.5, 2, 1, 0.4, 3, 1, 2)])] * 2)
    row = compare(wide, wide, "--threshold=25%", single=False)["experiments"][0]
    check(row["verdict"] == "unclear" and row["reason"].endswith("the interval is too wide to exclude a loss of 25 %"), row)


# ---- the workflows of configs/ci ----


def scripts_of(name):
    """The shell scripts of a workflow, by job and step."""
    try:
        import yaml
    except ImportError:
        raise Skip("python3-yaml is not installed") from None
    with open(os.path.join(ROOT, "configs", "ci", name), encoding="utf-8") as file:
        workflow = yaml.safe_load(file)
    if "jobs" in workflow:
        return {step["name"]: step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step}
    # GitLab runs the lines of a job as one script and stops at the first that fails
    return {name: "set -e\n" + "\n".join(job["script"]) for name, job in workflow.items() if "script" in job}


def run_script(script, folder):
    environment = {**os.environ, "CONFIG": "configs/ci/gate.json", "THRESHOLD": "5%", "ROUNDS": "24", "GITHUB_STEP_SUMMARY": "summary.md"}
    result = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_S)
    return result.returncode, result.stdout + result.stderr


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def measured_program(path, rounds):
    """A stand-in for dtbench with stored measurements: each `run` appends the next round's record."""
    with open(path + ".rounds", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in rounds)
    with open(path, "w", encoding="utf-8") as script:
        script.write(f"""#!/bin/sh
[ "$1" = run ] || exec {DTBENCH} "$@"
round=$(cat {path}.count 2>/dev/null || echo 1)
echo $((round % {len(rounds)} + 1)) >{path}.count
sed -n "${{round}}p" {path}.rounds >>"$4"
""")
    os.chmod(path, 0o755)
    return path


def gate_records():
    """The stored measurements of builds, by name: rounds of one record."""
    one, draws = real_records()[0], random.Random(9)

    def steps(seconds):
        return timed(one, [seconds * factor for factor in (1, 1.01, 0.99, 1.02, 0.98, 1, 1.01, 0.99, 1)])

    return {"steady": [steps(0.1)], "unsteady": [steps(0.1), steps(0.2)], "slow": [steps(0.11)], "late": [steps(0.4)] * 12 + [steps(0.1)] * 12,
            "wrong": [timed(steps(0.1), [0.1] * 9, losses=[9.0] * 10)],
            "wide": [timed(one, [0.1 * draws.lognormvariate(0, 3) for _ in range(9)]) for _ in range(24)]}


def test_gate_on_a_busy_machine():
    """scripts/gate with stored measurements: slowness by other work is no regression, nor is one that does not recur, and a wide interval shows nothing."""
    programs = {name: measured_program(os.path.join(WORK, name), rounds) for name, rounds in gate_records().items()}
    for base, new, code in (("steady", "steady", 0), ("steady", "slow", REGRESSION), ("steady", "unsteady", 0), ("unsteady", "slow", REGRESSION),
                            ("steady", "late", 0), ("unsteady", "wrong", REGRESSION), ("wide", "wide", 77)):
        result = subprocess.run([os.path.join(ROOT, "scripts", "gate"), "--base", programs[base], "--new", programs[new], "--rounds", "26"],
                                capture_output=True, text=True, timeout=COMMAND_S, check=False)
        check(result.returncode == code, base, new, result.returncode, result.stdout, result.stderr)
        check(base != "wide" or "neither shown nor excluded" in result.stdout, result.stdout)
        for name in programs.values():
            if os.path.exists(name + ".count"):
                os.remove(name + ".count")


def test_gate_keeps_a_history():
    folder = tempfile.mkdtemp(dir=WORK)
    records, history = gate_records(), os.path.join(folder, "history.jsonl")
    gate = os.path.join(ROOT, "scripts", "gate")

    def build(name, commit):
        rounds = [{**record, "provenance": {**record["provenance"], "git_commit": commit}} for record in records[name]]
        return measured_program(os.path.join(folder, commit), rounds)

    first, second, slow = build("steady", "aaaaaaaaaaaa"), build("steady", "bbbbbbbbbbbb"), build("slow", "cccccccccccc")
    check(subprocess.run([gate, "--history", history, "--print-base"], capture_output=True, check=False).returncode == 1, "a base without a history")
    for new in (first, second, slow):
        subprocess.run([gate, "--base", first, "--new", new, "--rounds", "24", "--history", history, "--comment", os.path.join(folder, "comment.md")],
                       capture_output=True, timeout=COMMAND_S, check=False)
    found = [json.loads(line)["provenance"]["git_commit"] for line in read(folder, "history.jsonl").splitlines()]
    check(found == ["aaaaaaaaaaaa", "bbbbbbbbbbbb"], "accepted builds:", found)
    said = subprocess.run([gate, "--history", history, "--print-base"], capture_output=True, text=True, check=True).stdout
    check(said == "aaaaaaaaaaaa\n", "the base:", said)
    comment = read(folder, "comment.md")
    check("**slower**" in comment and "| bbbbbbbbbbbb |" in comment, comment)


def test_workflows_gate():
    records = gate_records()
    github, gitlab = scripts_of("github-actions.yml"), scripts_of("gitlab-ci.yml")
    jenkins = re.findall(r"'''(.*?)'''", read(os.path.join(ROOT, "configs", "ci"), "Jenkinsfile"), re.S)
    for script in [*github.values(), *gitlab.values(), *jenkins]:
        check(subprocess.run(["bash", "-n", "-c", script], capture_output=True).returncode == 0, "no shell script:", script)
        for word in script.split():
            if word.startswith(("scripts/", "configs/")):
                check(os.path.exists(os.path.join(ROOT, word)), word, "is not there")
    # of GitLab's job only what follows the builds; that is the last of its script
    compares = gitlab["throughput"][gitlab["throughput"].index("status=0"):]
    for base, new, code in (("steady", "steady", 0), ("steady", "slow", REGRESSION), ("wide", "wide", 77)):
        folder = tempfile.mkdtemp(dir=WORK)
        for tree, name in (("base", base), (".", new)):
            os.makedirs(os.path.join(folder, tree, "build", "cli"))
            measured_program(os.path.join(folder, tree, "build", "cli", "dtbench"), records[name])
        os.makedirs(os.path.join(folder, "scripts"))  # the gate goes to the folder above its own
        shutil.copy(os.path.join(ROOT, "scripts", "gate"), os.path.join(folder, "scripts"))
        found, said = run_script(github["Compare"], folder)
        check(found == (0 if code == 77 else code), f"GitHub: exit code {found}:", said)
        summary = read(folder, "summary.md")
        check({0: "no regression", REGRESSION: "**slower**", 77: "too busy to show"}[code] in summary, summary)
        found, said = run_script("set -e\n" + compares, folder)
        check(found == code, f"GitLab: exit code {found}, not {code}:", said)
        suite = xml.etree.ElementTree.parse(os.path.join(folder, "compare.xml")).getroot()[0]
        check((suite.get("failures"), suite.get("errors")) == ("1" if code == REGRESSION else "0", "0"), suite.attrib)


# ---- merge ----


def test_merge_keeps_the_newest_ok():
    one, two, four = real_records()

    def at(record, started, **changes):
        return timed(record, [0.1], **{"provenance.started": started, **changes})

    os.makedirs(os.path.join(WORK, "jobs"), exist_ok=True)
    write("jobs/b.jsonl", [at(four, "2024-01-01T00:00:00Z", status="oom", error="e"), at(one, "2024-01-02T00:00:00Z"), {"no": "record"}])
    write("jobs/a.jsonl", [at(four, "2024-01-03T00:00:00Z", status="failed", error="newer"), at(one, "2024-01-05T00:00:00Z", status="oom", error="e"),
                           at(one, "2024-01-01T00:00:00Z"), two], tail=json.dumps(two)[:200])
    result = run("merge", "jobs")
    kept = [json.loads(line) for line in result.stdout.splitlines()]
    check([r["config"]["batch_size"] for r in kept] == [1, 2, 4], "the sweep's order", result.stdout)
    check(kept[0]["provenance"]["started"] == "2024-01-02T00:00:00Z" and kept[0]["status"] == "ok", kept[0])
    check(kept[1] == two and kept[2]["error"] == "newer", kept[2])
    check("a.jsonl: 1 line left out" in result.stderr and "b.jsonl: 1 line left out" in result.stderr and "3 experiments, 2 ok" in result.stderr,
          result.stderr)
    check(run("merge", "jobs/b.jsonl", "jobs/a.jsonl").stdout == result.stdout, "the order of the files does not matter")
    with open(os.path.join(WORK, "real.jsonl"), encoding="utf-8") as file:
        check(run("merge", "real.jsonl", "real.jsonl").stdout == file.read(), "a merged record is the record, byte by byte")


def test_merge_replaces_nothing_unasked():
    records = real_records()
    write("mine.jsonl", records[:1])
    result = run("merge", "mine.jsonl", "real.jsonl", "--output=mine.jsonl", code=OUTPUT)
    check("--force" in result.stderr, result.stderr)
    with open(os.path.join(WORK, "mine.jsonl"), encoding="utf-8") as file:
        check(len(file.readlines()) == 1, "the input is as it was")
    run("merge", "mine.jsonl", "real.jsonl", "--output=mine.jsonl", "--force")
    with open(os.path.join(WORK, "mine.jsonl"), encoding="utf-8") as file:
        check(len(file.readlines()) == 3, "replaced when asked")
    run("merge", "mine.jsonl", "--output=fresh.jsonl")
    run("merge", "mine.jsonl", "--output=nowhere/x.jsonl", code=OUTPUT)
    run("merge", "mine.jsonl", "--output=/dev/full", code=OUTPUT)
    check(not [name for name in os.listdir(WORK) if name.startswith(("mine.jsonl.", "fresh.jsonl."))], "no temporary file stays")
    mask = os.umask(0)
    os.umask(mask)
    check(os.stat(os.path.join(WORK, "fresh.jsonl")).st_mode & 0o777 == 0o666 & ~mask, "permissions as of any file")


def test_records_of_a_newer_version():
    """Records of a later schema_version are left out by all commands, with a warning."""
    records = real_records()
    mixed = write("mixed.jsonl", [records[0], {**records[1], "schema_version": 99}, {**records[2], "schema_version": 2}])
    for command in (["merge", mixed], ["status", mixed], ["compare", mixed, mixed], ["run", "tiny.json", "--resume", "--dry-run", "-o", mixed]):
        said = run(*command).stderr
        check("mixed.jsonl: 2 records left out: schema_version 99, and this dtbench knows up to 1" in said, command, said)
    check([json.loads(line) for line in run("merge", mixed).stdout.splitlines()] == records[:1], "one is understood")
    check("newer dtbench would be lost" in run("merge", mixed, "--output", mixed, "--force", code=OUTPUT).stderr, "they stay")


def test_foreign_text():
    """A record's text cannot reach the terminal as a command, nor a page as markup."""
    one, two, four = real_records()
    evil = "red\x1b[31m\x9b2J\x07 \u202eturned\u2066 \u200b \ufeff\x7f\ttab\nline <img src=x onerror=alert(1)> &lt; `x` [a](b)"
    records = [timed(one, [1.0] * 9, status="oom", error=evil), timed(two, [1.0] * 9, status=evil[:40], error=evil, config_hash=evil[:60]),
               timed(four, [1.0] * 9, **{"config.name": evil[:40], "sweep.id": evil[:16]})]
    bad, good = write("evil.jsonl", records), write("good.jsonl", [one, two, four])
    said = [run("status", bad, code=None), run("status", bad, "--all", code=None), run("compare", good, bad, "--allow-different", code=None)]
    said += [run("compare", good, bad, "--allow-different", "--format=" + form, code=None) for form in ("markdown", "junit")]
    for result in said:
        text = result.stdout + result.stderr
        check(len(text) > 100 and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]", text), repr(text))
        check("line <img" not in text.split("\n"), "a record begins a line")
    check("<img" not in said[3].stdout.replace("\\<img", "") and "<img" not in said[4].stdout, said[3].stdout, said[4].stdout)
    check("red?[31m?2J? ?turned? ? ???tab?line" in said[0].stdout, said[0].stdout)


# ---- status ----


def test_status_tells_what_is_left():
    one, two, four = real_records()
    done = timed(one, [1.0] * 9, **{"metrics.wall_s": 15.0})  # 10 steps of 1 s and 5 s beside them
    oom = timed(two, [], status="oom", error="rank 0: no memory")
    path = write("part.jsonl", [done, oom], tail='{"torn')
    text = run("status", path).stdout
    check("tiny, sweep " in text and "3 experiments: 1 done, 1 failed, 1 missing" in text, text)
    check("time left: about 0:15" in text and "batch 2: oom: rank 0: no memory" in text and "missing: 3 of 3; --config" in text, text)
    text = run("status", path, "--config=tiny.json").stdout
    row = [line.split() for line in text.splitlines() if "missing" in line][1]
    check(row == ["3", "none,", "batch", "4", "missing", "-", "0:45"] and "time left: about 0:45" in text, text)  # four times the operations
    sweep = json.loads(run("status", path, "--config", "tiny.json", "--json").stdout)["sweeps"][0]
    check([i["state"] for i in sweep["items"]] == ["done", "failed", "missing"] and abs(sweep["time_left_s"] - 45) < 1e-6, sweep)
    check(sweep["id"] == one["sweep"]["id"] and sweep["time_of_failed_s"] == 25 and sweep["items"][2]["config_hash"] == four["config_hash"], sweep)

    again = write("again.jsonl", [timed(two, [0.1] * 9, status="interrupted", error="stopped"), four])
    text = run("status", path, again).stdout  # the newer record of two counts, and four is done
    check("2 done, 1 interrupted" in text and "missing" not in text, text)
    text = run("status", write("last.jsonl", [four])).stdout
    check("missing: 1 to 2 of 3; --config" in text, text)
    text = run("status", "real.jsonl", "--all").stdout
    check("3 experiments: 3 done" in text and text.count(" done ") == 3 and "time left" not in text, text)
    text = run("status", "real.jsonl", "--config=tiny.json", "--set=sweep.batch_size=[1]").stdout
    check("1 experiment: 1 done" in text and "2 records of experiments that are not in this config" in text, text)
    old = [{k: v for k, v in r.items() if k != "sweep"} for r in (one, four)]
    check("outside of any sweep: 2 experiments: 2 done" in run("status", write("old.jsonl", old)).stdout, "records of before there were sweeps in them")
    nothing = run("status", write("empty.jsonl", []), "--config=tiny.json").stdout
    check("0 done, 3 missing" in nothing and "no experiment is done yet" in nothing, nothing)


def main():
    try:
        return run_all(chosen(globals()))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
