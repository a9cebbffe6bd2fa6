"""Is dtbench right on this GPU? The checks of scripts/first_gpu's parts A and C. Each returns what it has seen in a few words, or raises."""
import json
import os
import re
import signal
import sys
import time

from gpu.machine import answer_of, find_tool
from gpu.runner import Failed, OutOfTime, Skipped, descendants, end, last_line

PARADIGMS = ("ddp", "pdp", "fsdp", "zero1", "zero2", "hsdp", "data_parallel", "parameter_server")
# How far losses on the GPU may be from the CPU's, of their value. fp16 and bf16 round each
# product's result once in both, but in another order of sums, and ten steps carry that on: about
# one rounding of the type.
LOSS_BOUNDS = {"fp32": 1e-4, "fp16": 1e-3, "bf16": 8e-3}
TINY = json.loads(os.environ.get("FIRST_GPU_MODEL", "{}"))  # a test has a smaller one
MODEL = {"layers": 4, "heads": 4, "hidden": 128, "vocab_size": 1000, "block_size": 64, "dropout": 0.1, **TINY}
BATCH = 4  # of a rank
TIMEOUTS = {"init_s": 60, "step_s": 20}
LLAMA = {"layers": 4, "heads": 8, "hidden": 256, "kv_heads": 2, "mlp": "swiglu", "ffn": 704, "norm": "rms", "position": "rope", "bias": "none",
         "vocab_size": 1000, "block_size": 128}
# Of groups of four samples and slow steps: faster ones drive trainings apart that differ by a
# rounding.
RESNET = {"blocks": {"c2": 1, "c3": 1, "c4": 2, "c5": 1}, "channels": 8, "image_size": 48, "classes": 10, "norm_group": 4}


def small(dtype, samples):
    return {"batch_size": samples, "model": {**MODEL, "dtype": dtype}}


def preset(name, dtype, samples, steps):
    return {"batch_size": samples, "steps": {"warmup": 1, "timed": steps - 1},
            "model": {"preset": name, "vocab_size": 50000, "block_size": 256, "dropout": 0.1, "dtype": dtype}}


# What the CPU computes for comparison, where the archive is packed: on one device, whatever number
# of ranks shares the samples on GPUs. The third step is captured as a graph, and replayed from the
# fourth on.
COMPARED = {f"small {dtype}, {BATCH * ranks} samples": small(dtype, BATCH * ranks) for dtype in LOSS_BOUNDS for ranks in (1, 2, 4)}
COMPARED.update({f"Llama {dtype}": {"batch_size": 4, "model": {**LLAMA, "dtype": dtype}} for dtype in LOSS_BOUNDS})
COMPARED.update({f"GPTSmall {dtype}": preset("GPTSmall", dtype, 2, 5) for dtype in ("bf16", "fp32")})
COMPARED["ResNet fp32"] = {"batch_size": 4, "model": {**RESNET, "dtype": "fp32"}, "optimizer": {"name": "sgd", "learning_rate": 0.001}}
COMPARED["GPTLarge bf16"] = preset("GPTLarge", "bf16", 1, 4)


def experiment(name, config):
    return {"name": name.replace(" ", "_").replace(",", "")[:63], "steps": {"warmup": 4, "timed": 1 if TINY else 6}, "timeout": TIMEOUTS, **config}


def records_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except OSError:
        return []


