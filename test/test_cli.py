"""The whole command as a user meets it: exit codes, records, tables, faults. Prints TAP.

Usage: test_cli.py DTBENCH [CASE...]. Runs the program on tiny models; needs the cpu device and mpirun.
"""
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from tap_cases import Wrong, check, chosen, run_all  # beside this script

DTBENCH = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="dtbench-test-")
SMOKE = {
    "name": "tiny",
    "device": "cpu",
    "world_size": 2,
    "batch_size": 2,
    "model": {"layers": 2, "heads": 4, "hidden": 64, "vocab_size": 500, "block_size": 32, "dtype": "fp32"},
    "steps": {"warmup": 1, "timed": 3},
    "sweep": {"paradigm": ["ddp", "pdp", "fsdp"]},
}
OK, USAGE, CONFIG, FAILED, OOM, VERIFY, OUTPUT, LATER = 0, 2, 3, 4, 5, 6, 7, 75
FOREVER = ["--set", "steps.timed=1000000"]
# What a launcher around this test would say is none of the program's business.
LAUNCHER = re.compile(r"^(OMPI_|PMIX_|PMI_|SLURM_|RANK$|WORLD_SIZE$|LOCAL_RANK$|LOCAL_WORLD_SIZE$|MASTER_)")
ENVIRONMENT = {key: value for key, value in os.environ.items() if not LAUNCHER.match(key)}
random.seed(7)


def config(name="tiny.json", **changes):
    path = os.path.join(WORK, name)
    content = json.loads(json.dumps(SMOKE))
    for key, value in changes.items():
        if value is None:
            content.pop(key, None)
        else:
            content[key] = value
    with open(path, "w", encoding="utf-8") as out:
        json.dump(content, out)
    return path


def one(paradigm="ddp"):
    return config("one.json", sweep=None, paradigm=paradigm)


def records_path(name):
    path = os.path.join(WORK, name)
    if os.path.exists(path):
        os.remove(path)
    return path


def run(*arguments, code=None, environment=None, **options):
    result = subprocess.run([DTBENCH, *arguments], cwd=WORK, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                            env={**ENVIRONMENT, **(environment or {})}, **options)
    if code is not None:
        check(result.returncode == code, f"exit code {result.returncode}, not {code}:", " ".join(arguments), "\n", result.stdout, result.stderr)
    return result


def read_records(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line, parse_constant=lambda c: check(False, c, "is no JSON")) for line in lines]


def descendants(pid):
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                    parents.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
            except (OSError, IndexError):
                pass
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as text:
            return text.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def ranks_of(supervisor):
    """{rank: pid} of the processes that `supervisor` started."""
    ranks = {}
    for pid in descendants(supervisor):
        if re.search(r"dtbench\S* rank dtbench-", command_of(pid)) and "mpirun" not in command_of(pid):
            try:
                with open(f"/proc/{pid}/environ", "rb") as text:
                    found = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", text.read())
            except OSError:
                continue
            ranks[int(found[1]) if found else 0] = pid
    return ranks


def left_behind(supervisor):
    """Processes that name the supervisor's socket, wherever they have gone in the process tree."""
    name = f"dtbench-{supervisor}-"
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and name in command_of(pid)]


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise Wrong(f"not within {seconds} s: {what}")


class Started:
    """A run in the background whose standard error is a terminal: its progress line tells when the ranks train."""

    def __init__(self, *arguments):
        self.text, (self.terminal, slave) = "", pty.openpty()
        self.process = subprocess.Popen([DTBENCH, "run", *arguments], cwd=WORK, stdout=subprocess.PIPE, stderr=slave, text=True,
                                        stdin=subprocess.DEVNULL, env={**ENVIRONMENT, "TERM": "xterm"})
        os.close(slave)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while piece := os.read(self.terminal, 65536):
                self.text += piece.decode(errors="replace")
        except OSError:
            pass  # the last writer is gone

    def ranks_train(self, experiment=1):
        """{rank: pid}, once the progress line shows some steps of the experiment."""
        wait_for(lambda: re.search(rf"\[{experiment}/\d+\] [^\r]* step ([3-9]|\d\d+)/", self.text), 30, "steps")
        return ranks_of(self.pid)

    def finish(self, code, seconds=20):
        """Standard output and the seconds until the end, which leaves no process behind."""
        begin = time.monotonic()
        try:
            out, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Wrong(f"still there after {seconds} s\n", self.text) from None
        taken = time.monotonic() - begin
        self.reader.join(2)
        os.close(self.terminal)
        check(self.process.returncode == code, f"exit code {self.process.returncode}, not {code}\n", out, self.text)
        wait_for(lambda: not left_behind(self.pid), 2, "no process left behind")
        return out, taken


