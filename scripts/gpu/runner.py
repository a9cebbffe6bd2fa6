"""Checks one after the other, each within a limit of its own; what each has given is kept at once. For scripts/first_gpu.

In the output folder: results.jsonl, a line for each check; summary.txt, of all parts that were run into this folder; and for each call one
archive with both and all logs. All three are written anew after each check, so that a call which is killed loses only the check that runs.
The logs themselves are in a temporary folder until then.

A check gets as many seconds as it is to need at most, and what those before it have left: one that hangs takes nothing from those behind it.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

LOG_BYTES = 1 << 20  # of a longer log only its beginning and end are packed
GRACE_S = 8  # for a program to end in order
TELLING = re.compile(r"not ok |# \S+:\d+: |Bail out!|ERROR SUMMARY|.*(?:error|cannot|fail|Xid|abort)", re.IGNORECASE)  # lines of a log that tell what is wrong


class Failed(Exception):
    """A check did not hold; the text says what was seen."""


class Skipped(Exception):
    """A check cannot be made here; the text says why."""


class OutOfTime(Exception):
    """A program has reached its limit; the text says what it did until then."""


class Stopped(BaseException):
    """This process is to end."""


def descendants(pid):
    """The processes that `pid` started, those that these started, and so on."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                parents.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
        except (OSError, IndexError, ValueError):
            pass
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def tell(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # it has ended


def end(process):
    """With all that it started: asked to, and after a moment made to."""
    started = descendants(process.pid)
    tell([process.pid], signal.SIGTERM)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    tell([process.pid, *started, *descendants(process.pid)], signal.SIGKILL)
    process.wait()


def last_line(text):
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")[:300]


class Runner:
    def __init__(self, out, name, limit_s):
        """out: the folder; OSError where nothing can be written there. name: of this call's archive, with a number where an earlier call's has
        it. limit_s: for the first part."""
        self.out, self.name = os.path.abspath(out), name
        self.begin_part(limit_s)
        self.deadline = self.end  # of the check that runs
        self.heading, self.stopping, self.pack_s, self.unwritten = [], False, 0.0, False
        self.logs = []  # of the check that runs
        os.makedirs(self.out, exist_ok=True)
        while os.path.exists(self.archive()):
            self.name = f"{name}_{int(self.name[len(name) + 1:] or 1) + 1}"
        self.results = self.earlier_results()
        self.replace("summary.txt", self.summary())
        self.temporary = []
        self.work = self.temporary_folder(None, "first_gpu_")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.stop)

    def temporary_folder(self, parent, prefix):
        """One that remove() removes."""
        self.temporary.append(tempfile.mkdtemp(prefix=prefix, dir=parent))
        return self.temporary[-1]

    def archive(self):
        return os.path.join(self.out, self.name + ".tar.gz")

    def begin_part(self, limit_s, needed_s=0):
        """needed_s: by all its checks; where they need more than the limit, each has that much less."""
        self.end = time.monotonic() + limit_s
        self.later_s, self.share = needed_s, min(1, limit_s / max(needed_s, 1))

    def stop(self, number, frame):
        if not self.stopping:
            self.stopping = True
            raise Stopped(signal.Signals(number).name)

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    # ---- programs ----

    def left_s(self):
        return self.deadline - time.monotonic()

    def call(self, log, command, limit_s=None, environment=None, apart=False):
        """(exit status, output) of a program, which also is in the log of this name; errors are in it too, or `apart` in another one.
        OutOfTime: it was ended."""
        path = self.path(log + ".log")
        self.logs.append(path)
        limit = min(self.left_s(), limit_s or 1e9)
        if limit <= 0:
            raise OutOfTime("no time was left for " + os.path.basename(command[0]))
        with open(path, "wb") as out, open(path + ".errors" if apart else os.devnull, "wb") as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors if apart else out, env=environment, cwd=self.work,
                                       start_new_session=True)
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                end(process)
                raise OutOfTime(f"{os.path.basename(command[0])} was ended after {limit:.0f} s; last: {last_line(self.text(path))}") from None
            except BaseException:
                end(process)
                raise
        return status, self.text(path)

    @staticmethod
    def text(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    # ---- checks ----

    def check(self, part, name, seconds, function, *arguments):
        """Its verdict is kept, whatever happens in it, but for Stopped."""
        start, self.logs = time.monotonic(), []
        self.later_s -= seconds
        least, left = seconds * self.share, self.end - start
        if left < least / 2:
            self.keep(part, name, "not run", 0, "no time is left")
            return
        self.deadline = start + max(left - self.later_s * self.share, min(least, left))
        try:
            verdict, said = "ok", function(*arguments) or ""
        except Skipped as reason:
            verdict, said = "skipped", str(reason)
        except Failed as problem:
            verdict, said = "FAILED", str(problem)
        except OutOfTime as problem:
            verdict, said = "TIMEOUT", str(problem)
        except Exception as problem:  # the checks that follow run, whatever it is
            verdict, said = "FAILED", f"{type(problem).__name__}: {problem}"
        except Stopped as reason:
            self.keep(part, name, "stopped", time.monotonic() - start, f"by {reason}")
            raise
        self.keep(part, name, verdict, time.monotonic() - start, said)

    def keep(self, part, name, verdict, seconds, said):
        result = {"part": part, "name": name, "verdict": verdict, "seconds": round(seconds, 1), "said": said}
        if self.is_bad(result):
            result["log"] = self.evidence()
        self.results = [r for r in self.results if (r["part"], r["name"]) != (part, name)] + [result]
        print(self.line(result), flush=True)
        self.write()

    def evidence(self):
        """Of the logs of the check that ran: the first lines that tell what is wrong, and the last ones."""
        found = []
        for path in filter(os.path.exists, dict.fromkeys(self.logs)):
            lines = self.text(path).splitlines()
            telling = [number for number, line in enumerate(lines) if TELLING.match(line)][:8]
            found += [f"{os.path.basename(path)}:{number + 1}: {lines[number][:300]}" for number in sorted({*telling, *range(max(0, len(lines) - 4), len(lines))})]
        return found[:40]

    # ---- what is kept ----

    def earlier_results(self):
        try:
            return [json.loads(line) for line in self.text(os.path.join(self.out, "results.jsonl")).splitlines()]
        except (OSError, ValueError):
            return []

    @staticmethod
    def line(result):
        return f"{result['verdict']:<8} {result['part']} {result['name']:<44} {result['seconds']:6.1f} s  {result['said']}".rstrip()

    @staticmethod
    def is_bad(result):
        return result["verdict"] not in ("ok", "skipped")

    def failed(self):
        return self.unwritten or any(map(self.is_bad, self.results))

    def summary(self):
        counts = {}
        for r in self.results:
            counts[r["verdict"]] = counts.get(r["verdict"], 0) + 1
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "nothing was run"
        bad = [r for r in self.results if self.is_bad(r)]
        lines = [*self.heading, "", said]
        for title, group in (("What is not well", bad), ("All", self.results)):
            lines += ["", title] + [self.line(r) for r in group] if group else []
        for r in bad:
            lines += ["", f"Of the logs of {r['name']}"] + ["  " + line for line in r["log"]] if r.get("log") else []
        return "\n".join(lines) + "\n"

    def replace(self, name, text):
        path = os.path.join(self.out, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)

    def write(self, at_end=False):
        """Nothing that goes wrong here ends the run: the next check writes again."""
        try:
            self.replace("results.jsonl", "".join(json.dumps(r) + "\n" for r in self.results))
            self.replace("summary.txt", self.summary())
            if at_end or self.pack_s < 2:
                self.pack()
            self.unwritten = False
        except OSError as problem:
            self.unwritten = True
            print(f"first_gpu: {problem}", file=sys.stderr, flush=True)

    def short(self, path):
        """The file itself, or what is packed of it."""
        size = os.path.getsize(path)
        if size <= LOG_BYTES:
            return path
        with open(path, "rb") as file, open(path + ".short", "wb") as out:
            out.write(file.read(LOG_BYTES // 2))
            out.write(b"\n... %d bytes are left out ...\n" % (size - LOG_BYTES))
            file.seek(size - LOG_BYTES // 2)
            out.write(file.read())
        return path + ".short"

    def pack(self):
        start = time.monotonic()
        archive = self.archive()
        with tarfile.open(archive + ".new", "w:gz", compresslevel=6) as tar:
            for name in ("summary.txt", "results.jsonl"):
                tar.add(os.path.join(self.out, name), f"{self.name}/{name}")
            for folder, folders, names in os.walk(self.work):
                folders[:] = [name for name in sorted(folders) if not name.startswith((".", "unpacked", "caches"))]
                for name in sorted(names):
                    path = os.path.join(folder, name)
                    if not name.endswith(".short") and os.path.isfile(path):
                        tar.add(self.short(path), os.path.join(self.name, os.path.relpath(path, self.work)))
        os.replace(archive + ".new", archive)
        self.pack_s = time.monotonic() - start

    def finish(self, planned):
        """planned: (part, name) of all checks of this call."""
        self.stopping = True  # a second signal changes nothing
        done = {(r["part"], r["name"]) for r in self.results}
        for part, name in planned:
            if (part, name) not in done:
                self.results.append({"part": part, "name": name, "verdict": "not run", "seconds": 0.0, "said": ""})
        self.write(at_end=True)
        self.remove()

    def remove(self):
        for folder in self.temporary:
            shutil.rmtree(folder, ignore_errors=True)
