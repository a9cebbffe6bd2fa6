#!/usr/bin/python3
"""Whole trainings on the emulated GPU (test/cuda_emulator) against the cpu device: the same losses and the same bytes.

Usage: test_emulated.py DTBENCH_EMULATED [CASE...]; prints TAP.
"""
import functools
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tap_cases import COMMAND_S, check, chosen, run_all

DTBENCH = os.path.abspath(sys.argv[1])
STEPS = 3  # the second loss depends on the first gradients, the third also on the optimizer's state; graphs are replayed from the second step on
BASE = {
    "name": "emulated", "seed": 7, "batch_size": 2, "paradigm": "none",
    "model": {"layers": 2, "heads": 2, "hidden": 32, "vocab_size": 64, "block_size": 8, "dtype": "fp32", "dropout": 0.1},
    "steps": {"warmup": 1, "timed": STEPS - 1}, "optimizer": {"name": "sgd", "learning_rate": 0.5},
}
# fp32 sums in other orders; one rounding of a gradient is 2^-12 (fp16) or 2^-9 (bf16) of it, and a
# few steps keep within a few of these
TOLERANCE = {"fp32": 1e-4, "fp16": 4e-3, "bf16": 2e-2}


def train(*settings, shown=None, **variables):
    """The record of one experiment; fresh device memory is full of NaN. shown: a list that gets what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        config, records = os.path.join(folder, "config.json"), os.path.join(folder, "records.jsonl")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(BASE, file)
        command = [DTBENCH, "run", "--config", config, "-o", records]
        for setting in settings:
            command += ["--set", setting]
        environment = {**os.environ, "DTBENCH_POISON": "1", "DTBENCH_EMULATED_GPUS": "4", **variables}
        run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=COMMAND_S, check=False)
        check(run.returncode == 0, " ".join(settings), "ends with", run.returncode, "\n" + run.stdout)
        if shown is not None:
            shown.append(run.stdout)
        with open(records, encoding="utf-8") as file:
            return json.loads(file.readline())


def compare(cuda, cpu, dtype="fp32"):
    check(len(cuda["losses"]) == STEPS and len(cpu["losses"]) == STEPS, "losses", cuda["losses"], cpu["losses"])
    for step, (here, there) in enumerate(zip(cuda["losses"], cpu["losses"])):
        check(abs(here / there - 1) <= TOLERANCE[dtype], f"step {step}: loss {here}, cpu has {there}")


@functools.cache
def alone(*settings, dtype="fp32", product_multiprocessors="0"):
    """The record of one GPU, after it was compared with one cpu device."""
    cuda = train("device=cuda", f"model.dtype={dtype}", *settings, DTBENCH_EMULATED_PRODUCT_MULTIPROCESSORS=product_multiprocessors)
    cpu = train("device=cpu", f"model.dtype={dtype}", *settings)
    compare(cuda, cpu, dtype)
    check(cuda["provenance"]["device_name"] == "emulated GPU", cuda["provenance"]["device_name"])
    here, there = ({name: n for name, n in r["metrics"]["peak_bytes"].items() if name not in ("by_ranks", "process_rss")} for r in (cuda, cpu))
    check(here == there, "bytes", here, "cpu has", there)
    return cuda


def test_one_gpu_equals_one_cpu_device():
    replayed = alone()
    check(replayed["provenance"]["graph"] == "replayed", replayed["provenance"]["graph"])
    single = train("device=cuda", "graph=false")
    check(single["provenance"]["graph"] != "replayed", single["provenance"]["graph"])
    compare(single, replayed)


def test_half_precision():
    alone("model.mlp=relu", dtype="fp16")
    alone("model.mlp=gelu_new", "micro_batches=2", dtype="bf16")  # GELU within cuBLASLt's products


def test_adam_in_micro_batches_with_recomputation():
    alone("optimizer.name=adam", "optimizer.learning_rate=0.01", "micro_batches=2", "activation=checkpoint")


def test_a_scale_that_is_found_gradients_in_fp32_and_clipping():
    """All gradients overflow at 2^20, and none at 2^8: one step is left out on the device, replayed or not."""
    how = ("optimizer.name=adam", "optimizer.learning_rate=0.01", "optimizer.clip_norm=0.25", "gradient_dtype=fp32", "micro_batches=2",
           "loss_scaling=dynamic", f"dynamic_loss_scale.initial={2**20}", f"dynamic_loss_scale.backoff={2**-12}", "dynamic_loss_scale.window=2")
    replayed = alone(*how, dtype="fp16")
    check(replayed["provenance"]["graph"] == "replayed", replayed["provenance"]["graph"])
    single = train("device=cuda", "graph=false", "model.dtype=fp16", *how)
    for record in replayed, single:
        check(record["loss_scales"] == [2**20, 2**8, 2**8] and record["metrics"]["skipped_steps"] == 1, record["loss_scales"])
        check([norm is None or norm > 0.25 for norm in record["gradient_norms"]] == [True] * STEPS, record["gradient_norms"])
    check(single["losses"] == replayed["losses"] and single["gradient_norms"] == replayed["gradient_norms"], single["losses"], replayed["losses"])
    alone("parameter_offload=true", *how, dtype="fp16")


def test_hopper_kernels_are_used_if_they_are_right():
    """The record names them; one that is wrong is not used, and the record says why."""
    for key, kernels in (("auto", "attention, attention gradient, gelu gradient"), ("false", None)):
        where = alone(f"warpgroup_kernels={key}", dtype="fp16")["provenance"]
        check(where["warpgroup_kernels"] == kernels and "Hopper" not in (where["doubts"] or ""), key, where)
    check(alone()["provenance"]["warpgroup_kernels"] is None, "kernels of 16 bits in fp32")
    shown = []
    record = train("device=cuda", "model.dtype=fp16", shown=shown, DTBENCH_EMULATED_WRONG_PRODUCTS="gelu gradient, warpgroups")
    where, doubt = record["provenance"], "rank 0: Hopper's own kernel of gelu gradient is not used: in a trial its "
    check(where["warpgroup_kernels"] == "attention, attention gradient" and doubt in where["doubts"] and doubt in shown[0], where, shown)
    compare(record, alone("warpgroup_kernels=false", dtype="fp16"), "fp16")


def test_memory_moved_to_the_host():
    alone("activation=offload", "parameter_offload=true")


def test_a_checkpoint_beside_replayed_steps_and_what_goes_on_with_it():
    adam = ("device=cuda", "optimizer.name=adam", "optimizer.learning_rate=0.01")
    with tempfile.TemporaryDirectory() as path:
        whole = train(*adam, "steps.timed=5")["losses"]
        beside = train(*adam, "steps.timed=3", f"checkpoint.path={path}", "checkpoint.save_every=1", "checkpoint.asynchronous=true")
        check(beside["losses"] == whole[:4] and beside["provenance"]["graph"] == "replayed", beside["losses"], whole)
        on = train(*adam, "steps.timed=5", f"checkpoint.from={path}")["losses"]
        check(on == whole[4:], on, whole)


def test_unfused_attention():
    alone("model.attention=unfused")


def test_attention_computed_again():
    alone("activation=selective_op", "model.mlp=swiglu")
    alone("activation=core_attention", "model.attention=unfused", "micro_batches=2")


def test_kernels_in_one_and_one_by_one():
    """The same dropout masks and sums, whatever one kernel does; bias gradients in micro-batches add up."""
    for how in ((), ("micro_batches=2", "keep_cheap=all"), ("activation=checkpoint", "activation_blocks=2", "keep_cheap=mlp")):
        compare(alone(*how), alone("fused_kernels=false", *how))


def test_kernels_launched_early():
    """The emulator has no such launches, but fails where a kernel does not wait for those before it."""
    compare(alone("early_launch=true"), alone())


def test_products_leave_multiprocessors_free():
    """Host memory of one of the emulator's four processors; the results do not change."""
    compare(alone("spared_multiprocessors=1", product_multiprocessors="3"), alone())