# ---- the command line ----


def test_help_is_instant_and_complete():
    begin = time.monotonic()
    text = run("--help", code=OK).stdout
    check(time.monotonic() - begin < 2, "help took", time.monotonic() - begin)
    for word in ("run", "check", "compare", "merge", "status", "list", "130", "--config"):
        check(word in text, word, "is not in the help")
    check("rank " not in text, "the hidden command shows")
    for command in ("run", "check", "compare", "merge", "status", "list"):
        own = run(command, "--help", code=OK).stdout
        check(own.startswith("Usage: dtbench " + command), own)
        check(run("help", command, code=OK).stdout == own, "help and --help differ")
    check(re.fullmatch(r"dtbench \d+\.\d+\.\d+ \(\S+\)\n", run("--version", code=OK).stdout), "version")
    # nothing of a launcher matters to help
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
            (["run", path, path], "there are two"),
            (["run", path, "--config", path], "there are two"),
            (["run", path, "--set", "seed"], "has no value"),
            (["run", path, "--resume"], "--resume needs"),
            (["run", path, "--skip-oom"], "'--skip-oom' needs --resume"),
            (["run", path, "--skip-failed"], "'--skip-failed' needs --resume"),
            (["run", path, "--shard", "0/2"], "K from 1 to N"),
            (["run", path, "--shard", "3/2"], "K from 1 to N"),
            (["run", path, "--shard", "1"], "K from 1 to N"),
            (["run", path, "--time-limit", "1h"], "not a number of seconds"),
            (["list", "models"], "takes no argument"),
            (["check", path, "-x"], "unknown option '-x'"),
            (["rank"], "for dtbench itself"),
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
        check(len(result.stderr.splitlines()) == 1, "not one line:", result.stderr)
    check("No such file" in run("run", "nowhere.json", "-o", output, code=CONFIG).stderr, "missing file")
    check("--set" in run("run", config(), "--set", "seed=-1", "-o", output, code=CONFIG).stderr, "bad --set")
    run("check", config("wrong.json", seed=-1), code=CONFIG)
    check(not os.path.exists(output), "a record file was made")


def test_check_tells_sizes():
    path = config("large.json", paradigm="fsdp", sweep=None, world_size=512, device="cuda",
                  model={"preset": "GPT1T", "dtype": "fp16"})
    begin = time.monotonic()
    text = run("check", path, code=OK).stdout
    check(time.monotonic() - begin < 5, "check took", time.monotonic() - begin)
    check("1,009,242,163,200" in text and "512" in text, text)
    check("note: cannot run here" in text, "no note about the device:", text)
    text = run("check", config("small.json", model={"preset": "GPTSmall"}), code=OK).stdout
    check(text.count("162,052,608") == 3, "three experiments of 162M:", text)
    rows = [line for line in text.splitlines() if re.match(r"(ddp|pdp|fsdp) ", line)]
    check(len(rows) == 3 and len({len(row) for row in rows}) == 1, "the table does not line up:", text)
    checks = json.loads(run("check", "--json", config("small.json", model={"preset": "GPTSmall"}), code=OK).stdout)
    check(len(checks) == 3 and checks[0]["parameters"] == 162052608, "JSON")
    check(checks[0]["predicted_peak_bytes"]["parameters"] >= 2 * 162052608, "parameters of fp16")
    text = run("check", config("limit.json", memory_limit_gib=0.001), code=OK).stdout
    check("will run out of memory" in text, text)


def test_list():
    text = run("list", code=OK).stdout
    for word in ("GPTSmall", "162,052,608", "GPT1T", "ddp", "pdp", "fsdp", "cpu", "cuda", "sim", "mpi"):
        check(word in text, word, "is not listed:", text)


def test_dry_run():
    output = records_path("dry.jsonl")
    result = run("run", config(), "--dry-run", "-o", output, "--set", "sweep.batch_size=[2,4]", code=OK)
    rows = [line for line in result.stdout.splitlines() if "tiny" in line]
    check(len(rows) == 6 and len({line.split()[7] for line in rows}) == 6, result.stdout)
    check(not os.path.exists(output) and not result.stderr, "a dry run leaves something", result.stderr)


