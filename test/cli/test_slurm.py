"""dtbench on a real Slurm cluster of six nodes, all on this machine (test/cli/slurm_cluster). Prints TAP.

Usage: test_slurm.py DTBENCH [CASE...]. Skips itself where there is no Slurm, no root or no namespaces.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from tap_cases import PATIENCE, Skip, Wrong, attempt, check, wait_for  # beside this script

HERE = os.path.dirname(os.path.abspath(__file__))
DTBENCH = os.path.abspath(sys.argv[1])
SWEEP = os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts", "sweep.sbatch")
EMULATED = os.environ.get("DTBENCH_EMULATED", "")  # the same command on emulated GPUs
WORK = os.environ.get("DTBENCH_TEST_WORK", "")
OK, CONFIG, FAILED, LATER = 0, 3, 4, 75
TINY = {
    "name": "tiny", "device": "cpu", "world_size": 4, "batch_size": 2, "threads": 1,
    "model": {"layers": 2, "heads": 4, "hidden": 64, "vocab_size": 500, "block_size": 32, "dtype": "fp32"},
    "steps": {"warmup": 1, "timed": 3},
}
PARADIGMS = ["ddp", "pdp", "hsdp"]
NODES = 6
STEP_S = 6  # a first step on a busy machine takes one or two
FOREVER = ["--set", "steps.timed=1000000"]
FOR_EMULATED = {**TINY["model"], "heads": 2, "hidden": 32, "vocab_size": 64, "block_size": 8}
TWO_BY_TWO = ["--mpi=pmix", "--nodes=2", "--ntasks-per-node=2", "--time=60"]  # of a busy machine's first steps dtbench may forecast minutes


def path(name):
    return os.path.join(WORK, name)


def config(name, **changes):
    with open(path(name), "w", encoding="utf-8") as out:
        json.dump({**TINY, **changes}, out)
    return path(name)


def read_records(name):
    """Complete records: readers may see the beginning of one that is being written."""
    if not os.path.exists(path(name)):
        return []
    with open(path(name), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def read_text(name):
    """A file's content; "" without a file, such as a draft that is removed after it was listed."""
    try:
        with open(path(name), encoding="utf-8", errors="replace") as text:
            return text.read()
    except FileNotFoundError:
        return ""


def run(*command, code=None, seconds=60, **environment):
    result = subprocess.run(command, cwd=WORK, capture_output=True, text=True, timeout=PATIENCE * seconds, stdin=subprocess.DEVNULL, check=False,
                            env={**os.environ, **environment})
    if code is not None:
        check(result.returncode == code, f"exit code {result.returncode}, not {code}:", *command, "\n", result.stdout, result.stderr)
    return result


def srun(*arguments, options=(), code=None, **environment):
    return run("srun", *TWO_BY_TWO, *options, DTBENCH, "run", *arguments, code=code, **environment)


def sbatch(*arguments, **environment):
    """The job's number."""
    return run("sbatch", "--parsable", *arguments, code=OK, **environment).stdout.strip()


def is_over(job):
    states = run("squeue", "--noheader", "--jobs", job, "--states=all", "--format=%T").stdout
    return not re.search("PENDING|RUNNING|COMPLETING|CONFIGURING|REQUEUED|SUSPENDED", states)


