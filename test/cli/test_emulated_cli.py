"""The command on emulated GPUs: ranks started without MPI, and their failures. Prints TAP.

Usage: test_emulated_cli.py DTBENCH_EMULATED [CASE...]. No mpirun is on the PATH here.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys

from command import (CONFIG, DTBENCH, ENDS_S, ENVIRONMENT, FAILED, FOREVER, OK, OOM, WORK, Started, config, main, ranks_of, read_records, records_path,
                     run)  # beside this script
from tap_cases import COMMAND_S, check
from trace_file import check_pipeline, events_of

ENVIRONMENT["PATH"] = "/nowhere"
ENVIRONMENT["DTBENCH_EMULATED_GPUS"] = "4"
ENVIRONMENT["DTBENCH_POISON"] = "1"
FULL_BYTES = 40 << 20  # the pool takes 32 MiB for the parameters and one sample, and the activations of 768 do not fit
TINY = {"layers": 2, "heads": 2, "hidden": 32, "vocab_size": 64, "block_size": 8, "dtype": "fp32"}
LONGER = {**TINY, "vocab_size": 100, "block_size": 16}  # an experiment that does not fit is never run
SCHEMAS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "configs", "schema")


def gpus(**changes):
    return config("gpus.json", **{"device": "cuda", "model": TINY, **changes})


def validate(record):
    try:
        import jsonschema  # pylint: disable=import-outside-toplevel
    except ImportError:
        return
    schemas = {}
    for name in ("record", "metrics", "config"):
        with open(os.path.join(SCHEMAS, name + ".schema.json"), encoding="utf-8") as text:
            schemas[name] = json.load(text)
    schemas["record"]["properties"]["metrics"] = schemas["metrics"]
    schemas["record"]["properties"]["config"] = True  # the other one's
    jsonschema.validate(record, schemas["record"])
    jsonschema.validate(record["config"], schemas["config"])


def test_paradigms_on_one_two_and_four_gpus():
    """The same global batch on each, so that one cpu run has the losses of all."""
    output = records_path("paradigms.jsonl")
    for world, paradigms in ((1, ["none"]), (2, ["ddp", "pdp"]), (4, ["pdp", "fsdp", "zero2"])):
        run("run", gpus(world_size=world, batch_size=4 // world, sweep={"paradigm": paradigms}), "-o", output, "-q", code=OK)
    records = read_records(output)
    run("run", gpus(device="cpu", world_size=1, batch_size=4, sweep=None), "-o", records_path("cpu.jsonl"), "-q", code=OK)
    cpu, = read_records(os.path.join(WORK, "cpu.jsonl"))
    validate(records[-1])
    for record in records:
        check(record["status"] == "ok", record["error"])
        far = max(abs(a / b - 1) for a, b in zip(record["losses"], cpu["losses"]))
        check(far < 1e-5 and len(record["losses"]) == 4, record["config"]["paradigm"], record["losses"], cpu["losses"])
        where = record["provenance"]
        check(where["device"] == "cuda" and where["device_name"] == "emulated GPU" and where["launcher"] == "none" and where["driver"], where)
        check(where["rank_proof"] == ("variable" if record["config"]["world_size"] > 1 else None), where["rank_proof"])
        check(len(set(where["gpus"])) == record["config"]["world_size"], "a GPU each:", where["gpus"])
    check(records[0]["metrics"]["peak_bytes"]["total"] == cpu["metrics"]["peak_bytes"]["total"], "the cpu's bytes")
    check("NCCL" in records[-1]["provenance"]["versions"] and "NCCL" not in records[0]["provenance"]["versions"], "libraries")


def test_calibration():
    """Calibration of emulated GPUs: device sim can read its files. Times here say nothing about a real GPU."""
    folder = os.path.join(WORK, "calibration")
    said = run("calibrate", "--device", "cuda", "--quick", "--ranks", "1,2", "--dtype", "fp32", "-o", folder, code=OK).stdout
    check("kernels and" in said, said)
    with open(os.path.join(folder, "cluster.json"), encoding="utf-8") as file:
        cluster = json.load(file)
    with open(os.path.join(folder, "profile.json"), encoding="utf-8") as file:
        profile = json.load(file)
    gpu, collectives = cluster["gpu"], cluster["collectives"]
    check(gpu["name"] == "emulated GPU" and gpu["memory_gib"] == 4 and gpu["peak_tflops"]["fp32"] > 0 and gpu["architecture"] == "ampere", gpu)
    check(cluster["gpus_per_node"] == 2 and cluster["pcie"]["gb_per_s"] > 0 and cluster["nvlink"]["gb_per_s"] > 0, cluster)
    check("on emulated GPU" in cluster["source"] and "on emulated GPU" in gpu["source"] and "processors" not in cluster["source"], cluster["source"])
    check(collectives["library"] == "nccl" and "NCCL" in collectives["source"], collectives)
    check({entry["kind"] for entry in collectives["measured"]} == {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "message"}
          and {entry["ranks"] for entry in collectives["measured"]} == {2}, collectives["measured"])
    check(profile["gpu"] == "emulated" and profile["basis"] == "measured here" and profile["measured"], profile["gpu"])
    check({(entry["ranks"], entry["alone_s"] == entry["together_s"]) for entry in profile["measured"]} == {(1, True)}, "a GPU each")
    sim = ["--device", "sim", "--set", f"cluster={folder}/cluster.json", "--set", f"profile={folder}/profile.json"]
    output = records_path("predicted.jsonl")
    run("run", gpus(world_size=2, sweep={"paradigm": ["ddp", "pdp", "fsdp"]}), *sim, "-o", output, "-q", code=OK)
    check([(r["status"], r["metrics"]["step_s"]["median"] > 0) for r in read_records(output)] == [("ok", True)] * 3, read_records(output))
    text = run("check", gpus(world_size=4, sweep=None, paradigm="ddp"), *sim, code=CONFIG).stderr
    check("has 2 (1 node of 2)" in text, text)
    run("check", gpus(world_size=2, sweep=None, paradigm="ddp", threads=3), *sim, code=OK)
    text = run("calibrate", "--device", "cuda", "--threads", "2", code=2).stderr
    check("--threads: only with --device cpu" in text, text)
    text = run("calibrate", "--device", "sim", code=2).stderr
    check("--device sim: expected cpu or cuda" in text, text)
    text = run("calibrate", "--device", "cuda", "-o", folder, code=CONFIG, environment={"DTBENCH_EMULATED_GPUS": "0"}).stderr
    check('device "cuda" is not available' in text, text)


def test_list_and_auto():
    text = run("list", code=OK).stdout
    check(re.search(r"^cuda +yes +4 x emulated GPU, 4 GiB; driver ", text, re.M) and re.search(r"^nccl +yes ", text, re.M), text)
    for environment, device in (({}, "cuda"), ({"DTBENCH_EMULATED_GPUS": "0"}, "cpu"), ({"CUDA_VISIBLE_DEVICES": ""}, "cpu")):
        output = records_path("auto.jsonl")
        result = run("run", gpus(device="auto", world_size=1, sweep=None), "-o", output, "-q", code=OK, environment=environment)
        check(read_records(output)[0]["provenance"]["device"] == device and not result.stderr, environment, result.stderr)
    text = run("run", gpus(world_size=1, sweep=None), code=CONFIG, environment={"CUDA_VISIBLE_DEVICES": ""}).stderr
    check('CUDA_VISIBLE_DEVICES=""' in text and len(text.splitlines()) == 1, text)


def test_a_trace_has_one_clock():
    """Marks are on a GPU's own clock: the ranks' rows are on one all the same, and say how exactly; so messages go forwards."""
    trace = os.path.join(WORK, "trace.json")
    run("run", gpus(paradigm="pdp", world_size=2, sweep=None, batch_size=4, model={**TINY, "layers": 4},
                    pipeline={"stages": 2, "chunks": 4, "order": "interleaved", "split": [1, 2, 3]}, steps={"warmup": 0, "timed": 1}),
        "-q", "--trace", trace, "-o", records_path("traced.jsonl"), code=OK)
    check_pipeline(trace, 1, stages=2, parts=2, micro_batches=4, blocks=1)
    names = [e["args"]["name"] for e in events_of(trace) if e["ph"] == "M" and e["name"] == "process_name"]
    check(len(names) == 2 and all(re.fullmatch(r"rank \d \(.+, times to \d+\.\d us\)", name) for name in names), names)


def test_a_full_gpu_is_a_result():
    small = {"DTBENCH_EMULATED_GPU_BYTES": str(128 << 20)}
    output = records_path("oom.jsonl")
    path = gpus(sweep={"batch_size": [8192, 1]}, paradigm="ddp", model=LONGER)
    result = run("run", path, "-o", output, code=OOM, environment=small)
    records = read_records(output)
    check([r["status"] for r in records] == ["oom", "ok"], [(r["status"], r["error"]) for r in records], result.stderr)
    check(re.match(r"rank 0 needs .* and of the GPU's 128 MiB buffers can have", records[0]["error"]), records[0]["error"])
    text = run("check", path, code=OOM, environment=small).stdout
    check(re.search(r"note: experiment 1: will run out of memory: rank 0 needs .*, and a GPU here \(emulated GPU\) has 128 MiB", text), text)


def test_one_gpu_that_is_full_in_mid_step():
    """The other ranks wait in a collective: they report the same error, and the record's status is oom."""
    output = records_path("full.jsonl")
    run("run", gpus(sweep={"batch_size": [768, 1]}, paradigm="ddp", model=LONGER, steps={"warmup": 0, "timed": 1}), "-o", output, "-q", code=OOM,
        environment={"DTBENCH_EMULATED_FULL_GPU": f"1:{FULL_BYTES}"})
    full, small = read_records(output)
    check(full["status"] == "oom" and "rank 1" in full["error"] and "CUDA refuses" in full["error"] and "buffers hold 0" not in full["error"], full["status"], full["error"])
    check(small["status"] == "ok", small["error"])