def test_gpus_that_others_use_are_marked():
    """The library that stands for NVML says that two processes compute on each GPU, of which one is the rank."""
    shown = []
    record = train("device=cuda", "world_size=2", "paradigm=ddp", shown=shown, DTBENCH_LIBNVML=os.environ["DTBENCH_FAKE_NVML"], FAKE_NVML_PROCESSES="2")
    where = record["provenance"]
    shared = "rank 0's GPU: 1 other process on it; rank 1's GPU: 1 other process on it"  # a busy machine is doubted besides
    check(shared in where["doubts"], where["doubts"])
    check(len(where["gpu_conditions"]) == 2 and where["gpu_conditions"][1]["clock_mhz"] == [1380, 1380], where["gpu_conditions"])
    check("ok (!)" in shown[0] and shared in shown[0], shown[0])
    record = train("device=cuda", "graph=false", DTBENCH_LIBNVML="libdtbench_no_such.so")
    check("GPU" not in (record["provenance"]["doubts"] or "") and record["provenance"]["gpu_conditions"] is None, record["provenance"])


# as Llama's blocks, with a norm of each head as Qwen3 has it; and as MPT's
LLAMA = ("model.mlp=swiglu", "model.ffn=48", "model.norm=rms", "model.position=rope", "model.heads=4", "model.kv_heads=2", "model.bias=none",
         "model.qk_norm=true")
