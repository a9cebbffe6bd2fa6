"""What scripts/first_gpu finds on a machine: dtbench and its tests, PyTorch, the libraries in its wheels, NVIDIA's tools."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ARCHIVE = os.path.join(ROOT, "out", "dtbench-gpu.tar.gz")  # scripts/pack_gpu's


class Missing(Exception):
    """Nothing can be run without it; the text says what it is."""


class Programs:
    """Folders of dtbench and its test programs, whichever way they came here."""

    def __init__(self, dtbench, tests, losses):
        self.dtbench, self.tests, self.losses = dtbench, tests, losses

    def test(self, name):
        """A test program, or a program that measures; None: it is not here."""
        found = (os.path.join(self.tests, *folder, name) for folder in ((), ("bench",)))
        return next((path for path in found if os.access(path, os.X_OK)), None)


def in_folder(folder):
    """Of an unpacked archive."""
    return Programs(os.path.join(folder, "bin/dtbench"), os.path.join(folder, "test"), os.path.join(folder, "cpu_losses.json"))


def answer_of(*command, variables=None):
    """Whether this program ends well within moments, and what it says, or why it does not."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False, env=variables)
    except (OSError, subprocess.SubprocessError) as problem:
        return False, str(problem)
    return done.returncode == 0, done.stdout.decode(errors="replace").strip()


