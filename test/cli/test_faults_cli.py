"""Faults: killed ranks and supervisors, hangs, interrupts. Prints TAP.

Usage: test_faults_cli.py DTBENCH [CASE...]. Runs the program on tiny models; needs the cpu device and mpirun.
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

from command import (DTBENCH, ENDS_S, ENVIRONMENT, FAILED, FOREVER, LATER, OK, OUTPUT, WORK, Started, config, interrupt, left_behind,
                     main, one, ranks_of, read_records, records_path, run, wait_for)  # beside this script
from tap_cases import COMMAND_S, PATIENCE, check

random.seed(7)


def test_killed_ranks_are_named():
    for attempt in range(3):
        output = records_path("killed.jsonl")
        run_of = Started(one(random.choice(["ddp", "pdp", "fsdp"])), "-o", output, *FOREVER)
        victim = random.choice([0, 1])
        if attempt == 0:  # as early as there is one
            wait_for(lambda: ranks_of(run_of.pid).get(victim), 20, "a rank to kill")
        else:  # somewhere in a step, which takes milliseconds
            run_of.ranks_train()
        os.kill(ranks_of(run_of.pid)[victim], signal.SIGKILL)
        out, seconds = run_of.finish(FAILED)
        check(seconds < ENDS_S, f"{seconds:.1f} s until the end")
        record = read_records(output)[0]
        check(record["status"] == "failed", record["status"], record["error"])
        if attempt > 0:  # before it says hello, a process has no number
            check(f"rank {victim}" in record["error"], f"rank {victim} was killed:", record["error"])
            check(record["losses"], "the steps before the end are lost")
        check("failed" in out, out)


def test_a_crash_is_not_the_end_of_a_sweep():
    output = records_path("sweep-killed.jsonl")
    endless, short = {"paradigm": "fsdp", "steps": {"timed": 1000000}}, {"paradigm": "ddp", "steps": {"timed": 3}}
    run_of = Started(config(sweep=[endless, short]), "-o", output)
    os.kill(run_of.ranks_train()[1], signal.SIGKILL)
    run_of.finish(FAILED, 50)
    check([r["status"] for r in read_records(output)] == ["failed", "ok"], read_records(output))


def test_a_crash_counts_more_than_too_little_memory():
    output = records_path("both.jsonl")
    run_of = Started(one(), "-o", output, *FOREVER, "--set", "sweep.memory_limit_gib=[0,0.0005]")
    os.kill(run_of.ranks_train()[1], signal.SIGKILL)
    run_of.finish(FAILED, 50)
    check([r["status"] for r in read_records(output)] == ["failed", "oom"], read_records(output))


def test_a_killed_run_leaves_what_it_measured():
    output, sweep = records_path("draft.jsonl"), config("two.json", sweep={"paradigm": ["ddp", "fsdp"]})
    run_of = Started(sweep, "-o", output, *FOREVER)
    run_of.ranks_train()
    wait_for(lambda: '"losses":[]' not in "".join(open(name, encoding="utf-8").read() for name in drafts_of(output)), 20, "a step in the draft")
    check(drafts_of(output) and "no records" in run("status", output, code=OK).stdout, "a live draft is a record")
    run_of.process.kill()
    run_of.process.communicate()
    told = json.loads(run("status", output, "--json", code=OK).stdout)["sweeps"][0]["items"]
    check([i["state"] for i in told] == ["failed", "missing"] and not read_records(output), told)
    check(re.fullmatch(r"ended without a result after step [1-9]\d* of 1000001: .*killed.*", told[0]["error"]), told[0])
    few = ["--set", "steps.timed=2", "-o", output]
    result = run("run", sweep, *few, code=OK)
    check("1 unfinished record added" in result.stderr and not drafts_of(output), result.stderr)
    records = read_records(output)
    check([r["status"] for r in records] == ["failed", "ok", "ok"] and records[0]["losses"], [r["error"] for r in records])
    check(records[0]["sweep"]["count"] == 2, records[0]["sweep"])
    # An experiment that crashes the whole run is not tried again for ever.
    result = run("run", sweep, "-o", output, *FOREVER, "--resume", "--skip-failed", "--dry-run", code=OK)
    check(result.stdout.count("skipped") == 1, result.stdout)


def test_files_of_others_beside_the_records():
    """Other users' links and drafts are neither written to nor read as records."""
    output, victim = records_path("beside.jsonl"), os.path.join(os.path.dirname(records_path("x")), "victim")
    with open(victim, "w", encoding="utf-8") as file:
        file.write('{"config":{},"config_hash":"stranger","status":"ok"}\n')
    before = os.stat(victim)
    run_of = Started(one(), "-o", output, *FOREVER)
    run_of.ranks_train()
    draft, = drafts_of(output)
    try:
        os.symlink(victim, draft + "~")
    except FileExistsError:
        pass  # at this moment it is being replaced
    age = os.stat(draft).st_mtime_ns
    wait_for(lambda: os.stat(draft).st_mtime_ns > age, 60, "a draft that is written again")  # seldom where writing takes long
    run_of.process.kill()
    run_of.process.communicate()
    os.symlink(victim, output + ".abcdef.draft")
    os.link(victim, output + ".ghijkl.draft")
    os.mkfifo(output + ".mnopqr.draft")
    result = run("run", one(), "-o", output, "--set", "steps.timed=2", code=OK)
    check("1 unfinished record added" in result.stderr, result.stderr)
    check([r["status"] for r in read_records(output)] == ["failed", "ok"] and len(drafts_of(output)) == 3, read_records(output))
    check("stranger" not in open(output, encoding="utf-8").read(), "a stranger's line is a record")
    after = os.stat(victim)
    check((before.st_ino, before.st_size, before.st_mtime_ns) == (after.st_ino, after.st_size, after.st_mtime_ns), "the link's file was written to")