def test_options_change_the_config():
    output = records_path("set.jsonl")
    run("run", one("none"), "--set", "world_size=1", "--set=seed=5", "--set", "steps.timed=1", "--device", "cpu", "-o", output, "-q", code=OK)
    found = read_records(output)[0]["config"]
    check(found["seed"] == 5 and found["steps"]["timed"] == 1 and found["device"] == "cpu", found)
    with open(one("none"), encoding="utf-8") as file:
        result = subprocess.run([DTBENCH, "--config", "-", "--set", "world_size=1"], cwd=WORK, stdin=file, capture_output=True, text=True,
                                timeout=60, env=ENVIRONMENT)
    check(result.returncode == OK and json.loads(result.stdout)["status"] == "ok", "standard input:", result)


def test_documents_know_every_option_and_key():
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli")
    with open(os.path.join(folder, "dtbench.1"), encoding="utf-8") as page, open(os.path.join(folder, "completion.bash"), encoding="utf-8") as words:
        page, words = page.read(), words.read()
    for command in ("run", "check", "compare", "merge", "status", "list"):
        check(re.search(rf"^\.Ss dtbench {command}$", page, re.M), command, "is not in the manual page")
        for letter, option in re.findall(r"^  (?:-(\w), |    )--([a-z-]+)", run(command, "--help", code=OK).stdout, re.M):
            check((f"Fl {letter} , -{option}" if letter else f"Fl -{option}") in page, option, "is not in the manual page")
            check("--" + option in words, option, "is not completed")
    for code in re.findall(r"^  (\d+(?:, \d+)?) +\w", run("--help", code=OK).stdout, re.M):
        check(f".It {code}\n" in page, "exit code", code, "is not in the manual page")

    def paths(value, prefix=""):
        for key, inner in value.items():
            yield from paths(inner, prefix + key + ".") if isinstance(inner, dict) else [prefix + key]

    for changes in ({}, {"model": {"preset": "GPTSmall"}}):
        for path in paths(json.loads(run("check", "--json", config(**changes), code=OK).stdout)[0]["config"]):
            check(f" {path}=" in words.replace('"', " "), path, "is not completed")


# ---- predictions ----

def test_simulated_runs():
    output, trace = records_path("sim.jsonl"), os.path.join(WORK, "trace.json")
    path = config("sim.json", device="sim", world_size=16, model={"preset": "GPTSmall"}, cluster="clusters/gcp_a2.json",
                  profile="profiles/dtbench_cuda_a100.json")
    text = run("run", path, "-o", output, "--trace", trace, code=OK).stdout
    check(text.count(" ok") == 3, "three rows:", text)
    records = read_records(output)
    for number, record in enumerate(records, 1):
        check(record["status"] == "ok" and record["metrics"]["step_s"]["median"] > 0, record)
        check(record["losses"] == [None] * 4 and record["metrics"]["startup_s"] is None, "nothing is computed:", record["losses"])
        check(len(record["metrics"]["peak_bytes"]["per_rank"]) == 16 and 0 < record["metrics"]["mfu"] < 1, "metrics")
        check(record["provenance"]["simulated"]["cluster"]["name"] == "gcp_a2", record["provenance"])
        with open(os.path.join(WORK, f"trace-{number}.json"), encoding="utf-8") as lines:
            events = json.load(lines)["traceEvents"]
        rows = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
        check({pid for pid, _ in rows} == set(range(16)), "a process for each rank")
        end = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") / 1e6
        check(abs(end - record["metrics"]["step_s"]["median"]) < 1e-6, "the trace ends with the step:", end)
    checks = json.loads(run("check", "--json", path, code=OK).stdout)
    for record, one in zip(records, checks):
        check(record["metrics"]["peak_bytes"]["total"] == one["predicted_peak_bytes"]["total"], "bytes are those of check")
    again = records_path("again.jsonl")
    run("run", path, "-o", again, code=OK)
    run("run", path, "-o", again, code=OK)
    records = read_records(again)
    for one, other in zip(records[:3], records[3:]):
        for record in (one, other):
            del record["provenance"]["started"], record["metrics"]["wall_s"], record["sweep"]
        check(one == other, "two predictions differ")


