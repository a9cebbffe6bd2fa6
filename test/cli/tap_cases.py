"""What tests of the whole command have in common: the functions test_* of a script are its cases, and their verdicts are printed as TAP."""
import subprocess
import sys
import time


class Wrong(Exception):
    """The case has failed."""


class Skip(Exception):
    """The case cannot run here; the text says why."""


def check(condition, *what):
    if not condition:
        raise Wrong(" ".join(str(w) for w in what))


def chosen(names):
    """(name, function) of the cases in a script's globals(): all, or those that its command line names."""
    cases = [(name[5:], function) for name, function in names.items() if name.startswith("test_")]
    return [case for case in cases if case[0] in sys.argv[2:]] if len(sys.argv) > 2 else cases


def run_all(cases):
    """Run one after the other. True when any has failed, which is the exit status."""
    failures = 0
    print(f"1..{len(cases)}", flush=True)
    for number, (name, function) in enumerate(cases, 1):
        begin, error, skipped = time.monotonic(), None, ""
        try:
            function()
        except Skip as reason:
            skipped = f" # SKIP {reason}"
        except (Wrong, OSError, ValueError, KeyError, IndexError, TypeError, StopIteration, subprocess.SubprocessError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        if error:
            failures += 1
            print("\n".join("# " + line for line in error.splitlines()[:40]))
        print(f"{'not ' if error else ''}ok {number} - {name} in {time.monotonic() - begin:.1f} s{skipped}", flush=True)
    return failures > 0
