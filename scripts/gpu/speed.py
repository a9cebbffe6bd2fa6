"""How fast is dtbench on this GPU? Part B of scripts/first_gpu; the comparison itself is scripts/benchmark_gpu's."""
import csv
import json
import os
import re
import shutil

from gpu.checks import TINY
from gpu.machine import find_tool
from gpu.runner import Failed, OutOfTime, Skipped, last_line

# What ncu counts of a kernel. Source: Nsight Compute's manual, "Metrics Reference".
COUNTED = ("gpu__time_duration.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
           "sm__inst_executed_pipe_tensor.sum", "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread",
           "launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem", "l1tex__data_bank_conflicts_pipe_lsu.sum",
           "lts__t_bytes.sum", "dram__bytes.sum")
STEPS = {"warmup": 4, "warmup_s": 2, "timed": 10}
LARGE = {"preset": "GPTLarge", "vocab_size": 50000, "block_size": 256, "dtype": "fp16", "dropout": 0.1}
SHALLOW = {"layers": 2, "heads": 16, "hidden": 1536, "vocab_size": 50000, "block_size": 256, "dtype": "fp16", "dropout": 0.1}  # GPTLarge's kernels


class Speed:
    def __init__(self, checks, torch):
        """torch: the interpreter that has PyTorch, or None."""
        self.checks, self.runner, self.torch, self.options = checks, checks.runner, torch, checks.options

    def config(self, model, batch_size, **changes):
        """A step of it; `changes`: of other keys than the model's, and its block_size."""
        block_size = {"block_size": changes.pop("block_size")} if "block_size" in changes else {}
        if TINY:
            batch_size, model = 1, {**TINY, "dtype": "fp16", "dropout": 0.1}
        return {"device": self.options.device, "batch_size": batch_size, "steps": {"warmup": 0, "timed": 1} if TINY else STEPS,
                "model": {**model, **block_size}, **changes}

    def written(self, name, *arguments, **changes):
        """A file with config()."""
        path = self.runner.path(f"{name}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"name": name, **self.config(*arguments, **changes)}, file)
        return path

    def steps(self, name, *arguments, **changes):
        """[(config, median ms, record)] of what config() has."""
        records = self.checks.run(name, self.config(*arguments, **changes))
        return [(r["config"], 1e3 * r["metrics"]["step_s"]["median"], r) for r in records]

    def bench(self, name, *arguments):
        """One of the programs that measure; the lines that say how a whole step is."""
        status, said = self.runner.call("_".join([name, *arguments]), [self.checks.program(name), *arguments], environment=self.checks.environment)
        if status != 0:
            raise Failed(f"exit status {status}: {last_line(said)}")
        return "; ".join(line.strip() for line in said.splitlines() if re.search(r"limits:|attention( gradient)?, T|a step of these|all of a step", line)) or last_line(said)

    def tune(self):
        path = self.runner.path("tuning.json")
        command = [self.checks.programs.dtbench, "tune", self.written("large_20", LARGE, 20), self.written("large_64", LARGE, 64), "--output", path]
        status, said = self.runner.call("tune_large", command, environment=self.checks.environment)
        if status != 0:
            raise Failed(f"exit status {status}: {last_line(said)}")
        shutil.copy(path, self.runner.path("tuning_done.json"))  # a run never gets a half of one
        return last_line(said)

    def versus(self, case, limit_s):
        """benchmark_gpu on one case. Its table is in the log; here the times and the ratios of it."""
        log, output = "benchmark_" + case.replace(":", "_"), self.runner.path("benchmark_" + case.replace(":", "_") + ".json")
        tuning = self.runner.path("tuning_done.json")
        command = [self.torch or "python3", os.path.join(self.options.root, "scripts/benchmark_gpu"), "--dtbench", self.checks.programs.dtbench,
                   "--device", self.options.device, "--cases", case, "--rounds", "1", "--ranks", "1", "--limit", str(limit_s), "--output", output,
                   *self.options.benchmark]
        command += ["--tuning", tuning] if case.startswith("GPTLarge") and os.path.exists(tuning) else []
        if not self.torch:
            raise Skipped("no python3 here has PyTorch")
        try:
            status, said = self.runner.call(log, command, environment=self.checks.environment)
        except OutOfTime:  # it ends in order, with the table of what it has
            said, status = self.runner.text(self.runner.path(log + ".log")), None
        keys = r"(?:dtbench(?:, tuned)?, step, ms|PyTorch .*tokens/s|dtbench / PyTorch|model FLOPs|PyTorch .*: |dtbench.*: )"
        table = said[said.find(" rounds of "):]
        found = "; ".join(re.sub(r"  +", " ", line.strip()) for line in table.splitlines() if re.match(rf"  +{keys}", line))
        if status is None:
            raise OutOfTime(found or "no table")
        if status != 0 or re.search(r"^  (?:PyTorch|dtbench)[^:]*: ", table, re.MULTILINE):
            raise Failed(found or last_line(said))
        return found

    def dtbench_alone(self):
        """Without PyTorch: a step of ours."""
        ((_, ms, record),) = self.steps("alone", LARGE, 20)
        return f"{ms:.2f} ms a step, {record['metrics']['tokens_per_s']:,.0f} tokens/s; graph: {record['provenance']['graph']}"

    def ways(self):
        """Steps with one kernel for the work of several and without, and with what is cheap to make again made again and kept."""
        return "; ".join(f"{'in one' if given.get('fused_kernels', True) else 'one by one'}, {given.get('keep_cheap', 'nothing')} kept {ms:.2f} ms, "
                         f"{record['metrics']['peak_bytes']['total'] / 2**30:.2f} GiB" for given, ms, record in
                         self.steps("ways", LARGE, 20, sweep={"fused_kernels": [True, False], "keep_cheap": ["nothing", "norms", "mlp", "all"]}))

    def early(self):
        """Steps whose kernels are launched while those in front of them run, and not; replayed and queued."""
        return "; ".join(f"{'early' if given.get('early_launch') else 'one after the other'}, {'replayed' if given['graph'] else 'queued'} {ms:.2f} ms"
                         for given, ms, _ in self.steps("early_large", LARGE, 20, sweep={"graph": [True, False], "early_launch": [False, True]}))

    def warpgroups(self):
        """Steps with Hopper's own kernels and with those of all GPUs, with samples of 256 and of 2,048 tokens: nearly as many in a step."""
        return "; ".join(f"T {given['model']['block_size']}, {'warpgroups' if given['warpgroup_kernels'] == 'always' else 'mma.sync'} {ms:.2f} ms"
                         for T, batch in ((256, 20), (2048, 2))
                         for given, ms, _ in self.steps(f"warpgroups_{T}", LARGE, batch, block_size=T // 32 if TINY else T,
                                                        sweep={"warpgroup_kernels": [False, True]}))

    def counters(self):
        """ncu: each kernel of a step once; the five that take the longest."""
        ncu = find_tool("ncu")
        if not ncu:
            raise Skipped("ncu is not here")
        # Of few layers: ncu keeps and restores the memory that a kernel writes for each of its
        # passes.
        config = self.written("large_ncu", SHALLOW, 20, steps={"warmup": 0, "timed": 1}, graph=False)
        command = [ncu, "--target-processes", "all", "--clock-control", "none", "--kernel-id", ":::2", "--metrics", ",".join(COUNTED), "--csv", "--page", "raw",
                   self.checks.programs.dtbench, "run", config, "--output", self.runner.path("ncu.jsonl"), "--quiet"]
        status, said = self.runner.call("ncu", command, environment=self.checks.environment)
        lines = said.splitlines()
        begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
        if begin is None:
            raise Failed(f"exit status {status}; no table: {last_line(said)}")
        rows = [r for r in csv.DictReader(lines[begin:]) if (r.get("ID") or "").isdigit()]
        rows.sort(key=lambda r: -float((r.get(COUNTED[0]) or "0").replace(",", "")))
        with open(self.runner.path("ncu_longest.json"), "w", encoding="utf-8") as file:
            json.dump(rows[:5], file, indent=1)
        return f"{len(rows)} kernels; " + "; ".join(f"{r.get('Kernel Name', '?')[:40]} {r.get(COUNTED[0])}" for r in rows[:5])
