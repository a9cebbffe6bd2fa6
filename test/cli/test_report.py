"""report: the page of records, its data, and its behaviour in a browser. Prints TAP.

Usage: test_report.py DTBENCH [CASE...]. What needs Chromium is skipped where there is none.
"""
import base64
import copy
import html
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import zlib

from tap_cases import COMMAND_S, Skip, check, chosen, run_all  # beside this script

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
    result = subprocess.run([DTBENCH, *arguments], cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S, check=False)
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
    """The data in the page."""
    kind, text = re.search(r'<script id="data" type="([^"]*)">(.*?)</script>', page, re.S).groups()
    return json.loads(zlib.decompress(base64.b64decode(text)) if kind == "application/octet-stream" else text)


def with_evil_name():
    _, records = predicted()
    evil = copy.deepcopy(records)
    evil[0]["config"]["name"] = EVIL
    evil[1].update(status="failed", error=EVIL)
    return write("evil.jsonl", evil)


class Browser:
    """Chromium without a window, controlled over two pipes (the DevTools protocol)."""

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            raise Skip("there is no chromium")
        theirs, ours = os.pipe(), os.pipe()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={WORK}/browser", "about:blank"]
        self.process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{theirs[0]} 4>&{ours[1]}', "sh", *command], pass_fds=(theirs[0], ours[1]),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs[0])
        os.close(ours[1])
        self.to, self.from_it, self.last, self.session, self.said, self.text = theirs[1], ours[0], 0, {}, [], b""
        target = next(t["targetId"] for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for part in ("Page", "Runtime", "Log"):
            self.call(part + ".enable")

    def call(self, method, **parameters):
        self.last += 1
        os.write(self.to, json.dumps({"id": self.last, "method": method, "params": parameters, **self.session}).encode() + b"\0")
        while True:
            while b"\0" not in self.text:
                check(select.select([self.from_it], [], [], 100)[0], "the browser does not answer", method)
                more = os.read(self.from_it, 1 << 16)
                check(more, "the browser has ended", method)
                self.text += more
            message, self.text = self.text.split(b"\0", 1)
            message = json.loads(message)
            if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                self.said.append(message["params"])  # a request that was refused, for example
            if message.get("id") == self.last:
                check("result" in message, message)
                return message["result"]

    def evaluate(self, script):
        return self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)["result"].get("value")

    def until(self, script):
        """Wait until a condition holds in the page."""
        tick = "new Promise((resolve) => setTimeout(resolve, 20))"
        check(self.evaluate(f"(async () => {{ for (let i = 0; i < 3000; i++) {{ if ({script}) return true; await {tick}; }} }})()"), script, self.said)

    def open(self, path, width=1200, dark=False):
        self.said.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url="file://" + path)
        self.until('document.body && document.body.dataset.ready === "yes"')

    def press(self, key):
        code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0)
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **({"text": text} if text and kind == "keyDown" else {}))

    def tab_to(self, script):
        """Press Tab until the condition holds for the focused element `e`, which must be visible each time."""
        seen = "(() => { const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e); return [s.outlineStyle === 'solid' && " \
               "parseFloat(s.outlineWidth) >= 2 && r.bottom > 0 && r.top < innerHeight, e.outerHTML.slice(0, 90), Boolean(%s)]; })()" % script
        for _ in range(60):
            self.press("Tab")
            visible, html_of_it, there = self.evaluate(seen)
            check(visible, "no sign of the focus", html_of_it)
            if there:
                return
        check(False, "not reached by Tab:", script)

    def end(self):
        os.close(self.to)  # closing its pipe ends the browser
        os.close(self.from_it)
        self.process.wait(timeout=COMMAND_S)


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


def test_a_key_that_only_some_have_is_usual():
    _, records = predicted()
    some = [record for record in records if record["config"]["paradigm"] == "ddp"]
    for record, number in zip(some, range(2)):  # alike, except that one computes in FP8
        record["config"].update({"batch_size": 4, **({"fp8": {"recipe": "tensorwise"}} if number else {})})
        record["config_hash"] = f"{number:016x}"
    usual = {key["name"]: key["usual"] for key in data_of(page_of(write("some.jsonl", some[:2])))["keys"]}
    check(usual["fp8.recipe"], usual)
    keys = data_of(page_of(predicted()[0]))["keys"]
    check(not any(key["usual"] for key in keys if key["name"].startswith("pipeline.")), "what follows from the paradigm tells nothing apart")


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


def read_numbers(page):
    """Numbers can be read from the page; a name with a script does nothing; the page uses no network."""
    page_of(with_evil_name())
    page.open(os.path.join(WORK, "page.html"))
    dom = page.evaluate("document.documentElement.outerHTML")
    check(not page.said, page.said)
    _, records = predicted()
    rates = [f"{round(r['metrics']['tokens_per_s']):,}" for r in records if r["config"]["paradigm"] == "pdp"]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", dom)
    check(all(rate in cells for rate in rates), rates, cells)
    check("<title>taken</title>" not in dom and html.escape(EVIL, quote=False).replace('"', "&quot;")[:30] in dom.replace('"', "&quot;"), "a name")
    check("4 of 4 experiments; the fastest: " in dom and "rank 1" in dom, "the fastest, and a pipeline")


