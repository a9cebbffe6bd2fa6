"""dtbench fit: a profile for software whose constants are known here, from a few of its runs. Prints TAP.

Usage: test_fit.py DTBENCH [CASE...]. The runs are predictions with a changed profile.
"""
import importlib.machinery
import importlib.util
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from tap_cases import PATIENCE, check, chosen, run_all  # beside this script

DTBENCH = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = tempfile.mkdtemp(prefix="dtbench-test-")
FIT = [DTBENCH, "fit", "-C", "dgx_a100_1", "-j", "2"]
HEAD = "gpus,layers,hidden,heads,seq,tp,micro_batch,global_batch,zero/fsdp,step_s\n"
SHAPES = ["1,4,512,8,256,1,1,1,", "1,8,1024,16,512,1,4,4,", "8,8,1024,16,512,1,2,16,fsdp", "8,8,2048,16,1024,2,4,16,", "8,12,2048,16,1024,1,8,64,fsdp2",
          "8,4,4096,32,1024,1,4,32,zero1"]
OF_PRODUCTS, OF_STEPS = ("gemm", "peak_fraction", 0.8), ("host", "step_s", 1.6)


def run(*command, code=0, env=None):
    result = subprocess.run(command, cwd=WORK, capture_output=True, text=True, timeout=100 * PATIENCE, stdin=subprocess.DEVNULL, env=env)
    check(result.returncode == code, f"exit code {result.returncode}, not {code}:", *command, "\n", result.stdout, result.stderr)
    return result.stdout + result.stderr


def write(name, text):
    path = os.path.join(WORK, name)
    with open(path, "w", encoding="utf-8") as to:
        to.write(text)
    return path


def profile(name):
    with open(os.path.join(ROOT, "configs", "profiles", f"{name}.json"), encoding="utf-8") as source:
        return json.load(source)


def measured_runs(changes=(OF_PRODUCTS, OF_STEPS)):
    """The shapes with the times that software of other constants takes."""
    tree = profile("llm_foundry_a100")
    for group, key, factor in changes:
        tree[group][key] *= factor
    table = write("untimed.csv", HEAD + "".join(f"{shape},1\n" for shape in SHAPES))
    rows = json.loads(run(DTBENCH, "validate", "--json", "--data", table, "--cluster", "dgx_a100_1", "--profile", write("truth.json", json.dumps(tree))))["rows"]
    return [f"{shape},{row['predicted_step_s']:.6g}\n" for shape, row in zip(SHAPES, rows)]


def test_constants_are_found():
    rows = [*measured_runs(), "8,8,,16,512,1,2,16,fsdp,0.1\n"]
    runs = write("runs.csv", HEAD.replace("step_s", "step_time,weather") + "".join(row.replace("\n", ",dry\n") for row in rows))
    text = run(*FIT, runs, "-P", "llm_foundry_a100", "-n", "mine", "-t", "60", "-o", "mine.json")
    check("line 8 has no part: hidden: no value" in text, text)
    check("read: 6 rows from line 2 on: step_time has no unit: seconds" in text and "columns not used: weather" in text, text)
    check("off by" in text and "by the runs" in text and "no: stays" in text, text)
    with open(os.path.join(WORK, "mine.json"), encoding="utf-8") as source:
        mine = json.load(source)
    start = profile("llm_foundry_a100")
    for group, key, factor in (OF_PRODUCTS, OF_STEPS):
        check(abs(mine[group][key] / start[group][key] / factor - 1) < 0.15, group, key, mine[group][key], start[group][key])
    check(abs(mine["host"]["message_s"] / start["host"]["message_s"] - 1) < 0.1, "no run has a pipeline: only the factor for all times moves it", mine["host"])
    check(0 < mine["error"]["median"] < 0.03 and mine["error"]["most"] < 0.1 and mine["error"]["of"].startswith("6 runs of runs.csv"), mine["error"])
    text = run(DTBENCH, "plan", "--model", "GPTSmall", "--cluster", "dgx_a100_1", "--gpus", "2", "--global-batch", "4", "--profile", "mine.json", "--json",
               "--fix", "micro_batches=1", "--top", "2", "-q")
    found = json.loads(text)
    check(abs(found["plans"][0]["known_error"] - mine["error"]["median"]) < 1e-9, found["plans"][0]["known_error"])
    check(any("6 runs of runs.csv" in line for line in found["confidence"]), found["confidence"])
    eight = found["plans"][0]["known_error_of_eight"]
    check(mine["error"]["median"] < eight == mine["error"]["eight"] <= mine["error"]["most"], eight, mine["error"])
    check(any(line.startswith("eight of ten step times are off by no more than") for line in found["confidence"]), found["confidence"])