def test_predictions_follow_their_files():
    output, profile = records_path("profile.jsonl"), os.path.join(WORK, "profile.json")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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


# ---- results ----

METRICS = {"tokens_per_s", "samples_per_s", "step_s", "tflops_per_gpu", "mfu", "forward_s", "backward_s", "optimizer_s", "exposed_comm_s",
           "aco_ms_per_sample", "peak_bytes", "host_peak_bytes", "startup_s", "wall_s", "overflow_steps", "overflow_elements"}


def test_a_sweep_and_its_records():
    output = records_path("sweep.jsonl")
    result = run("--config=" + config(), "--output=" + output, "--verify", code=OK)
    records = read_records(output)
    check([r["config"]["paradigm"] for r in records] == ["ddp", "pdp", "fsdp"], "order of the sweep")
    predicted = json.loads(run("check", "--json", config(), code=OK).stdout)
    check([r["sweep"]["index"] for r in records] == [0, 1, 2] and {r["sweep"]["count"] for r in records} == {3} and
          len({r["sweep"]["id"] for r in records}) == 1, "the records name their sweep", records[0]["sweep"])
    for r, p in zip(records, predicted):
        check(r["status"] == "ok" and r["error"] is None and r["schema_version"] == 1, r["status"], r["error"])
        check(METRICS <= set(r["metrics"]), METRICS - set(r["metrics"]))
        check(len(r["losses"]) == 4 and all(5 < loss < 8 for loss in r["losses"]), r["losses"])
        steps = r["metrics"]["step_s"]
        check(len(steps["all"]) == 3 and min(steps["all"]) <= steps["median"] <= steps["p95"] <= max(steps["all"]), steps)
        check(abs(r["metrics"]["tokens_per_s"] * steps["median"] - 2 * 2 * 32) < 1e-6, "tokens per second")
        check(abs(r["metrics"]["aco_ms_per_sample"] - r["metrics"]["exposed_comm_s"] * 1000 / 2) < 1e-9, "ACO")
        check(r["metrics"]["mfu"] is None, "nobody knows a cpu's peak")
        ranks = r["metrics"]["peak_bytes"]["per_rank"]
        check(len(ranks) == 2 and all(rank["total"] > 0 and rank["process_rss"] > rank["total"] for rank in ranks), ranks)
        for category, value in p["predicted_peak_bytes"].items():
            if category != "rank":
                check(ranks[p["predicted_peak_bytes"]["rank"]][category] == value, category, value, ranks)
        check(r["config_hash"] == p["config_hash"] and r["config"] == p["config"], "the record's config")
        check(r["verification"]["status"] == "passed", r["verification"])
        check(r["provenance"]["device"] == "cpu" and r["provenance"]["hosts"] and r["provenance"]["started"], r["provenance"])
    check("\r" not in result.stdout + result.stderr and "\033" not in result.stdout + result.stderr, "progress in a pipe")
    rows = [line for line in result.stdout.splitlines() if re.match(r"(ddp|pdp|fsdp) ", line)]
    check(len(rows) == 3 and all(row.endswith("  ok") for row in rows) and len({len(row) for row in rows}) == 1, result.stdout)
    check(len(re.findall(r"^dtbench: \d/3 \w+: ok", result.stderr, re.M)) == 3, "a line per experiment:", result.stderr)


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


def test_resume():
    output = records_path("resume.jsonl")
    run("run", config(), "-o", output, "-q", "--set", 'sweep.paradigm=["ddp"]', code=OK)
    with open(output, "a", encoding="utf-8") as file:
        file.write('{"schema_version": 1, "status": "ok", "config_ha')  # what a crash leaves
    check(run("run", config(), "-o", output, "--resume", "--dry-run", code=OK).stdout.count("skipped") == 1, "dry run of a resume")
    text = run("run", config(), "-o", output, "--resume", code=OK).stdout
    check(text.count("skipped") == 1, text)
    with open(output, encoding="utf-8") as file:
        lines = file.read().splitlines()
    check(len(lines) == 4 and [json.loads(lines[i])["config"]["paradigm"] for i in (0, 2, 3)] == ["ddp", "pdp", "fsdp"], lines)
    check("nothing is left to run" in run("run", config(), "-o", output, "--resume", code=OK).stderr, "nothing left")
    run("run", config(), "-o", output, "-q", "--resume", "--set", "memory_limit_gib=0.001", code=OOM)
    run("run", config(), "-o", output, "-q", "--resume", "--set", "memory_limit_gib=0.001", code=OOM)
    with open(output, encoding="utf-8") as file:
        check(len(file.read().splitlines()) == 10, "an oom record is no reason to skip")