def test_a_gpu_that_fails_for_good():
    """CUDA's error stays in the process: the next experiment has new processes."""
    output = records_path("bad.jsonl")
    run("run", gpus(sweep={"steps.timed": [50, 1]}, paradigm="ddp", world_size=2), "-o", output, "-q", code=FAILED,
        environment={"DTBENCH_EMULATED_BAD_GPU": "1:500"})
    bad, next_one = read_records(output)
    check(bad["status"] == "failed" and "rank 1" in bad["error"] and "a launch failed" in bad["error"], bad["status"], bad["error"])
    check(bad["losses"] and next_one["status"] == "ok", "steps before it failed, and the next experiment:", bad["losses"], next_one["error"])


def test_heads_that_are_too_wide_for_the_gpu():
    """Compute capability 8.6 gives a block 99 KiB of shared memory: the experiment ends before its first step, and says what to do."""
    ENVIRONMENT["DTBENCH_EMULATED_GPU_SHARED_KIB"] = "99"
    try:
        output = records_path("wide.jsonl")
        wide = {**TINY, "heads": 1, "dtype": "fp16"}
        run("run", gpus(world_size=1, sweep={"model.hidden": [64, 256]}, model=wide, steps={"warmup": 0, "timed": 1}), "-o", output, "-q", code=FAILED)
    finally:
        del ENVIRONMENT["DTBENCH_EMULATED_GPU_SHARED_KIB"]
    narrow, wide = read_records(output)
    check(narrow["status"] == "ok", narrow["error"])
    check(wide["status"] == "invalid" and "132 KiB" in wide["error"] and "99 KiB" in wide["error"] and "model.heads" in wide["error"], wide["error"])


