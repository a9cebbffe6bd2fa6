"""dtbench run --trace on real ranks: a step of every rank, whose rows hold together and account for the step. Prints TAP.

Usage: test_trace.py DTBENCH [CASE...]; NVTX_LISTENER names the built test/cli/nvtx_listener.c, where there is NVTX.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

from tap_cases import COMMAND_S, Skip, check, chosen, run_all
from trace_file import check_pipeline, events_of, number_of, slices_and_arrows  # beside this script

DTBENCH = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="dtbench-test-")
CONFIG = {"device": "cpu", "batch_size": 2, "model": {"layers": 2, "heads": 2, "hidden": 64, "vocab_size": 300, "block_size": 32, "dtype": "fp32"},
          "steps": {"warmup": 1, "timed": 2}, "timeout": {"init_s": 60, "step_s": 30}}


def path(name):
    return os.path.join(WORK, name)


def run(config, *arguments, code=0):
    with open(os.path.join(WORK, "config.json"), "w", encoding="utf-8") as file:
        json.dump({**CONFIG, **config}, file)
    command = [DTBENCH, "run", "config.json", "--quiet", *arguments]
    result = subprocess.run(command, cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL, check=False)
    check(result.returncode == code, f"exit code {result.returncode}, not {code}:", *arguments, "\n", result.stdout, result.stderr)
    return result


def records(name):
    with open(os.path.join(WORK, name), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def rows_of(name):
    """{(rank, row's name): spans in order}; the rows' spans must not overlap, and no row has a name twice in a rank but pipelines' links."""
    events = events_of(path(name))
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    rows = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append(event)
    for spans in rows.values():
        spans.sort(key=lambda e: e["ts"])
        for one, other in zip(spans, spans[1:]):
            check(round(1e3 * (one["ts"] + one["dur"])) <= round(1e3 * other["ts"]), "spans of a row overlap:", one, other)
    return {(rank, names[rank, thread]): spans for (rank, thread), spans in rows.items()}


def check_memory(name, record, rank):
    """The counters of a rank's memory: permanent and temporary bytes, never above the record's peak."""
    counters = [e for e in events_of(path(name)) if e["ph"] == "C" and e["pid"] == rank]
    times = [e["ts"] for e in counters]
    check(len(counters) > 3 and times == sorted(times) and {e["name"] for e in counters} == {"device memory"}, counters)
    peaks = record["metrics"]["peak_bytes"]
    held = {category: [e["args"][category] for e in counters] for category in counters[0]["args"]}
    check(all(max(held[category]) <= peaks[category] for category in held), {c: max(v) for c, v in held.items()}, peaks)
    check(len(set(held["parameters"])) == 1 and min(held["activations"]) < max(held["activations"]), held)
    return {category: max(held[category]) for category in held}


def test_ddp_shows_each_ranks_kernels_and_all_reduce():
    run({"paradigm": "ddp", "world_size": 2}, "--trace", "ddp.json", "-o", "ddp.jsonl")
    rows = rows_of("ddp.json")
    check({rank for rank, _ in rows} == {0, 1}, rows.keys())
    for rank in (0, 1):
        kernels = collections.Counter(span["name"] for span in rows[rank, "compute"])
        # Two blocks of four products, of which two each end a branch and one follows GELU, and the
        # head.
        check(kernels["linear"] == 5 and kernels["linear_residual"] == 4 and kernels["attention"] == 2, kernels)
        check(kernels["linear_weight_gradient"] == 7 and kernels["linear_gelu_weight_gradient"] == 2, kernels)
        reduced, = rows[rank, "network"]
        check(reduced["name"] == "all_reduce" and reduced["cat"] == "communication" and reduced["args"]["bytes"] > 4 * 64 * 300, reduced)
        phases = rows[rank, "phases"]
        check({"forward", "backward", "optimizer"} <= {span["name"] for span in phases}, phases)
        # The compute stream's work lies within the phases, and the phases leave no hole.
        end = max(span["ts"] + span["dur"] for span in phases)
        work = sum(span["dur"] for span in rows[rank, "compute"])
        check(0 < work <= end * 1.01 + 100, work, end)
        check(abs(sum(span["dur"] for span in phases) - (end - phases[0]["ts"])) < 0.05 * end + 10, phases)
        check_memory("ddp.json", records("ddp.jsonl")[0], rank)


def test_pipelines_fsdp_and_offload_have_their_rows():
    run({"sweep": {"paradigm": ["pdp", "fsdp"]}, "world_size": 2, "activation": "offload"}, "--trace", "both.json", "-o", "both.jsonl")
    pipeline, sharded = rows_of("both-1.json"), rows_of("both-2.json")
    check(pipeline[0, "activations"][0]["name"] == "send" and pipeline[1, "activations"][0]["name"] == "recv", pipeline.keys())
    names = {span["name"] for span in sharded[1, "network"]}
    check({"all_gather", "reduce_scatter"} <= names, names)
    copies = {span["name"] for spans in sharded.values() for span in spans if span["cat"] == "copy"}
    check({"copy_to_host", "copy_from_host"} <= copies, copies)


def passes_in_trace(kernels, kinds):
    """A letter for each pass, which runs so many kernels of its kind one after the other: kinds is {kernel: (letter, number)}."""
    kernels = [kinds[name] for name in kernels if name in kinds]
    passes = ""
    while kernels:
        letter, number = kernels[0]
        check(kernels[:number] == [kernels[0]] * number, "passes mix:", kernels[:number])
        passes, kernels = passes + letter, kernels[number:]
    return passes


def test_a_trace_shows_the_plan():
    """The kernels of every rank follow the picture of `check --plan`, pass by pass."""
    orders = {"1f1b": 2, "zb_h1": 2, "interleaved": 1}  # transformer blocks of a part
    cases = [{"pipeline": {"order": order, "split": list(range(blocks, 8, blocks))}} for order, blocks in orders.items()]
    settings = {"paradigm": "pdp", "world_size": 4, "pipeline": {"stages": 4, "chunks": 8}, "sweep": {"cases": cases},
                "model": {**CONFIG["model"], "layers": 8}, "steps": {"warmup": 0, "timed": 1}}
    run(settings, "--trace", "plan.json", "-o", "plan.jsonl")
    drawn = subprocess.run([DTBENCH, "check", "--plan", "config.json"], cwd=WORK, capture_output=True, text=True, timeout=COMMAND_S, check=True).stdout
    for number, (picture, (order, blocks)) in enumerate(zip(drawn.split("\n\n"), orders.items()), 1):
        rows, halves = rows_of(f"plan-{number}.json"), order.startswith("zb")
        lines = [line.split(maxsplit=2)[2] for line in picture.splitlines() if line.startswith("rank ")]
        check(len(lines) == 4 and order in picture, drawn)
        for rank, line in enumerate(lines):
            planned = line.upper().replace(".", "").replace("U", "").replace("BB", "B")
            kinds = {"attention": ("F", blocks), "attention_gradient": ("I" if halves else "B", blocks)}
            if halves:  # each block has four products, and the head one
                kinds["linear_weight_gradient"] = kinds["linear_gelu_weight_gradient"] = ("W", 4 * blocks + (rank == 3))
            found = passes_in_trace([span["name"] for span in rows[rank, "compute"]], kinds)
            check(found == planned, order, rank, "planned", planned, "and found", found)


SIM = {"device": "sim", "paradigm": "pdp", "world_size": 4, "pipeline": {"stages": 4, "chunks": 8, "order": "1f1b"},
       "model": {**CONFIG["model"], "layers": 8}}


def test_slices_have_numbers_and_messages_arrows():
    """On cpu and sim; there one step shows all where the host waits for its end."""
    settings = {"paradigm": "pdp", "world_size": 2, "batch_size": 4, "model": {**CONFIG["model"], "layers": 4}, "steps": {"warmup": 0, "timed": 1},
                "pipeline": {"stages": 2, "chunks": 4},
                "sweep": {"cases": [{"pipeline": {"order": "1f1b", "split": [2]}}, {"pipeline": {"order": "interleaved", "split": [1, 2, 3]}}]}}
    own = {"cluster": "clusters/dgx_h100.json", "profile": "profiles/dtbench_cuda_h100.json"}  # a framework of the past would compute more again
    for device, steps, more in (("cpu", 1, {}), ("sim", 1, own)):
        run({**settings, **more, "device": device}, "--trace", device + ".json", "-o", device + ".jsonl")
        check_pipeline(path(device + "-1.json"), steps, stages=2, parts=1, micro_batches=4, blocks=2)
        check_pipeline(path(device + "-2.json"), steps, stages=2, parts=2, micro_batches=4, blocks=1)
    run({**SIM, **own, "pipeline": {**SIM["pipeline"], "split": [2, 4, 6]}}, "--trace", "sim.json", "-o", "sim.jsonl")
    check_pipeline(path("sim.json"), 1, stages=4, parts=1, micro_batches=8, blocks=2)
    held = [check_memory("sim.json", records("sim.jsonl")[0], rank) for rank in range(4)]
    peaks = records("sim.jsonl")[0]["metrics"]["peak_bytes"]
    check(max(rank["parameters"] for rank in held) == peaks["parameters"], held, peaks)
    check(max(rank["activations"] for rank in held) > 0.5 * peaks["activations"], held, peaks)


def test_a_groups_messages_have_arrows():
    """A server sends to all workers in one group: one slice, and an arrow to each worker."""
    run({"paradigm": "parameter_server", "world_size": 3}, "--trace", "server.json", "-o", "server.jsonl")
    _, arrows = slices_and_arrows(path("server.json"))
    groups = collections.defaultdict(set)
    for source, target in arrows:
        if source["name"] == "group":
            groups[source["begin"]].add(target["pid"])
            check(source["pid"] == 0 and target["name"] == "recv" and source["args"]["bytes"] == 2 * target["args"]["bytes"], source, target)
    check(groups and all(targets == {1, 2} for targets in groups.values()), groups)
    sent = [(source, target) for source, target in arrows if source["name"] == "send"]
    check(len(sent) == 2 * len(groups) and all(target["pid"] == 0 for _, target in sent), len(sent), len(groups))


def test_micro_batches_of_other_paradigms_have_numbers():
    """Gathers and reductions have the number of the pass that they belong to."""
    run({"paradigm": "fsdp", "world_size": 2, "micro_batches": 2}, "--trace", "sharded.json", "-o", "sharded.jsonl")
    slices, _ = slices_and_arrows(path("sharded.json"))
    for name in ("attention", "attention_gradient", "all_gather"):
        numbers = {number_of(s) for s in slices if s["name"] == name}
        check(numbers == {(0, 0), (1, 0)}, name, numbers)


def test_chosen_ranks_alone_are_traced():
    run(SIM, "--trace", "some.json", "--trace-ranks", "0,2-3", "-o", "some.jsonl")
    check({rank for rank, _ in rows_of("some.json")} == {0, 2, 3}, "sim")
    pairs = {e["id"].split(" ")[-2] for e in events_of(path("some.json")) if e["ph"] in "sf"}
    check(pairs == {"2>3", "3>2"}, "an arrow needs both ranks:", pairs)
    run({"paradigm": "ddp", "world_size": 2}, "--trace", "one.json", "--trace-ranks", "1", "-o", "one.jsonl")
    check({rank for rank, _ in rows_of("one.json")} == {1}, "cpu")
    for ranks in ("4", "3-1", "1,", "x", "-1", "1-"):
        result = run(SIM, "--trace", "some.json", "--trace-ranks=" + ranks, code=3)
        check("--trace-ranks " + ranks + ": expected ranks from 0 to 3, such as 0,3,8-15" in result.stderr, ranks, result.stderr)
    run(SIM, "--trace-ranks", "0", code=2)


def test_a_trace_changes_no_number():
    """The traced step is one more: losses, steps and bytes are those of a run without it."""
    for name, arguments in (("plain.jsonl", []), ("traced.jsonl", ["--trace", "one.json"])):
        run({"paradigm": "none"}, *arguments, "-o", name)
    (plain,), (traced,) = records("plain.jsonl"), records("traced.jsonl")
    check(plain["losses"] == traced["losses"] and plain["config_hash"] == traced["config_hash"], traced)
    check(plain["metrics"]["peak_bytes"]["total"] == traced["metrics"]["peak_bytes"]["total"] and len(traced["metrics"]["step_s"]["all"]) == 2, traced)


def test_a_path_that_cannot_be_written_fails_before_anything_is_measured():
    run({"paradigm": "ddp", "world_size": 2}, "--trace", "nowhere/trace.json", "-o", "failed.jsonl", code=4)
    record, = records("failed.jsonl")
    check(record["status"] == "failed" and "nowhere/trace.json" in record["error"] and record["losses"] == [], record)


def test_a_profiler_hears_the_steps_by_their_names():
    if not os.environ.get("NVTX_LISTENER"):
        raise Skip("this build has no NVTX")
    heard = os.path.join(WORK, "ranges")
    os.environ.update(NVTX_INJECTION64_PATH=os.environ["NVTX_LISTENER"], NVTX_LISTENER_OUTPUT=heard)
    try:
        run({"paradigm": "none", "micro_batches": 2}, "-o", "heard.jsonl")
    finally:
        del os.environ["NVTX_INJECTION64_PATH"]
    with open(heard, encoding="utf-8") as file:
        lines = file.read().splitlines()
    depth, steps = 0, []
    for line in lines:
        if line.startswith("> "):
            if depth < 2:
                steps.append("  " * depth + line[2:])
            depth += 1
        else:
            depth -= 1
    check(depth == 0, "every range ends:", depth)
    while steps and not steps[0].startswith("step"):  # memory is predicted before the first
        del steps[0]
    step = ["  forward 0", "  backward 0", "  forward 1", "  backward 1", "  end of step"]
    check(steps == ["step 1", *step, "step 2", *step, "step 3", *step], steps)


if __name__ == "__main__":
    try:
        FAILED = run_all(chosen(globals()))
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(FAILED)
