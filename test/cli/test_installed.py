"""The installed tree: files are where the file hierarchy standard puts them, and the program finds its files from another folder, through a link, after the
prefix was moved, and writes nothing there. Prints TAP. Usage: test_installed.py BUILD [CASE...]."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import command  # beside this script
from command import OK, WORK, Skip, check, chosen, one, records_path, run, run_all
from tap_cases import COMMAND_S

BUILD = os.path.abspath(sys.argv[1])
DESTINATION = os.path.join(WORK, "destination")
COMPLETIONS = ("bash-completion/completions/dtbench", "zsh/site-functions/_dtbench", "fish/vendor_completions.d/dtbench.fish")


def installed():
    """The prefix with bin and share, after the first call has made it and taken away the right to write there."""
    if not os.path.exists(DESTINATION):
        if not shutil.which("meson"):
            raise Skip("meson is not on the PATH")
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", DESTINATION], stdout=subprocess.DEVNULL, timeout=COMMAND_S,
                       check=True)
        subprocess.run(["chmod", "-R", "a-w", DESTINATION], check=True)
    return os.path.dirname(os.path.dirname(glob.glob(os.path.join(glob.escape(DESTINATION), "**/bin/dtbench"), recursive=True)[0]))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def inventory(folder):
    return {name: os.stat(name).st_mtime_ns for name in glob.glob(os.path.join(glob.escape(folder), "**"), recursive=True)}


def check_works(program, share):
    """Commands that need files of the installation, from a folder that has none of them."""
    command.DTBENCH = program
    here, configs = inventory(share), os.path.join(share, "dtbench", "configs")
    check(run("--version", code=OK).stdout.startswith("dtbench "), "no version")
    check("dgx_h100" in run("list", "--clusters", code=OK).stdout, "no clusters")
    run("check", os.path.join(configs, "quickstart.json"), code=OK)
    check('"status":"ok"' in run("run", os.path.join(configs, "smoke.json"), "--device", "sim", "-o", "-", code=OK).stdout, "no prediction")
    said = run("fit", "no.csv", "--cluster", "dgx_a100", "-o", "fitted.json", code=3).stderr  # the script is there, and finds the clusters
    check(said == "dtbench fit: no.csv: no such file\n", said)
    output = records_path("installed.jsonl")
    run("run", one("ddp"), "-o", output, "-q", code=OK)  # ranks are the program itself, started by mpirun
    check(json.loads(read(output))["status"] == "ok", "no training")
    run("report", output, "-o", records_path("report.html"), code=OK)
    check(inventory(share) == here, "something was written into the installation")


def test_files_are_where_the_standard_has_them():
    share = os.path.join(installed(), "share")
    wanted = ["dtbench/configs/quickstart.json", "dtbench/configs/schema/record.schema.json", "dtbench/configs/profiles/dtbench_cuda_a100.json",
              "dtbench/scripts/sweep.sbatch", "man/man1/dtbench.1", "doc/dtbench/LICENSE", "doc/dtbench/docs/records.md", *COMPLETIONS]
    missing = [name for name in wanted if not os.path.exists(os.path.join(share, name))]
    check(not missing, "missing:", missing)
    check(os.access(os.path.join(share, "dtbench/scripts/plot.py"), os.X_OK), "no program: plot.py")


def test_each_command_has_a_page():
    command.DTBENCH = os.path.join(installed(), "bin", "dtbench")
    folder = os.path.join(installed(), "share", "man", "man1")
    version = re.match(r"dtbench (\S+) \((\S+)\)", run("--version", code=OK).stdout)
    main = read(os.path.join(folder, "dtbench.1"))
    commands = re.findall(r"^  ([a-z]+) +\w", run("--help", code=OK).stdout.split("\nOptions\n")[0], re.M)
    check(len(commands) > 10 and len(os.listdir(folder)) == len(commands) + 1, commands, os.listdir(folder))
    for name in commands:
        page = read(os.path.join(folder, f"dtbench-{name}.1"))
        check(f" Xr dtbench-{name} 1\n" in main, name, "is not in the page of dtbench")
        check(page.startswith(f".Dd dtbench {version[1]} commit {version[2]}\n"), page[:60])
        for letter, option in re.findall(r"^  (?:-(\w), |    )--([a-z-]+)", run(name, "--help", code=OK).stdout, re.M):
            check(option == "help" or (f"Fl {letter} , -{option}" if letter else f"Fl -{option}") in page, option, "is not in the page of", name)
    for code in re.findall(r"^  (\d+) +\w", run("--help", code=OK).stdout, re.M):
        check(all(f".It {code}\n" in page for page in (main, read(os.path.join(folder, "dtbench-run.1")))), "exit code", code, "is in no page")


def test_pages_are_formatted():
    if not shutil.which("groff"):
        raise Skip("groff is not installed")
    pages = sorted(glob.glob(os.path.join(installed(), "share/man/man1/*")))
    check(len(pages) > 10, pages)
    for page in pages:
        result = subprocess.run(["groff", "-ww", "-z", "-mdoc", "-Tutf8", page], capture_output=True, text=True, timeout=COMMAND_S, check=False)
        check(result.returncode == 0 and not result.stderr, page, result.stderr)


def test_it_works_where_it_was_put_and_after_a_move():
    prefix = installed()
    check_works(os.path.join(prefix, "bin", "dtbench"), os.path.join(prefix, "share"))
    moved = os.path.join(WORK, "moved to", "another prefix")
    shutil.copytree(prefix, moved)
    hidden = DESTINATION + ".hidden"
    os.rename(DESTINATION, hidden)
    try:
        link = os.path.join(WORK, "dtbench-link")
        os.symlink(os.path.join(moved, "bin", "dtbench"), link)
        check_works(link, os.path.join(moved, "share"))
    finally:
        os.rename(hidden, DESTINATION)


if __name__ == "__main__":
    try:
        failed = run_all(chosen(globals()))
    finally:
        subprocess.run(["chmod", "-R", "u+w", WORK], check=False)
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(failed)