def test_more_ranks_than_gpus():
    output = records_path("shared.jsonl")
    one = {"DTBENCH_EMULATED_GPUS": "1"}
    result = run("run", gpus(sweep=None, paradigm="ddp"), "-o", output, code=CONFIG, environment=one)
    check("2 ranks, and this machine has 1 GPU for them" in result.stderr and len(result.stderr.splitlines()) == 1, result.stderr)
    check(not os.path.exists(output), "something was written")
    run("run", gpus(sweep=None, paradigm="ddp"), "-o", output, "-q", "--verify", "--set", "share_gpus=true", code=OK, environment=one)
    record, = read_records(output)
    check(record["config"]["share_gpus"] and len(record["provenance"]["gpus"]) == 2 and len(set(record["provenance"]["gpus"])) == 1,
          record["provenance"]["gpus"])


def test_a_killed_rank():
    for victim in (0, 1):
        output = records_path("killed.jsonl")
        run_of = Started(gpus(sweep=None, paradigm="ddp"), "-o", output, *FOREVER)
        ranks = run_of.ranks_train()
        check(sorted(ranks) == [0, 1], ranks)
        os.kill(ranks_of(run_of.pid)[victim], signal.SIGKILL)
        _, seconds = run_of.finish(FAILED)
        record, = read_records(output)
        check(record["status"] == "failed" and f"rank {victim} " in record["error"] and "signal 9" in record["error"], record["error"])
        check(record["losses"] and seconds < ENDS_S, "the steps before the end", seconds)


