#!/usr/bin/python3
"""Add up what scripts/test ran: the longest tests, the time that all took, what failed or was skipped, and the closing line.

Usage: test_summary.py RESULTS
RESULTS has a line for each thing done, its fields separated by tabs:
    check NAME passed|failed|skipped REASON    one verdict
    meson NAME TESTLOG                         a run of `meson test`: its testlog.json
    took SECONDS PROCESSOR_SECONDS             wall time, and that of the processors, of everything
A test program that prints TAP counts with each of its cases, any other as one. Exits with 1 when anything failed or nothing passed.
"""
import json
import re
import sys

CASE = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*?)\s*(?:#\s*(SKIP|TODO)\b\s*(.*))?$", re.IGNORECASE)


def cut(text):
    """One line of a reason, which may hold whole records."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + " ..."


def how_it_ended(test, last_case):
    """Why a test failed none of whose cases says so: a crash, a time-out, an exception outside of all cases, a sanitizer's report."""
    code = test.get("returncode")
    said = [line.strip() for line in (test.get("stderr") or "").splitlines() if line.strip()]
    telling = [line for line in said if re.match(r"SUMMARY: |.*runtime error: ", line)] or said
    return cut("; ".join([f"{test['result'].lower()}, exit status {code}" + (f", after {last_case}" if last_case else "")] + telling[-1:]))


def cases_of(test):
    """(name, verdict, reason) of each case of one test in meson's log. A failed one's reason is the first line of what it said (# ...)."""
    result, name = test["result"], test["name"]
    output = test.get("stdout") or ""
    cases, said = [], []
    if re.search(r"^1\.\.\d+", output, re.MULTILINE):
        for line in output.splitlines():
            if line.startswith("# "):
                said.append(line[2:])
            match = CASE.match(line)
            if not match:
                continue
            verdict = "skipped" if match[3] else "failed" if match[1] else "passed"
            cases.append((f"{name}: {match[2]}", verdict, match[4] or (cut(said[0]) if match[1] and said else "")))
            said = []
    if result in ("OK", "EXPECTEDFAIL"):
        return cases or [(name, "passed", "")]
    if result == "SKIP":
        lines = output.strip().splitlines()
        reason = re.sub(r"^1\.\.0\s*#\s*SKIP\s*", "", lines[-1], flags=re.IGNORECASE) if lines else "no reason given"
        return cases or [(name, "skipped", reason)]
    if not any(verdict == "failed" for _, verdict, _ in cases):
        cases.append((name, "failed", "; ".join([how_it_ended(test, cases[-1][0] if cases else "")] + [cut(line) for line in said[:1]])))
    return cases


LONGEST_REASON = 300  # characters
LONGEST = 10


def print_longest(tests):
    """A table of (test, run, seconds), the longest first."""
    rows = [("longest tests", "", "seconds")] + [(name, run, f"{seconds:.1f}") for name, run, seconds in
                                                 sorted(tests, key=lambda test: -test[2])[:LONGEST]]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, run, seconds in rows:
        print(f"{name:{widths[0]}}  {run:{widths[1]}}  {seconds:>{widths[2]}}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: test_summary.py RESULTS")
    cases, durations, took = [], [], ""
    with open(sys.argv[1], encoding="utf-8") as results:
        for line in results:
            kind, name, *rest = line.rstrip("\n").split("\t")
            if kind == "took":
                took = f"{float(name) / 60:.1f} min, {float(rest[0]):.0f} s of processor time"
                continue
            if kind == "check":
                cases.append((name, rest[0], rest[1] if len(rest) > 1 else ""))
                continue
            try:
                with open(rest[0], encoding="utf-8") as log:
                    tests = [json.loads(entry) for entry in log if entry.strip()]
            except (OSError, ValueError) as error:
                cases.append((name, "failed", f"no test log: {error}"))
                continue
            if not tests:
                cases.append((name, "failed", "no test was run"))
            durations += [(test["name"], name, test.get("duration", 0)) for test in tests]
            for test in tests:
                cases += [(f"{name}: {case}", verdict, reason) for case, verdict, reason in cases_of(test)]

    if durations:
        print_longest(durations)
    if took:
        print(took)
    count = {verdict: sum(case[1] == verdict for case in cases) for verdict in ("passed", "failed", "skipped")}
    for verdict in ("skipped", "failed"):
        for name, its_verdict, reason in cases:
            if its_verdict == verdict:
                print(f"{verdict}: {name}" + (f" ({reason})" if reason else ""))
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    sys.exit(count["failed"] > 0 or count["passed"] == 0)


if __name__ == "__main__":
    main()