def draw_charts(page):
    """The bars of a stacked chart have their experiments on one axis and seconds on the other."""
    if "Chart.js v" not in page_of(predicted()[0]):
        return
    page.open(os.path.join(WORK, "page.html"))
    page.evaluate('$("presets").children[1].click()')
    drawn = page.evaluate("[chart.scales.y.type, chart.scales.x.type, chart.data.labels.length, chart.data.datasets.length > 2].join()")
    check(drawn == "category,linear,4,true" and not page.said, drawn, page.said)
    page.evaluate('$("y").value = "step_s.median"; $("y").dispatchEvent(new Event("change"))')
    check(page.evaluate("chart.options.scales.y.title.text") in ("step, ms", "step, us") and page.evaluate("chart.options.scales.x.title.text") == "batch",
          page.evaluate("[chart.options.scales.y.title.text, chart.options.scales.x.title.text]"))


def use_keys(page):
    """Sorting, filtering and an experiment's config with the keyboard alone; the focus is visible, and each focusable element has a name."""
    page_of(predicted()[0])
    page.open(os.path.join(WORK, "page.html"))
    rows = "[...document.querySelectorAll('#table tbody tr')].map((r) => r.cells[0].textContent + r.cells[1].textContent).join()"
    page.tab_to("e.id === 'filter'")
    for key in "paradigm=pdp batch>4":
        page.press(key)
    page.until("rows.length === 1")
    check(page.evaluate(rows) == "pdp8", page.evaluate(rows))
    for key in " nokey=1":
        page.press(key)
    page.until("""$('found').textContent.includes('"nokey" is no key of these records')""")
    page.evaluate("$('filter').value = ''; $('filter').dispatchEvent(new Event('input'))")
    page.until("rows.length === 4")
    page.tab_to("e.closest('th') && e.textContent.startsWith('batch')")
    for direction, wanted in (("ascending", "ddp4,pdp4,ddp8,pdp8"), ("descending", "ddp8,pdp8,ddp4,pdp4")):
        page.press("Enter")
        said = page.evaluate("document.activeElement.closest('th').getAttribute('aria-sort')")
        check(page.evaluate(rows) == wanted and said == direction, page.evaluate(rows), said)
    page.tab_to("e.closest('td') && e.textContent === 'show'")
    page.press("Enter")
    page.until("$('details').open && document.activeElement.id === 'close'")
    check('"batch_size": 8' in page.evaluate("$('config').textContent"), "the config")
    page.press("Escape")
    page.until("!$('details').open && document.activeElement.textContent === 'show'")
    unnamed = page.evaluate("[...document.querySelectorAll('button, select, input, [tabindex]')].filter((e) => !e.hidden && !(e.textContent.trim() || "
                            "e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.closest('label'))).map((e) => e.outerHTML)")
    check(unnamed == [], unnamed)


def look_at_widths(page):
    """At 400 and 1,600 pixels nothing is outside the page; texts have a contrast of 4.5 to 1 in light and in dark (WCAG 2.2, 1.4.3)."""
    page_of(with_evil_name())
    contrast = """[...document.querySelectorAll('h1, p, th, td, label, button, dt')].filter((e) => e.offsetParent).map((e) => {
        const light = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
          .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        let behind = e;
        while (behind && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
        const [a, b] = [getComputedStyle(e).color, getComputedStyle(behind).backgroundColor].map(light).sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 80)]; }).filter(([ratio]) => ratio < 4.5)""".replace("\\\\", "\\")
    for width in (400, 1600):
        for dark in (False, True):
            page.open(os.path.join(WORK, "page.html"), width, dark)
            check(page.evaluate("document.documentElement.scrollWidth") <= width, "wider than the window", width)
            check(page.evaluate(contrast) == [], width, dark, page.evaluate(contrast))


def test_a_browser():
    page = Browser()
    try:
        for look in (read_numbers, draw_charts, use_keys, look_at_widths):
            look(page)
    finally:
        page.end()


def test_refusals():
    path, _ = predicted()
    check("expected RECORDS" in run("report", code=USAGE).stderr, "no records")
    check("no record meets the conditions of --where" in run("report", path, "--where", "paradigm=hsdp", code=USAGE).stderr, "none left")
    run("report", path, "-o", "nowhere/page.html", code=OUTPUT)
    run("report", "nowhere.jsonl", code=CONFIG_CODE)
    for name in (path, os.path.join(WORK, ".", "predicted.jsonl")):
        check("reads or writes that file already" in run("report", WORK, "-o", name, code=USAGE).stderr, "its own records")
    check(len(predicted()[1]) == 4, "the records are gone")
    check('an object with "plans"' in run("report", path, "--plan", "tiny.json", code=USAGE).stderr, "no plan")


def main():
    try:
        return run_all(chosen(globals()))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