MPT = ("model.position=alibi", "model.heads=4", "model.bias=none")


def test_decoders_of_today():
    for model in (LLAMA, MPT):
        replayed = alone(*model)
        check(replayed["provenance"]["graph"] == "replayed", replayed["provenance"]["graph"])
    alone(*LLAMA, "micro_batches=2", "activation=checkpoint", dtype="bf16")


def together(*settings, ranks=2):
    """Several GPUs, a rank on each, against one cpu device with all batches and equally late updates."""
    kept = [s for s in settings if s.startswith("model.") or "parameter_server" in s]
    cuda = train("device=cuda", f"world_size={ranks}", *settings)
    compare(cuda, train("device=cpu", f"batch_size={2 * ranks}", *kept))
    return cuda


def test_late_updates_equal_those_of_one_device():
    together("paradigm=parameter_server", "parameter_server.staleness=2")


def test_fsdp_of_a_llama_equals_one_device():
    together("paradigm=fsdp", *LLAMA)


def test_tensor_parallel_llama_equals_one_device():
    together("paradigm=ddp", "tensor.size=2", *LLAMA)
    together("paradigm=ddp", "tensor.size=2", *LLAMA, "model.kv_heads=1", "micro_batches=2", "tensor.sequence_parallel=false")


def test_ranks_that_exchange_heads_equal_one_device():
    """The samples of both together; dropout, learned positions and rope at this rank's."""
    heads = ("context.size=2", "context.comm_type=a2a", "batch_size=4")
    together("paradigm=ddp", *heads, "micro_batches=2")
    together("paradigm=fsdp", *heads, "activation=checkpoint", *LLAMA)


def test_ranks_that_gather_or_pass_on_keys_equal_one_device():
    shared = ("context.size=2", "batch_size=4")
    together("paradigm=ddp", *shared, "context.comm_type=all_gather", "micro_batches=2")
    together("paradigm=fsdp", *shared, "context.comm_type=all_gather", "activation=checkpoint", *LLAMA)
    together("paradigm=ddp", *shared, "context.comm_type=p2p", "micro_batches=2", "model.block_size=32")


