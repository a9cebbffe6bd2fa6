"""Checkpoints: continued trainings, under the same and other divisions; the files; and errors. Prints TAP.

Usage: test_checkpoint.py DTBENCH [CASE...]; KILLS=N kills N saves instead of a few.
"""
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

from tap_cases import PATIENCE, end_what_runs, wait_for
from command import CONFIG, DTBENCH, ENVIRONMENT, FAILED, OK, WORK, Skip, check, config, main, read_records, records_path, run
from tensor_file import tensors_of

MODEL = {"layers": 4, "heads": 4, "hidden": 32, "vocab_size": 96, "block_size": 16, "dtype": "fp32"}
STEPS, SAVED = 5, 3
ADAM = {"name": "adam", "learning_rate": 0.01}


def experiment(steps=STEPS, name="checkpoint.json", **changes):
    plain = {"sweep": None, "world_size": 1, "batch_size": 8, "threads": 1, "model": MODEL, "optimizer": ADAM, "steps": {"warmup": 1, "timed": steps - 1}}
    return config(name, **{**plain, **changes})


def losses(path, *sets, code=OK):
    out = records_path("checkpoint.jsonl")
    run("run", path, "--quiet", "-o", out, *(word for text in sets for word in ("--set", text)), code=code)
    return [record["losses"] for record in read_records(out)]