def unpack(archive, runner):
    """Into the first folder from which programs can be started: some are mounted so that none can."""
    said = "no folder to unpack it in"
    for folder in (runner.work, runner.out):
        try:
            target = runner.temporary_folder(folder, "unpacked_")
            with tarfile.open(archive) as tar:
                tar.extractall(target, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
            inner = os.path.join(target, os.listdir(target)[0])
        except (OSError, tarfile.TarError, IndexError) as problem:
            said = str(problem)
            continue
        well, said = answer_of(in_folder(inner).dtbench, "--version")
        if well:
            return in_folder(inner)
        shutil.rmtree(target, ignore_errors=True)
    raise Missing(f"{archive}: {said}")


def find_programs(archive, build, runner):
    """The archive that is named; else what this script was unpacked with, what was built here, or the archive that pack_gpu leaves here."""
    if archive:
        return unpack(archive, runner)
    if os.access(os.path.join(ROOT, "bin/dtbench"), os.X_OK):
        return in_folder(ROOT)
    built = Programs(os.path.join(build, "cli/dtbench"), os.path.join(build, "test"), os.path.join(build, "cpu_losses.json"))
    if os.access(built.dtbench, os.X_OK):
        return built
    if os.path.exists(ARCHIVE):
        return unpack(ARCHIVE, runner)
    raise Missing(f"no dtbench: neither {built.dtbench} nor {ARCHIVE}; name a build with --build, or scripts/pack_gpu's archive with --archive")


def site_of_torch(python):
    """(the folder in which this interpreter finds PyTorch, its version); None: it does not."""
    ask = "import importlib.util as u, importlib.metadata as m, os; print(os.path.dirname(os.path.dirname(u.find_spec('torch').origin))); print(next((d.version for d in m.distributions(name='torch')), 'unknown'))"
    well, said = answer_of(python, "-c", ask)
    return said.splitlines()[-2:] if well else None


def find_torch(named):
    """(interpreter, its folder of packages, version) of PyTorch; None three times where there is none."""
    folders = os.environ.get("PATH", "").split(os.pathsep) + ["/usr/bin", "/usr/local/bin", "/opt/conda/bin", *glob.glob("/opt/*/.venv/bin"), *glob.glob("/opt/*/bin")]
    pythons = [named] if named else [sys.executable] + [os.path.join(folder, "python3") for folder in folders]
    for python in dict.fromkeys(pythons):
        if python and os.access(python, os.X_OK):
            found = site_of_torch(python)
            if found:
                return python, *found
    return None, None, None


def library(site, pattern):
    """The one of PyTorch's wheels, or of its own folder; None: the system's is taken, as dtbench finds it."""
    for folder in ("nvidia/*/lib", "torch/lib") if site else ():
        found = sorted(glob.glob(os.path.join(site, folder, pattern)))
        if found:
            return found[-1]
    return None


def cublaslt_of(dtbench):
    """The name of the cuBLASLt that it was compiled for: CUDA's major version counts. None: it was compiled without CUDA."""
    with open(dtbench, "rb") as file:
        found = re.search(rb"libcublasLt\.so\.[0-9]+", file.read())
    return found and found.group().decode()


def environment(site, work, dtbench):
    """Of dtbench and the tests, and of PyTorch: caches in a folder that can be written to, and the libraries of PyTorch's wheels by their paths, so
    that other tools keep their own."""
    variables = dict(os.environ)
    folders = [("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton"), ("CUDA_CACHE_PATH", "cuda")]
    if not os.access(os.environ.get("HOME", "/nowhere"), os.W_OK):
        folders.append(("HOME", "home"))
    for variable, folder in folders:
        variables[variable] = os.path.join(work, "caches", folder)
        os.makedirs(variables[variable], exist_ok=True)
    variables["PYTHONUNBUFFERED"] = variables["PYTHONDONTWRITEBYTECODE"] = "1"
    for variable, name in (("DTBENCH_LIBNCCL", "libnccl.so.2"), ("DTBENCH_LIBCUBLASLT", cublaslt_of(dtbench)), ("DTBENCH_LIBCUDNN", "libcudnn.so.9")):
        found = library(site, name) if name else None
        if found and variable not in os.environ:
            variables[variable] = found
    return variables


def find_tool(name):
    """nvcc's own folder is not always on the PATH, and Nsight Compute has one for each version."""
    found = shutil.which(name)
    patterns = (f"/usr/local/cuda*/bin/{name}", f"/usr/local/cuda*/{name}/{name}", f"/opt/nvidia/nsight-compute/*/{name}", f"/usr/local/cuda*/nsight-compute*/{name}")
    return found or next((path for pattern in patterns for path in reversed(sorted(glob.glob(pattern))) if os.access(path, os.X_OK)), None)


class Machine:
    """What there is, and what is not.

    gpu       dtbench list's words of the GPUs and of their libraries; None: it sees none
    missing   {library or tool: why, and what is not done without it}"""

    def __init__(self, dtbench, variables, torch):
        # In one line each: dtbench folds its tables to the width that it is told.
        said = answer_of(dtbench, "list", variables={**variables, "COLUMNS": "1000"})[1]
        rows = {row[0]: row[1:] for row in re.findall(r"^(cuda|nccl) +(yes|no) +(.*)", said, re.MULTILINE)}
        there, words = rows.get("cuda", ("no", said.strip().rpartition("\n")[2] or "dtbench list says nothing"))
        gpu, *lacking = re.split(r"(?:; |: |^)no kernels for ", words)
        self.gpu = gpu if there == "yes" else None
        self.missing = {} if self.gpu else {"GPU": gpu}
        for words in lacking:
            family, _, why = words.partition(": ")
            self.missing[{"gpt": "cuBLASLt", "vision": "cuDNN"}.get(family, f"kernels for {family}")] = why
        there, self.nccl = rows.get("nccl", ("no", "dtbench list does not name it"))
        if there != "yes":
            self.missing["NCCL"] = f"{self.nccl}: no check of part C with several ranks can be made"
        self.needed = list(self.missing)
        if not torch:
            self.missing["PyTorch"] = "no python3 here has it (one can be named with --python): part B compares with nothing"
        for tool, without in (("nvidia-smi", "driver and clocks are not shown"), ("compute-sanitizer", "memcheck and racecheck are skipped"), ("ncu", "no counters of kernels")):
            if not find_tool(tool):
                self.missing[tool] = f"not on the PATH, nor in CUDA's folders: {without}"

    def count(self):
        """GPUs."""
        found = re.match(r"(\d+) x ", self.gpu or "")
        return int(found.group(1)) if found else 0