def test_a_reader_that_goes_away():
    """The first record arrives; the others need not."""
    pipe = records_path("pipe.jsonl")
    os.mkfifo(pipe)
    reader = subprocess.Popen(["head", "-n", "1", pipe], stdout=subprocess.PIPE, text=True)
    result = run("run", config("three.json", sweep={"paradigm": ["ddp", "fsdp", "ddp"], "batch_size": [2, 4]}), "-o", pipe, code=OUTPUT)
    line, _ = reader.communicate(timeout=20 * PATIENCE)
    check(json.loads(line)["status"] == "ok" and "cannot write a record" in result.stderr and "records in" not in result.stderr, result.stderr)


def drafts_of(output):
    folder, name = os.path.split(output)
    return [os.path.join(folder, file) for file in os.listdir(folder) if file.startswith(name + ".") and file.endswith(".draft")]


def test_a_stopped_rank_is_a_timeout():
    output = records_path("stopped.jsonl")
    run_of = Started(one(), "-o", output, "--set", "timeout.step_s=1", *FOREVER)
    os.kill(run_of.ranks_train()[1], signal.SIGSTOP)
    run_of.finish(FAILED)
    record = read_records(output)[0]
    check(record["status"] == "timeout" and "rank 1" in record["error"], record["status"], record["error"])


def test_interrupts_keep_finished_work():
    for number, code in ((signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, LATER)):
        output = records_path("interrupted.jsonl")
        run_of = Started(config(), "-o", output, "--set", "sweep.steps.timed=[2,1000000]")
        run_of.ranks_train(2)
        for _ in range(3 if number == signal.SIGHUP else 1):  # a shell and the system send it, too, when a terminal is closed
            run_of.process.send_signal(number)
            time.sleep(0.01)
        out, seconds = run_of.finish(code)
        check(seconds < ENDS_S, f"{seconds:.1f} s until the end")
        records = read_records(output)
        check([r["status"] for r in records] == ["ok", "interrupted"], [r["status"] for r in records])
        check(len(records[1]["losses"]) > 1 and records[1]["metrics"]["tokens_per_s"] > 0, "what was measured is lost")
        check(records[1]["metrics"]["peak_bytes"]["total"] > 0, "the bytes are lost")
        check("not run" not in out and "4 of 6 experiments not run" in run_of.text, out, run_of.text)
        check("dtbench: 1/6 ddp, timed 2: ok" in run_of.text, "a finished result, on a terminal too:", run_of.text)


def test_a_run_under_nohup_outlives_its_terminal():
    for library in ("", os.environ["OWN_HANDLER_LIBRARY"]):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as nohup has it
        ENVIRONMENT["LD_PRELOAD"] = library
        run_of = Started(one(), "-o", records_path("nohup.jsonl"), *FOREVER)
        del ENVIRONMENT["LD_PRELOAD"]
        signal.signal(signal.SIGHUP, before)
        run_of.ranks_train()
        run_of.process.send_signal(signal.SIGHUP)
        run_of.process.send_signal(signal.SIGTERM)
        run_of.finish(143)