def tuned(path, *arguments, code=OK, **changes):
    """A run with the tuning file, and its record."""
    output = records_path("tuned.jsonl")
    result = run("run", gpus(**{"world_size": 1, "sweep": None, "tuning": path, **changes}), "-o", output, "-q", *arguments, code=code)
    return (read_records(output)[-1], result.stderr) if os.path.exists(output) else (None, result.stderr)


def test_tuned_products():
    """The emulated library's first algorithm is the slowest, and the others sum in another order: losses differ in bits, and are the same again
    with the same file."""
    path = os.path.join(WORK, "tuning.json")
    pair_of = config("pair.json", device="cuda", model=TINY, world_size=2, paradigm="ddp", batch_size=1, tuning=path)
    half = {**TINY, "mlp": "gelu_new", "dtype": "fp16"}  # has products with GELU in them
    half_of = config("half.json", device="cuda", model=half, world_size=1, batch_size=1, tuning=path)
    text = run("tune", gpus(world_size=1, sweep=None), pair_of, half_of, "-o", path, code=OK,
               environment={"DTBENCH_EMULATED_SLOW_US": "3000"}).stdout
    with open(path, encoding="utf-8") as file:
        written = file.read()
    entries = json.loads(written)["products"]
    found = re.match(r"(\d+) products on emulated GPU with cuBLASLt 12\.4\.0; for (\d+) of them an algorithm is faster than the library's first; "
                     r"one of each takes [\d.]+ % less; written: ", text)
    check(found and int(found[1]) == len(entries) and int(found[2]) == sum(e["place"] > 0 for e in entries) > 0, text)
    (plain, _), (first, _), (again, _) = tuned(""), tuned(path), tuned(path)
    check(plain["provenance"]["tuning"] is None and first["provenance"]["tuning"] == again["provenance"]["tuning"], first["provenance"]["tuning"])
    facts = first["provenance"]["tuning"]
    check(facts["name"] == "tuning.json" and facts["products"] == facts["decided"] > 5 and facts["undecided"] == 0 and len(facts["hash"]) == 16, facts)
    check(first["losses"] == again["losses"] and first["losses"] != plain["losses"], plain["losses"], first["losses"], again["losses"])
    check(all(abs(a / b - 1) < 1e-5 for a, b in zip(first["losses"], plain["losses"])), plain["losses"], first["losses"])
    validate(first)
    pair, _ = tuned(path, world_size=2, paradigm="ddp", batch_size=1)
    check(pair["provenance"]["tuning"]["undecided"] == 0, pair["provenance"]["tuning"])
    check({"bias_gelu", "gelu_bias_gradient"} < {e["epilogue"] for e in entries}, entries)
    halves, _ = tuned(path, model=half, batch_size=1)
    check(halves["provenance"]["tuning"]["undecided"] == 0, halves["provenance"]["tuning"])

    def edited(name, change):
        changed = json.loads(written)
        for number, entry in enumerate(changed["products"]):
            change(number, entry)
        with open(os.path.join(WORK, name), "w", encoding="utf-8") as file:
            json.dump(changed, file)
        return os.path.join(WORK, name)

    part, _ = tuned(edited("less.json", lambda n, e: e.update(gpu="another GPU" if n == 0 else e["gpu"])))
    check(part["provenance"]["tuning"]["undecided"] == 1 and part["provenance"]["tuning"]["decided"] == facts["decided"] - 1, part["provenance"]["tuning"])
    for key, value in (("gpu", "another GPU"), ("library", "cuBLASLt 11.0.0")):
        record, text = tuned(edited("other.json", lambda n, e: e.update({key: value})), code=FAILED)
        check(record["status"] == "invalid" and value in record["error"] and "run dtbench tune here" in record["error"] and "this is emulated GPU with "
              "cuBLASLt 12.4.0" in record["error"], record["error"])
    record, text = tuned(edited("broken.json", lambda n, e: e.update(algorithm="00" * 64)), code=FAILED)
    check("does not take the algorithm" in record["error"] and "dtbench tune" in record["error"], record["error"])
    _, text = tuned(edited("short.json", lambda n, e: e.update(algorithm="00")), code=CONFIG)
    check("short.json: products[0]: algorithm" in text and len(text.splitlines()) == 1, text)
    _, text = tuned(os.path.join(WORK, "nowhere.json"), code=CONFIG)
    check("tuning: " in text and "nowhere.json" in text and len(text.splitlines()) == 1, text)
    before = len(entries)
    run("tune", gpus(world_size=1, sweep=None), "-o", os.path.join(WORK, "other.json"), "-q", code=OK)
    with open(os.path.join(WORK, "other.json"), encoding="utf-8") as file:
        after = json.load(file)["products"]
    check(sum(e["library"] == "cuBLASLt 11.0.0" for e in after) == before < len(after), "what was there of another library stays", len(after))
    text = run("tune", gpus(world_size=1, sweep=None), code=CONFIG, environment={"CUDA_VISIBLE_DEVICES": ""}).stderr
    check('device "cuda" is not available' in text and len(text.splitlines()) == 1, text)