def variables_of(pid):
    """A process's environment; empty where it is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as text:
            return dict(part.split("=", 1) for part in text.read().decode(errors="replace").split("\0") if "=" in part)
    except OSError:
        return {}


def runs(pid, program):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == program
    except OSError:
        return False


def processes(program, **wanted):
    return [int(entry) for entry in os.listdir("/proc")
            if entry.isdigit() and runs(entry, program) and wanted.items() <= variables_of(entry).items()]


def losses_agree(records, how_many):
    check(len(records) == how_many and all(r["status"] == "ok" for r in records), [(r["status"], r["error"]) for r in records])
    for r in records:
        check(r["verification"]["status"] == "passed" and r["verification"]["largest_relative_difference"] < 1e-5, r["verification"])


# ---- ranks ----


def test_srun_on_two_nodes():
    output = "srun.jsonl"
    result = srun(config("srun.json", sweep={"paradigm": PARADIGMS}), "--verify", "-o", output, code=OK)
    records = read_records(output)
    losses_agree(records, len(PARADIGMS))
    check(result.stdout.count("tiny: ") == 1, "not one table:", result.stdout)
    where = records[0]["provenance"]
    check(where["launcher"] == "srun" and len(where["hosts"]) == 2, where["hosts"])
    job = where["slurm"]
    check(job["node_names"] == where["hosts"] and job["tasks"] == "4" and job["partition"] == "all" and job["time_limit_min"] == "60", job)
    check(job["library"].startswith("Slurm ") and job["end_time"] and job["partition_nodes"] == str(NODES) and "cpu=4" in job["resources"], job)


def test_ranks_that_mpi_knows_nothing_of():
    for plugin in ("none", "pmi2"):
        result = srun(config("alone.json", paradigm="ddp"), "-o", "alone.jsonl", options=[f"--mpi={plugin}"], code=CONFIG)
        said = [line for line in result.stderr.splitlines() if line.startswith("dtbench")]
        check(len(said) == 1 and "srun --mpi=pmix" in said[0] and not result.stdout, plugin, result.stdout, result.stderr)
    check(not read_records("alone.jsonl"), "there are records")


def test_mpirun_and_no_launcher_in_a_batch_script():
    conf = config("batch.json", paradigm="ddp")
    with open(path("batch.sh"), "w", encoding="utf-8") as script:
        script.write(f"""#!/bin/sh