def test_constants_far_away_are_found():
    """A host twelve times slower: at the profile's own constants small changes of the host show little, as long as the device takes longer."""
    slow = [("host", f"{kind}launch_s", 12) for kind in ("", "interpreter_")]
    run(*FIT, write("far.csv", HEAD + "".join(measured_runs(slow))), "--profile", "llm_foundry_a100", "--output", "far.json")
    with open(os.path.join(WORK, "far.json"), encoding="utf-8") as source:
        far = json.load(source)
    check(far["error"]["median"] < 0.06, far["error"])


def test_what_few_runs_do_not_tell():
    """Constants do not follow noise: runs of the profile's own software leave it as it is, and runs of one as fast as another times a factor move that alone."""
    noise, start = (0.97, 1.03, 1.03, 0.97, 1.02, 0.98), profile("llm_foundry_a100")
    for factor, said in ((1, "as it is"), (1.2, "times a factor")):
        rows = [row.rsplit(",", 1) for row in measured_runs(())]
        runs = write("noisy.csv", HEAD + "".join(f"{shape},{factor * one * float(time):.6g}\n" for (shape, time), one in zip(rows, noise)))
        text = run(*FIT, runs, "--profile", "llm_foundry_a100", "--output", "noisy.json")
        parts = dict(part.rsplit(" ", 2)[:2] for part in text.split("for 6 configs: ")[1].split("\n")[0].split(", "))
        check(float(parts[said]) > 70, text)
        with open(os.path.join(WORK, "noisy.json"), encoding="utf-8") as source:
            noisy = json.load(source)
        for group, key in (("gemm", "peak_fraction"), ("host", "launch_s"), ("host", "message_s")):
            of_time = noisy[group][key] / start[group][key]
            check(abs((1 / of_time if key == "peak_fraction" else of_time) / factor - 1) < 0.1, group, key, of_time)


def test_no_profile_is_as_it_is_for_runs_that_it_misses_by_far():
    """Runs of software of other constants, which no constant explains within 30 %, are not of software that has a profile: each of those is known to miss fewer."""
    rows = [row.rsplit(",", 1) for row in measured_runs((("gemm", "peak_fraction", 0.6), ("host", "launch_s", 4)))]
    runs = write("other.csv", HEAD + "".join(f"{shape},{factor * float(time):.6g}\n" for (shape, time), factor in zip(rows, (0.7, 1.4, 1.3, 0.75, 1.3, 0.7))))
    for options in ((), ("--profile", "llm_foundry_a100")):
        text = run(*FIT, runs, *options, "--output", "other.json")
        check("begins with general_a100" in text or options, text)
        check("as it is" not in text.split("for 6 configs: ")[1].split("\n")[0], text)


def module(name):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(ROOT, "scripts", name))
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    loader.exec_module(made)
    return made


