"""results/study/REPORT.md: claims and figures, with the numbers from the records."""
import csv

import claims_memory
import claims_network
import claims_speed
import curves
import overview
import ratios
import traces
from finding import TIE, median
from runs import SAME_RUNS, of_figure, pairs

FIGURES = sorted([*overview.FIGURES, *curves.SCALING, *curves.BATCHES, *curves.MODEL_SIZES, *ratios.RATIOS, *ratios.WINNERS, *traces.TRACES])


def findings(predicted, measured, folder):
    claims = claims_speed.CLAIMS + claims_memory.CLAIMS + claims_network.CLAIMS
    return sorted((claim(predicted, measured, folder) for claim in claims), key=lambda finding: finding.place)


def _errors(found):
    """(pairs, median relative error of step time, of memory) as words."""
    if not found:
        return "0", "", ""
    step = median(abs(mine.step_s / theirs.step_s - 1) for mine, theirs in found)
    memory = median(abs(mine.peak_bytes / theirs.peak_bytes - 1) for mine, theirs in found if theirs.peak_bytes)
    return str(len(found)), f"{step:.0%}", f"{memory:.1%}"


def _figure_rows(figures, predicted, measured):
    for figure in figures:
        if figure in overview.FIGURES:
            yield figure, "the cluster's file" if figure == "figure_01" else "verified on cpu", "", "", ""
            continue
        if figure in SAME_RUNS:
            yield figure, f"those of {SAME_RUNS[figure].replace('_', ' ')}", "", "", ""
            continue
        runs = of_figure(predicted, figure)
        fitting = sum(run.ok for run in runs)
        experiments = f"{len(runs)}" + (f", {len(runs) - fitting} out of memory" if fitting < len(runs) else "")
        yield figure, experiments, *_errors(pairs(runs, measured))


def _table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(field) for field in row) + " |" for row in rows]


def write(path, figures, predicted, measured, provenance, folder):
    """Write the report, with the pictures of `figures`; return its findings."""
    found = findings(predicted, measured, folder)
    tally = {verdict: sum(f.verdict == verdict for f in found) for verdict in ("reproduced", "not reproduced", "undecided", "not testable")}
    system = provenance["simulated"]
    compared, step_error, memory_error = _errors(pairs(predicted, measured))
    lines = [
        "# The study on a simulated cluster", "",
        "Written by `scripts/reproduce` from the records of `configs/study/`; every number below is computed from them and from the",
        f"authors' own measurements, [measured.csv](measured.csv). Predicted on {' and '.join(provenance['days'])} (UTC) by dtbench",
        f"{provenance['dtbench']}, commit {provenance['git_commit']} (the commit that the program was built from);",
        f"cluster `{system['cluster']['name']}` and its variants; profile `{system['profile']['name']}` ({system['profile']['hash']}).", "",
        f"**{tally['reproduced']} of {len(found)} claims reproduced, {tally['not reproduced']} not, "
        f"{tally['undecided']} undecided, {tally['not testable']} not testable.** {compared} predictions",
        f"have a measured counterpart in these figures: their median error is {step_error or 'unknown'} of the step time and",
        f"{memory_error or 'unknown'} of the peak memory. Some of these measurements were used to fit the profile, which says which;",
        "`dtbench validate` holds it against those that were not.", "",
        "## Claims", "",
        "A claim about all cells counts as holding where it holds in 90 % of them. *Measurements*: whether the authors' own agree with the",
        "claim. They record only runs that ended, and repeats differ by 10 % and more, so that close cells prove little.",
        f"Predicted step times are off by about {TIE:.0%}: where a claim names the faster one and ties decide, it is *undecided* by the prediction.",
        "Where a claim gives a number or a degree: C4 holds within 10 points of 26 %, C4b from 3 to 12 %; C7 where memory falls by 10 % or more",
        "and throughput by 20 % or less; C10b within 25 %; C12 where copies are under way for most of the step, too; C14 where FSDP gains more",
        "than 2 times, DDP loses somewhere and PDP gains more than 2 % in a tenth of the cells or fewer.", "",
        *_table(["", "claim", "prediction", "measurements"], [[f.name, f.claim, f"**{f.verdict}**", f.data] for f in found]), "",
        "### Where prediction, measurements and claim disagree", ""]
    lines += [f"- **{f.name}**: {f.verdict}; measurements: {f.data}. Predicted: {f.predicted}. Measured: {f.measured}."
              + "".join(f" {text[:1].upper() + text[1:]}." for text in (f.remark, f.decides and f"what would decide it: {f.decides}") if text)
              for f in found if f.disagreement] or ["Nowhere."]
    lines += ["", "### The numbers", ""]
    for f in found:
        lines += [f"**{f.name}.** {f.claim} *{f.verdict.capitalize()}.*", "", f"- predicted: {f.predicted}",
                  f"- measured: {f.measured} ({f.data})" if f.measured else f"- measured: {f.data}"]
        lines += [f"- {f.remark}"] if f.remark else []
        lines += [f"- what would decide it: {f.decides}"] if f.decides else []
        lines += [""]
    lines += ["## Figures", "",
              "The errors are medians over the experiments of a figure that were measured too.", "",
              *_table(["figure", "experiments", "measured", "step time", "peak memory"],
                      [[f"[{int(row[0][7:9])}]({row[0]}.png)", *row[1:]] for row in _figure_rows(figures, predicted, measured)]), ""]
    lines += [f"![Figure {int(figure[7:9])}]({figure}.png)\n" for figure in figures]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip() + "\n")
    return found


def write_predictions(path, predicted):
    """All predictions, one line each, in the columns of measured.csv as far as they go."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["figure", "paradigm", "model", "gpus", "gpus_per_node", "stages", "chunks", "batch_per_replica", "activation",
                      "fsdp_wrap", "parameter_offload", "cluster", "step_s", "aco_ms_per_sample", "peak_mb"])
        for run in predicted:
            out.writerow([run.figure, run.paradigm, run.model, run.gpus, run.gpus_per_node, run.stages, run.chunks, run.batch * run.stages,
                          run.activation, run.unit, int(run.parameter_offload), run.network, f"{run.step_s:.6g}" if run.ok else "",
                          f"{run.aco_ms:.4g}" if run.ok else "", f"{run.peak_bytes / 1e6:.0f}"])