def test_workspace_of_gathered_keys_is_foreseen():
    """On a GPU attention orders the keys of all ranks in workspace, and in backward their gradients: check counts both."""
    settings = ["world_size=2", "paradigm=ddp", "context.size=2", "context.comm_type=all_gather", "batch_size=4"]
    held = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(BASE, file)
        for device in ("cuda", "cpu"):
            chosen_device = [*settings, f"device={device}"]
            options = [word for setting in chosen_device for word in ("--set", setting)]
            foreseen = json.loads(dtbench("check", path, "--json", *options))[0]["predicted_peak_bytes"]
            held[device] = train(*chosen_device)["metrics"]["peak_bytes"]
            for name in ("total", "workspace"):
                check(foreseen[name] == held[device][name], device, name, foreseen, "foreseen,", held[device], "held")
    ordered = 4 * 8 * 2 * 32 * 4  # samples, positions, keys and values, hidden, bytes of fp32
    check(held["cuda"]["workspace"] == held["cpu"]["workspace"] + 2 * ordered, held)


def test_tied_tables_in_a_pipeline_equal_one_device():
    """A copy at each end, or both on one GPU."""
    together("paradigm=pdp", "pipeline.stages=2", "pipeline.chunks=2", "model.tied=true", *MPT)
    together("paradigm=fsdp", "pipeline.stages=2", "pipeline.order=zb_v", "model.layers=4", "model.tied=true", *MPT)


CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../configs")
RESNET = {"blocks": {"c2": 1, "c3": 1, "c4": 1, "c5": 1}, "channels": 4, "image_size": 40, "classes": 5, "norm_group": 2, "dtype": "fp32"}
DEEPLAB = {**RESNET, "image_size": 16, "head": "deeplab", "output_stride": 8, "head_channels": 4, "auxiliary": 0.4}


def dtbench(*arguments):
    environment = {**os.environ, "DTBENCH_POISON": "1", "DTBENCH_EMULATED_GPUS": "2"}
    done = subprocess.run([DTBENCH, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False)
    check(done.returncode == 0, arguments, "ends with", done.returncode, "\n" + done.stdout + done.stderr)
    return done.stdout


def verify_network(model, cases, *arguments):
    """Losses are those of the cpu device, and with --verify of one GPU; at its peak each rank holds the bytes that check foresees."""
    usual = {"name": "network", "seed": 7, "model": model, "steps": {"warmup": 1, "timed": STEPS - 1},
             "optimizer": {"name": "sgd", "momentum": 0.9}}
    with tempfile.TemporaryDirectory() as folder:
        path, records = os.path.join(folder, "network.json"), os.path.join(folder, "records.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**usual, "device": "cuda", "batch_size": 4, "sweep": {"cases": cases}}, file)
        dtbench("run", path, *arguments, "--output", records, "--trace", os.path.join(folder, "trace.json"))
        for name in glob.glob(os.path.join(folder, "trace*.json")):
            with open(name, encoding="utf-8") as file:
                kernels = {event["name"] for event in json.load(file)["traceEvents"] if event["ph"] == "X"}
            check({"convolution", "norm", "convolution_weight_gradient", "loss"} <= kernels, name, kernels)
        checked = json.loads(dtbench("check", path, "--json"))
        foreseen = {row["config_hash"]: row["predicted_peak_bytes"] for row in checked}
        simulated = json.loads(dtbench("check", path, "--json", "--set", "device=sim", "--set", f"cluster={CONFIGS}/clusters/dgx_a100.json",
                                       "--set", f"profile={CONFIGS}/profiles/dtbench_cuda_a100.json"))
        check([row["predicted_peak_bytes"] for row in simulated] == list(foreseen.values()), "sim foresees other bytes", simulated, foreseen)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**usual, "device": "cpu", "batch_size": 8}, file)
        dtbench("run", path, "--output", records)
        with open(records, encoding="utf-8") as file:
            *found, cpu = [json.loads(line) for line in file]
    check(len(found) == len(cases), len(found), "records")
    for record in found:
        compare(record, cpu)
        peak = record["metrics"]["peak_bytes"]
        check(record["status"] == "ok" and peak["workspace"] > 0, record["status"], record["error"], peak)
        check(foreseen[record["config_hash"]]["total"] == peak["total"], record["config"]["paradigm"], foreseen[record["config_hash"]], "foreseen,", peak, "held")