def test_constants_are_means_of_what_is_probable():
    """Runs that are 8 % slow, and longer with one constant's part: as it is, a factor and the constant explain them in part each, and the constants are
    between what each would have. More noise than that leaves them where they were."""
    general = module("fit_general")
    fit = general.fit
    one = fit.Fit.__new__(fit.Fit)
    slopes = [[1, 1, 1, 1, 1, 1], [0.9, 0.7, 0.5, 0.3, 0.1, 0.0]]
    one.start, one.spreads, one.slopes, one.offsets = [1, 1], [0.1, 0.5], slopes, [0.0, 0.0]
    one.alike, one.all, one.of_factor, one.own_noises = {i: [i] for i in range(6)}, (0, 1), (0,), fit.noises_of_error({"error": {"eight": 0.03}})
    one.likeness = lambda run, other: float(run == other)
    for found, free in (([0.01, -0.01, 0.01, -0.01, 0.01, -0.01], ()), ([-0.13, -0.11, -0.13, -0.11, -0.13, -0.11], (0,)),
                        ([-0.46, -0.34, -0.26, -0.14, -0.06, 0.01], (0, 1))):
        one.errors = found
        one.weigh({(): 0.5, (0,): 0.25, (0, 1): 0.25})
        check(abs(sum(one.weights.values()) - 1) < 1e-9 and one.part(free) == max(map(one.part, ((), (0,), (0, 1)))), found, one.weights)
        parts = [(part, general.step(slopes, found, [0, 0], one.spreads, math.sqrt(2) * freedom.noise, free=freedom.free)[0]) for freedom, part in one.weights.items() if freedom.free]
        for a, offset in enumerate(one.settled(found)):
            check(abs(offset - sum(part * change[a] for part, change in parts)) < 0.01, found, a, offset)
    whole = one.weigh({(): 1.0})
    check(one.weigh({(0, 1): 1.0}) > whole + 3, "runs that follow a constant are more probable where it is free")


def test_a_slow_run_moves_no_constant():
    """One run takes half as long again as its like: what all others tell stays. The same error in a run that is too fast is taken for noise, as no cause makes a run
    faster; and an error that all like runs have tells less than that of runs that differ."""
    fit = module("fit")
    one = fit.Fit.__new__(fit.Fit)
    one.start, one.spreads, one.slopes, one.offsets = [1], [0.1], [[1] * 6], [0.0]
    one.alike, one.all, one.likeness = {i: [i] for i in range(6)}, (0,), lambda run, other: float(run == other)

    def factor(*errors):
        one.errors = list(errors)
        one.weigh({(0,): 1.0})
        return one.settled(one.errors)[0]
    all_alike, slow, fast = factor(0.06, 0.05, 0.07, 0.06, 0.05, 0.07), factor(0.06, 0.05, 0.07, 0.06, -0.45, 0.07), factor(0.06, 0.05, 0.07, 0.06, 0.57, 0.07)
    check(abs(slow - all_alike) < 0.005 < abs(fast - all_alike), all_alike, slow, fast)
    apart, as_it_is = factor(0.2, 0.2, 0.2, 0.0, 0.0, 0.0), one.evidence(fit.Freedom((), 0.1))
    one.likeness = lambda run, other: 1.0 if run == other else 0.99 if max(run, other) < 3 else 0.0
    check(abs(factor(0.2, 0.2, 0.2, 0.0, 0.0, 0.0)) < 0.7 * abs(apart), apart)
    check(one.evidence(fit.Freedom((), 0.1)) == as_it_is, "a profile's own error has what configs share")


def test_errors_too_large_for_a_profile():
    rows = [row.rsplit(",", 1) for row in measured_runs()]
    for name, factors, code, said in (("typo", (1, 1, 1, 1e-3, 1, 1), 3, "dtbench fit: line 5: "), ("milliseconds", (1e3,) * 6, 0, "are the times in seconds")):
        runs = write(f"{name}.csv", HEAD + "".join(f"{shape},{factor * float(time):.6g}\n" for (shape, time), factor in zip(rows, factors)))
        text = run(*FIT, runs, "--profile", "llm_foundry_a100", "--output", f"{name}.json", code=code)
        check(said in text and ("a profile's error is at most 1000 %, so none is written" in text) == bool(code), text)
        check(os.path.exists(os.path.join(WORK, f"{name}.json")) == (not code), "a profile that nobody can read is not written")
    run(DTBENCH, "plan", "--model", "GPTSmall", "--cluster", "dgx_a100_1", "--gpus", "1", "--global-batch", "1", "--profile", "milliseconds.json", "-q", "--top", "1")