def network_of(lines=(), output="network.jsonl", **settings):
    """What a record of two ranks says of NCCL's connections; lines: what NCCL's log has beside the emulated one's own."""
    log, records = os.path.join(WORK, "nccl.log"), records_path(output)
    with open(log, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    few = {"sweep": None, "paradigm": "ddp", "steps": {"warmup": 0, "timed": 1}}
    run("run", gpus(**few, **settings), "-o", records, "-q", code=OK, environment={"DTBENCH_EMULATED_NCCL_LOG": log})
    record, = read_records(records)
    check("NCCL_DEBUG" not in record["provenance"]["environment"] or "nccl" in settings, record["provenance"]["environment"])
    return record["provenance"]["network"]


def test_how_nccl_connects_the_ranks():
    plain = {"transports": ["P2P/CUMEM"], "network": ["Socket"], "cards": ["eth0"]}
    found = network_of()
    check(found == plain, found)
    info = "node1:20:31 [1] NCCL INFO "
    check(network_of(("a line of something else", info + "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", info + "Channel 01/1 : 0[0] -> 1[1] via P2P/direct pointer/read",
                      info + "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", info + "NET/Plugin: Using nothing", info + "Channel")) ==
          {"transports": ["P2P/CUMEM", "SHM/direct", "P2P/direct pointer"], "network": ["Socket"], "cards": ["eth0", "mlx5_0:1/IB", "mlx5_1:1/RoCE"]}, "other lines")
    direct, staged = info + "Channel 00/0 : 1[1] -> 3[1] [send] via NET/IB/2/GDRDMA", info + "Channel 02/0 : 3[1] -> 1[1] [receive] via NET/IB/2(1)"
    for lines, gpudirect in (((direct,), "all"), ((staged,), "none"), ((direct, staged), "some")):
        network = network_of(lines)
        check(network["gpudirect"] == gpudirect and network["transports"] == ["P2P/CUMEM", "NET/IB"], network)
    check(network_of(nccl={"NCCL_DEBUG": "WARN"}) is None, "the log is the user's")
    with open(os.path.join(WORK, ".nccl.conf"), "w", encoding="utf-8") as file:
        file.write("# a comment\nNCCL_IB_HCA=mlx5\nNCCL_SECRET=x\nPATH=/bin\n")
    files = records_path("files.jsonl")
    run("run", gpus(sweep=None, paradigm="ddp"), "-o", files, "-q", code=OK, environment={"HOME": WORK})
    set_there = read_records(files)[0]["provenance"]["nccl_files"]
    check(set_there.get("NCCL_IB_HCA") == "mlx5" and "NCCL_SECRET" not in set_there and "PATH" not in set_there, set_there)
    record_of_one = records_path("alone.jsonl")
    run("run", gpus(world_size=1, sweep=None), "-o", record_of_one, "-q", code=OK)
    check(read_records(record_of_one)[0]["provenance"]["network"] is None, "one rank")


def test_registered_buffers():
    """The same bits as without; the emulated NCCL looks at every buffer."""
    fsdp = {"paradigm": "fsdp", "sweep": None, "steps": {"warmup": 2, "timed": 1}}
    output = records_path("registered.jsonl")
    run("run", gpus(**fsdp), "-o", output, "-q", code=OK)
    run("run", gpus(**fsdp, register_buffers=True), "-o", output, "-q", code=OK)
    plain, registered = read_records(output)
    validate(registered)
    check(plain["losses"] == registered["losses"] and len(plain["losses"]) == 3, plain["losses"], registered["losses"])
    network = registered["provenance"]["network"]
    check(network["registered_bytes"] >= registered["metrics"]["peak_bytes"]["total"], network, registered["metrics"]["peak_bytes"])
    check("registered_bytes" not in plain["provenance"]["network"], plain["provenance"]["network"])
    check(plain["config"]["register_buffers"] is False and plain["config_hash"] != registered["config_hash"], plain["config"])
    old = records_path("old.jsonl")
    run("run", gpus(**fsdp, register_buffers=True), "-o", old, "-q", code=FAILED, environment={"DTBENCH_EMULATED_NCCL_2_18": "1"})
    error = read_records(old)[0]["error"]
    check("register_buffers: NCCL " in error and "NCCL 2.19 or newer is needed" in error, error)


def torchrun(arguments, *environments):
    """Ranks as torchrun starts them; rank 0's standard error, and all exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [subprocess.Popen([DTBENCH, "run", *arguments], cwd=WORK, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE,
                              env={**ENVIRONMENT, "RANK": str(r), "WORLD_SIZE": str(len(environments)), "LOCAL_RANK": str(r), "MASTER_PORT": port,
                                   "LOCAL_WORLD_SIZE": str(len(environments)), "MASTER_ADDR": "127.0.0.1", **environment})
             for r, environment in enumerate(environments)]
    told = [rank.communicate(timeout=COMMAND_S) for rank in ranks]
    return told[0][1], [rank.returncode for rank in ranks]


def test_a_kernel_that_is_wrong_on_one_rank_is_used_on_none():
    output = records_path("trials.jsonl")
    for wrong, kernels in (("attention, warpgroups", "attention gradient, gelu gradient"), ("", "attention, attention gradient, gelu gradient")):
        text, codes = torchrun([gpus(sweep=None, paradigm="ddp"), "-o", output, "--set", "model.dtype=fp16"],
                               {}, {"DTBENCH_EMULATED_WRONG_PRODUCTS": wrong})
        check(codes == [OK, OK], codes, text)
        record = read_records(output)[-1]
        validate(record)
        where, doubt = record["provenance"], "rank 1: Hopper's own kernel of attention is not used"
        check(where["warpgroup_kernels"] == kernels and (doubt in (where["doubts"] or "")) == bool(wrong), where)


def test_a_trial_that_goes_wrong_before_it_has_results():
    """A kernel whose launch is refused is not used; a GPU that fails ends the run, and the message names the key."""
    output, alone = records_path("refused.jsonl"), {"sweep": None, "paradigm": "none", "world_size": 1, "model": {**TINY, "dtype": "fp16"}}
    run("run", gpus(**alone), "-o", output, "-q", code=OK, environment={"DTBENCH_EMULATED_GPU_SHARED_KIB": "120"})
    where = read_records(output)[0]["provenance"]
    check(where["warpgroup_kernels"] == "attention, attention gradient", where)
    check("rank 0: Hopper's own kernel of gelu gradient is not used: gelu gradient, warpgroups: " in where["doubts"], where)
    output = records_path("failed_trial.jsonl")
    run("run", gpus(**alone), "-o", output, "-q", code=FAILED, environment={"DTBENCH_EMULATED_BAD_GPU": "0:7"})
    error = read_records(output)[0]["error"]
    check("; this was a trial of Hopper's own kernels, which \"warpgroup_kernels\": false avoids" in error, error)


def test_ranks_of_a_launcher():
    output = records_path("torchrun.jsonl")
    text, codes = torchrun([gpus(sweep={"paradigm": ["ddp", "fsdp"]}), "-o", output, "--verify", "--time-limit", "600"], {}, {})
    check(codes == [OK, OK], codes, text)
    records = read_records(output)
    validate(records[-1])
    check([r["provenance"]["network"]["transports"] for r in records] == [["P2P/CUMEM"]] * 2, "both experiments of one process", records)
    check([r["verification"]["status"] for r in records] == ["passed"] * 2 and records[0]["provenance"]["launcher"] == "torchrun", records)
    check(records[0]["provenance"]["rank_proof"] == "file" and "no secret" not in text, records[0]["provenance"]["rank_proof"], text)
    # what keeps strangers out: one text on all ranks, or nothing
    for mine, theirs, source in (("one text for both", "one text for both", "variable"), ("", "", "none")):
        text, codes = torchrun([gpus(sweep=None, paradigm="ddp"), "-o", output], *({"XDG_STATE_HOME": "/proc/none", "DTBENCH_SECRET": own} for own in (mine, theirs)))
        check(codes == [OK, OK] and read_records(output)[-1]["provenance"]["rank_proof"] == source, codes, text)
        check(("dtbench: no secret keeps others out where the ranks meet (/proc/none/dtbench/key: " in text) == (source == "none"), text)
    check("one text for both" not in open(output, encoding="utf-8").read(), "the secret is in a record")
    text, codes = torchrun([gpus(sweep=None, paradigm="ddp"), "-o", output, "--set", "timeout.init_s=4"],
                           {"DTBENCH_SECRET": "one text for me alone"}, {"DTBENCH_SECRET": "another text of rank 1"})
    check(FAILED in codes and "did not prove to know this job's secret" in text, codes, text)
    # each sees one GPU, and it is the same; or its own
    text, codes = torchrun([gpus(sweep=None, paradigm="ddp"), "-o", records_path("same.jsonl")], *[{"CUDA_VISIBLE_DEVICES": "1"}] * 2)
    check(codes[0] == CONFIG and re.search(r"ranks 0 and 1 are both on GPU-\S* of node", text), codes, text)
    text, codes = torchrun([gpus(sweep=None, paradigm="ddp"), "-o", output], {"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": "1"})
    check(codes == [OK, OK] and [gpu[-1] for gpu in read_records(output)[-1]["provenance"]["gpus"]] == ["3", "1"], codes, text)
    check("rank 0 sees one GPU, and node " in text and "--gpus-per-node=N --gpu-bind=none" in text, text)
    # what Slurm gave is not what the config asks for
    slurm = {"SLURM_JOB_ID": "1", "SLURM_GPUS_ON_NODE": "1"}
    text, codes = torchrun([gpus(sweep=None, paradigm="ddp"), "-o", records_path("slurm.jsonl")], slurm, slurm)
    check(codes[0] == CONFIG and "has 2 ranks, and Slurm gave the job 1 GPU there (SLURM_GPUS_ON_NODE)" in text, codes, text)


if __name__ == "__main__":
    sys.exit(main(globals()))