def test_shards():
    shown = []
    for number in (1, 2, 3):
        text = run("run", config(), "--dry-run", "--shard", f"{number}/3", "--set", "sweep.batch_size=[2,4,8]", code=OK).stdout
        shown.append([line.split()[0] for line in text.splitlines() if "tiny" in line])
    check(sorted(sum(shown, [])) == [str(n) for n in range(1, 10)] and all(len(part) == 3 for part in shown), shown)
    output = records_path("shard.jsonl")
    result = run("run", config(), "--shard", "2/3", "-o", output, code=OK)
    check(len(read_records(output)) == 1 and "not run" not in result.stdout + result.stderr, result.stdout, result.stderr)
    check("empty" in run("run", config(), "--shard", "4/4", "-o", output, code=OK).stderr, "an empty shard")


def test_what_does_not_fit_is_left_for_later():
    output = records_path("later.jsonl")
    slow = ["--set", 'sweep.steps.timed=[3,1000000]', "--set", 'sweep.paradigm=["ddp"]', "-o", output]
    result = run("run", config(), *slow, "--time-limit", "60", code=LATER)
    check([r["status"] for r in read_records(output)] == ["ok"] and "later" in result.stdout, result.stdout)
    check(re.search(r"left for later: may take \d+ s \(by 1 done\), and \d+ s are left", result.stderr), result.stderr)
    check("1 of 2 experiments not run; --resume goes on" in result.stderr, result.stderr)
    result = run("run", config(), *slow, "--time-limit", "0", "--resume", code=LATER)
    check(len(read_records(output)) == 1 and "no time is left" in result.stderr, result.stderr)
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
        begin = time.monotonic()
        result = run("run", config(), "-o", output, *FOREVER, code=OUTPUT)
        check(time.monotonic() - begin < 5, "not before the first step")
        check(output in result.stderr and len(result.stderr.splitlines()) == 1 and not result.stdout, result.stderr)
    with open("/dev/full", "w", encoding="utf-8") as full:
        for command in ("list", "--help"):
            done = subprocess.run([DTBENCH, command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=ENVIRONMENT)
            check(done.returncode == OUTPUT and "cannot be written" in done.stderr, command, done)


def test_wrong_losses_fail():
    output = records_path("wrong.jsonl")
    # The plain sum of the logits grows without bound, and so do the differences between two ways to add it up.
    result = run("run", one(), "-o", output, "--verify", "--set", "loss=sum", "--set", "steps.timed=8", "--set", "model.dtype=bf16", code=VERIFY)
    record = read_records(output)[0]
    check(record["status"] == "failed" and re.search(r"loss of step \d+ is \S+, and one device's is", record["error"]), record["error"])
    check(record["verification"]["status"] == "failed" and record["losses"], record["verification"])
    check("failed" in result.stdout, result.stdout)


def test_three_and_four_ranks_verify():
    for world in (3, 4):
        output = records_path("world.jsonl")
        settings = ["--set", f"world_size={world}", "--set", "steps.timed=9"]
        if world == 3:
            settings += ["--set", "pipeline.stages=3", "--set", "pipeline.chunks=3"]
        run("run", config(), "-o", output, "-q", "--verify", *settings, code=OK)
        check(all(r["verification"]["largest_relative_difference"] < 1e-5 for r in read_records(output)), "losses differ")


# ---- faults ----


def test_killed_ranks_are_named():
    for attempt in range(5):
        output = records_path("killed.jsonl")
        run_of = Started(one(random.choice(["ddp", "pdp", "fsdp"])), "-o", output, *FOREVER)
        victim = random.choice([0, 1])
        if attempt == 0:  # as early as there is one
            wait_for(lambda: ranks_of(run_of.pid).get(victim), 20, "a rank to kill")
        else:
            run_of.ranks_train()
            time.sleep(random.random() / 2)
        os.kill(ranks_of(run_of.pid)[victim], signal.SIGKILL)
        out, seconds = run_of.finish(FAILED)
        check(seconds < 10, f"{seconds:.1f} s until the end")
        record = read_records(output)[0]
        check(record["status"] == "failed", record["status"], record["error"])
        if attempt > 0:  # before it says hello, a process has no number
            check(f"rank {victim}" in record["error"], f"rank {victim} was killed:", record["error"])
            check(record["losses"], "the steps before the end are lost")
        check("failed" in out, out)


def test_a_crash_is_not_the_end_of_a_sweep():
    output = records_path("sweep-killed.jsonl")
    run_of = Started(config(), "-o", output, "--set", "steps.timed=1000", "--set", 'sweep.paradigm=["fsdp","ddp"]')
    os.kill(run_of.ranks_train()[1], signal.SIGKILL)
    run_of.finish(FAILED, 50)
    check([r["status"] for r in read_records(output)] == ["failed", "ok"], read_records(output))


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
    check(re.fullmatch(r"ended without a word after step [1-9]\d* of 1000001: .*killed.*", told[0]["error"]), told[0])
    few = ["--set", "steps.timed=2", "-o", output]
    result = run("run", sweep, *few, code=OK)
    check("kept what it knew, 1 record" in result.stderr and not drafts_of(output), result.stderr)
    records = read_records(output)
    check([r["status"] for r in records] == ["failed", "ok", "ok"] and records[0]["losses"], [r["error"] for r in records])
    check(records[0]["sweep"]["count"] == 2, records[0]["sweep"])
    # The one that takes the run down is not tried for ever.
    result = run("run", sweep, "-o", output, *FOREVER, "--resume", "--skip-failed", "--dry-run", code=OK)
    check(result.stdout.count("skipped") == 1, result.stdout)


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
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, LATER)):
        output = records_path("interrupted.jsonl")
        run_of = Started(config(), "-o", output, "--set", "sweep.steps.timed=[2,1000000]")
        run_of.ranks_train(2)
        run_of.process.send_signal(number)
        out, seconds = run_of.finish(code)
        check(seconds < 10, f"{seconds:.1f} s until the end")
        records = read_records(output)
        check([r["status"] for r in records] == ["ok", "interrupted"], [r["status"] for r in records])
        check(len(records[1]["losses"]) > 1 and records[1]["metrics"]["tokens_per_s"] > 0, "what was measured is lost")
        check(records[1]["metrics"]["peak_bytes"]["total"] > 0, "the bytes are lost")
        check("not run" in out and "4 of 6 experiments not run" in run_of.text, out, run_of.text)