def test_runs_that_contradict_are_named():
    rows = measured_runs()
    shape, time = rows[1].rsplit(",", 1)
    runs = write("contradiction.csv", HEAD + "".join(rows) + f"{shape},{2 * float(time):.6g}\n")
    text = run(*FIT, runs, "--profile", "llm_foundry_a100", "--output", "two.json")
    check("line 3 and line 8 are alike, and took" in text, text)
    check("each predicted from the others" in text and "are of" not in text, "seven runs of six configs are no few", text)


def test_runs_of_one_config():
    """A fit to few runs ends soon, says that they are few, and does not count them as evidence for each other."""
    shape, time = measured_runs()[1].rsplit(",", 1)
    for name, factors, said in (("equal", (3, 3, 3, 3), False), ("apart", (1.5, 3, 6, 3), True)):
        runs = write(f"{name}.csv", HEAD + "".join(f"{shape},{factor * float(time):.6g}\n" for factor in factors))
        text = run(*FIT, runs, "--profile", "llm_foundry_a100", "--output", "one.json")
        check("the 4 runs are of 1 config: they say little of others" in text and "was not finished" not in text, text)
        check(("line 2 and line 4 are alike, and took" in text) == said, text)
        with open(os.path.join(WORK, "one.json"), encoding="utf-8") as source:
            check(json.load(source)["error"]["median"] > 0.3, text)


def test_no_time_left():
    text = run(*FIT, write("hurry.csv", HEAD + "".join(measured_runs())), "--output", "hurry.json", "--seconds", "0.01")
    check("the fit was not finished in 0.01 s: with more (--seconds) it may come nearer" in text, text)
    with open(os.path.join(WORK, "hurry.json"), encoding="utf-8") as source:
        check(json.load(source)["error"]["median"] > 0, text)


SLOW = """#!/bin/sh
echo >> {calls}
[ "$(wc -l < {calls})" -gt {most} ] && exec sleep 60
exec {dtbench} "$@"
"""


def test_no_prediction_outlasts_the_time():
    """Whatever is predicted when the time ends is stopped, coarse steps, too. The error is not below that of the profile that is written, which moved little."""
    runs = write("late.csv", HEAD + "".join(measured_runs()))
    for most in (1, 9, 24):
        slow = write(f"slow_{most}", SLOW.format(calls=os.path.join(WORK, f"calls_{most}"), most=most, dtbench=DTBENCH))
        os.chmod(slow, 0o755)
        begun = time.monotonic()
        script = ["/usr/bin/python3", "-s", os.path.join(ROOT, "scripts", "fit"), *FIT[2:]]  # `dtbench fit` would take itself for its predictions
        text = run(*script, runs, "--dtbench", slow, "--output", "late.json", "--seconds", "5")
        check("the fit was not finished in 5 s" in text and time.monotonic() - begun < 55, time.monotonic() - begun, text)
        rows = json.loads(run(DTBENCH, "validate", "--json", "--data", runs, "-C", "dgx_a100_1", "-P", "late.json"))["rows"]
        now = statistics.median(abs(row["predicted_step_s"] / row["measured_step_s"] - 1) for row in rows)
        with open(os.path.join(WORK, "late.json"), encoding="utf-8") as source:
            check(json.load(source)["error"]["median"] > 0.98 * now, most, now, text)