class Checks:
    def __init__(self, runner, programs, options, environment, machine):
        self.runner, self.programs, self.options, self.environment, self.there = runner, programs, options, environment, machine
        self.cpu = {}  # losses by name
        if os.path.exists(programs.losses):
            with open(programs.losses, encoding="utf-8") as file:
                self.cpu = json.load(file)

    # ---- what there is ----

    def machine(self):
        for log, command in (("nvidia-smi", ["nvidia-smi"]), ("nvidia-smi-q", ["nvidia-smi", "-q"]), ("nvidia-smi-topo", ["nvidia-smi", "topo", "-m"]),
                             ("cpu", ["lscpu"]), ("limits", ["sh", "-c", "ulimit -a; df -h; uname -a; env"]), ("list", [self.programs.dtbench, "list"])):
            try:
                self.runner.call(log, command, 30, self.environment)
            except OSError:
                pass  # not here
        if self.there.needed:
            raise Failed("; ".join(f"no {name}: {self.there.missing[name]}" for name in self.there.needed))
        return f"{self.there.gpu}; {self.there.nccl}"

    def driver_at_end(self):
        """What the driver says of the GPU after all, and the faults that it has put down in the kernel's log."""
        self.runner.heading += [line for line in answer_of("dmesg")[1].splitlines() if "NVRM: Xid" in line][-8:]
        with open(self.runner.path("nvidia-smi-q_at_end.log"), "w", encoding="utf-8") as file:
            file.write(answer_of("nvidia-smi", "-q")[1])

    # ---- test programs ----

    def program(self, name):
        found = self.programs.test(name)
        if not found:
            raise Failed(f"{name} is missing in {self.programs.tests}")
        return found

    def test(self, name, wrapper=(), log=None, ranks=0, **variables):
        """Its cases; ranks: started so many times, as ranks of one world."""
        environment = {**self.environment, **variables, "DTBENCH_TEST_DEVICE": self.options.device, "DTBENCH_SOURCE_ROOT": self.options.root}
        starter = [sys.executable, os.path.join(self.options.root, "test/run_ranks.py"), str(ranks)] if ranks else []
        log = log or name + (f"_{ranks}" if ranks else "")
        try:
            status, said = self.runner.call(log, [*wrapper, *starter, self.program(name)], environment=environment)
        except OutOfTime as problem:
            said = self.runner.text(self.runner.path(log + ".log"))
            raise OutOfTime(f"{self.count(said)}, then: {problem}") from None
        bad = [line for line in said.splitlines() if line.startswith("not ok") or ("ERROR SUMMARY" in line and " 0 errors" not in line)]
        if status != 0 or bad:
            first = next((line for line in said.splitlines() if re.match(r"# \S+:\d+: |Bail out!", line)), "")
            raise Failed(f"{self.count(said)}; {bad[0] if bad else f'exit status {status}: {last_line(said)}'}; {first[:300]}")
        if not re.search(r"^ok (?!.*# SKIP)", said, re.MULTILINE):
            raise Failed(f"no case was run: {last_line(said)}")
        return self.count(said)

    @staticmethod
    def count(said):
        lines = said.splitlines()
        skipped, errors = sum("# SKIP" in line for line in lines), sum(line.startswith("========= ") and "rror" in line for line in lines)
        return (f"{sum(line.startswith('ok ') for line in lines) - skipped} passed, {skipped} skipped"
                + (f", {errors} lines of the sanitizer's with errors" if errors else ""))

    def sanitize(self, name, tool):
        """Each buffer is an allocation of its own, and the kernels' arrays are on the device: of pieces of a larger one, and of memory of the
        host's, the sanitizer does not see where they end."""
        sanitizer = find_tool("compute-sanitizer")
        if not sanitizer:
            raise Skipped("compute-sanitizer is not here")
        return self.test(name, (sanitizer, "--error-exitcode", "9", "--tool", tool), f"{name}_{tool}", DTBENCH_SEPARATE_BUFFERS="1")

    # ---- dtbench ----

    def run(self, name, config, *arguments, codes=(0,)):
        """Records of a config, in its order; those that there are until the time is over."""
        name = name.replace(" ", "_").replace(",", "")
        path, records = self.runner.path(f"{name}.json"), self.runner.path(f"{name}.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(experiment(name, {"batch_size": BATCH, **config}), file, indent=1)
        status, said = self.runner.call(name, [self.programs.dtbench, "run", path, "--output", records, "--quiet", *arguments], environment=self.environment)
        if status not in codes:
            bad = next((f"{r['status']}: {r['error']}" for r in records_of(records) if r["status"] != "ok"), last_line(said))
            raise Failed(f"dtbench: exit code {status}: {bad}")
        return records_of(records)

    def on_gpu(self, name, config, *arguments, codes=(0,)):
        return self.run(name, {"device": self.options.device, **config}, *arguments, codes=codes)

    def cpu_losses(self, name):
        """Those that came with the archive; where this dtbench has a cpu device, its own."""
        if name not in self.cpu:
            (record,) = self.run(f"cpu {name}", {"device": "cpu", **COMPARED[name]})
            self.cpu[name] = record["losses"]
        return self.cpu[name]

    @staticmethod
    def far(here, there, dtype):
        """How far losses are from the CPU's, at most; Failed: too far."""
        worst = max(abs(a - b) / abs(b) for a, b in zip(here, there)) if there else float("nan")
        if len(here) != len(there) or not worst <= LOSS_BOUNDS[dtype]:
            raise Failed(f"{len(here)} losses, {len(there)} of the CPU; off by {worst:.2g}, and the bound is {LOSS_BOUNDS[dtype]:g}")
        return worst

    def losses_as_on_cpu(self, name):
        dtype = COMPARED[name]["model"]["dtype"]
        (record,) = self.on_gpu(f"gpu {name}", COMPARED[name])
        worst = self.far(record["losses"], self.cpu_losses(name), dtype)
        self.bytes_as_predicted(record)
        return f"off by {worst:.2g} at most (bound {LOSS_BOUNDS[dtype]:g}); graph: {record['provenance']['graph']}"

    def graph_changes_nothing(self):
        (on,), (off,) = (self.on_gpu(f"graph_{word}", {**small("fp16", BATCH), "graph": word == "on"}) for word in ("on", "off"))
        if on["losses"] != off["losses"]:
            raise Failed(f"losses differ: {on['losses'][-1]} and {off['losses'][-1]}")
        return f"the record says: {on['provenance']['graph']}"

    def early_launch_changes_nothing(self):
        """Kernels that do not wait for those before them would race: the same bits, replayed and queued."""
        records = self.on_gpu("early", {**small("fp16", BATCH), "sweep": {"graph": [True, False], "early_launch": [False, True]}})
        if any(r["losses"] != records[0]["losses"] for r in records):
            raise Failed(f"losses differ: {[r['losses'][-1] for r in records]}")
        return f"{len(records)} runs with the same losses"

    def warpgroups_as_on_cpu(self, name):
        """Hopper's own kernels: the CPU's losses, as with those of all GPUs."""
        dtype = COMPARED[name]["model"]["dtype"]
        (record,) = self.on_gpu(f"warpgroups {name}", {**COMPARED[name], "warpgroup_kernels": True})
        return f"off by {self.far(record['losses'], self.cpu_losses(name), dtype):.2g} at most (bound {LOSS_BOUNDS[dtype]:g})"

    def tuned_twice(self):
        """dtbench tune's file decides every product, and two runs with it give the same bits."""
        path, config = self.runner.path("tuning_small.json"), self.runner.path("tune.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"name": "tune", "device": self.options.device, **small("fp16", BATCH)}, file)
        status, said = self.runner.call("tune", [self.programs.dtbench, "tune", config, "--output", path], environment=self.environment)
        if status != 0:
            raise Failed(f"dtbench tune: {last_line(said)}")
        (one,), (two,) = (self.on_gpu(f"tuned_{number}", {**small("fp16", BATCH), "tuning": path}) for number in (1, 2))
        facts = one["provenance"]["tuning"]
        if one["losses"] != two["losses"] or facts["undecided"]:
            raise Failed(f"losses {one['losses'][-1]} and {two['losses'][-1]}; {facts['undecided']} products that the file does not know")
        return last_line(said).partition("; written")[0]

    def paradigms(self, ranks, dtype, graph, names=PARADIGMS, **more):
        """Losses as the CPU's, bytes as predicted. What is not well with one paradigm does not hide the others."""
        name = "_".join(["ranks", str(ranks), dtype, "graph" if graph else "queued", *names[:1], *more])
        config = {"world_size": ranks, "model": {**MODEL, "dtype": dtype}, "share_gpus": self.there.count() < ranks, "graph": graph,
                  "graph_in_pipelines": graph and names == ("pdp",), "sweep": {"paradigm": list(names)}, **more}
        wanted = self.cpu_losses(f"small {dtype}, {BATCH * ranks} samples")
        path, over = self.runner.path(f"{name}.jsonl"), ""
        try:
            self.on_gpu(name, config, codes=(0, 4, 5))
        except OutOfTime as problem:
            over = str(problem)
        well, bad, worst = 0, [], 0.0
        for record in records_of(path):
            paradigm = record["config"]["paradigm"]
            if over and record["status"] == "interrupted":
                continue  # by the limit
            try:
                if record["status"] != "ok":
                    raise Failed(f"{record['status']}: {record['error']}")
                worst = max(worst, self.far(record["losses"], wanted, dtype))
                if not over:
                    self.bytes_as_predicted(record)
                well += 1
            except Failed as problem:
                bad.append(f"{paradigm}: {problem}")
        said = f"{well} of {len(names)} as they should be, losses off by {worst:.2g} at most"
        if bad or (well < len(names) and not over):
            raise Failed("; ".join([said, *bad]))
        if over:
            raise OutOfTime(f"{said}; {over}")
        return said

    def bytes_as_predicted(self, record):
        path = self.runner.path("predicted.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(record["config"], file)
        status, said = self.runner.call("predicted", [self.programs.dtbench, "check", path, "--json"], 60, self.environment, apart=True)
        if status not in (0, 5):
            raise Failed(f"dtbench check: exit code {status}: {last_line(said)}")
        predicted, held = json.loads(said)[0]["predicted_peak_bytes"]["total"], record["metrics"]["peak_bytes"]["total"]
        if predicted != held:
            raise Failed(f"{record['config']['paradigm']}: peak {held:,} bytes, predicted {predicted:,}")

    def memory_end(self):
        config = {"model": {**MODEL, "dtype": "fp16", "block_size": 16 * MODEL["block_size"]}, "sweep": {"batch_size": [65536, 1]}}
        records = self.on_gpu("oom", config, codes=(5,))
        if [r["status"] for r in records] != ["oom", "ok"]:
            raise Failed(", ".join(f"{r['status']}: {r['error']}" for r in records))
        return records[0]["error"]

    def lost_rank(self, paradigm, number):
        """A rank that gets this signal while two train without end: the record says which, within moments for one that is killed, and within the
        step's timeout for one that is stopped: outside a graph, of which nobody knows how far it is."""
        import subprocess  # only here a program is watched while it runs
        name = f"lost_{paradigm}_{number}"
        path, records = self.runner.path(f"{name}.json"), self.runner.path(f"{name}.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(experiment(name, {"device": self.options.device, "world_size": 2, "paradigm": paradigm, "share_gpus": self.there.count() < 2,
                                        **small("fp16", BATCH), "steps": {"warmup": 1, "timed": 1000000}, "graph": number == signal.SIGKILL,
                                        "timeout": {**TIMEOUTS, "step_s": 10}}), file)
        with open(self.runner.path(name + ".log"), "wb") as log:
            self.runner.logs.append(log.name)
            process = subprocess.Popen([self.programs.dtbench, "run", path, "--output", records, "--quiet"], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, env=self.environment, start_new_session=True)
        try:
            victim = self.rank_1(process)
            os.kill(victim, number)
            start = time.monotonic()
            process.wait(max(1, min(60, self.runner.left_s())))
            took = time.monotonic() - start
        except subprocess.TimeoutExpired:
            raise Failed("dtbench goes on without the rank") from None
        finally:
            end(process)
        found = records_of(records)
        if not found or found[0]["status"] not in ("failed", "timeout") or "rank 1" not in (found[0]["error"] or ""):
            raise Failed(f"after {took:.1f} s: {found[0]['status'] + ': ' + str(found[0]['error']) if found else 'no record'}")
        return f"after {took:.1f} s, {len(found[0]['losses'])} losses kept: {found[0]['error']}"

    def rank_1(self, process):
        """Its number, once the ranks have trained for a while."""
        begin = time.monotonic()
        while time.monotonic() - begin < min(12, self.runner.left_s() / 2):
            if process.poll() is not None:
                raise Failed(f"dtbench ended by itself with exit code {process.returncode}")
            time.sleep(0.2)
        for pid in descendants(process.pid):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if b"\0RANK=1\0" in b"\0" + file.read():
                        return pid
            except OSError:
                pass
        raise Failed("no rank 1 among the processes that dtbench started")


def make_losses(dtbench, path, runner):
    """cpu_losses.json of an archive: what is compared, computed by a dtbench that has the cpu device."""
    losses = {}
    for name, config in COMPARED.items():
        plain = name.replace(" ", "_").replace(",", "")
        given, records = runner.path(f"{plain}.json"), runner.path(f"{plain}.jsonl")
        with open(given, "w", encoding="utf-8") as file:
            json.dump({**experiment(name, config), "device": "cpu", "timeout": {"init_s": 600, "step_s": 600}}, file)
        status, said = runner.call(plain, [dtbench, "run", given, "--output", records, "--quiet"])
        found = records_of(records)
        if status != 0 or not found or found[0]["status"] != "ok":
            raise Failed(f"{name}: exit code {status}: {last_line(said)}")
        losses[name] = found[0]["losses"]
        print(f"cpu_losses: {name}: {losses[name][0]:.4f} to {losses[name][-1]:.4f}", file=sys.stderr, flush=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(losses, file, indent=1)
        file.write("\n")
