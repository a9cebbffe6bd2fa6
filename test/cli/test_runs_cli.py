"""Runs: records, tables, launchers, the terminal. Prints TAP.

Usage: test_runs_cli.py DTBENCH [CASE...]. Runs the program on tiny models; needs the cpu device and mpirun.
"""
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from command import (CONFIG, DTBENCH, ENVIRONMENT, FAILED, FOREVER, LATER, MPIRUN, OK, OOM, OUTPUT, USAGE,
                     VERIFY, WORK, by_rank, config, main, on_terminal, one, read_records, records_path, run, wait_for)  # beside this script
from tap_cases import COMMAND_S, PATIENCE, check

# ---- results ----


def test_a_sweep_and_its_records():
    output = records_path("sweep.jsonl")
    result = run("--config=" + config(), "--output=" + output, "--verify", code=OK)
    records = read_records(output)
    check([r["config"]["paradigm"] for r in records] == ["ddp", "pdp", "fsdp"], "order of the sweep")
    predicted = json.loads(run("check", "--json", config(), code=OK).stdout)
    metrics = list(json.loads(run("generate", "metrics-schema", code=OK).stdout)["properties"])
    check([r["sweep"]["index"] for r in records] == [0, 1, 2] and {r["sweep"]["count"] for r in records} == {3} and
          len({r["sweep"]["id"] for r in records}) == 1, "the records name their sweep", records[0]["sweep"])
    for r, p in zip(records, predicted):
        check(r["status"] == "ok" and r["error"] is None and r["schema_version"] == 1, r["status"], r["error"])
        check(list(r["metrics"]) == metrics, "all metrics in the table's order", list(r["metrics"]))
        check(len(r["losses"]) == 4 and all(5 < loss < 8 for loss in r["losses"]), r["losses"])
        steps = r["metrics"]["step_s"]
        check(len(steps["all"]) == 3 and min(steps["all"]) <= steps["median"] <= steps["p95"] <= max(steps["all"]), steps)
        check(abs(r["metrics"]["tokens_per_s"] * steps["median"] - 2 * 2 * 32) < 1e-6, "tokens per second")
        check(abs(r["metrics"]["aco_ms_per_sample"] - r["metrics"]["exposed_comm_s"] * 1000 / 2) < 1e-9, "ACO")
        check(r["metrics"]["mfu"] is None, "nobody knows a cpu's peak")
        sizes = r["metrics"]["peak_bytes"]["process_rss"]
        ranks = by_rank(r["metrics"]["peak_bytes"])
        check(len(ranks) == len(sizes) == 2 and all(0 < ranks[i]["total"] < sizes[i] for i in ranks), ranks, sizes)
        for category, value in p["predicted_peak_bytes"].items():
            if category != "rank":
                check(ranks[p["predicted_peak_bytes"]["rank"]][category] == value, category, value, ranks)
        check(r["config_hash"] == p["config_hash"] and r["config"] == p["config"], "the record's config")
        check(r["verification"]["status"] == "passed", r["verification"])
        check(r["provenance"]["device"] == "cpu" and r["provenance"]["hosts"] == [socket.gethostname()] and r["provenance"]["started"], r["provenance"])
    check("\r" not in result.stdout + result.stderr and "\033" not in result.stdout + result.stderr, "progress in a pipe")
    rows = [line for line in result.stdout.splitlines() if re.match(r"(ddp|pdp|fsdp) ", line)]
    table = [line for line in result.stdout.splitlines() if ": (!) " not in line]  # a busy machine has doubts
    check(len(rows) == 3 and re.search(r"status ok|  ok( \(!\))?$", result.stdout, re.M) and max(map(len, table)) <= 80, result.stdout)
    check(len(re.findall(r"^dtbench: \d/3 \w+: ok", result.stderr, re.M)) == 3, "a line per experiment:", result.stderr)


