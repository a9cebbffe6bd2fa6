#!/usr/bin/env python3
"""Fit the constants of a simulated cluster and its software to measured runs.

The constants below, and nothing else, are changed until `dtbench validate`'s step times are near those that were measured: Gauss-Newton on
the logarithms of predicted over measured time, with Huber's weights, since repeats of a run differ. Numbers from a data sheet or a source
file are not fitted. --folds leaves whole models and whole GPU counts out in turn and prints the errors on what was left out.

  scripts/fit_profile.py                    fit on all rows, write cluster and profile files in place
  scripts/fit_profile.py --folds            hold-outs only; writes nothing but the table
  scripts/fit_profile.py --unseen --every 4 the errors, with the constants as they are, on the rows that a fit with --every 4 does not see
  scripts/fit_profile.py --leave COLUMN     the same for any table: each value of a column left out in turn
  scripts/fit_profile.py --cross COLUMN --every 4   four fits, each on another quarter; the errors on the rows that a fit did not see
  scripts/fit_profile.py --only gemm.peak_fraction host.launch_s --data T.csv --profile P.json --cluster C.json --set model.attention=unfused
                                            another table, and fewer constants
Needs python3 alone. A round on all rows takes about 23 predictions of 20 s on one core; --every 4 is enough to fit on.
"""
import argparse
import concurrent.futures
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)

# (file, path of the constant, or of several that are one, least, most, a first estimate that
# hold-outs begin with)
CONSTANTS = [
    ("profile", "gemm.peak_fraction", 0.3, 1, 0.8),
    ("profile", "gemm.half_k", 1, 4000, 500),
    ("profile", "gemm.half_aligned", 0.01, 1, 0.05),
    ("profile", "gemm.unbatched_unaligned", 0.1, 1, 0.5),
    ("profile", "bandwidth_fraction", 0.3, 1, 0.7),
    ("profile", "kernels.linear_weight_gradient.weight_passes", 0.2, 10, 3),
    ("profile", "kernels.sgd.passes", 3, 60, 7),
    ("profile", "host.launch_s", 1e-6, 1e-4, 1e-5),
    ("profile", "host.interpreter_launch_s", 1e-6, 3e-4, 3e-5),
    ("profile", "host.step_s", 1e-3, 0.2, 0.02),
    ("profile", "host.gather_s", 1e-5, 1e-2, 5e-4),
    ("profile", "host.collective_s", 1e-6, 1e-3, 2e-5),
    ("profile", "host.message_s", 1e-6, 1e-2, 1e-4),
    ("profile", "host.tensor_rank_s", 1e-6, 1e-2, 1e-4),
    ("profile", "memory.reallocation_s_per_gb", 1e-4, 1, 0.01),
    ("profile", "memory.reallocation_spread", 0.005, 1, 0.1),
    ("cluster", "pcie.gb_per_s", 3, 16, 12),
    ("cluster", "nic.flow_gbit_per_s", 5, 90, 16),
    ("cluster", "nic.more_nodes", 0.5, 1, 0.95),
    ("cluster", "nic.fewer_gpus", 0.5, 1, 0.95),
    ("cluster", "nic.tree", 0.2, 1, 0.9),
    ("cluster", "nic.gain", 0.01, 1, 0.44),
    ("cluster", "nic.latency_us", 1, 1000, 40),
]
# What each fold leaves out completely: two models and a number of GPUs.
FOLDS = [({"GPTSmall", "GPT6.7B"}, "16"), ({"GPTMedium", "GPT2.7B"}, "32"), ({"GPTLarge", "GPT13B"}, "128")]
ROUNDING_S = 0.005  # step times are rounded to 10 ms
HUBER = 0.08  # beyond this logarithm a row has no more influence
PRIOR = 0.15  # damping of each step: how firmly a constant that no row determines keeps its value


def get(tree, paths):
    """None where the file leaves the constant out."""
    for key in paths.split()[0].split("."):
        tree = tree.get(key, {})
    return tree if tree != {} else None


def put(tree, paths, value):
    for path in paths.split():
        *parents, last = path.split(".")
        at = tree
        for key in parents:
            at = at[key]
        at[last] = value


