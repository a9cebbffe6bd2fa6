"""The command under test, for the scripts that try it: runs it in a folder of its own, finds its processes, reads its records.

The first word of the script's command line is the program; the folder goes with finish().
"""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import termios
import threading
import time

from tap_cases import COMMAND_S, PATIENCE, Skip, Wrong, check, chosen, descendants, run_all, wait_for  # beside this script

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
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]  # and how many ranks
FOREVER = ["--set", "steps.timed=1000000"]
ENDS_S = 10 * PATIENCE  # within this a run ends after a fault or a signal: ten seconds where nothing else runs, and a step's limit is much longer
# The program must not see the variables of a launcher around this test.
LAUNCHER = re.compile(r"^(OMPI_|PMIX_|PMI_|SLURM_|RANK$|WORLD_SIZE$|LOCAL_RANK$|LOCAL_WORLD_SIZE$|MASTER_|DTBENCH_SECRET$)")
ENVIRONMENT = {key: value for key, value in os.environ.items() if not LAUNCHER.match(key)}
ENVIRONMENT["XDG_STATE_HOME"] = os.path.join(WORK, "state")  # for the key file


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
    result = subprocess.run([DTBENCH, *arguments], cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL,
                            env={**ENVIRONMENT, **(environment or {})}, **options)
    if code is not None:
        check(result.returncode == code, f"exit code {result.returncode}, not {code}:", " ".join(arguments), "\n", result.stdout, result.stderr)
    return result


def read_records(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line, parse_constant=lambda c: check(False, c, "is no JSON")) for line in lines]


def by_rank(peaks):
    """{rank: bytes that it holds} of a record's peak_bytes."""
    return {rank: group for group in peaks["by_ranks"] for first, last, step in group["ranks"] for rank in range(first, last + 1, step)}


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
                    found = re.search(rb"(?:OMPI_COMM_WORLD_|\0)RANK=(\d+)", b"\0" + text.read())
            except OSError:
                continue
            ranks[int(found[1]) if found else 0] = pid
    return ranks


def interrupt(process, number):
    """Send a signal, and wait until it is taken: one that comes while another is pending would not count."""
    process.send_signal(number)

    def taken():
        try:
            with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as text:
                pending = re.search(r"^ShdPnd:\s*([0-9a-f]+)", text.read(), re.M)
        except OSError:
            return True  # it is gone
        return not pending or not int(pending[1], 16) >> (number - 1) & 1
    wait_for(taken, 20, "a signal that is taken")


def left_behind(supervisor):
    """Processes that name the supervisor's socket, wherever they have gone in the process tree."""
    name = f"dtbench-{supervisor}-"
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and name in command_of(pid)]


def open_terminal():
    """The two ends of a new pseudo-terminal; a case that needs one is skipped where the system has none."""
    try:
        return pty.openpty()
    except OSError as problem:
        if os.path.exists("/dev/ptmx") and os.path.ismount("/dev/pts"):
            raise
        raise Skip(f"needs a terminal: no /dev/ptmx, or nothing at /dev/pts ({problem})") from None


def on_terminal(environment, *arguments, columns=120, code=OK, seconds=60):
    """All output on a terminal. code None: any exit code."""
    fd, slave = open_terminal()
    termios.tcsetwinsize(slave, (40, columns))
    process = subprocess.Popen([DTBENCH, *arguments], cwd=WORK, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               env={**ENVIRONMENT, **environment})
    os.close(slave)
    text, end = b"", time.monotonic() + PATIENCE * seconds
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
    text = text.decode(errors="replace")
    process.wait()
    check(code in (None, process.returncode), f"exit code {process.returncode}, not {code}:", *arguments, "\n", text)
    return text


class Started:
    """A run in the background whose standard error is a terminal: its progress line tells when the ranks train."""

    def __init__(self, *arguments):
        self.text, (self.terminal, slave) = "", open_terminal()
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
        """{rank: pid}, after the progress line has shown some steps of the experiment."""
        wait_for(lambda: re.search(rf"\[{experiment}/\d+\] [^\r]* step ([3-9]|\d\d+)/", self.text), 30, "steps")
        return ranks_of(self.pid)

    def finish(self, code, seconds=20):
        """Standard output, and the seconds until the end, after which no process may remain."""
        begin = time.monotonic()
        try:
            out, _ = self.process.communicate(timeout=PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Wrong(f"still there after {PATIENCE * seconds} s\n", self.text) from None
        taken = time.monotonic() - begin
        self.reader.join(2)
        os.close(self.terminal)
        check(self.process.returncode == code, f"exit code {self.process.returncode}, not {code}\n", out, self.text)
        wait_for(lambda: not left_behind(self.pid), 10, "no process left behind")
        return out, taken


def main(cases):
    """Run a script's cases; its exit status."""
    try:
        return run_all(chosen(cases))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