echo "procid $SLURM_PROCID"
mpirun --allow-run-as-root -n 4 {DTBENCH} run {conf} -o batch.jsonl --verify
{DTBENCH} run {conf} -o batch.jsonl --verify --set world_size=2
""")
    job = sbatch("--nodes=2", "--ntasks-per-node=2", "--time=5", "--output=batch.log", path("batch.sh"))
    wait_for(lambda: is_over(job), 60, "the end of the batch script")
    log, records = read_text("batch.log"), read_records("batch.jsonl")
    check("procid 0" in log and "note: this job has 2 nodes" in log, log)
    losses_agree(records, 2)
    check([r["provenance"]["launcher"] for r in records] == ["mpirun", "none"], log)
    check([len(r["provenance"]["hosts"]) for r in records] == [2, 1], [r["provenance"]["hosts"] for r in records])


def test_placement():
    pipeline = config("pipeline.json", paradigm="pdp")
    result = srun(pipeline, "-o", "placed.jsonl", options=["--distribution=cyclic"], code=CONFIG)
    check(re.search(r"pipeline\.stages: .* straddle nodes: ranks 0 and 1 are on n\d and n\d", result.stderr), result.stderr)
    srun(pipeline, "-o", "placed.jsonl", "--set", "straddle_nodes=true", options=["--distribution=cyclic"], code=OK)
    result = srun(pipeline, "-o", "placed.jsonl", "--set", "gpus_per_node=4", code=CONFIG)
    check("gpus_per_node: 4 are asked for" in result.stderr and len(read_records("placed.jsonl")) == 1, result.stderr)


def test_srun_on_gpus_without_mpi():
    """Emulated GPUs, one visible to each rank as with --gpus-per-task; nothing is said of MPI, and NCCL's ranks find each other by Slurm's
    variables."""
    if not EMULATED:
        raise Skip("dtbench_emulated is not built")
    one_gpu_each = ["sh", "-c", 'CUDA_VISIBLE_DEVICES=$SLURM_PROCID exec "$0" "$@"', EMULATED]
    sweep = config("nccl.json", device="cuda", model=FOR_EMULATED, sweep={"paradigm": ["ddp", "pdp", "fsdp"]})

    def srun_gpus(output, *arguments, code=OK, program=None, **environment):
        return run("srun", "--nodes=2", "--ntasks-per-node=2", "--time=10", *(program or one_gpu_each), "run", sweep, "-o", output, *arguments,
                   code=code, DTBENCH_EMULATED_GPUS="4", SLURM_MPI_TYPE="none", **environment)

    result = srun_gpus("nccl.jsonl", "--verify")
    records = read_records("nccl.jsonl")
    losses_agree(records, 3)
    where = records[0]["provenance"]
    check(where["launcher"] == "srun" and len(where["hosts"]) == 2 and len(set(where["gpus"])) == 4 and where["device"] == "cuda", where)
    check("NCCL" in where["versions"] and "Open MPI" not in where["versions"] and result.stdout.count("tiny: ") == 1, where["versions"])
    result = srun_gpus("none.jsonl", code=CONFIG, SLURM_GPUS_ON_NODE="1")
    check("has 2 ranks, and Slurm gave the job 1 GPU there" in result.stderr and not read_records("none.jsonl"), result.stderr)


def test_a_rank_that_alone_runs_out_of_memory():
    """In its first step, when the others already wait for it: Slurm ends them, and the record says why."""
    if not EMULATED:
        raise Skip("dtbench_emulated is not built")
    full = config("full.json", device="cuda", paradigm="ddp", batch_size=1024, model={**TINY["model"], "hidden": 32, "block_size": 16})
    one_gpu_each = ["sh", "-c", 'CUDA_VISIBLE_DEVICES=$SLURM_PROCID exec "$0" "$@"', EMULATED]
    result = run("srun", "--nodes=2", "--ntasks-per-node=2", "--time=10", *one_gpu_each, "run", full, "-o", "full.jsonl", DTBENCH_EMULATED_GPUS="4",
                 DTBENCH_EMULATED_FULL_GPU=f"3:{40 << 20}", SLURM_MPI_TYPE="none")
    record, = read_records("full.jsonl")
    check(record["status"] == "oom" and "rank 3" in record["error"] and "CUDA refuses" in record["error"], record["status"], record["error"])
    check(result.returncode not in (OK, CONFIG), result.returncode, result.stderr)


# ---- libslurm ----


def test_libslurm_may_be_absent_or_without_configuration():
    one = config("one.json", world_size=1)

    def slurm_of(output, **environment):
        run("srun", "--mpi=none", "--ntasks=1", "--time=7", "env", *[f"{k}={v}" for k, v in environment.items()], DTBENCH, "run", one, "-o",
            output, "-q", code=OK)
        return read_records(output)[0]["provenance"]["slurm"]

    present, absent, alone = slurm_of("present.jsonl"), slurm_of("absent.jsonl", DTBENCH_LIBSLURM="/nowhere/libslurm.so"), slurm_of(
        "alone.jsonl", SLURM_CONF="/nowhere/slurm.conf")
    check(present["library"] and present["time_limit_min"] == "7" and present["exclusive"] == "no", present)
    check(absent["library"] is None and absent["time_limit_min"] is None, absent)
    check(alone["library"] == present["library"] and alone["time_limit_min"] is None, alone)
    for facts in (present, absent, alone):
        check(facts["job_id"] and facts["partition"] == "all" and facts["node_names"] == [facts["node_list"]], facts)


def test_node_lists_are_slurms():
    for nodes in ("n1", "n[1-3]", "n[08-11,3],m5", "r[1-2]n[01-02]", "n[0099-0101]", "n[1-2],n[2-3]"):
        expected = run("scontrol", "show", "hostnames", nodes, code=OK).stdout.split()
        for library in ({}, {"DTBENCH_LIBSLURM": "/nowhere"}):  # Slurm's parser, and dtbench's
            output = path("nodes.jsonl")
            if os.path.exists(output):
                os.remove(output)
            run(DTBENCH, "run", config("one.json", world_size=1), "-o", output, "-q", code=OK, SLURM_JOB_ID="4294967", SLURM_JOB_NODELIST=nodes,
                **library)
            check(read_records("nodes.jsonl")[0]["provenance"]["slurm"]["node_names"] == expected, nodes, library)


# ---- what goes wrong ----


def launch_srun(output, arguments, launches=3):
    """srun's process and its four ranks. A node that has just come back may refuse the launch; that is Slurm's own fault, so srun is called again."""
    earlier = processes("dtbench")  # ranks of a job before this one may still be ending
    logged = len(read_text(output + ".log"))
    with open(path(output + ".log"), "a", encoding="utf-8") as log:
        process = subprocess.Popen(["srun", *TWO_BY_TWO, DTBENCH, "run", *arguments, "-o", output], cwd=WORK, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log)

    def four_ranks():
        found = [p for p in processes("dtbench", SLURM_NTASKS="4", SLURM_STEP_ID="0") if p not in earlier]
        return found if len(found) == 4 else None

    def refused():
        return "Application launch failed" in read_text(output + ".log")[logged:]

    try:
        ranks = wait_for(lambda: four_ranks() or refused(), 40, "four ranks")
        if ranks is not True:
            return process, ranks
        check(launches > 1, "Slurm refuses the launch")
    except Wrong:
        process.kill()
        process.wait()
        raise
    process.kill()
    process.wait()
    return launch_srun(output, arguments, launches - 1)


def start_srun(output, *arguments, experiments=1, step_s=STEP_S):
    """srun's process and the job's number, once the ranks train. Where the machine is too busy for a first step within step_s, once more with
    a longer limit (process.step_s), unless the records of before are wanted."""
    arguments = arguments or (config("long.json", paradigm="ddp"), *FOREVER)
    drafts, process = drafts_of(output), None
    try:
        process, ranks = launch_srun(output, [*arguments, "--set", f"timeout.step_s={step_s}"])
        wait_for(lambda: process.poll() is not None or (len(read_records(output)) >= experiments - 1 and has_steps(output, drafts)), 60, "steps")
        check(process.poll() is None, "srun ended before the ranks trained")
        process.step_s = step_s
        return process, variables_of(ranks[0])["SLURM_JOB_ID"]
    except Wrong as wrong:
        said = (read_text(output + ".log"), *(read_text(draft)[-300:] for draft in drafts_of(output)))
        if process:
            process.kill()
            process.wait()
        if step_s > STEP_S or "--resume" in arguments:
            raise Wrong(wrong, *said) from None
    for name in {output, output + ".log", *drafts_of(output)}:
        if os.path.exists(path(name)):
            os.remove(path(name))
    return start_srun(output, *arguments, experiments=experiments, step_s=5 * STEP_S)


def has_steps(output, earlier):
    """Whether the experiment that runs now has some: the draft of the one before stays for a moment beside its record."""
    over = [record["config_hash"] for record in read_records(output) if record["status"] == "ok"]
    drafts = [json.loads(text) for text in map(read_text, drafts_of(output) - earlier) if text]
    return any(draft["losses"] and draft["config_hash"] not in over for draft in drafts)


def test_a_warning_ends_all_ranks_after_one_step():
    process, _ = start_srun("warned.jsonl")
    process.send_signal(signal.SIGUSR1)  # srun hands it on
    check(process.wait(30 * PATIENCE) == LATER, process.returncode, read_text("warned.jsonl.log"))
    record, = read_records("warned.jsonl")
    check(record["status"] == "interrupted" and len(record["losses"]) >= 1, record["error"])
    steps = len(record["losses"])
    check(record["error"] == f"stopped after step {steps}, timed step {max(steps - 1, 0)} of 1000000", record["error"])


def test_a_killed_rank_leaves_a_record():
    """Slurm's PMIx plugin kills all other ranks at once, so that none can write."""
    process, job = start_srun("killed.jsonl")
    os.kill(processes("dtbench", SLURM_JOB_ID=job, SLURM_PROCID="0")[0], signal.SIGKILL)
    check(process.wait(30 * PATIENCE) != OK, "srun's exit code")
    item, = json.loads(run(DTBENCH, "status", "killed.jsonl", "--json", code=OK).stdout)["sweeps"][0]["items"]
    check(item["state"] == "failed" and re.search(r"after step [1-9]\d* of .* killed", item["error"]), item)