def test_a_validation_is_interrupted():
    table = os.path.join(WORK, "long.csv")
    with open(table, "w", encoding="utf-8") as file:
        file.write("gpus,layers,hidden,heads,seq,tp,pp,micro_batch,global_batch,step_s\n")
        file.writelines(f"8,24,1024,16,1024,1,1,{samples},{8 * samples},1\n" for samples in range(1, 4001))
    process = subprocess.Popen([DTBENCH, "validate", "--data", table], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    wait_for(lambda: handles(process.pid, signal.SIGINT), 20, "a handler of SIGINT")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE * 20)
    check(process.returncode == 130 and said == "dtbench validate: interrupted\n", process.returncode, said)


def handles(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1


def test_more_threads_than_processors():
    """Their threads sleep while they wait, or a step would take minutes, and a signal with it."""
    ENVIRONMENT.pop("OMP_WAIT_POLICY", None)  # the tests' own
    processors = len(os.sched_getaffinity(0))
    output, crowded = records_path("crowded.jsonl"), ["--set", f"threads={processors}"]
    run_of = Started(one(), "-o", output, *FOREVER, *crowded)
    for pid in run_of.ranks_train().values():
        with open(f"/proc/{pid}/environ", "rb") as text:
            check(b"OMP_WAIT_POLICY=passive" in text.read().split(b"\0"), "a rank's threads wait busily")
    run_of.process.send_signal(signal.SIGTERM)
    _, seconds = run_of.finish(143)
    check(seconds < ENDS_S, f"{seconds:.1f} s until the end")
    check(f"has 2 ranks of {processors} thread" in run_of.text, run_of.text)
    where = read_records(output)[0]["provenance"]
    check(where["doubts"].startswith(f"{2 * processors} threads on {processors} processor"), where["doubts"])
    check(where["environment"]["OMP_WAIT_POLICY"] == "passive", where["environment"])
    # The user's settings stay; a launcher's ranks begin again.
    for set_by_user in ({}, {"GOMP_SPINCOUNT": "0"}):
        output = records_path("crowded-mpirun.jsonl")
        subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2", DTBENCH, "run", one(), "-o", output, *crowded],
                       cwd=WORK, capture_output=True, stdin=subprocess.DEVNULL, timeout=COMMAND_S, env={**ENVIRONMENT, **set_by_user}, check=True)
        where = read_records(output)[0]["provenance"]
        check(where["environment"].get("OMP_WAIT_POLICY") == (None if set_by_user else "passive"), where["environment"])
        check("threads on" in where["doubts"], where["doubts"])


def test_other_work_on_the_machine():
    output = records_path("busy.jsonl")
    # Each in a session of its own: the kernel may divide the processors among sessions first, and
    # the ranks have one each.
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in 2 * list(os.sched_getaffinity(0))]
    doubts = ""
    try:
        for _ in range(12):  # the kernel may leave a short run alone for once
            if "other work took" not in doubts:
                run("run", one(), "-o", output, "--set", "steps.timed=600", code=OK)
                doubts = read_records(output)[-1]["provenance"]["doubts"] or ""
    finally:
        for other in others:
            other.kill()
            other.wait()
    check(re.search("other work took [0-9.]+ of [0-9]+ processors", doubts), doubts)


def test_a_second_interrupt_kills():
    output = records_path("twice.jsonl")
    run_of = Started(one(), "-o", output, *FOREVER)
    os.kill(run_of.ranks_train()[1], signal.SIGSTOP)  # so that no step ends
    interrupt(run_of.process, signal.SIGINT)
    run_of.process.send_signal(signal.SIGINT)
    _, seconds = run_of.finish(130)
    check(seconds < ENDS_S and read_records(output)[0]["status"] == "interrupted", f"{seconds:.1f} s")


def test_an_interrupt_before_the_first_step():
    output = records_path("early.jsonl")
    run_of = Started(one(), "-o", output, *FOREVER)
    wait_for(lambda: "starting" in run_of.text, 20, "the start")
    run_of.process.send_signal(signal.SIGINT)
    _, seconds = run_of.finish(130)
    check(seconds < ENDS_S and read_records(output)[0]["status"] == "interrupted", f"{seconds:.1f} s")


def test_ranks_without_supervisor_end():
    run_of = Started(one(), "-o", records_path("alone.jsonl"), *FOREVER)
    run_of.ranks_train()
    run_of.process.kill()
    run_of.process.communicate()
    wait_for(lambda: not left_behind(run_of.pid), 10, "the ranks' end")


if __name__ == "__main__":
    sys.exit(main(globals()))
