"""Shared code of the command tests: the functions test_* of a script are its cases, and their verdicts are printed as TAP."""
import ctypes
import os
import signal
import sys
import time
import traceback

PATIENCE = 4  # Timeouts are multiplied by this on a busy machine. They only end cases that hang.
COMMAND_S = 60 * PATIENCE  # for one command, which usually takes less than a second
PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


class Wrong(Exception):
    """The case has failed."""


class Skip(Exception):
    """The case cannot run here; the text says why."""


def check(condition, *what):
    if not condition:
        raise Wrong(" ".join(str(w) for w in what))


def wait_for(condition, seconds, what):
    """Wait until the function has a value, and return it. It is called once more after the time limit, because this process may itself have waited for a processor."""
    begin, late = time.monotonic(), False
    while not (value := condition()):
        if late:
            raise Wrong(f"not within {PATIENCE * seconds} s: {what}")
        waited = time.monotonic() - begin
        time.sleep(min(max(waited / 10, 0.02), 0.2))  # polling takes processor time from the awaited process
        late = waited >= PATIENCE * seconds
    return value


def chosen(names):
    """(name, function) of the cases in a script's globals(): all, or those that its command line names."""
    cases = [(name[5:], function) for name, function in names.items() if name.startswith("test_")]
    unknown = set(sys.argv[2:]) - {name for name, _ in cases}
    if unknown:
        sys.exit(f"no such case: {' '.join(sorted(unknown))}; there are {' '.join(name for name, _ in cases)}")
    return [case for case in cases if case[0] in sys.argv[2:]] if len(sys.argv) > 2 else cases


def descendants(pid):
    """The descendants of process `pid`."""
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


def end_what_runs():
    """End every process that a case has left: endless runs would take processor time from later cases."""
    end = time.monotonic() + 10
    while left := descendants(os.getpid()):
        check(time.monotonic() < end, "processes cannot be ended:", left)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                pass  # gone, or another process's child
        time.sleep(0.005)


def attempt(function):
    """Returns why a case failed, or None; and the end of its TAP line if it was skipped. The first line of why names the script's line."""
    try:
        function()
    except Skip as reason:
        return None, f" # SKIP {reason}"
    except Exception as problem:  # later cases run after any exception
        script = os.path.abspath(sys.argv[0])
        lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if os.path.abspath(frame.filename) == script]
        return f"{os.path.basename(script)}:{lines[-1] if lines else '?'}: {type(problem).__name__}: {problem}", ""
    return None, ""


def processor_seconds():
    """Of this process and of its descendants that have ended."""
    return sum(os.times()[:4])


def run_all(cases):
    """Run the cases one after the other. Returns whether any has failed, as the exit status."""
    # Orphaned processes become children of this process, which can end them.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    failures = 0
    print(f"1..{len(cases)}", flush=True)
    for number, (name, function) in enumerate(cases, 1):
        begin, used = time.monotonic(), processor_seconds()
        error, skipped = attempt(function)
        try:
            end_what_runs()
        except Wrong as problem:
            error = f"{error}\n{problem}" if error else str(problem)
        if error:
            failures += 1
            print("\n".join("# " + line for line in error.splitlines()[:40]))
        print(f"{'not ' if error else ''}ok {number} - {name} in {time.monotonic() - begin:.1f} s, {processor_seconds() - used:.1f} s of processors{skipped}", flush=True)
    return failures > 0
