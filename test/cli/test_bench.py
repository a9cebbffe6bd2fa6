#!/usr/bin/env python3
"""dtbench bench: collectives alone, as a table and as records that other commands read. Prints TAP. Usage: test_bench.py DTBENCH [CASE...]"""
import json
import os
import shutil
import sys

from command import OK, USAGE, WORK, Skip, check, main, run  # beside this script


def bench(name, *arguments):
    path = os.path.join(WORK, name)
    result = run("bench", *arguments, "-o", path, code=OK)
    with open(path, encoding="utf-8") as file:
        return path, [json.loads(line) for line in file], result.stdout


def test_bandwidths_are_those_of_nccl_tests():
    """Bus over algorithm bandwidth: 2 (n-1)/n of an all-reduce, (n-1)/n of both halves, 1 of a broadcast."""
    path, records, table = bench("sim.jsonl", "--device", "sim", "--ranks", "16", "--group", "8", "--bytes", "1M:64M:64", "--collective",
                                 "all_reduce,all_gather,reduce_scatter,broadcast")
    check(len(records) == 8 and "algorithm" in table, records, table)
    factors = {"all_reduce": 2 * 7 / 8, "all_gather": 7 / 8, "reduce_scatter": 7 / 8, "broadcast": 1}
    for record in records:
        asked, metrics = record["config"]["bench"], record["metrics"]
        check(abs(metrics["algorithm_gb_per_s"] * 1e9 * metrics["step_s"]["median"] / asked["bytes"] - 1) < 1e-9, record)
        check(abs(metrics["bus_gb_per_s"] / metrics["algorithm_gb_per_s"] - factors[asked["collective"]]) < 1e-9, record)
        check(asked["group"] == 8 and asked["stride"] == 1 and record["config"]["world_size"] == 16, record)
    check(len({record["config_hash"] for record in records}) == 8, records)
    larger = [r["metrics"]["bus_gb_per_s"] for r in records if r["config"]["bench"]["collective"] == "all_reduce"]
    check(larger[1] > larger[0] > 0, larger)
    said = json.loads(run("show", path, "--where", "bench.collective=all_gather", "--format", "json", "--columns", "bench.bytes,bus_gb_per_s").stdout)
    check([row["bench.bytes"] for row in said] == [1 << 20, 1 << 26], said)
    said = json.loads(run("show", path, "--best", "bench.collective", "--format", "json").stdout)
    check([row["bench.bytes"] for row in said] == [1 << 26] * 4, said)
    table = run("show", path).stdout
    check("algorithm" in table and "bus" in table and "GB" in table and "bus_gb" not in table, table)
    said = run("compare", path, path, code=OK).stdout
    check("all_reduce of" in " ".join(said.split()), said)
    run("report", path, "-o", os.path.join(WORK, "bench.html"), code=OK)


def test_ranks_of_this_machine():
    if not shutil.which("mpirun"):
        raise Skip("no mpirun")
    _, records, table = bench("cpu.jsonl", "--ranks", "4", "--group", "2", "--stride", "2", "--bytes", "4K,64K", "--repeat", "3", "--threads", "1",
                              "--collective", "all_reduce,message", "--beside")
    check(len(records) == 8 and "overlap" in table, records, table)
    for record in records:
        metrics, beside = record["metrics"], record["config"]["bench"]["beside"] == "product"
        check(len(metrics["step_s"]["all"]) == 3 and metrics["step_s"]["median"] > 0, record)
        check(record["config"]["bench"]["axis"] == "strided" and record["provenance"]["device"] == "cpu", record)
        check((metrics["product_s"] > 0 and "overlap" in metrics) if beside else metrics["bus_gb_per_s"] > 0, record)


def test_refusals():
    for arguments, text in ((["--collective", "gather"], "'gather' is not known"), (["--bytes", "1K:4K"], "expected FIRST:LAST:FACTOR"),
                            (["--bytes", "x"], "expected sizes from 4 bytes"), (["--ranks", "4", "--group", "3"], "expected two or more of each"),
                            (["--device", "sim", "--beside"], "only with --device cpu or cuda"), (["--device", "tpu"], "expected cpu, cuda or sim"),
                            (["--cluster", "dgx_a100"], "only with --device sim"), (["--bytes", "1:1G:2"], "expected sizes from 4 bytes")):
        check(text in run("bench", *arguments, code=USAGE).stderr, arguments, text)


if __name__ == "__main__":
    sys.exit(main(globals()))