def test_a_second_interrupt_kills():
    output = records_path("twice.jsonl")
    run_of = Started(one(), "-o", output, *FOREVER)
    os.kill(run_of.ranks_train()[1], signal.SIGSTOP)  # so that no step ends
    run_of.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    run_of.process.send_signal(signal.SIGINT)
    _, seconds = run_of.finish(130)
    check(seconds < 10 and read_records(output)[0]["status"] == "interrupted", f"{seconds:.1f} s")


def test_an_interrupt_before_the_first_step():
    output = records_path("early.jsonl")
    run_of = Started(one(), "-o", output, *FOREVER)
    wait_for(lambda: "starting" in run_of.text, 20, "the start")
    run_of.process.send_signal(signal.SIGINT)
    _, seconds = run_of.finish(130)
    check(seconds < 10 and read_records(output)[0]["status"] == "interrupted", f"{seconds:.1f} s")


def test_ranks_without_supervisor_end():
    run_of = Started(one(), "-o", records_path("alone.jsonl"), *FOREVER)
    run_of.ranks_train()
    run_of.process.kill()
    run_of.process.communicate()
    wait_for(lambda: not left_behind(run_of.pid), 10, "the ranks' end")


# ---- launchers ----


MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]


def mpirun(ranks, *arguments):
    return subprocess.run([*MPIRUN, str(ranks), DTBENCH, *arguments], cwd=WORK, text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=60, env=ENVIRONMENT, check=False)