def test_the_largest_peak_may_be_of_a_later_tensor_rank():
    """It has fewer rows of the vocabulary, so that other parameters share its buckets."""
    wide = config("wide.json", sweep=None, world_size=4, paradigm="zero2", batch_size=3, tensor={"size": 2}, activation="checkpoint",
                  parameter_offload=True, ddp={"bucket_mib": 0.01}, steps={"warmup": 0, "timed": 1},
                  model={"layers": 2, "heads": 4, "hidden": 16, "vocab_size": 168, "block_size": 10, "ffn": 26, "dtype": "fp32"})
    foreseen = json.loads(run("check", wide, "--json", code=OK).stdout)[0]["predicted_peak_bytes"]
    records = records_path("wide.jsonl")
    run("run", wide, "--output", records, code=OK)
    held = read_records(records)[0]["metrics"]["peak_bytes"]
    check(foreseen["total"] == held["total"], foreseen, held)
    ranks = by_rank(held)
    check(ranks[0]["total"] < ranks[foreseen["rank"]]["total"], "the first rank has the largest peak, too", ranks)


def test_records_on_standard_output():
    result = run("run", one(), "--set", "world_size=1", "--set", "paradigm=none", code=OK)
    check(json.loads(result.stdout)["status"] == "ok" and "tokens/s" in result.stderr, "records to a pipe, table to stderr")
    result = run("run", one(), "--set", "world_size=1", "--set", "paradigm=none", "--quiet", code=OK)
    check(len(result.stdout.splitlines()) == 1 and not result.stderr, "quiet:", result.stderr)


def test_offloaded_inputs_travel_beside_the_kernels():
    """On a simulated A100: the copies hide behind forward and backward, so that offload costs no more time than checkpoint."""
    path = config("travel.json", device="sim", world_size=1, paradigm=None, batch_size=8, model={"preset": "GPTLarge"},
                  steps={"warmup": 1, "timed": 1}, cluster="clusters/dgx_a100_1.json", profile="profiles/dtbench_cuda_a100.json",
                  sweep={"activation": ["checkpoint", "offload"]})
    output = records_path("travel.jsonl")
    run("run", path, "--output", output, code=OK)
    checkpoint, offload = (r["metrics"] for r in read_records(output))
    # 24 blocks and the head; two inputs stay on the device
    check(offload["host_peak_bytes"]["activations"] == 23 * 8 * 256 * 1536 * 2, offload["host_peak_bytes"])
    check(offload["exposed_comm_s"] < 0.001 * offload["step_s"]["median"], "exposed copies:", offload["exposed_comm_s"])
    check(offload["step_s"]["median"] < 1.001 * checkpoint["step_s"]["median"], offload["step_s"], checkpoint["step_s"])


PARTS = ["forward_s", "backward_s", "optimizer_s", "exposed_comm_s", "bubble_s", "data_s", "host_s"]


def test_times_add_up_to_the_step():
    paradigms = ["ddp", "pdp", "fsdp", "zero1", "zero2", "hsdp", "data_parallel", "parameter_server"]
    for device in ("cpu", "sim"):
        output = records_path(f"parts_{device}.jsonl")
        run("run", config(f"parts_{device}.json", device=device, sweep={"paradigm": paradigms}), "-q", "-o", output, code=OK)
        for r in read_records(output):
            metrics, paradigm = r["metrics"], r["config"]["paradigm"]
            step, parts = metrics["step_s"]["median"], [metrics[part] for part in PARTS]
            check(abs(sum(parts) / step - 1) < 0.01 and min(parts) >= 0, device, paradigm, parts, step)
            check(abs(metrics["bubble"] - metrics["bubble_s"] / step) < 1e-9, "the bubble as a fraction")
            pipelined = paradigm == "pdp"  # two stages, two chunks: 1 of 3
            check(abs(metrics["bubble_ideal"] - pipelined / 3) < 1e-9 and (metrics["bubble"] > 0) == pipelined, device, paradigm,
                  metrics["bubble"])


