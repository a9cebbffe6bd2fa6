"""The command on GPUs, emulated ones: ranks started without MPI, and what goes wrong with them. Prints TAP.

Usage: test_emulated_cli.py DTBENCH_EMULATED [CASE...]. No mpirun is on the PATH here.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys

from command import (CONFIG, DTBENCH, ENVIRONMENT, FAILED, FOREVER, OK, OOM, WORK, Started, config, main, ranks_of, read_records, records_path,
                     run)  # beside this script
from tap_cases import check

ENVIRONMENT["PATH"] = "/nowhere"
ENVIRONMENT["DTBENCH_EMULATED_GPUS"] = "4"
ENVIRONMENT["DTBENCH_POISON"] = "1"
TINY = {"layers": 2, "heads": 2, "hidden": 32, "vocab_size": 100, "block_size": 16, "dtype": "fp32"}
SCHEMAS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "configs", "schema")


def gpus(**changes):
    return config("gpus.json", **{"device": "cuda", "model": TINY, **changes})


def validate(records):
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
    for record in records:
        jsonschema.validate(record, schemas["record"])
        jsonschema.validate(record["config"], schemas["config"])


def test_paradigms_on_one_two_and_four_gpus():
    """The same global batch on each, so that one cpu tells the losses of all."""
    output = records_path("paradigms.jsonl")
    for world, paradigms in ((1, ["none"]), (2, ["ddp", "pdp"]), (4, ["pdp", "fsdp", "zero2"])):
        run("run", gpus(world_size=world, batch_size=4 // world, sweep={"paradigm": paradigms}), "-o", output, "-q", code=OK)
    records = read_records(output)
    run("run", gpus(device="cpu", world_size=1, batch_size=4, sweep=None), "-o", records_path("cpu.jsonl"), "-q", code=OK)
    cpu, = read_records(os.path.join(WORK, "cpu.jsonl"))
    validate(records)
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


def test_list_and_auto():
    text = run("list", code=OK).stdout
    check(re.search(r"^cuda +yes +4 x emulated GPU, 4 GiB; driver ", text, re.M) and re.search(r"^nccl +yes ", text, re.M), text)
    for environment, device in (({}, "cuda"), ({"DTBENCH_EMULATED_GPUS": "0"}, "cpu"), ({"CUDA_VISIBLE_DEVICES": ""}, "cpu")):
        output = records_path("auto.jsonl")
        result = run("run", gpus(device="auto", world_size=1, sweep=None), "-o", output, "-q", code=OK, environment=environment)
        check(read_records(output)[0]["provenance"]["device"] == device and not result.stderr, environment, result.stderr)
    text = run("run", gpus(world_size=1, sweep=None), code=CONFIG, environment={"CUDA_VISIBLE_DEVICES": ""}).stderr
    check('CUDA_VISIBLE_DEVICES=""' in text and len(text.splitlines()) == 1, text)


def test_a_full_gpu_is_a_result():
    small = {"DTBENCH_EMULATED_GPU_BYTES": str(128 << 20)}
    output = records_path("oom.jsonl")
    path = gpus(sweep={"batch_size": [8192, 1]}, paradigm="ddp")
    result = run("run", path, "-o", output, code=OOM, environment=small)
    records = read_records(output)
    check([r["status"] for r in records] == ["oom", "ok"], [(r["status"], r["error"]) for r in records], result.stderr)
    check(re.match(r"rank 0 needs .* and of the GPU's 128 MiB buffers can have", records[0]["error"]), records[0]["error"])
    text = run("check", path, code=OOM, environment=small).stdout
    check(re.search(r"note: experiment 1: will run out of memory: rank 0 needs .*, and a GPU here \(emulated GPU\) has 128 MiB", text), text)


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
        check(record["losses"] and seconds < 10, "the steps before the end", seconds)


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
    told = [rank.communicate(timeout=60) for rank in ranks]
    return told[0][1], [rank.returncode for rank in ranks]


def test_ranks_of_a_launcher():
    output = records_path("torchrun.jsonl")
    text, codes = torchrun([gpus(sweep={"paradigm": ["ddp", "fsdp"]}), "-o", output, "--verify", "--time-limit", "600"], {}, {})
    check(codes == [OK, OK], codes, text)
    records = read_records(output)
    validate(records)
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
    # what Slurm gave is not what the config asks for
    slurm = {"SLURM_JOB_ID": "1", "SLURM_GPUS_ON_NODE": "1"}
    text, codes = torchrun([gpus(sweep=None, paradigm="ddp"), "-o", records_path("slurm.jsonl")], slurm, slurm)
    check(codes[0] == CONFIG and "has 2 ranks, and Slurm gave the job 1 GPU there (SLURM_GPUS_ON_NODE)" in text, codes, text)


if __name__ == "__main__":
    sys.exit(main(globals()))
