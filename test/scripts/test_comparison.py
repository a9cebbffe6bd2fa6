"""scripts/comparison: every published row has a prediction, and the script finds orders and contradictions in hand-made rows.

Usage: test_comparison.py DTBENCH; prints TAP.
"""
import importlib.machinery
import importlib.util
import os
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "cli"))
from tap_cases import check, run_all

DTBENCH = os.path.abspath(sys.argv[1])
LOADER = importlib.machinery.SourceFileLoader("comparison", os.path.join(ROOT, "scripts", "comparison"))
COMPARISON = importlib.util.module_from_spec(importlib.util.spec_from_loader("comparison", LOADER))
LOADER.exec_module(COMPARISON)


def row(strategy, gpus, rate, published, **more):
    return {"model": "small", "strategy": strategy, "gpus": gpus, "rate": rate, "tokens_per_ms": published, "memory": 10.0, "efficiency": None,
            "comm_percent": None, "their_mfu": None, **more}


def test_published_rows_have_predictions():
    rows = [one for one in COMPARISON.read_published() if one["model"] == "gpt2"]
    predicted = COMPARISON.predict(DTBENCH, "gpt2")
    check({(one["strategy"], one["gpus"]) for one in rows} == set(predicted), rows, list(predicted))
    COMPARISON.join(rows, {"gpt2": predicted})
    for one in rows:
        check(one["rate"] > 0 and 0 < one["mfu"] < 1 and 0 <= one["comm"] < 100 and one["memory"] > 1, one)
        check(abs(one["their_mfu"] / one["mfu"] - one["tokens_per_ms"] / one["rate"]) < 1e-9, one)
    check(rows[0]["strategy"] == "DDP" and rows[0]["scaling"] == 1 and all(one["scaling"] < 1 for one in rows[1:]), rows)
    check(len(COMPARISON.table(rows)) == 2 + len(rows), COMPARISON.table(rows))


def test_orders():
    rows = [row("DDP", 1, 100, 100), row("FSDP", 8, 400, 300), row("TP-4", 4, 200, 400), row("PP-2", 2, 102, 250), row("DDP", 4, None, 9)]
    said = list(COMPARISON.orders(rows))
    check(said == ["- small: 4 of 6 pairs are in the same order, 1 are within 5%; published otherwise: TP-4 on 4 before FSDP on 8"], said)


def test_contradictions():
    rows = [row("DDP", 1, 100, 100), row("FSDP", 8, 400, 90, their_mfu=0.7), row("PP-2", 2, 150, 170, comm_percent=11.0, efficiency=0.43),
            row("TP-2", 2, 150, 170, comm_percent=11.0, efficiency=0.86), row("DDP", 8, 400, None)]
    said = list(COMPARISON.contradictions(rows))
    wanted = ["FSDP: 8 GPUs make fewer tokens than one", "FSDP: 90 tokens/ms are 70% of the peak", "PP-2: 11 % lost leave an efficiency of 0.89",
              "DDP on 8: published as out of memory"]
    check(len(said) == len(wanted) and all(text in line for text, line in zip(wanted, said, strict=True)), said)


def test_the_page_has_the_tables_place():
    with open(COMPARISON.PAGE, encoding="utf-8") as file:
        text = file.read()
    check(text.count(COMPARISON.BEGIN) == 1 and text.split(COMPARISON.BEGIN)[1].count(COMPARISON.END) == 1, "markers")
    table = [line.split(" | ")[:3] for line in text.splitlines() if line.startswith("| ") and line.split(" | ")[2:3] and line.split(" | ")[2].isdigit()]
    wanted = [["| " + one["model"], one["strategy"], str(one["gpus"])] for one in COMPARISON.read_published()]
    check(table == wanted, table, wanted)


sys.exit(run_all([(name[5:], case) for name, case in sorted(globals().items()) if name.startswith("test_")]))
