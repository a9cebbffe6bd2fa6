"""scripts/first_gpu as on a bare machine: from its archive alone, without network, in a folder that cannot be written to, with nothing in the
environment but a PATH; the emulated GPU is the device. And what it does with programs that fail, hang or are missing, and when it is ended.

Usage: test_first_gpu.py DTBENCH_EMULATED TEST_PROGRAM; prints TAP. TEST_PROGRAM: test_cuda_linear of the emulated GPU.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "cli"))
from tap_cases import PATIENCE, check, descendants, run_all, wait_for

DTBENCH, TEST = (os.path.abspath(path) for path in sys.argv[1:3])
WORK = tempfile.mkdtemp(prefix="test_first_gpu_")
TINY = json.dumps({"layers": 2, "heads": 2, "hidden": 32, "vocab_size": 64, "block_size": 8})
# No network but the machine's own.
APART = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
if not (shutil.which("unshare") and shutil.which("ip")) or subprocess.run([*APART, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
    APART = []


def script(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text + "\n")
    os.chmod(path, 0o755)


def make_archive(folder):
    """As scripts/bundle's, with the emulated GPU's programs."""
    for name in ("bin", "test", "scripts/gpu", "scripts/peers", "configs"):
        os.makedirs(os.path.join(folder, name))
    shutil.copy(DTBENCH, os.path.join(folder, "bin/dtbench"))
    shutil.copy(TEST, os.path.join(folder, "test/test_cuda_linear"))
    script(os.path.join(folder, "test/test_device_graph"), "echo 1..1; echo ok 1 - good")
    script(os.path.join(folder, "test/test_device"), "echo 1..2; echo ok 1 - good; echo '# x.c:3: 1 == 2: bad'; echo not ok 2 - bad; exit 1")
    script(os.path.join(folder, "test/test_kernels_parts"), "echo 1..2; echo ok 1 - before; sleep 1000 & sleep 1000")
    script(os.path.join(folder, "test/test_attention"), "echo '1..0 # SKIP no GPU'")
    script(os.path.join(folder, "test/test_kernels_update"), "echo 1..1; echo ok 1 - separate buffers: $DTBENCH_SEPARATE_BUFFERS")
    shutil.copy(os.path.join(ROOT, "scripts/first_gpu"), os.path.join(folder, "scripts"))
    for name in ("runner", "machine", "checks", "speed", "__init__"):
        shutil.copy(os.path.join(ROOT, f"scripts/gpu/{name}.py"), os.path.join(folder, "scripts/gpu"))
    archive = os.path.join(WORK, "dtbench-gpu.tar.gz")
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(folder, "dtbench-emulated")
    subprocess.run(["chmod", "-R", "a-w", folder], check=True)
    return archive


ARCHIVE = make_archive(os.path.join(WORK, "unpacked"))
TEMPORARY = os.path.join(WORK, "tmp")
os.mkdir(TEMPORARY)
ENVIRONMENT = {"TMPDIR": TEMPORARY, "PATH": os.environ["PATH"], "FIRST_GPU_MODEL": TINY}


def command(out, *arguments, root=os.path.join(WORK, "unpacked")):
    return [*APART, sys.executable, os.path.join(root, "scripts/first_gpu"), os.path.join(WORK, out), *arguments]


def call(out, *arguments, environment=None, **more):
    done = subprocess.run(command(out, *arguments, **more), cwd="/", env={**ENVIRONMENT, **(environment or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, check=False)
    return done.returncode, done.stdout


def run(out, *arguments, **more):
    return (*call(out, *arguments, **more), results_of(out))


def results_of(out):
    """{name: result}; every way of keeping them says the same."""
    folder = os.path.join(WORK, out)
    with open(os.path.join(folder, "results.jsonl"), encoding="utf-8") as file:
        results = {r["name"]: r for r in map(json.loads, file)}
    with open(os.path.join(folder, "summary.txt"), encoding="utf-8") as file:
        summary = file.read()
    archive, = (name for name in os.listdir(folder) if name.endswith(".tar.gz"))
    with tarfile.open(os.path.join(folder, archive)) as tar:
        names = [os.path.basename(name) for name in tar.getnames()]
    check(len(os.listdir(folder)) == 3 and "summary.txt" in names and "results.jsonl" in names, os.listdir(folder), names)
    for name, result in results.items():
        check(f"{result['verdict']:<8} {result['part']} {name}" in summary, name, "\n" + summary)
    return results


def verdicts(results):
    return {name: result["verdict"] for name, result in results.items()}


def test_a_bare_machine():
    """The bodies of the checks, on dtbench and a test program."""
    only = ["machine", "test_cuda_linear", "as the CPU's, small fp32", "a replayed step", "launched early compute", "pipeline, 2 ranks, fp16",
            "GPTLarge, batch 20, dtbench", "GPTLarge, batch 20, kernels", "of warpgroups or not"]
    code, said, results = run("bare", *(word for text in only for word in ("--only", text)))
    check(code == 0 and set(verdicts(results).values()) == {"ok"} and len(results) == 11, code, "\n" + said)
    check(all(word in results["machine"]["said"] for word in ("emulated GPU", "; cuBLASLt ", "; cuDNN ", "; NCCL ")), results["machine"])
    check("1 of 1 as they should be" in results["pipeline, 2 ranks, fp16, graphs"]["said"], results)
    check(not os.listdir(TEMPORARY), "a temporary folder is left", os.listdir(TEMPORARY))


def test_what_fails_stops_nothing():
    """From a checkout with the archive, which is unpacked elsewhere."""
    code, said, results = run("bad", "--part", "A", "--limit", "60", "--archive", ARCHIVE, *(word for text in ("test_device", "test_kernels_parts", "test_attention")
                              for word in ("--only", text)), root=ROOT)
    found = verdicts(results)
    check(code == 1, code, "\n" + said)
    check(found["test_device"] == "FAILED" and "1 passed" in results["test_device"]["said"] and "1 == 2" in results["test_device"]["said"], results["test_device"])
    check(found["test_device_cuda"] == "FAILED" and "missing" in results["test_device_cuda"]["said"], results["test_device_cuda"])
    check(found["test_device_graph"] == "ok", results["test_device_graph"])
    check(found["test_kernels_parts"] == "TIMEOUT" and "1 passed" in results["test_kernels_parts"]["said"], results["test_kernels_parts"])
    summary = summary_of("bad")
    check("  test_device.log:3: # x.c:3: 1 == 2: bad" in summary and "  test_kernels_parts.log:2: ok 1 - before" in summary, "\n".join(summary))
    check(not os.listdir(TEMPORARY), "a temporary folder is left", os.listdir(TEMPORARY))
    check(found["test_attention"] == "FAILED" and "no case" in results["test_attention"]["said"] and "not run" not in found.values(), found)


def summary_of(out):
    with open(os.path.join(WORK, out, "summary.txt"), encoding="utf-8") as file:
        return file.read().splitlines()


def test_what_is_missing_is_named_in_a_line_each():
    libraries = {"NCCL": "DTBENCH_LIBNCCL", "cuBLASLt": "DTBENCH_LIBCUBLASLT", "cuDNN": "DTBENCH_LIBCUDNN"}
    for absent in (["NCCL", "cuDNN"], ["cuBLASLt"]):
        out = "without_" + "_".join(absent)
        named = {libraries[name]: f"/nowhere/{name}" for name in absent}
        code, said, results = run(out, "--only", "machine", "--python", "/bin/false", environment=named)
        check(code == 1 and results["machine"]["verdict"] == "FAILED", code, "\n" + said)
        lines = [line for line in summary_of(out) if line.startswith("MISSING: ")]
        found = [line.split(": ")[1] for line in lines]
        check(sorted(name for name in found if name in libraries) == sorted(absent) and "PyTorch" in found, lines)
        for name in absent:
            check(any(f"{name} cannot be loaded: /nowhere/{name} is not there" in line for line in lines), lines)
            check(f"/nowhere/{name} is not there" in results["machine"]["said"], results["machine"])


def test_a_part_has_time_for_all_its_checks():
    code, said = call("", "--list")
    lines = [line.split(maxsplit=3) for line in said.splitlines()]
    check(code == 0 and len({(part, name) for part, _, _, name in lines}) == len(lines) > 50, code, "\n" + said)
    for one in "ABC":
        check(sum(int(seconds) for part, seconds, _, _ in lines if part == one) <= 540, one, "\n" + said)


def test_a_long_name_is_one_that_dtbench_takes():
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    from gpu.checks import experiment
    path = os.path.join(WORK, "named.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**experiment("of " + "many " * 20, {"model": json.loads(TINY)}), "device": "cpu"}, file)
    done = subprocess.run([DTBENCH, "check", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(done.returncode == 0, done.stdout)


def test_the_sanitizer_sees_where_buffers_end():
    tools = os.path.join(WORK, "tools")
    os.mkdir(tools)
    script(os.path.join(tools, "compute-sanitizer"), 'while [ "${1#/}" = "$1" ]; do shift; done; test "$DTBENCH_SEPARATE_BUFFERS" = 1 || exit 9; exec "$@"')
    ENVIRONMENT["PATH"] += ":" + tools
    code, said, results = run("sanitized", "--only", "test_kernels_update")
    check(code == 0 and verdicts(results) == {"test_kernels_update": "ok", "memcheck of test_kernels_update": "ok"}, code, "\n" + said)


def running():
    """The command lines of what this test has started and what that has left behind; of processes that have ended they are empty."""
    found = []
    for pid in descendants(os.getpid()):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                found.append(file.read())
        except OSError:  # it has ended, perhaps since the file was opened
            pass
    return [line for line in found if line]


def test_the_end_is_in_order():
    with subprocess.Popen(command("ended", "--only", "test_kernels_parts", "--only", "tune"), cwd="/", env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        try:
            wait_for(lambda: "sleep\x001000\x00" in running(), 30, "the program that hangs")
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=60 * PATIENCE)
        finally:
            process.kill()
    check(process.returncode == 143, process.returncode, said)
    found = verdicts(results_of("ended"))
    check(found["test_kernels_parts"] == "stopped" and found["tune"] == "not run", found)
    check("stopped by SIGTERM" in summary_of("ended") and "  test_kernels_parts.log:2: ok 1 - before" in summary_of("ended"), "\n".join(summary_of("ended")))
    wait_for(lambda: not running(), 10, "the end of the program that hangs")


def test_where_results_go():
    """The archive of an earlier call stays; a folder that takes none is said at once."""
    for _ in "12":
        code, said = call("again", "--only", "machine")
        check(code == 0, code, "\n" + said)
    check(sorted(os.listdir(os.path.join(WORK, "again"))) == ["first_gpu_ABC.tar.gz", "first_gpu_ABC_2.tar.gz", "results.jsonl", "summary.txt"],
          os.listdir(os.path.join(WORK, "again")))
    code, said, results = run("empty", "--archive", "/nowhere/dtbench-gpu.tar.gz")
    check(code == 2 and "/nowhere/dtbench-gpu.tar.gz" in summary_of("empty")[0] and not results and not os.listdir(TEMPORARY), code, "\n" + said)
    code, said = call("dtbench-gpu.tar.gz/out", "--only", "machine")
    check(code == 2 and said.startswith("first_gpu: ") and said.count("\n") == 1, code, "\n" + said)


if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:3]
    try:
        failed = run_all([(name[5:], function) for name, function in list(globals().items()) if name.startswith("test_")])
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(failed)