def test_resume():
    output = records_path("resume.jsonl")
    run("run", config(), "-o", output, "-q", "--set", 'sweep.paradigm=["ddp"]', code=OK)
    with open(output, "a", encoding="utf-8") as file:
        file.write('{"schema_version": 1, "status": "ok", "config_ha')  # the draft that a crash leaves
    check(run("run", config(), "-o", output, "--resume", "--dry-run", code=OK).stdout.count("skipped") == 1, "dry run of a resume")
    text = run("run", config(), "-o", output, "--resume", code=OK).stdout
    check("ddp" in text and "skipped" not in text, text)
    with open(output, encoding="utf-8") as file:
        lines = file.read().splitlines()
    check(len(lines) == 4 and [json.loads(lines[i])["config"]["paradigm"] for i in (0, 2, 3)] == ["ddp", "pdp", "fsdp"], lines)
    again = run("run", config(), "-o", output, "--resume", code=OK)
    check("nothing is left to run" in again.stderr and again.stdout == text, "the table of what is done", again.stdout, text)
    run("run", config(), "-o", output, "-q", "--resume", "--set", "memory_limit_gib=0.001", code=OOM)
    run("run", config(), "-o", output, "-q", "--resume", "--set", "memory_limit_gib=0.001", code=OOM)
    with open(output, encoding="utf-8") as file:
        check(len(file.read().splitlines()) == 10, "an oom record is no reason to skip")


def test_repeat():
    """In rounds, as often as records are missing; all are records of one sweep. A file may have records of experiments that are in no repeat."""
    path, output = config("repeat.json", device="sim", sweep={"paradigm": ["ddp", "fsdp"]}), records_path("repeat.jsonl")

    def paradigms():
        return [r["config"]["paradigm"] for r in read_records(output)]

    run("run", path, "-o", output, "-q", "--set", 'sweep.paradigm=["fsdp"]', code=OK)
    run("run", path, "-o", output, "-q", "--resume", "--repeat", "2", code=OK)
    check(paradigms() == ["fsdp", "ddp", "ddp", "fsdp"], paradigms())
    check({(r["sweep"]["index"], r["sweep"]["count"]) for r in read_records(output)[1:]} == {(0, 2), (1, 2)}, "one sweep")
    check("nothing is left to run" in run("run", path, "-o", output, "--resume", "--repeat=2", code=OK).stderr, "all are there")
    result = run("run", path, "-o", output, "--resume", "--repeat=3", code=OK)
    check(paradigms()[4:] == ["ddp", "fsdp"] and "6/6 fsdp: ok" in result.stderr, paradigms(), result.stderr)
    dry = run("run", path, "--dry-run", "--repeat=2", "--shard=1/2", code=OK).stdout
    check(re.findall(r"^ *(\d+)\b", dry, re.M) in (["1", "3"], ["2", "4"]), "a shard has all repeats of its experiments", dry)
    for wrong in ("0", "two", "1001"):
        check("whole number from 1 to 1000" in run("run", path, "--repeat", wrong, code=USAGE).stderr, wrong)


def test_until():
    """Predictions settle after three rounds; measured step times never do within a millionth of a percent."""
    path, output = config("until.json", device="sim", sweep={"paradigm": ["ddp", "fsdp"]}), records_path("until.jsonl")
    result = run("run", path, "-o", output, "--until", "1", code=OK)
    ran = [r["config"]["paradigm"] for r in read_records(output)]
    check(ran == 3 * ["ddp", "fsdp"] and "settled" not in result.stderr and "not run" not in result.stderr, ran, result.stderr)
    output = records_path("until_cpu.jsonl")
    measured = config("until_cpu.json", sweep=None, device="cpu", world_size=1, paradigm="none")
    result = run("run", measured, "-o", output, "--until=1e-6", "--repeat=4", code=OK)
    check(len(read_records(output)) == 4, "as often as --repeat says")
    check(re.search(r"^dtbench: not settled within 1e-06 %: .*: \+- [0-9.e+]+ %$", result.stderr, re.M), result.stderr)
    for wrong, said in ((["--until", "0"], "above 0 and up to 100"), (["--until=nan"], "above 0"), (["--until=2x"], "above 0"),
                        (["--until=1", "--repeat=2"], "3 rounds at least"), (["--until=1", "--resume"], "leave out --resume")):
        result = run("run", path, "-o", output, *wrong, code=USAGE)
        check(said in result.stderr.splitlines()[0] and len(result.stderr.splitlines()) == 2, "the fault and where the help is", wrong, result.stderr)