def test_under_mpirun():
    output = records_path("mpirun.jsonl")
    result = mpirun(2, "--config", config(), "-o", output, "--verify")
    records = read_records(output)
    check(result.returncode == OK and [r["status"] for r in records] == ["ok"] * 3, result.returncode, result.stderr)
    check(records[0]["provenance"]["launcher"] == "mpirun" and records[0]["verification"]["status"] == "passed", records[0]["provenance"])
    check(result.stdout.count("tokens/s") == 1 and "\033" not in result.stdout + result.stderr, "not one table:", result.stdout)
    result = mpirun(2, "run", config(), "-o", output, "--set", "sweep.memory_limit_gib=[0.0005,0]")
    check(result.returncode == OOM and [r["status"] for r in read_records(output)[3:]] == ["oom", "ok"] * 3, result.returncode)


def test_an_interrupt_under_mpirun():
    output = records_path("mpirun-interrupted.jsonl")
    process = subprocess.Popen([*MPIRUN, "2", DTBENCH, "run", config(), "-o", output, "--set", "sweep.steps.timed=[2,1000000]"], cwd=WORK,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        wait_for(lambda: os.path.exists(output) and os.path.getsize(output) > 100, 30, "the first record")
        process.send_signal(signal.SIGINT)
        check(process.wait(20) != OK, "an interrupted run ends well")
    finally:
        process.kill()
        process.wait()
    check([r["status"] for r in read_records(output)] == ["ok", "interrupted"], read_records(output))


def test_another_number_of_ranks_is_refused():
    output = records_path("refused.jsonl")
    result = mpirun(3, "run", config(), "-o", output)
    check(result.returncode == CONFIG, result.returncode)
    check(len(re.findall("mpirun started 3 ranks.*world_size 2", result.stderr)) == 1, result.stderr)
    check(not os.path.exists(output), "something was written")
    result = run("run", one(), environment={"RANK": "1", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, code=CONFIG)
    check("RANK" in result.stderr, result.stderr)


# ---- the terminal ----


def on_terminal(environment, *arguments, columns=120):
    """Everything that appears on a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(WORK)
        subprocess.run(["stty", "cols", str(columns), "rows", "40"], check=False)
        os.execve(DTBENCH, [DTBENCH, *arguments], {**ENVIRONMENT, **environment})
    text, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([fd], [], [], 1)[0]:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    check(os.WEXITSTATUS(status) == OK, "exit code", os.WEXITSTATUS(status), text.decode(errors="replace"))
    return text.decode(errors="replace")


def test_progress_on_a_terminal():
    default = records_path("dtbench.jsonl")
    text = on_terminal({"TERM": "xterm", "NO_COLOR": ""}, "run", one(), "--set", "steps.timed=300")
    check(re.search(r"\r\033\[K\[1/1\] ddp  step \d+/301  loss \d\.\d+  [\d,.]+ tokens/s  ETA \d:\d\d", text), repr(text[:2000]))
    check(text.rindex("\r\033[K") < text.index("tokens/s", text.rindex("\r\033[K")), "the line is not wiped before the table")
    check("\033[32mok" in text and read_records(default)[0]["status"] == "ok", "colour, and records beside the table")
    text = on_terminal({"TERM": "xterm", "NO_COLOR": "1"}, "run", one(), "--set", 'sweep.gradient_reduction=["last","each"]',
                       "--set", "sweep.parameter_offload=[false,true]", "--set", "steps.timed=1", columns=80)
    lines = [line for line in re.split(r"[\r\n]+(?:\033\[K)?", text) if "  step 1/2" in line]
    check(len(lines) == 4 and all(len(line) <= 79 and re.search(r" tokens/s  ETA \d:\d\d$", line) for line in lines), "nothing is cut:", lines)
    check(re.match(r"\[4/4\] ddp, gradient[a-z_ ]*\.\.  step", lines[3]), "the label gives way:", lines)
    check("gradient  parameter" in text and "reduction    offload" in text, "long keys take two lines:", text)
    text = on_terminal({"TERM": "xterm", "NO_COLOR": "1"}, "run", one(), "--set", "steps.timed=1")
    check(not re.search(r"\033\[\d+m", text) and "\r\033[K" in text, "NO_COLOR:", repr(text))
    text = on_terminal({"TERM": "dumb"}, "run", one(), "--set", "steps.timed=1")
    check("\033" not in text and "dtbench: 1/1 ddp: ok" in text, "TERM=dumb:", repr(text))
    text = on_terminal({"TERM": "xterm"}, "run", one(), "--set", "steps.timed=1", "--quiet")
    check("\r\033" not in text and "tokens/s" in text, "--quiet:", repr(text))


def main():
    try:
        return run_all(chosen(globals()))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