def test_a_sweep_goes_on_after_what_kills_it():
    sweep = config("deadly.json", world_size=2, paradigm="ddp", sweep={"steps.timed": [1000000, 3]})
    job = sbatch("--array=1-1", "--nodes=1", "--ntasks-per-node=2", "--time=10", "--output=deadly.log", SWEEP, sweep, DTBENCH=DTBENCH)
    ranks = wait_for(lambda: has_steps("deadly.1.jsonl", set()) and processes("dtbench", SLURM_ARRAY_JOB_ID=job, SLURM_PROCID="1",
                                                                          SLURM_STEP_ID="0"), 40, "the ranks")
    os.kill(ranks[0], signal.SIGKILL)
    wait_for(lambda: is_over(job), 60, "the sweep's end")
    records = read_records("deadly.1.jsonl")
    check([(r["status"], r["config"]["steps"]["timed"]) for r in records] == [("failed", 1000000), ("ok", 3)],
          [(r["status"], r["error"]) for r in records], read_text("deadly.log"))


def command_line(pid):
    """The words of a process, each followed by a space; those of one that has ended are none."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as text:
        return text.read().decode(errors="replace").replace("\0", " ")
    return ""


def kill_node(job, rank):
    """Kill a rank's node: its daemon, the step's daemon and the ranks. Returns its name."""
    node = variables_of(processes("dtbench", SLURM_JOB_ID=job, SLURM_PROCID=rank)[0])["SLURMD_NODENAME"]
    for pid in processes("slurmd") + processes("slurmstepd"):
        with contextlib.suppress(OSError):  # steps end by themselves, too
            words = command_line(pid)
            if f" {node} " in words or (f"[{job}." in words and os.path.basename(os.readlink(f"/proc/{pid}/ns/uts")) == uts_of(job, node)):
                os.kill(pid, signal.SIGKILL)
    for pid in processes("dtbench", SLURM_JOB_ID=job, SLURMD_NODENAME=node):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return node


def state_of(node):
    return run("sinfo", "--noheader", "--nodes", node, "--format=%t %E").stdout.strip()


def revive_node(node):
    """Start the node's daemon, and once more if it ends: the dead one's port or file may still be there. If Slurm goes on waiting for what died
    with the node, the node is set down and resumed, as its administrator would do."""
    def set_state(state):
        run("scontrol", "update", f"nodename={node}", f"state={state}", "reason=revived")

    def is_idle():
        state = state_of(node)
        if not any(f" {node} " in command_line(pid) for pid in processes("slurmd")):
            subprocess.run(["unshare", "--uts", "sh", "-c", 'hostname "$1"; exec slurmd -N "$1"', "sh", node], check=False, timeout=20 * PATIENCE)
        elif time.monotonic() - begin > 10 * PATIENCE and not state.startswith("idle"):
            set_state("down")
            set_state("resume")
            time.sleep(1)
        return state.split()[:1] == ["idle"]

    begin = time.monotonic()
    try:
        wait_for(is_idle, 40, "the node's return")
    except Wrong as e:
        raise Wrong(f"{e}: {state_of(node)}") from e


def uts_of(job, node):
    ranks = processes("dtbench", SLURM_JOB_ID=job, SLURMD_NODENAME=node)
    return os.path.basename(os.readlink(f"/proc/{ranks[0]}/ns/uts")) if ranks else ""


def ended_items(output):
    """The output of `status` for a run. A draft counts after its process has released the lock, a moment after the process was killed."""
    sweeps = json.loads(run(DTBENCH, "status", output, "--json", code=OK).stdout)["sweeps"]
    return sweeps and all(item["state"] != "running" for item in sweeps[0]["items"]) and sweeps[0]["items"]


def test_a_dead_node_ends_the_run_with_a_record():
    """Open MPI 5 tells Slurm of a rank that is gone, and Slurm kills the others: rank 0 often has not written yet, and its draft is what stays."""
    process, job = start_srun("dead.jsonl")
    slurm_is_told = "Open MPI) 4" not in run("mpirun", "--version").stdout
    node = kill_node(job, "3")
    try:
        wait_for(lambda: read_records("dead.jsonl") or (slurm_is_told and not processes("dtbench", SLURM_JOB_ID=job)), 40, "the record")
        if records := read_records("dead.jsonl"):
            record, = records
            check(record["status"] in ("failed", "timeout") and "rank" in record["error"] and record["losses"], record["status"], record["error"])
        else:
            item, = wait_for(lambda: ended_items("dead.jsonl"), 20, "the end of rank 0")
            check(item["state"] == "failed" and re.search(r"after step [1-9]\d* of .* killed", item["error"]), item)
    finally:
        run("scancel", job)
        process.kill()
        process.wait()
        revive_node(node)


def test_the_death_of_rank_0s_node():
    """No process is left to write a record: the other ranks end by themselves, and the next run continues."""
    sweep = config("headless.json", paradigm="ddp", sweep={"steps.timed": [3, 6000]})
    process, job = start_srun("headless.jsonl", sweep, experiments=2)
    node = kill_node(job, "0")
    try:
        wait_for(lambda: not processes("dtbench", SLURM_JOB_ID=job), 60, "the end of the other ranks")
        process.kill()
        process.wait()
        run("scancel", job)
        revive_node(node)
        process, job = start_srun("headless.jsonl", sweep, "--resume", experiments=3, step_s=process.step_s)
        process.send_signal(signal.SIGUSR1)
        check(process.wait(30 * PATIENCE) == LATER, process.returncode, read_text("headless.jsonl.log"))
    finally:
        process.kill()
        process.wait()
        run("scancel", job)
    records = read_records("headless.jsonl")
    check([(r["status"], r["config"]["steps"]["timed"]) for r in records] == [("ok", 3), ("failed", 6000), ("interrupted", 6000)],
          [(r["status"], r["error"]) for r in records])
    check("ended without a result after step" in records[1]["error"] and records[1]["losses"], records[1]["error"])


# ---- sweeps ----


def finished_of(records):
    return sorted(r["config_hash"] for r in records if r["status"] == "ok")


def test_an_array_with_a_killed_and_requeued_job():
    sweep = config("array.json", world_size=2, sweep={"paradigm": ["ddp", "pdp"], "seed": [1, 2, 3, 4]}, steps={"warmup": 1, "timed": 150})
    job = sbatch("--array=1-4", "--nodes=1", "--ntasks-per-node=2", "--time=10", SWEEP, sweep, "-q", DTBENCH=DTBENCH)
    victim = wait_for(lambda: len(read_records("array.2.jsonl")) == 1 and f"{job}_2", 60, "the first record of part 2")
    run("scontrol", "requeue", victim, code=OK)
    wait_for(lambda: is_over(job), 60, "the array's end")
    records = sum((read_records(f"array.{part}.jsonl") for part in range(1, 5)), [])
    log = "".join(read_text(f"dtbench.{part}.log") for part in range(1, 5))
    expected = sorted(e["config_hash"] for e in json.loads(run(DTBENCH, "check", sweep, "--json", code=OK).stdout))
    check(len(expected) == 8 and finished_of(records) == expected, "not each experiment once:", finished_of(records), expected, log)
    check({r["provenance"]["slurm"]["restarts"] for r in read_records("array.2.jsonl")} == {"0", "1"}, "part 2 was not requeued:", log)
    check(all(r["provenance"]["slurm"]["array_task_id"] == "3" for r in read_records("array.3.jsonl")), "a record of another part")
    run(DTBENCH, "merge", *[f"array.{part}.jsonl" for part in range(1, 5)], "--output", "merged.jsonl", code=OK)
    check(finished_of(read_records("merged.jsonl")) == expected, "merged records")


def test_a_time_limit_that_is_extended():
    """The second experiment would not end within the minute that there is at first, but within the day that there is then."""
    sweep = config("extended.json", world_size=1, sweep={"steps.timed": [2000, 400000]})
    job = sbatch("--ntasks=1", "--time=1", "--output=extended.log", f"--wrap=exec {DTBENCH} run {sweep} -o extended.jsonl")
    wait_for(lambda: drafts_of("extended.jsonl"), 40, "the first experiment")
    run("scontrol", "update", f"JobId={job}", "TimeLimit=1440", code=OK)
    wait_for(lambda: re.search('"timed": ?400000', "".join(map(read_text, drafts_of("extended.jsonl")))) or is_over(job), 40, "the second experiment")
    check(not is_over(job), read_text("extended.log"))
    run("scancel", job)
    first = read_records("extended.jsonl")[0]
    check(first["status"] == "ok" and first["provenance"]["slurm"]["time_limit_min"] == "1", first["provenance"]["slurm"])


def drafts_of(output):
    return {name for name in os.listdir(WORK) if name.startswith(output + ".") and name.endswith(".draft")}


def test_a_sweep_ends_before_its_time_limit():
    sweep = config("limited.json", world_size=2, paradigm="ddp", sweep={"steps.timed": [3, 1000000, 999999]})
    job = sbatch("--array=1-1", "--nodes=1", "--ntasks-per-node=2", "--time=1", "--signal=B:USR1@55", "--output=limited.log", SWEEP, sweep,
                 DTBENCH=DTBENCH)
    records = wait_for(lambda: "left for later" in read_text("limited.log") and read_records("limited.1.jsonl"), 60, "what fits")
    check(records[0]["status"] == "ok" and records[0]["config"]["steps"]["timed"] == 3, records)
    log = wait_for(lambda: "goes on in the requeued job" in read_text("limited.log") and read_text("limited.log"), 60, "the requeuing")
    check(log.count("left for later: may take") >= 2, log)
    # Slurm's own warning may be earlier, and is the same.
    wait_for(lambda: is_over(job) or has_steps("limited.1.jsonl", set()), 60, "steps of the requeued job")
    run("scancel", "--batch", "--signal=USR1", job)
    wait_for(lambda: is_over(job), 40, "the job's end")
    check("no experiment was finished within the time limit" in read_text("limited.log"), read_text("limited.log"))
    records = read_records("limited.1.jsonl")
    check([r["status"] for r in records] == ["ok", "interrupted"] and records[1]["provenance"]["slurm"]["restarts"] == "1",
          [(r["status"], r["provenance"]["slurm"]["restarts"]) for r in records])


def outside():
    work = tempfile.mkdtemp(prefix="dtbench-slurm-")
    os.chmod(work, 0o755)
    try:
        code = subprocess.run([os.path.join(HERE, "slurm_cluster"), os.path.join(work, "cluster"), str(NODES), sys.executable, os.path.abspath(__file__),
                               *sys.argv[1:]], env={**os.environ, "DTBENCH_TEST_WORK": work}, stderr=subprocess.PIPE, text=True, check=False)
        if code.returncode == 77:
            print("1..0 # SKIP", code.stderr.strip().splitlines()[-1])
            return 0
        sys.stderr.write(code.stderr)
        return code.returncode
    finally:
        shutil.rmtree(work, ignore_errors=True)


# Most of a case is waiting for Slurm. These look for no processes and stop none, so they can wait
# beside each other.
LANES = [
    ["srun_on_two_nodes", "ranks_that_mpi_knows_nothing_of", "libslurm_may_be_absent_or_without_configuration", "node_lists_are_slurms"],
    ["mpirun_and_no_launcher_in_a_batch_script", "placement", "a_time_limit_that_is_extended"],
    ["srun_on_gpus_without_mpi", "a_rank_that_alone_runs_out_of_memory"],
    ["an_array_with_a_killed_and_requeued_job"],
    ["a_sweep_ends_before_its_time_limit"],
]


def run_cases(cases, verdicts):
    for name, function in cases:
        begin = time.monotonic()
        error, skipped = attempt(function)
        verdicts[name] = (error, skipped, time.monotonic() - begin)


def main():
    if not WORK:
        return outside()
    cases = [(name[5:], function) for name, function in globals().items() if name.startswith("test_")]
    if len(sys.argv) > 2:
        cases = [case for case in cases if case[0] in sys.argv[2:]]
    print(f"1..{len(cases)}", flush=True)
    verdicts = {}
    lanes = [threading.Thread(target=run_cases, args=([case for case in cases if case[0] in lane], verdicts)) for lane in LANES]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    run_cases([case for case in cases if case[0] not in sum(LANES, [])], verdicts)
    for number, (name, _) in enumerate(cases, 1):
        error, skipped, seconds = verdicts[name]
        if error:
            print("\n".join("# " + line for line in error.splitlines()[:40]))
        print(f"{'not ' if error else ''}ok {number} - {name} in {seconds:.1f} s{skipped}", flush=True)
    failures = sum(error is not None for error, _, _ in verdicts.values())
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
