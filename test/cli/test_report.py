"""report: the page of records, its data, and what a browser makes of it. Prints TAP.

Usage: test_report.py DTBENCH [CASE...]. What needs Chromium is skipped where there is none.
"""
import base64
import copy
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

from tap_cases import Skip, check, chosen, run_all  # beside this script

DTBENCH = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="dtbench-test-")
CONFIG = {
    "name": "tiny", "device": "sim", "cluster": "clusters/dgx_h100_1.json", "world_size": 4, "batch_size": 1,
    "model": {"layers": 4, "heads": 1, "hidden": 16, "vocab_size": 50, "block_size": 8},
    "steps": {"warmup": 1, "timed": 1}, "sweep": {"paradigm": ["ddp", "pdp"], "batch_size": [4, 8]},
}
OK, USAGE, CONFIG_CODE, OUTPUT = 0, 2, 3, 7
EVIL = '<script>document.title="taken"</script><img src=x onerror=\'document.title="taken"\'>"&\\'


def run(*arguments, code=OK):
    result = subprocess.run([DTBENCH, *arguments], cwd=WORK, capture_output=True, text=True, timeout=60, check=False)
    check(result.returncode == code, f"exit code {result.returncode}, not {code}:", *arguments, "\n", result.stdout, result.stderr)
    return result


def predicted():
    path = os.path.join(WORK, "predicted.jsonl")
    if not os.path.exists(path):
        with open(os.path.join(WORK, "tiny.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        run("run", "tiny.json", "--output", path, "--quiet")
    with open(path, encoding="utf-8") as file:
        return path, [json.loads(line) for line in file]


def write(name, records):
    path = os.path.join(WORK, name)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def page_of(*arguments):
    run("report", *arguments, "-o", "page.html")
    with open(os.path.join(WORK, "page.html"), encoding="utf-8") as file:
        return file.read()


def data_of(page):
    """What the page has been given."""
    kind, text = re.search(r'<script id="data" type="([^"]*)">(.*?)</script>', page, re.S).groups()
    return json.loads(zlib.decompress(base64.b64decode(text)) if kind == "application/octet-stream" else text)


def with_evil_name():
    _, records = predicted()
    evil = copy.deepcopy(records)
    evil[0]["config"]["name"] = EVIL
    evil[1].update(status="failed", error=EVIL)
    return write("evil.jsonl", evil)


def browsed(path):
    """The page as a browser has it, and what it said, such as a request that was refused."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        raise Skip("there is no chromium")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--window-size=1200,900", "--enable-logging=stderr",
               f"--user-data-dir={WORK}/browser", "--dump-dom", "file://" + path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    return result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line]


def test_data_are_the_records():
    path, records = predicted()
    data = data_of(page_of(path))
    keys = {key["name"]: [key["values"][i] for i in key["rows"]] for key in data["keys"]}
    metrics = {metric["name"]: metric["rows"] for metric in data["metrics"]}
    check(keys["paradigm"] == [r["config"]["paradigm"] for r in records] and keys["status"] == ["ok"] * 4, keys)
    for name, value in (("tokens_per_s", "tokens_per_s"), ("bubble", "bubble"), ("forward_s", "forward_s")):
        check(all(abs(a - r["metrics"][value]) <= 1e-5 * abs(a) for a, r in zip(metrics[name], records)), name, metrics[name])
    check(metrics["peak_bytes.total"] == [r["metrics"]["peak_bytes"]["total"] for r in records], metrics["peak_bytes.total"])
    check(data["constant"]["model.layers"] == 4 and data["predicted"].startswith("predicted, not measured: cluster dgx_h100_1"), data["predicted"])
    check([p["lines"][0][0] for p in data["pipelines"]] == ["F"] and len(data["pipelines"][0]["lines"]) == 2, data["pipelines"])


def test_the_page_stands_alone():
    page = page_of(with_evil_name())
    check("default-src 'none'" in page and not re.search(r"(src|href)=[\"']?(http|//)", page.split("<script")[0]), "requests")
    check("taken" not in page or data_of(page)["title"], "a name is data")
    check(page.count("</script>") == 3, "a name ends no script element")


def test_other_parts():
    path, records = predicted()
    slower = copy.deepcopy(records)
    for record in slower:
        record["metrics"]["step_s"]["all"] = [2 * t for t in record["metrics"]["step_s"]["all"]]
        record["metrics"]["step_s"]["median"] *= 2
    plan = {"plans": [{"strategy": "FSDP", "tokens_per_s": 1.5, "step_s": 1, "peak_bytes": 1, "why": ["because"]}], "why_not": ["not"]}
    with open(os.path.join(WORK, "plan.json"), "w", encoding="utf-8") as file:
        json.dump(plan, file)
    data = data_of(page_of(path, "--base", write("slower.jsonl", slower), "--plan", "plan.json", "--where", "batch_size=8"))
    check(data["rows"] == 2 and data["plan"] == plan, data["plan"])
    check([row["verdict"] for row in data["compare"]["experiments"]] == ["faster"] * 4, data["compare"])


def test_a_browser():
    """Numbers are read out of the page; a name with a script does nothing; nothing is asked of the network."""
    page_of(with_evil_name())
    dom, said = browsed(os.path.join(WORK, "page.html"))
    check('data-ready="yes"' in dom, dom[-2000:], said)
    check(not said, said)
    _, records = predicted()
    rates = [f"{round(r['metrics']['tokens_per_s']):,}" for r in records if r["config"]["paradigm"] == "pdp"]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", dom)
    check(all(rate in cells for rate in rates), rates, cells)
    check("<title>taken</title>" not in dom and html.escape(EVIL, quote=False).replace('"', "&quot;")[:30] in dom.replace('"', "&quot;"), "a name")
    check("4 of 4 experiments; the fastest: " in dom and "rank 1" in dom, "the fastest, and a pipeline")


def test_charts_in_a_browser():
    """The bars of a stacked chart have their experiments on one axis and seconds on the other."""
    page = page_of(predicted()[0])
    if "No charts" in page and 'Chart.js v' not in page:
        raise Skip("built without Chart.js")
    told = "document.body.dataset.chart = [chart.scales.y.type, chart.scales.x.type, chart.data.labels.length, chart.data.datasets.length > 2].join()"
    script = f'<script>setTimeout(() => {{ $("presets").children[1].click(); {told}; }}, 1500)</script></body>'
    path = os.path.join(WORK, "clicked.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page.replace("</body>", script))
    dom, said = browsed(path)
    check('data-chart="category,linear,4,true"' in dom and not said, re.findall(r"<body[^>]*>", dom), said)


def test_refusals():
    path, _ = predicted()
    check("expected RECORDS" in run("report", code=USAGE).stderr, "no records")
    check("no record is as --where says" in run("report", path, "--where", "paradigm=hsdp", code=USAGE).stderr, "none left")
    run("report", path, "-o", "nowhere/page.html", code=OUTPUT)
    run("report", "nowhere.jsonl", code=CONFIG_CODE)
    check('an object with "plans"' in run("report", path, "--plan", "tiny.json", code=USAGE).stderr, "no plan")


def main():
    try:
        return run_all(chosen(globals()))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