class Model:
    """Files, and how to predict rows with changed constants."""

    def __init__(self, dtbench, cluster, profile, folder, sets):
        self.dtbench, self.folder = dtbench, folder
        self.sets = [word for one in sets for word in ("--set", one)]
        self.files = {"cluster": json.load(open(cluster)), "profile": json.load(open(profile))}

    def start(self):
        return [get(self.files[file], path) for file, path, _, _, _ in CONSTANTS]

    def write(self, values, name):
        paths = {}
        trees = {file: json.loads(json.dumps(tree)) for file, tree in self.files.items()}
        for (file, path, _, _, _), value in zip(CONSTANTS, values):
            put(trees[file], path, value)
        for file, tree in trees.items():
            paths[file] = os.path.join(self.folder, f"{name}_{file}.json")
            with open(paths[file], "w") as to:
                json.dump(tree, to)
        return paths

    def validate(self, values, data, name):
        """The output of `dtbench validate --json` for the rows in `data` with these constants."""
        paths = self.write(values, name)
        done = subprocess.run([self.dtbench, "validate", "--json", "--data", data, "--cluster", paths["cluster"], "--profile",
                               paths["profile"], *self.sets], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"fit_profile: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def predict(self, values, data, name):
        return self.validate(values, data, name)["rows"]


def write_rows(names, rows, path):
    with open(path, "w", newline="") as to:
        writer = csv.DictWriter(to, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def residuals(predicted):
    """Logarithm of predicted over measured, less for times that rounding blurs; 0 where there is no prediction."""
    out = []
    for row in predicted:
        if row["predicted_step_s"] is None or row["measured_step_s"] is None:
            out.append(0.0)
            continue
        error = math.log(row["predicted_step_s"] / row["measured_step_s"])
        out.append(error / math.hypot(1, ROUNDING_S / row["measured_step_s"] / 0.04))
    return out


def solve(matrix, right):
    """Gaussian elimination with pivoting."""
    n = len(right)
    rows = [line[:] + [value] for line, value in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, n):
            factor = rows[r][i] / rows[i][i]
            for c in range(i, n + 1):
                rows[r][c] -= factor * rows[i][c]
    out = [0.0] * n
    for i in reversed(range(n)):
        out[i] = (rows[i][n] - sum(rows[i][c] * out[c] for c in range(i + 1, n))) / rows[i][i]
    return out


def cost(errors):
    return sum(e * e if abs(e) < HUBER else 2 * HUBER * abs(e) - HUBER * HUBER for e in errors)


def moved(value, step, least, most):
    return min(max(value * math.exp(step), least), most)


def fit(model, data, values, rounds, jobs, quiet=False):
    limits = [(least, most) for _, _, least, most, _ in CONSTANTS]
    small = 0.04
    base = residuals(model.predict(values, data, "base"))
    damping = 1.0
    for round_number in range(rounds):
        def column(i):
            least, most = limits[i]
            step = small if moved(values[i], small, least, most) != values[i] else -small
            other = values[:]
            other[i] = moved(values[i], step, least, most)
            width = math.log(other[i] / values[i])
            return [(b - a) / width for a, b in zip(base, residuals(model.predict(other, data, f"c{i}")))]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            slopes = list(pool.map(column, range(len(values))))
        weights = [1.0 if abs(e) < HUBER else HUBER / abs(e) for e in base]
        normal = [[sum(w * x * y for w, x, y in zip(weights, a, b)) for b in slopes] for a in slopes]
        pull = [-sum(w * x * e for w, x, e in zip(weights, a, base)) for a in slopes]
        for _ in range(5):
            damped = [[v + (damping * (v + PRIOR) if i == j else 0) for j, v in enumerate(line)] for i, line in enumerate(normal)]
            steps = [max(-0.5, min(0.5, s)) for s in solve(damped, pull)]
            trial = [moved(v, s, *limit) for v, s, limit in zip(values, steps, limits)]
            errors = residuals(model.predict(trial, data, "trial"))
            if cost(errors) < cost(base):
                break
            damping *= 4
        else:
            return values
        gain = 1 - cost(errors) / cost(base)
        values, base, damping = trial, errors, max(damping / 4, 1e-3)
        if not quiet:
            print(f"round {round_number + 1}: cost {cost(base):.4f}, median |log| {statistics.median(map(abs, base)):.4f}", flush=True)
        if gain < 0.003:
            break
    return values


def several_nodes(row):
    """Tables without the number of GPUs of a node are of one node."""
    return bool(row.get("gpus_per_node")) and int(row["gpus"]) > int(row["gpus_per_node"])


def quantile(values, q):
    values = sorted(values)
    place = (len(values) - 1) * q
    low = int(place)
    return values[low] + (place - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def errors_of(rows, predicted, keep):
    time, memory, oom = [], [], 0
    for row, p in zip(rows, predicted):
        if not keep(row):
            continue
        oom += p["status"] == "oom"
        if p["predicted_step_s"] and p["measured_step_s"]:
            time.append(abs(p["predicted_step_s"] / p["measured_step_s"] - 1))
        if p["predicted_peak_bytes"] and p["measured_peak_bytes"]:
            memory.append(abs(p["predicted_peak_bytes"] / p["measured_peak_bytes"] - 1))
    return time, memory, oom


def line(name, rows, predicted, clear_right, clear_cells):
    cells = [f"| {name} "]
    for keep in (lambda row: not several_nodes(row), several_nodes):
        time, _, _ = errors_of(rows, predicted, keep)
        cells.append(f"| {len(time)} | {100 * quantile(time, .5):.1f} | {100 * quantile(time, .9):.1f} " if time else "| 0 | - | - ")
    _, memory, oom = errors_of(rows, predicted, lambda row: True)
    peaks = f"{100 * quantile(memory, .5):.1f} | {100 * quantile(memory, .9):.1f}" if memory else "- | -"
    cells.append(f"| {peaks} | {oom} | {clear_right} of {clear_cells} |")
    return "".join(cells)


HEAD = """| left out | one node: rows | median % | p90 % | several nodes: rows | median % | p90 % | memory: median % | p90 % | out of memory | fastest named right |
|---|---|---|---|---|---|---|---|---|---|---|"""


def folds(model, names, rows, every, rounds, jobs, folder):
    """Fit without what a fold leaves out, beginning with first estimates, and predict it. The fastest paradigm counts where the two best of
    the rows left out differ by what validate calls clear."""
    print(HEAD, flush=True)
    all_rows, all_predicted, all_right, all_cells = [], [], 0, 0
    for models, gpus in FOLDS:
        train = [row for row in rows if row["model"] not in models and row["gpus"] != gpus][::every]
        test = [row for row in rows if row["model"] in models or row["gpus"] == gpus]
        start = [estimate for *_, estimate in CONSTANTS]
        fitted = fit(model, write_rows(names, train, os.path.join(folder, "train.csv")), start, rounds, jobs, quiet=True)
        verdict = model.validate(fitted, write_rows(names, test, os.path.join(folder, "test.csv")), "fold")
        predicted, fastest = verdict["rows"], verdict["fastest_paradigm"]
        left_out = f"{', '.join(sorted(models))}; {gpus} GPUs"
        print(line(left_out, test, predicted, fastest["clear_right"], fastest["clear_cells"]), flush=True)
        all_rows += test
        all_predicted += predicted
        all_right += fastest["clear_right"]
        all_cells += fastest["clear_cells"]
    print(line("all folds", all_rows, all_predicted, all_right, all_cells))


def unseen(model, names, rows, every, folder):
    """The errors on the rows that a fit on every Nth row does not see, with the constants of the files."""
    test = [row for i, row in enumerate(rows) if i % every]
    verdict = model.validate(model.start(), write_rows(names, test, os.path.join(folder, "test.csv")), "unseen")
    fastest = verdict["fastest_paradigm"]
    print(HEAD)
    print(line(f"all but every {every}. row", test, verdict["rows"], fastest["clear_right"], fastest["clear_cells"]))


def errors_without(model, names, train, test, rounds, jobs, folder):
    """Fit on `train`, beginning with first estimates: (row, error) of each of `test` that is predicted."""
    start = [estimate for *_, estimate in CONSTANTS]
    fitted = fit(model, write_rows(names, train, os.path.join(folder, "train.csv")), start, rounds, jobs, quiet=True)
    predicted = model.predict(fitted, write_rows(names, test, os.path.join(folder, "test.csv")), "fold")
    return [(row, p["predicted_step_s"] / p["measured_step_s"] - 1) for row, p in zip(test, predicted)
            if p["predicted_step_s"] and p["measured_step_s"]]


def print_totals(pairs):
    placed = {"one node": [], "several nodes": []}
    for row, error in pairs:
        if row.get("gpus_per_node"):
            placed["several nodes" if several_nodes(row) else "one node"].append(error)
    for name, errors in placed.items():
        if errors and len(errors) < len(pairs):
            print(error_line(f"all, {name}", errors))
    print(error_line("all", [error for _, error in pairs]))


def leave_out(model, names, rows, column, every, rounds, jobs, folder):
    """Fit without the rows of each value of a column, and predict those."""
    print(f"| left out {ERRORS}", flush=True)
    pairs = []
    for value in sorted({row[column] for row in rows}):
        train = [row for row in rows if row[column] != value][::every]
        test = [row for row in rows if row[column] == value]
        pairs += (found := errors_without(model, names, train, test, rounds, jobs, folder))
        print(error_line(f"{column} {value}", [error for _, error in found]), flush=True)
    print_totals(pairs)


def cross(model, names, rows, column, every, rounds, jobs, folder):
    """Each of N fits uses another Nth of the rows and predicts all others: each row is predicted by all fits but one."""
    pairs = []
    for part in range(every):
        test = [row for i, row in enumerate(rows) if i % every != part]
        pairs += errors_without(model, names, rows[part::every], test, rounds, jobs, folder)
    print(f"| not seen {ERRORS}")
    for value in sorted({row[column] for row in rows}):
        print(error_line(f"{column} {value}", [error for row, error in pairs if row[column] == value]))
    print_totals(pairs)


ERRORS = "| predictions | median % | p90 % | bias % |\n|---|---|---|---|---|"


def error_line(name, errors):
    if not errors:
        return f"| {name} | 0 | - | - | - |"
    sizes = [abs(e) for e in errors]
    return (f"| {name} | {len(errors)} | {100 * quantile(sizes, .5):.1f} | {100 * quantile(sizes, .9):.1f} "
            f"| {100 * quantile(errors, .5):+.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtbench", default=os.path.join(TOP, "build", "cli", "dtbench"))
    parser.add_argument("--data", default=os.path.join(TOP, "results", "study", "measured.csv"))
    parser.add_argument("--cluster", default=os.path.join(TOP, "configs", "clusters", "gcp_a2.json"))
    parser.add_argument("--profile", default=os.path.join(TOP, "configs", "profiles", "pytorch_1.11_a100.json"))
    parser.add_argument("--every", type=int, default=1, help="fit on every Nth row only")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=1, help="predictions at a time")
    parser.add_argument("--folds", action="store_true", help="hold-outs; the files stay")
    parser.add_argument("--unseen", action="store_true", help="no fit: the errors on the rows that --every leaves out; the files stay")
    parser.add_argument("--leave", metavar="COLUMN", help="hold-outs by the values of a column; the files stay")
    parser.add_argument("--cross", metavar="COLUMN", help="a fit on each Nth of the rows, N: --every, and the errors on the rest, by a column")
    parser.add_argument("--only", nargs="+", default=[], help="fit these constants alone")
    parser.add_argument("--set", action="append", default=[], help="as dtbench validate's")
    parser.add_argument("--output", help="write files here (cluster.json, profile.json) instead of in place")
    arguments = parser.parse_args()

    unknown = set(arguments.only) - {path for _, paths, *_ in CONSTANTS for path in paths.split()}
    if unknown:
        sys.exit(f"fit_profile: --only: {', '.join(sorted(unknown))}: not among the constants that are fitted")
    if arguments.only:
        CONSTANTS[:] = [c for c in CONSTANTS if set(c[1].split()) & set(arguments.only)]
    with open(arguments.data, newline="") as source:
        reader = csv.DictReader(source)
        rows, names = list(reader), reader.fieldnames
    with tempfile.TemporaryDirectory() as folder:
        model = Model(arguments.dtbench, arguments.cluster, arguments.profile, folder, arguments.set)
        CONSTANTS[:] = [c for c in CONSTANTS if get(model.files[c[0]], c[1])]
        if (arguments.unseen or arguments.cross) and arguments.every < 2:
            sys.exit("fit_profile: a fit on every row sees all of them: --every 2 or more")
        if arguments.unseen:
            unseen(model, names, rows, arguments.every, folder)
            return
        for hold_out, column in ((leave_out, arguments.leave), (cross, arguments.cross)):
            if column:
                if column not in names:
                    sys.exit(f"fit_profile: {arguments.data}: no column {column}")
                hold_out(model, names, rows, column, arguments.every, arguments.rounds, arguments.jobs, folder)
                return
        if arguments.folds:
            folds(model, names, rows, arguments.every, arguments.rounds, arguments.jobs, folder)
            return
        data = write_rows(names, rows[:: arguments.every], os.path.join(folder, "train.csv"))
        values = fit(model, data, model.start(), arguments.rounds, arguments.jobs)
        for (file, path, _, _, _), value in zip(CONSTANTS, values):
            value = float(f"{value:.3g}")
            put(model.files[file], path, value)
            print(f"{file} {path} {value}")
    for file, default in (("cluster", arguments.cluster), ("profile", arguments.profile)):
        path = os.path.join(arguments.output, f"{file}.json") if arguments.output else default
        with open(path, "w") as to:
            json.dump(model.files[file], to, indent=2)
            to.write("\n")


if __name__ == "__main__":
    main()