def folder(name):
    path = os.path.join(WORK, name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def saved(path, **changes):
    """A checkpoint after SAVED steps, by default of one rank."""
    losses(experiment(SAVED, checkpoint={"path": path}, **changes))
    return path


def index_of(path):
    with open(os.path.join(path, "checkpoint.json"), encoding="utf-8") as file:
        return json.load(file)


def files_of(path):
    index = index_of(path)
    return [os.path.join(path, index["folder"], f"rank-{rank:05}.safetensors") for rank in range(len(index["bytes"]))]


def near(some, others):
    return len(some) == len(others) and all(abs(a / b - 1) < 1e-5 for a, b in zip(some, others))


DIVISIONS = [
    {"world_size": 4, "batch_size": 2, "paradigm": "fsdp", "tensor": {"size": 2}},
    {"world_size": 2, "batch_size": 4, "paradigm": "zero1", "pipeline": {"stages": 2}},
    {"world_size": 4, "batch_size": 2, "paradigm": "hsdp", "hsdp": {"shard_size": 2}, "parameter_offload": True},
    {"world_size": 2, "batch_size": 4, "paradigm": "ddp"},
    {"world_size": 2, "batch_size": 4, "paradigm": "zero1", "ddp": {"overlap_param_gather": True}},
]


def test_a_run_goes_on_as_if_it_had_not_stopped_in_this_division_or_on_one_device():
    for number, division in enumerate([*DIVISIONS[:2], DIVISIONS[-1]]):
        whole = losses(experiment(**division))[0]
        path = saved(folder(f"same{number}"), **division)
        check(losses(experiment(**division), f"checkpoint.from={path}")[0] == whole[SAVED:], division, whole)
        check(near(losses(experiment(), f"checkpoint.from={path}")[0], whole[SAVED:]), division, whole)


def test_every_division_goes_on_with_one_devices_checkpoint():
    path = saved(folder("one"))
    whole = losses(experiment())[0]
    for division in DIVISIONS:
        got = losses(experiment(**division), "checkpoint.from=one")[0]
        check(near(got, whole[SAVED:]), division, got, whole, path)
    run("run", experiment(**DIVISIONS[0]), "--quiet", "--verify", "--from", "one", "-o", records_path("verified.jsonl"), code=OK)


def test_files_are_those_of_the_format_and_have_all_parameters_once():
    for number, division in enumerate([{}, DIVISIONS[0]]):
        path = saved(folder(f"format{number}"), **division)
        checked = json.loads(run("check", experiment(checkpoint={"path": path}, **division), "--json", code=OK).stdout)[0]
        elems, all_bytes = {}, 0
        for file, size in zip(files_of(path), index_of(path)["bytes"], strict=True):
            check(os.path.getsize(file) == size, file, size)
            for name, (kind, shape, data) in tensors_of(file).items():
                kind_of = name.split(".")[1] if name.startswith("optimizer.") else "parameters"
                elems[kind_of] = elems.get(kind_of, 0) + len(data) // 4
                all_bytes += len(data)
                check(kind == "F32" and (len(shape) == 1 or "[" not in name), name, kind, shape)
        check(set(elems.values()) == {checked["parameters"]} and len(elems) == 4, elems, checked["parameters"])
        check(all_bytes == checked["checkpoint_bytes"], all_bytes, checked["checkpoint_bytes"])
    whole = tensors_of(files_of(os.path.join(WORK, "format0"))[0])
    check(whole["embedding.token.weight"][1] == [96, 32] and whole["optimizer.master.blocks.3.attention.q.weight"][1] == [32, 32], list(whole)[:5])


def test_the_package_safetensors_opens_them():
    try:
        import safetensors.numpy
    except ImportError:
        raise Skip("needs the package safetensors (and numpy)") from None
    file = files_of(saved(folder("package")))[0]
    own = tensors_of(file)
    for name, array in safetensors.numpy.load_file(file).items():
        check(list(array.shape) == own[name][1] and array.tobytes() == own[name][2], name)


def test_saves_come_when_they_are_asked_for():
    path = folder("every")
    record_path = records_path("every.jsonl")
    job = experiment(7, checkpoint={"path": path, "save_every": 3})
    run("run", job, "--quiet", "-o", record_path, code=OK)
    checked = json.loads(run("check", job, "--set", "device=sim", "--set", "cluster=clusters/cpu_node.json", "--json", code=OK).stdout)[0]
    predicted = checked["predicted_training_s"]
    check(predicted["load"] is None and predicted["saves"] > 0 and predicted["total"] == predicted["steps"] + predicted["saves"], predicted)
    check(abs(predicted["steps"] / checked["predicted_step_s"] - 7) < 0.1, predicted)
    check(any(note.startswith("trains for") and note.endswith("for 3 saves") for note in checked["notes"]), checked["notes"])
    check(index_of(path)["steps"] == 7 and sorted(os.listdir(path)) == ["checkpoint.json", "lock", "step-7"], os.listdir(path))
    metrics = read_records(record_path)[0]["metrics"]
    check(abs(metrics["startup_s"] + metrics["steps_s"] + metrics["save_s"] - metrics["training_s"]) < 1e-6, metrics)
    check(sum(metrics["step_s"]["all"]) < metrics["steps_s"] < metrics["training_s"] < metrics["wall_s"], metrics)
    check(metrics["saves"] == 3 and metrics["save_s"] > 0 and metrics["checkpoint_bytes"] == index_of(path)["bytes"][0], metrics)
    check(losses(experiment(9, checkpoint={"path": path, "from": "auto"}))[0] == losses(experiment(9))[0][7:], "auto goes on")
    check(index_of(path)["steps"] == 9, index_of(path))
    fresh = folder("fresh")
    check(len(losses(experiment(2, checkpoint={"path": fresh, "from": "auto"}))[0]) == 2 and index_of(fresh)["steps"] == 2, "auto begins")


def test_saves_beside_the_steps_are_the_same():
    for number, division in enumerate([DIVISIONS[1], DIVISIONS[3]]):  # a rank writes nothing of the last one
        path, record_path = folder(f"beside{number}"), records_path("beside.jsonl")
        beside = experiment(7, checkpoint={"path": path, "save_every": 2, "asynchronous": True}, **division)
        checked = json.loads(run("check", beside, "--json", code=OK).stdout)[0]
        run("run", beside, "--quiet", "-o", record_path, code=OK)
        record = read_records(record_path)[0]
        check(record["losses"] == losses(experiment(7, **division))[0] and record["metrics"]["saves"] == 4, record["losses"])
        check(index_of(path)["steps"] == 7 and record["metrics"]["host_peak_bytes"]["total"] == checked["predicted_host_peak_bytes"]["total"], checked)
    # Without a last save, which waits, what was copied beside a step is left: more to copy than
    # there is to compute before the first update.
    path, out = folder("beside_killed"), records_path("beside_killed.jsonl")
    wide = {"model": {**MODEL, "layers": 1, "vocab_size": 50000, "block_size": 4}, "batch_size": 1}
    job = experiment(100000, checkpoint={"path": path, "save_every": 3, "asynchronous": True}, **wide)
    process = subprocess.Popen([DTBENCH, "run", job, "--quiet", "-o", out], cwd=WORK, env=ENVIRONMENT, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(os.path.join(path, "checkpoint.json")), 30, "a checkpoint")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end_what_runs()
    steps, waited = index_of(path)["steps"], folder("beside_waited")
    losses(experiment(steps, checkpoint={"path": waited}, **wide))
    check(steps % 3 == 0 and tensors_of(files_of(path)[0]) == tensors_of(files_of(waited)[0]), f"what is saved after step {steps}")


def test_a_signal_saves_before_the_end():
    path, out = folder("signal"), records_path("signal.jsonl")
    process = subprocess.Popen([DTBENCH, "run", experiment(100000, checkpoint={"path": path, "save_every": 1}), "--quiet", "-o", out], cwd=WORK, env=ENVIRONMENT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(os.path.join(path, "checkpoint.json")), 30, "a checkpoint")
    process.send_signal(signal.SIGUSR1)
    process.wait(timeout=30 * PATIENCE)
    record = read_records(out)[0]
    check(record["status"] == "interrupted" and index_of(path)["steps"] == len(record["losses"]), record["error"], index_of(path))


def refused(expected, *sets, code=FAILED, **changes):
    result = run("run", experiment(**changes), "--quiet", "-o", records_path("refused.jsonl"), *(w for s in sets for w in ("--set", s)), code=code)
    said = result.stdout + result.stderr
    check(expected in said, "not said:", expected, "\n", said)


def test_what_is_wrong_with_a_checkpoint_is_said():
    path = saved(folder("wrong"))
    load = f"checkpoint.from={path}"
    refused("the checkpoint is of another model: gpt, 4 layers", load, "model.layers=2")
    refused("the checkpoint is of another model: it is a model with model.mlp \"gelu\", and this one has \"gelu_new\"", load, "model.mlp=gelu_new")
    refused("step 3 is the last", load, steps=3)
    refused("checkpoint.json", f"checkpoint.from={folder('nothing')}")
    refused("has no state of adam", f"checkpoint.from={saved(folder('sgd'), optimizer={'name': 'sgd'})}")
    for _ in range(3):  # one rank finds it, and any rank may report it first
        refused("checkpoint.path: /dev/null/x: Not a directory", "checkpoint.path=/dev/null/x", world_size=2, paradigm="ddp")
    refused(f"checkpoint.path: {WORK}/no/such: the folder in which it would be made does not exist", f"checkpoint.path={WORK}/no/such")
    refused("auto goes on with what is in checkpoint.path, which is not given", "checkpoint.from=auto", code=CONFIG)
    refused("checkpoint.save_every: nothing is saved without checkpoint.path", "checkpoint.save_every=2", code=CONFIG)
    refused("checkpoint.asynchronous: nothing is saved without checkpoint.path", "checkpoint.asynchronous=true", code=CONFIG)
    file = files_of(path)[0]
    size = os.path.getsize(file)
    with open(file, "r+b") as content:
        content.truncate(size - 100)
    refused("is cut off", load)
    os.remove(file)
    refused("No such file", load)
    with open(os.path.join(path, "checkpoint.json"), "w", encoding="utf-8") as index:
        index.write("{")
    refused("checkpoint.json", load)
    refused("checkpoint.json", f"checkpoint.path={path}")


def no_large_files():
    """Files end at 100 kB, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))


def test_a_full_disk_leaves_the_checkpoint_before():
    path, out = saved(folder("full")), records_path("full.jsonl")
    beside = experiment(checkpoint={"path": path, "from": "auto", "save_every": 1, "asynchronous": True})
    said = run("run", beside, "--quiet", "-o", out, code=FAILED, preexec_fn=no_large_files).stdout
    check("File too large" in said, said)
    out = records_path("full.jsonl")
    said = run("run", experiment(checkpoint={"path": path, "from": "auto"}), "--quiet", "-o", out, code=FAILED, preexec_fn=no_large_files).stdout
    check("File too large" in said and read_records(out)[0]["status"] == "failed", said)
    check(index_of(path)["steps"] == SAVED and sorted(os.listdir(path)) == ["checkpoint.json", "lock", f"step-{SAVED}"], os.listdir(path))
    check(losses(experiment(checkpoint={"path": path, "from": "auto"}))[0] == losses(experiment())[0][SAVED:], "the checkpoint before is not whole")
    check(sorted(os.listdir(path)) == ["checkpoint.json", "lock", f"step-{STEPS}"], os.listdir(path))


def test_a_disk_that_fills_up_is_left_as_it_was():
    """There is no room for two checkpoints, which exist while one is replaced."""
    mounted = folder("disk")
    os.mkdir(mounted)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", mounted], capture_output=True, check=False).returncode:
        raise Skip("needs to mount a tmpfs, as root")
    uneven = {**DIVISIONS[1], "pipeline": {"stages": 2, "split": [1]}}  # rank 1 has more to write
    try:
        for number, (asynchronous, division) in enumerate(((False, DIVISIONS[1]), (True, DIVISIONS[1]), (False, uneven))):
            path = os.path.join(mounted, f"saves{number}")
            job = experiment(6, model={**MODEL, "hidden": 64}, checkpoint={"path": path, "save_every": 2, "asynchronous": asynchronous}, **division)
            out = records_path("disk.jsonl")
            # Ranks that have ended do not end the one that removes what was written.
            run("run", job, "--quiet", "-o", out, code=FAILED, environment={"LD_PRELOAD": os.environ["SLOW_REMOVAL_LIBRARY"]})
            said = read_records(out)[0]["error"]
            check(re.match(r"rank (\d): cannot write \S*/rank-0000\1\S*: No space left on device", said), said)
            check(index_of(path)["steps"] == 2 and sorted(os.listdir(path)) == ["checkpoint.json", "lock", "step-2"], os.listdir(path))
            check(losses(job, "checkpoint.path=", "checkpoint.save_every=0", "checkpoint.asynchronous=false", f"checkpoint.from={path}")[0], "not whole")
            shutil.rmtree(path)
    finally:
        subprocess.run(["umount", mounted], check=True)


def is_locked(path):
    """Whether a process holds the lock of a file, asked of the kernel: to try it would take it from that process."""
    try:
        inode = os.stat(path).st_ino
    except OSError:
        return False
    with open("/proc/locks", encoding="ascii") as locks:
        return any(line.split()[5].rsplit(":", 1)[1] == str(inode) for line in locks if "->" not in line)


def test_two_runs_do_not_share_a_folder():
    path = folder("shared")
    first = subprocess.Popen([DTBENCH, "run", experiment(100000, name="first.json", checkpoint={"path": path}), "--quiet", "-o", records_path("first.jsonl")],
                             cwd=WORK, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: is_locked(os.path.join(path, "lock")), 30, "a lock")
        refused("another run saves its checkpoints there", f"checkpoint.path={path}")
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=30 * PATIENCE)


def kill_a_save(path, ranks, asynchronous):
    """A run that saves after each step is killed at some moment, and with it all its ranks. Whether a save was under way."""
    before = index_of(path)["steps"] if os.path.exists(os.path.join(path, "checkpoint.json")) else 0
    division = {"world_size": ranks, "batch_size": 8 // ranks, "paradigm": "zero1" if ranks > 1 else "none"}
    saves = {"path": path, "save_every": 1, "from": "auto", "asynchronous": asynchronous}
    process = subprocess.Popen([DTBENCH, "run", experiment(before + 100000, name="killed.json", checkpoint=saves, **division),
                                "--quiet", "-o", records_path("killed.jsonl")], cwd=WORK, env=ENVIRONMENT, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: process.poll() is not None or (os.path.exists(os.path.join(path, "checkpoint.json")) and index_of(path)["steps"] > before), 30, "a save")
    check(process.poll() is None, "the run ended by itself")
    time.sleep(random.uniform(0, 0.05))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end_what_runs()
    return any(name.startswith("step-") and name != index_of(path)["folder"] for name in os.listdir(path))


def test_a_killed_save_leaves_a_whole_checkpoint():
    """Half of the saves are asynchronous."""
    kills, path, under_way = int(os.environ.get("KILLS", "2")), folder("killed"), [0, 0]
    for kill in range(kills):
        under_way[kill % 2] += kill_a_save(path, (2, 1, 4)[kill % 3], kill % 2 == 1)
        steps = index_of(path)["steps"]
        got = losses(experiment(steps + 1), f"checkpoint.from={path}")[0]
        check(len(got) == 1 and got[0] > 0, got)
    print(f"# {kills} kills, of which {under_way[0]} and {under_way[1]} while a save, an asynchronous one, was under way")


if __name__ == "__main__":
    sys.exit(main(globals()))