GENERAL = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("general", sys.argv[1])
general = importlib.util.module_from_spec(importlib.util.spec_from_loader("general", loader))
loader.exec_module(general)
general.TABLES = {"a100": [(name, sys.argv[2] + f"/{name}.csv", "dgx_a100_1", {}, []) for name in ("early", "late")]}
general.UNSEEN["a100"] = general.UNSEEN["a100"][-1:]  # one small table is enough
sys.argv[1:] = sys.argv[3:]
general.main()
"""


def test_softwares_have_their_constants_in_common():
    """Two of them, one faster by a factor of its own: the profile is between both, and its error is that of software that was not seen."""
    rows = measured_runs()
    for name, factor in (("early", 1.06), ("late", 0.94)):
        write(f"{name}.csv", HEAD + "".join(f"{row.rsplit(',', 1)[0]},{factor * float(row.rsplit(',', 1)[1]):.6g}\n" for row in rows))
    fit = os.path.join(ROOT, "scripts", "fit_general")
    text = run("/usr/bin/python3", "-s", write("general.py", GENERAL), fit, WORK, "a100", "--dtbench", DTBENCH, "--output", os.path.join(WORK, "general.json"),
               env={**os.environ, "PYTHONPATH": os.path.dirname(fit)})
    with open(os.path.join(WORK, "general.json"), encoding="utf-8") as source:
        general = json.load(source)
    start = profile("llm_foundry_a100")
    check(abs(general["gemm"]["peak_fraction"] / start["gemm"]["peak_fraction"] / OF_PRODUCTS[2] - 1) < 0.15, general["gemm"])
    check("| early | 6 |" in text and "| late | 6 |" in text and "| all but llm_foundry_a100's own | 12 |" in text, text)
    check(0.02 < general["error"]["median"] < 0.2 and "had not seen" in general["error"]["of"], general["error"])


def test_what_cannot_be_fitted():
    for arguments, said in ((["nowhere.csv"], "nowhere.csv: no such file"),
                            ([write("few.csv", HEAD + SHAPES[0] + ",1\n"), "--profile", "llm_foundry_a100"], "1 of 1 runs have a measured time"),
                            ([write("untold.csv", HEAD + "".join(f"{shape},\n" for shape in SHAPES))], "line 2: no measured time"),
                            ([write("none.csv", "gpus\n1\n"), "--profile", "llm_foundry_a100"], "there is no column"),
                            (["none.csv", "--profile", "nothing"], "nothing: there is no such file, and none in configs/profiles"),
                            (["few.csv", "--profile", write("broken.json", "{")], "broken.json:1:"),
                            (["few.csv", "--profile", write("empty.json", "{}")], "empty.json: name: missing"),
                            (["few.csv", "--seconds", "ten"], "argument --seconds/-t: 'ten' is not a number above 0"),
                            (["few.csv", "--seconds", "nan"], "argument --seconds/-t: 'nan' is not a number above 0"),
                            (["few.csv", "--output", WORK], "is a folder: --output names the file to write"),
                            (["few.csv", "--output", "no/where.json"], "no/where.json: cannot be written there")):
        text = run(*FIT, *arguments, *([] if "--output" in arguments else ["--output", "none.json"]), code=3)
        check(text.count("\n") == 1 and text.startswith("dtbench fit: ") and said in text, text)
    check(not os.path.exists(os.path.join(WORK, "none.json")), "nothing is written")


def test_what_the_command_needs():
    for arguments, said in (((), "needs a file of measured runs"), (("runs.csv",), "needs the cluster of the runs: --cluster dgx_a100"),
                            (("runs.csv", "-C", "dgx_a100"), "needs the name of the profile to write: --output my_profile.json")):
        text = run(DTBENCH, "fit", *arguments, code=2)
        check(text.startswith(f"dtbench fit: {said}"), text)
    text = run(DTBENCH, "fit", write("few.csv", HEAD + SHAPES[0] + ",1\n"), "-C", write("empty.json", "{}"), "-o", "none.json", code=3)
    check(text.count("\n") == 1 and "empty.json: " in text, text)
    text = run(DTBENCH, "fit", "runs.csv", "-C", "dgx_a100", "-o", "none.json", "--jobs", "0", code=3)
    check(text == "dtbench fit: argument --jobs/-j: '0' is not a whole number above 0\n", text)
    text = run(DTBENCH, "fit", "runs.csv", "-C", "dgx_a100", "-o", "none.json", code=3, env={"PATH": "/nowhere"})
    check(text == "dtbench fit: needs python3 on the PATH, which cannot be started: No such file or directory\n", text)


def main():
    try:
        return run_all(chosen(globals()))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