def two(paradigm, **more):
    return {"paradigm": paradigm, "world_size": 2, **more}


def test_a_resnet_equals_one_device():
    verify_network(RESNET, [two("fsdp", activation="checkpoint"), two("zero1")], "--verify")


def test_a_deeplab_with_groups_of_two_ranks_equals_one_device():
    verify_network({**DEEPLAB, "norm_group": 8}, [two("ddp")])


def test_a_deeplab_in_stages_and_by_micro_batches_equals_one_device():
    verify_network(DEEPLAB, [two("ddp", micro_batches=2), two("pdp", pipeline={"order": "zb_h1", "chunks": 2})])


def communicators(folder, *settings):
    """What the two ranks of a launcher's make of NCCL in a sweep: its log has a line of each."""
    config, log = os.path.join(folder, "config.json"), os.path.join(folder, "nccl-%p.log")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({**BASE, "device": "cuda", "world_size": 2, "paradigm": "pdp"}, file)
    command = [sys.executable, "-s", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../run_ranks.py"), "2", DTBENCH, "run", config, "-o",
               os.path.join(folder, "records.jsonl")]
    for setting in settings:
        command += ["--set", setting]
    environment = {**os.environ, "DTBENCH_EMULATED_GPUS": "2", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": log}
    run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    check(run.returncode == 0, run.stdout, run.stderr)
    counts = []
    for path in glob.glob(os.path.join(folder, "nccl-*.log")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        counts.append((text.count("Bootstrap"), text.count("ncclCommSplit")))
        os.remove(path)
    check(len(counts) == 2 and counts[0][1] == counts[1][1], counts)
    return min(counts)  # rank 0 begins once more for the invitation


def test_communicators_are_kept_between_experiments():
    with tempfile.TemporaryDirectory() as folder:
        worlds, subsets = communicators(folder)
        check(worlds == 1 and subsets > 0, worlds, subsets)
        check(communicators(folder, "sweep.batch_size=[2,1]") == (worlds, subsets), "two alike make others than one")
        check(communicators(folder, 'sweep.paradigm=["pdp","ddp"]') == (worlds, subsets + 1), "two meshes:", worlds, subsets)


def test_fsdp_in_pipelines_equals_one_device():
    together("paradigm=fsdp", "pipeline.stages=2", "pipeline.order=1f1b", "fsdp.gather=step", "activation=selective", ranks=4)


def test_gathers_in_forward_equal_one_device():
    """Replayed, too: a graph waits for nothing outside of it."""
    late = ("ddp.overlap_param_gather=true", "ddp.bucket_mib=0.01")
    for paradigm in ("zero1", "zero2"):
        cuda = together(f"paradigm={paradigm}", *late)
        check(cuda["provenance"]["graph"] == "replayed", paradigm, cuda["provenance"]["graph"])
    together("paradigm=zero1", *late, "pipeline.stages=2", "pipeline.order=1f1b", ranks=4)
    together("paradigm=zero2", *late, "parameter_offload=true")


def test_tensor_parallelism_equals_one_device():
    together("paradigm=ddp", "tensor.size=2", "tensor.sequence_parallel=false")


def test_tensor_parallel_parts_in_a_pipeline_equal_one_device():
    """Halves of backward overlap the sums of a tensor group; each part has a policy of its own."""
    together("paradigm=ddp", "model.layers=4", "pipeline.stages=2", "tensor.size=2", "pipeline.order=zb_v", "pipeline.activation=checkpoint-keep",
             ranks=4)


if __name__ == "__main__":
    sys.exit(run_all(chosen(globals())))
