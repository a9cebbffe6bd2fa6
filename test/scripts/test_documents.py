"""The documents against the source: links, paths, functions, commands and options that they name must exist. Prints TAP.

Usage: test_documents.py DTBENCH SOURCE_ROOT [DOCUMENT...]
Without DOCUMENTs all Markdown files of the source are read; with them only these, whose relative links start from their own folders.
"""
import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

README_LINES = 150
PARTS = ("lib", "gpt", "vision", "schedules", "predict", "cli", "test", "scripts", "configs", "results", "docs")
# Options of other programs that the documents show.
FOREIGN_OPTIONS = {
    "srun": "--container-mount-home --nodes --mpi --gpus --gpus-per-node --gpus-per-task --gpu-bind --ntasks-per-node --distribution --exclusive",
    "sbatch": "--array --nodes --ntasks-per-node --time --requeue --signal --exclusive",
    "mpirun": "--allow-run-as-root --oversubscribe",
    "eb": "--check-style --missing-modules",
    "containers": "--nv --ipc --device --rm --build-arg",
    "meson": "--no-tests --buildtype --prefix --list --verbose --no-rebuild --print-errorlogs",
    "apt-get": "--no-install-recommends",
    "analyze_mutants": "--mutantDir --numMutants",
}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?<![\w/.$-])((?:%s)/[\w./*{},<>-]*[\w*}>/])" % "|".join(PARTS))
FUNCTION = re.compile(r"^([a-z]\w*)\(\)$")
OPTION = re.compile(r"(?<![\w-])(--[a-z][A-Za-z-]*)")
COMMAND = re.compile(r"(?:^|[\s/])dtbench\s+([a-z]\w*)")


class Document:
    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().splitlines()
        self.fenced = []  # (number, line) of code blocks
        self.prose = []  # (number, line) of the rest
        inside = False
        for number, line in enumerate(self.lines, 1):
            if line.lstrip().startswith("```"):
                inside = not inside
            else:
                (self.fenced if inside else self.prose).append((number, line))

    def inline_code(self):
        for number, line in self.prose:
            for code in CODE.findall(line):
                yield number, code

    def anchors(self):
        """The names that headings have in links, as GitHub makes them."""
        for _, line in self.prose:
            heading = re.match(r"#+\s+(.*)", line)
            if heading:
                yield re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")


def all_documents(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build")) and f != "out")
        for name in sorted(files):
            if name.endswith(".md"):
                yield Document(os.path.join(folder, name))


def broken_links(documents):
    anchors = {}
    for document in documents:
        for number, line in document.prose:
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(document.path), path)) if path else document.path
                if not os.path.exists(path):
                    yield document, number, f"the link to {target} leads nowhere"
                elif anchor and path.endswith(".md"):
                    if path not in anchors:
                        anchors[path] = set(Document(path).anchors())
                    if anchor not in anchors[path]:
                        yield document, number, f"{os.path.basename(path)} has no heading #{anchor}"


def alternatives(pattern):
    """The paths that a pattern with {a,b} stands for."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if not match:
        return [pattern]
    return [p for choice in match[1].split(",") for p in alternatives(pattern[: match.start()] + choice.strip() + pattern[match.end() :])]


def missing_paths(documents, root):
    for document in documents:
        for number, text in [*document.inline_code(), *document.fenced]:
            for path in PATH.findall(text):
                if re.search(r"[A-Z]{2,}|<", path) and not path.endswith((".md", "LICENSE")):
                    continue  # figure_NN.json, test_<module>.c: the reader fills them in
                for one in alternatives(path):
                    if not glob.glob(os.path.join(root, one)):
                        yield document, number, f"there is no {one}"


def source_text(root):
    texts = []
    for part in ("lib", "gpt", "vision", "schedules", "predict", "cli", "test"):
        for folder, _, files in os.walk(os.path.join(root, part)):
            for name in files:
                if name.endswith((".c", ".h", ".cu", ".cuh", ".cpp")):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        texts.append(file.read())
    return "\n".join(texts)


def missing_functions(documents, root):
    known = set(re.findall(r"\b([a-z]\w*)\b", source_text(root)))
    for document in documents:
        for number, code in document.inline_code():
            function = FUNCTION.match(code)
            if function and function[1] not in known:
                yield document, number, f"there is no function {code}"


class Program:
    def __init__(self, path):
        self.path = path
        self.commands = {}
        for command in re.findall(r"^  ([a-z]+) ", self.help().split("Options")[0], re.MULTILINE):
            self.commands[command] = set(OPTION.findall(self.help(command)))
        self.options = set().union(*self.commands.values(), OPTION.findall(self.help()))

    def help(self, *command):
        return subprocess.run([self.path, "help", *command], capture_output=True, text=True, check=True, timeout=60).stdout


def script_options(root):
    """The options of scripts, which their --help takes from their text."""
    options = set()
    for path in glob.glob(os.path.join(root, "scripts", "*")):
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                options |= set(OPTION.findall(file.read()))
    return options


def wrong_options(documents, program, root):
    elsewhere = script_options(root) | set(" ".join(FOREIGN_OPTIONS.values()).split())
    for document in documents:
        for number, text in document.inline_code():
            for option in OPTION.findall(text):
                if option not in program.options | elsewhere:
                    yield document, number, f"nothing has an option {option}"
        for number, text in [*document.inline_code(), *document.fenced]:
            text = re.sub(r"\s#\s.*|\s{2,}#.*", "", text)  # a comment after a command
            command = COMMAND.search(text)
            if not command or not re.match(r"\$ |[\w./]*(dtbench|mpirun|srun|scripts/)", text.strip()):
                continue
            if command[1] not in program.commands:
                if command[1] != "generate":  # for the source tree only
                    yield document, number, f"there is no command dtbench {command[1]}"
                continue
            for option in OPTION.findall(text[command.end() :]):
                if option not in program.commands[command[1]]:
                    yield document, number, f"dtbench {command[1]} has no option {option}"


def unknown_messages(documents, root):
    """Messages in the tables below "When something is wrong": each run of words without a number must be in the source."""
    known = re.sub(r'"\s*"', "", source_text(root)).replace("%s", "")
    for document in documents:
        inside = False
        for number, line in document.prose:
            if line.startswith("#"):
                inside = line.endswith("When something is wrong")
            if not inside or not line.startswith("| `"):
                continue
            for code in CODE.findall(line.split("|")[1]):
                if code.startswith(("srun:", ".", "provenance")):
                    continue  # Slurm's own; names of files and fields
                for words in re.split(r"\.\.\.|:|\S*\d\S*|Open MPI|^srun|experiment|ranks?\b|nodes?\b|GPU-", code):
                    words = words.strip(" ,.-")
                    if " " in words and words not in known:
                        yield document, number, f"no message has '{words}'"


def ragged_tables(documents):
    """Rows of a table must have as many cells as its first one."""
    for document in documents:
        cells = None
        for number, line in document.prose:
            row = re.sub(r"`[^`]*`", "", line.strip()).replace(r"\|", "")
            if not row.startswith("|"):
                cells = None
                continue
            count = row.count("|")
            if cells is not None and count != cells:
                yield document, number, f"the table has {cells - 1} columns and this row {count - 1}"
            cells = cells or count


def unreachable_pages(root):
    """Every page in docs/ is linked from the README."""
    readme = Document(os.path.join(root, "README.md"))
    linked = {target.partition("#")[0] for line in readme.lines for target in LINK.findall(line)}
    for path in sorted(glob.glob(os.path.join(root, "docs", "*.md"))):
        name = os.path.relpath(path, root)
        if name not in linked:
            yield readme, 1, f"no link leads to {name}"


def unlicensed_libraries(program, root):
    """Each library that the program is linked with has its row in docs/licences.md; the loader is part of one of them."""
    if not shutil.which("readelf"):
        return
    page = Document(os.path.join(root, "docs", "licences.md"))
    needed = subprocess.run(["readelf", "-dW", program.path], capture_output=True, text=True, check=True, timeout=60).stdout
    for library in re.findall(r"\(NEEDED\).*\[(lib[^]]+)\.so", needed):
        if not any(f"`{library}`" in line for _, line in page.prose):
            yield page, 1, f"no row has the licence of {library}"


def unnamed_folders(root):
    """docs/architecture.md says of each folder with code what lives there."""
    page = Document(os.path.join(root, "docs", "architecture.md"))
    named = {code for number, line in page.prose if line.startswith("|") for code in CODE.findall(line)}
    for part in ("lib", "gpt", "vision", "schedules", "predict", "cli"):
        for folder, _, files in os.walk(os.path.join(root, part)):
            name = os.path.relpath(folder, root)
            if any(file.endswith((".c", ".cu")) for file in files) and not {name, name + "/main.c"} & named:
                yield page, 1, f"no row for {name}"


def wrong_additions(root, page=None):
    """The table "Adding" of CONTRIBUTING.md names, for each example, the files of the product that have its word, and no other."""
    page = page or Document(os.path.join(root, "CONTRIBUTING.md"))
    texts = {}
    for part in ("lib", "gpt", "vision", "schedules", "predict", "cli"):
        for folder, _, files in os.walk(os.path.join(root, part)):
            for name in files:
                if name.endswith((".c", ".h", ".cu", ".cuh")) or name == "meson.build":
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        texts[os.path.relpath(os.path.join(folder, name), root)] = file.read()
    rows = [(number, line.split("|")) for number, line in page.prose if re.match(r"\| an? [^|]*\| `\w+` \|", line)]
    for number, (_, _, example, change, _) in rows:
        word = CODE.search(example)[1]
        have = {path for path, text in texts.items() if re.search(rf"\b{word}\b", text)}
        named = {path for path in PATH.findall(change) if path in texts}
        for path in sorted(have ^ named):
            yield page, number, f"{word} is {'also' if path in have else 'not'} in {path}"
        for path in sorted(named):
            folder, name = os.path.split(path)
            if name.endswith(".c") and f"'{name}'" not in texts.get(f"{folder}/meson.build", f"'{name}'"):
                yield page, number, f"{folder}/meson.build has no {name}"
    if len(rows) < 9:
        yield page, 1, f"{len(rows)} rows say what adding changes"


# Facts that readers have missed, and the page that must have them.
SAID = {
    "docs/memory.md": ("updates on the host what its memory allows",),
    "docs/simulator.md": ("a sweep of `cluster` changes the software", "a line for each config"),
    "docs/models.md": ("16.0 billion parameters", "Not supported: mixtures of experts; products in FP8 on devices other than `sim`"),
    "docs/comparing.md": ("predicted, not measured: cluster gcp_a2",),
    "docs/running.md": ("cli/completion/dtbench.bash",),
    "docs/planning.md": ("--deadline 90d", "with Adam, in bf16"),
}


def unsaid(root):
    for path, words in SAID.items():
        page = Document(os.path.join(root, path))
        text = " ".join(" ".join(page.lines).split())
        for missing in (word for word in words if word not in text):
            yield page, 1, f"does not say \"{missing}\""


def other_versions(root):
    """The version of meson.build is that of the changelog's first heading, and of the recipes that name a release."""
    def read(path):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            return file.read()

    version = re.search(r"^  version: '(\d+\.\d+\.\d+)'", read("meson.build"), re.M)[1]
    recipe, = glob.glob("scripts/packaging/easybuild/*.eb", root_dir=root)
    for path, text, pattern in (
        ("CHANGELOG.md", None, r"^## \[(.*?)\]"),
        (recipe, os.path.basename(recipe), r"^dtbench-([\d.]+)-"),
        (recipe, None, r"^version = '(.*)'"),
        ("scripts/packaging/spack/package.py", None, r'^    version\("(.*?)"'),
        ("scripts/packaging/spack/package.py", None, r"dtbench-([\d.]+)\.tar"),
    ):
        found = re.search(pattern, text or read(path), re.M)
        if not found or found[1] != version:
            yield Document(os.path.join(root, path)), 1, f"the version is {found and found[1]}, that of meson.build {version}"


def stale_figures(root):
    """Errors of profiles are those that the profiles have, and the study's those that its page has."""
    page = Document(os.path.join(root, "docs", "simulator.md"))
    rows = 0
    for number, line in page.prose:
        cells = [cell.strip() for cell in line.split("|")[1:]]
        for name in CODE.findall(cells[0]) if len(cells) > 4 else []:
            path = os.path.join(root, "configs", "profiles", name + ".json")
            if not os.path.exists(path):
                continue
            rows += 1
            with open(path, encoding="utf-8") as source:
                error = json.load(source)["error"]
            told = [f"{100 * error[key]:.1f}" for key in ("median", "eight", "most")]
            if cells[1:4] != told:
                yield page, number, f"{name}: {', '.join(cells[1:4])}, and the profile's error is {', '.join(told)}"
    if rows < 8:
        yield page, 1, f"{rows} rows have errors of profiles"
    readme = Document(os.path.join(root, "README.md"))
    study = Document(os.path.join(root, "results", "study", "README.md"))
    told, = (line.split() for line in study.lines if line.startswith("all ") and " 1045 " in line)
    wanted = f"step time off by {told[2]} % (median), peak memory by {told[5]} %"
    if not any(wanted in line for line in readme.lines):
        yield readme, 1, f"does not say what results/study does: \"{wanted}\""


def long_readme(root):
    readme = Document(os.path.join(root, "README.md"))
    if len(readme.lines) > README_LINES:
        yield readme, len(readme.lines), f"more than {README_LINES} lines"


MISTAKES = """[a page](nowhere.md)
[a heading](#nothing)
`lib/base/nothing.c`
`no_such_function()`
`--no-such-option`
`dtbench nothing`
`dtbench merge --shard`
|a|b|
|---|---|
|a|

| a mode | `dp_zero2` | `schedules/data_parallel/ddp.c` |

## When something is wrong
| `what nobody says` |
"""


def unseen_mistakes(program, root):
    """The checks above must find every line of MISTAKES that is one."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mistakes.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(MISTAKES)
        one = [Document(path)]
        checks = (broken_links(one), missing_paths(one, root), missing_functions(one, root), wrong_options(one, program, root),
                  unknown_messages(one, root), ragged_tables(one), wrong_additions(root, one[0]))
        found = {line for complaints in checks for _, line, _ in complaints}
        for line in {1, 2, 3, 4, 5, 6, 7, 10, 12, 15} - found:
            yield one[0], line, "this mistake was not found"


def main():
    program, root = Program(sys.argv[1]), os.path.abspath(sys.argv[2])
    documents = [Document(os.path.abspath(path)) for path in sys.argv[3:]] or list(all_documents(root))
    # The changelog is history: files that it names may be gone.
    present = [d for d in documents if not fnmatch.fnmatch(os.path.basename(d.path), "CHANGELOG*")]
    checks = [
        ("README.md is short", long_readme(root)),
        ("every page in docs/ is linked from README.md", unreachable_pages(root)),
        ("docs/architecture.md has a row for each folder", unnamed_folders(root)),
        ("CONTRIBUTING.md names the files that adding changes", wrong_additions(root)),
        ("docs/licences.md has what is linked", unlicensed_libraries(program, root)),
        ("there is one version", other_versions(root)),
        ("relative links resolve", broken_links(documents)),
        ("paths of the source exist", missing_paths(present, root)),
        ("functions exist", missing_functions(present, root)),
        ("commands and options of dtbench exist", wrong_options(present, program, root)),
        ("messages of dtbench exist", unknown_messages(present, root)),
        ("rows of tables have their columns", ragged_tables(documents)),
        ("what readers have missed is said", unsaid(root)),
        ("figures are those of their sources", stale_figures(root)),
        ("mistakes are found", unseen_mistakes(program, root)),
    ]
    failed = 0
    print(f"1..{len(checks)}")
    for number, (name, complaints) in enumerate(checks, 1):
        complaints = list(complaints)
        failed += bool(complaints)
        for document, line, text in complaints:
            print(f"# {os.path.relpath(document.path, root)}:{line}: {text}")
        print(f"{'not ok' if complaints else 'ok'} {number} - {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