def test_combinations_that_cannot_be_are_left_out():
    note = re.compile(r'^dtbench: note: 1 of 6 combinations of the sweep left out, because they are not valid: .*left_out.json: sweep '
                      r'combination 3 of 6 \(world_size=1, paradigm="pdp"\): pipeline.stages: 2 does not divide world_size 1', re.M)
    path = config("left_out.json", device="sim", sweep={"world_size": [1, 2], "paradigm": ["ddp", "fsdp", "pdp"]})
    output = records_path("left_out.jsonl")
    result = run("run", path, "-o", output, code=OK)
    check(note.search(result.stderr) and len(note.findall(result.stderr)) == 1, result.stderr)
    records = read_records(output)
    check(len(records) == 5 and {r["sweep"]["count"] for r in records} == {5} and {r["status"] for r in records} == {"ok"}, records)
    result = run("status", output, "--config", path, code=OK)
    check("5 experiments: 5 done" in result.stdout and note.search(result.stderr), result.stdout, result.stderr)
    result = run("run", path, "-o", output, "--resume", code=OK)
    check("nothing is left to run" in result.stderr and note.search(result.stderr), result.stderr)
    check(not run("run", path, "-o", output, "--resume", "-q", code=OK).stderr, "quiet")
    result = run("check", path, code=OK)
    check(note.search(result.stderr) and "pdp" in result.stdout, result.stderr)
    # with no experiment left, or with a single experiment, it is an error
    for wrong in (["--set", "sweep.world_size=[1,3]", "--set", "paradigm=pdp"], ["--set", "world_size=1", "--set", "paradigm=pdp"]):
        result = run("run", path, "-o", output, *wrong, code=CONFIG)
        check("pipeline.stages: 2 does not divide world_size" in result.stderr and "left out" not in result.stderr, result.stderr)


def test_shards():
    shown = []
    for number in (1, 2, 3):
        text = run("run", config(), "--dry-run", "--shard", f"{number}/3", "--set", "sweep.batch_size=[2,4,8]", code=OK).stdout
        shown.append(re.findall(r"^(\d) ", text, re.M))
    check(sorted(sum(shown, [])) == [str(n) for n in range(1, 10)] and all(len(part) == 3 for part in shown), shown)
    output = records_path("shard.jsonl")
    result = run("run", config(), "--shard", "2/3", "-o", output, code=OK)
    check(len(read_records(output)) == 1 and "not run" not in result.stdout + result.stderr, result.stdout, result.stderr)
    check("empty" in run("run", config(), "--shard", "4/4", "-o", output, code=OK).stderr, "an empty shard")


def test_what_does_not_fit_is_left_for_later():
    output = records_path("later.jsonl")
    slow = ["--set", 'sweep.steps.timed=[3,1000000]', "--set", 'sweep.paradigm=["ddp"]', "-o", output]
    result = run("run", config(), *slow, "--time-limit", "60", code=LATER)
    check([r["status"] for r in read_records(output)] == ["ok"] and "1000000" not in result.stdout, result.stdout)
    check(re.search(r"left for later: may take \d+ s \(estimated from 1 done\), and \d+ s are left", result.stderr), result.stderr)
    check("1 of 2 experiments not run; --resume runs them" in result.stderr, result.stderr)
    result = run("run", config(), *slow, "--time-limit", "0", "--resume", code=LATER)
    check(len(read_records(output)) == 1 and "no time left" in result.stderr, result.stderr)
    result = run("run", config(), *slow, "--time-limit", "0", "--resume", "--quiet", code=LATER)
    check(result.stderr == "dtbench: 1 of 2 experiments not run; --resume runs them\n", result.stderr)
    run("run", config(), "-o", output, "--set", "memory_limit_gib=0.0005", "-q", code=OOM)
    count = len(read_records(output))
    run("run", config(), "-o", output, "--set", "memory_limit_gib=0.0005", "--resume", "--skip-oom", code=OK)
    check(len(read_records(output)) == count, "an experiment without memory ran again")


def test_out_of_memory_is_a_result():
    output = records_path("oom.jsonl")
    result = run("run", config(), "-o", output, "--set", "sweep.memory_limit_gib=[0.0005,0]", code=OOM)
    records = read_records(output)
    check([r["status"] for r in records] == ["oom", "ok"] * 3, [r["status"] for r in records])
    check("memory limit" in records[0]["error"] and "rank" in records[0]["error"], records[0]["error"])
    check(records[0]["metrics"]["tokens_per_s"] is None and records[0]["losses"] == [], "numbers of what did not run")
    check("oom" in result.stdout and "memory limit" in result.stdout, result.stdout)


