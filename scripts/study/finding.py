"""What a claim of the study comes to: in the predictions, in the authors' own measurements, and how the verdict follows."""
import functools
import statistics
from dataclasses import dataclass

from runs import select

REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable"
AGREES, MIXED, CONTRADICTS, NO_DATA = "agree", "mixed", "contradict", "no data"
MOST = 0.9  # a claim about all cells counts as holding when it holds in this share of them


@dataclass
class Finding:
    verdict: str
    data: str
    predicted: str
    measured: str
    remark: str = ""
    number: int = 0
    claim: str = ""

    @property
    def disagreement(self):
        """Whether claim, prediction and measurements do not all say the same."""
        return self.verdict == NOT_REPRODUCED or self.data in (CONTRADICTS, MIXED)


def needs(*figures):
    """Of a claim's function, named c<number>, with the claim as its text: not testable where one of these figures has no records."""
    def decorate(claim):
        @functools.wraps(claim)
        def examine(predicted, measured, folder):
            missing = [figure for figure in figures if not any(run.figure == figure for run in predicted)]
            finding = (Finding(NOT_TESTABLE, NO_DATA, f"there are no records of {missing[0]}", "") if missing
                       else claim(predicted, measured, folder))
            finding.number, finding.claim = int(claim.__name__[1:]), claim.__doc__
            return finding
        return examine
    return decorate


def verdict_of(holds):
    return NOT_TESTABLE if holds is None else REPRODUCED if holds else NOT_REPRODUCED


def holds_in_most(outcomes):
    """None without any outcome."""
    outcomes = list(outcomes)
    return sum(outcomes) >= MOST * len(outcomes) if outcomes else None


def data_of(outcomes):
    outcomes = list(outcomes)
    if not outcomes:
        return NO_DATA
    share = sum(outcomes) / len(outcomes)
    return AGREES if share >= MOST else MIXED if share >= 0.5 else CONTRADICTS


def count(outcomes, what="cells"):
    outcomes = list(outcomes)
    return f"{sum(outcomes)} of {len(outcomes)} {what}" if outcomes else f"no {what}"


def exceptions(names):
    """'; not with A, B', at most five of them."""
    names = list(names)
    return f"; not with {', '.join(names[:5])}{' and others' if len(names) > 5 else ''}" if names else ""


def median(values):
    values = list(values)
    return statistics.median(values) if values else float("nan")


def number(value):
    """Three digits, as people write them."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def span(values):
    values = sorted(values)
    return f"{values[0]:.2f} to {values[-1]:.2f}" if values else "none"


def plain_cells(runs):
    """{(model, batch, gpus): {paradigm: run}} of the runs without any way of saving memory, on full nodes with plain sockets: what the
    study's figures 3 to 5 and 8 to 9 compare. PDP with 2 stages and 2 chunks."""
    cells = {}
    for run in select(runs, activation="keep", parameter_offload=False, stages=(1, 2), chunks=(1, 2), unit=("", "block"), network="gcp_a2"):
        if run.ok and run.gpus_per_node == min(run.gpus, 8):
            cells.setdefault((run.model, run.batch, run.gpus), {})[run.paradigm] = run
    return cells