def test_unwritable_output_is_said_first():
    for output in ("/dev/full", os.path.join(WORK, "nowhere", "r.jsonl"), WORK):
        result = run("run", config(), "-o", output, *FOREVER, code=OUTPUT)  # which ends only if it is reported before the steps
        check(output in result.stderr and len(result.stderr.splitlines()) == 1 and not result.stdout, result.stderr)
    with open("/dev/full", "w", encoding="utf-8") as full:
        for command in ("list", "--help"):
            done = subprocess.run([DTBENCH, command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=COMMAND_S, check=False, env=ENVIRONMENT)
            check(done.returncode == OUTPUT and "cannot be written" in done.stderr, command, done)


def test_wrong_losses_fail():
    output = records_path("wrong.jsonl")
    # The mean over half of the tokens has larger gradients than that over all. With this scale more of
    # them are beyond fp16, whose parameters are left out of the update.
    result = run("run", one(), "-o", output, "--verify", "--set", "context.size=2", "--set", "model.dtype=fp16", "--set", "loss_scaling=262144",
                 "--set", "optimizer.learning_rate=1", code=VERIFY)
    record = read_records(output)[0]
    check(record["status"] == "failed" and re.search(r"loss of step \d+ is \S+, but on one device ", record["error"]), record["error"])
    check(record["verification"]["status"] == "failed" and record["losses"], record["verification"])
    check("failed" in result.stdout, result.stdout)


def test_an_order_from_a_file_runs():
    with open(os.path.join(WORK, "mine.csv"), "w", encoding="utf-8") as out:
        out.write("0F0 3F0 3I0 0F1 0B0 3W0 3F1 3B1 0B1\n1F0 2F0 2B0 1B0 1F1 2F1 2I1 1I1 1W1 2W1\n")
    path = config("file.json", sweep=None, paradigm="pdp", pipeline={"stages": 2, "chunks": 2, "order": "mine.csv"})
    run("run", path, "--verify", "--output", "file.jsonl", code=OK)
    record = read_records(os.path.join(WORK, "file.jsonl"))[-1]
    check(record["verification"]["status"] == "passed" and record["config"]["pipeline"]["order"] == "mine.csv", record)


def test_three_and_four_ranks_verify():
    for world in (3, 4):
        output = records_path("world.jsonl")
        settings = ["--set", f"world_size={world}", "--set", "steps.timed=9"]
        if world == 3:
            settings += ["--set", "pipeline.stages=3", "--set", "pipeline.chunks=3"]
        run("run", config(), "-o", output, "-q", "--verify", *settings, code=OK)
        check(all(r["verification"]["largest_relative_difference"] < 1e-5 for r in read_records(output)), "losses differ")


# ---- launchers ----


def mpirun(ranks, *arguments):
    return subprocess.run([*MPIRUN, str(ranks), DTBENCH, *arguments], cwd=WORK, text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=COMMAND_S, env=ENVIRONMENT, check=False)


def test_under_mpirun():
    output = records_path("mpirun.jsonl")
    result = mpirun(2, "--config", config(), "-o", output, "--verify")
    records = read_records(output)
    check(result.returncode == OK and [r["status"] for r in records] == ["ok"] * 3, result.returncode, result.stderr)
    check(records[0]["provenance"]["launcher"] == "mpirun" and records[0]["verification"]["status"] == "passed", records[0]["provenance"])
    check(result.stdout.count("exposed") == 1 and "\033" not in result.stdout + result.stderr, "not one table:", result.stdout)
    result = mpirun(2, "run", config(), "-o", output, "--set", "sweep.memory_limit_gib=[0.0005,0]")
    check(result.returncode == OOM and [r["status"] for r in read_records(output)[3:]] == ["oom", "ok"] * 3, result.returncode)


def communicators(*settings):
    """The numbers of MPI worlds and subsets that each of two ranks makes in a sweep without errors."""
    counts = os.path.join(WORK, "mpi-calls")
    if os.path.exists(counts):
        os.remove(counts)
    preload = ["-x", "LD_PRELOAD=" + os.environ["MPI_CALLS_LIBRARY"], "-x", "MPI_CALLS=" + counts]
    result = subprocess.run([*MPIRUN, "2", *preload, DTBENCH, "run", one("pdp"), "-o", records_path("counted.jsonl"), *settings], cwd=WORK,
                            text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=COMMAND_S, env=ENVIRONMENT, check=False)
    check(result.returncode == OK, result.stderr)
    with open(counts, encoding="utf-8") as file:
        ranks = [tuple(int(number) for number in line.split()) for line in file]
    check(len(ranks) == 2 and ranks[0] == ranks[1], ranks)
    return ranks[0]


def test_communicators_are_kept_between_experiments():
    """Communicators of the same mesh are made once, those of another mesh anew in the same world; with another device or other limits the world is made anew, too."""
    worlds, subsets = communicators()
    check(worlds == 2 and subsets > 0, "the ranks' check of each other has a world of its own:", worlds, subsets)
    check(communicators("--set", "sweep.batch_size=[2,4,6]") == (worlds, subsets), "three alike make others than one")
    check(communicators("--set", 'sweep.paradigm=["pdp","ddp"]') == (worlds, subsets + 1), "two meshes:", worlds, subsets)
    check(communicators("--set", "sweep.timeout.step_s=[60,61]") == (worlds + 1, 2 * subsets), "two limits:", worlds, subsets)


def test_a_sweep_goes_on_after_a_loss_that_is_not_finite():
    """All ranks see the same loss, so they end together and go on with the next experiment, whoever started them."""
    rates = "sweep.optimizer.learning_rate=[1000,0.01]"
    for start in (mpirun, lambda _, *arguments: run(*arguments)):
        output = records_path("not-finite.jsonl")
        result = start(2, "run", one(), "-o", output, "--set", rates)
        records = read_records(output)
        check(result.returncode == FAILED and [r["status"] for r in records] == ["failed", "ok"], result.returncode, result.stderr)
        check("is not a finite number" in records[0]["error"] and len(records[1]["losses"]) == 4, records)


def endless_trains(output):
    """Does the draft of the sweep's second experiment have a step's loss?"""
    for path in glob.glob(output + ".*.draft"):
        try:
            with open(path, encoding="utf-8") as file:
                draft = json.load(file)
        except (OSError, ValueError):  # the first one's goes, or is not written yet
            continue
        if draft["config"]["steps"]["timed"] == 1000000 and draft["losses"]:
            return True
    return False


def interrupted_under_mpirun(output, patience_s):
    """The states of the records. patience_s: how long mpirun lets ranks write their record before it kills them; of itself a second."""
    patient = {f"{prefix}_MCA_odls_base_sigkill_timeout": str(patience_s) for prefix in ("OMPI", "PRTE")}
    process = subprocess.Popen([*MPIRUN, "2", DTBENCH, "run", config(), "-o", output, "--set", "sweep.steps.timed=[2,1000000]"], cwd=WORK,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env={**ENVIRONMENT, **patient})
    try:
        wait_for(lambda: endless_trains(output), 30, "steps of the second experiment")
        process.send_signal(signal.SIGINT)
        check(process.wait(40 * PATIENCE) != OK, "an interrupted run ends well")
    finally:
        process.kill()
        process.wait()
    return [r["status"] for r in read_records(output)]


def test_an_interrupt_under_mpirun():
    states = interrupted_under_mpirun(records_path("mpirun-interrupted.jsonl"), 3)
    if states == ["ok"]:  # a busy machine; mpirun waits for all of this time, so it is not the first one
        output = records_path("mpirun-interrupted-late.jsonl")
        states = interrupted_under_mpirun(output, 25)
        # Open MPI 5 kills ranks a quarter of a second after it asks them to end, whatever it is
        # told (PRRTE 3.0, odls_base_default_fns.c). What they had measured is left then, for the
        # next run.
        version = subprocess.run([MPIRUN[0], "--version"], capture_output=True, text=True, env=ENVIRONMENT, check=False).stdout
        if states == ["ok"] and re.search(r"\b5\.\d+\.\d+", version):
            check(endless_trains(output), "nothing is left of what was measured")
            return
    check(states == ["ok", "interrupted"], states)


def test_an_interrupt_of_one_rank_is_told_by_all():
    output, pids, codes = records_path("one-interrupted.jsonl"), records_path("pids"), records_path("codes")
    shell = f'"$@" & echo $! $OMPI_COMM_WORLD_RANK $PMI_RANK >>{pids}; wait $!; echo $? >>{codes}'
    process = subprocess.Popen([*MPIRUN, "2", "sh", "-c", shell, "sh", DTBENCH, "run", config(), "-o", output, "--set", "sweep.steps.timed=[2,1000000]"],
                               cwd=WORK, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        wait_for(lambda: endless_trains(output), 30, "steps of the second experiment")
        with open(pids, encoding="ascii") as file:
            os.kill({int(rank): int(pid) for pid, rank in (line.split() for line in file)}[1], signal.SIGINT)
        process.wait(20 * PATIENCE)
    finally:
        process.kill()
        process.wait()
    with open(codes, encoding="ascii") as file:
        check(file.read().split() == [str(128 + signal.SIGINT)] * 2, "the ranks end differently")
    check([r["status"] for r in read_records(output)] == ["ok", "interrupted"], read_records(output))


def test_another_number_of_ranks_is_refused():
    output = records_path("refused.jsonl")
    result = mpirun(3, "run", config(), "-o", output)
    check(result.returncode == CONFIG, result.returncode)
    check(len(re.findall("mpirun started 3 ranks.*world_size 2", result.stderr)) == 1, result.stderr)
    check(not os.path.exists(output), "something was written")
    result = mpirun(2, "run", one(), "-o", output, "--set", "sweep.gpus_per_node=[2,1]")
    check(result.returncode == CONFIG and result.stderr.count("experiment 2 of 2: gpus_per_node: 1 are asked for") == 1, result.returncode, result.stderr)
    result = run("run", one(), environment={"RANK": "1", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, code=CONFIG)
    check("RANK" in result.stderr, result.stderr)


# ---- the terminal ----


def test_progress_on_a_terminal():
    default = records_path("dtbench.jsonl")
    text = on_terminal({"TERM": "xterm", "NO_COLOR": ""}, "run", one(), "--set", "steps.timed=40")
    check(re.search(r"\r\033\[K\[1/1\] ddp  step \d+/41  loss \d\.\d+  [\d,.]+ tokens/s  ETA \d:\d\d", text), repr(text[:2000]))
    check(text.rindex("\r\033[K") < text.index("exposed", text.rindex("\r\033[K")), "the line is not wiped before the table")
    check(re.search(r"\033\[3(2mok|3mok \(!\))", text) and read_records(default)[0]["status"] == "ok", "colour, and records beside the table")
    text = on_terminal({"TERM": "xterm", "NO_COLOR": "1"}, "run", one(), "--set", 'sweep.gradient_reduction=["last","each"]',
                       "--set", "sweep.parameter_offload=[false,true]", "--set", "steps.timed=1", columns=80)
    lines = [line for line in re.split(r"[\r\n]+(?:\033\[K)?", text) if "  step 1/2" in line]
    check(len(lines) == 4 and all(len(line) <= 79 and re.search(r" tokens/s  ETA \d:\d\d$", line) for line in lines), "nothing is cut:", lines)
    check(re.match(r"\[4/4\] ddp, gradient[a-z_ ]*\.\.  step", lines[3]), "the label gives way:", lines)
    check(re.search(r"gradient +parameter", text) and re.search(r"reduction +offload", text), "long keys take two lines:", text)
    text = on_terminal({"TERM": "xterm", "NO_COLOR": "1"}, "run", one(), "--set", "steps.timed=1")
    check(not re.search(r"\033\[\d+m", text) and "\r\033[K" in text, "NO_COLOR:", repr(text))
    text = on_terminal({"TERM": "dumb"}, "run", one(), "--set", "steps.timed=1")
    check("\033" not in text and "dtbench: 1/1 ddp: ok" in text, "TERM=dumb:", repr(text))
    text = on_terminal({"TERM": "xterm"}, "run", one(), "--set", "steps.timed=1", "--quiet")
    check("\r\033" not in text and "exposed" in text, "--quiet:", repr(text))


if __name__ == "__main__":
    sys.exit(main(globals()))
