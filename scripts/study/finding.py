"""Verdicts on a claim of the study: by the predictions, by the authors' own measurements, and from both together."""
import functools
import statistics
from dataclasses import dataclass

from runs import select

REPRODUCED, NOT_REPRODUCED, UNDECIDED, NOT_TESTABLE = "reproduced", "not reproduced", "undecided", "not testable"
AGREES, MIXED, CONTRADICTS, NO_DATA = "agree", "mixed", "contradict", "no data"
MOST = 0.9  # a claim about all cells counts as holding when it holds in this share of them
TIE = 0.05  # the median error of predicted step times: a smaller lead decides nothing
CLEAR = 0.15  # beyond which one measured run is faster than another: half of the repeated ones differ by over 10 %


@dataclass
class Finding:
    verdict: str
    data: str
    predicted: str
    measured: str
    remark: str = ""
    decides: str = ""  # what would decide the claim, where prediction and measurements do not
    name: str = ""     # "C1", "C15a"
    claim: str = ""

    @property
    def place(self):
        """To sort by."""
        digits = "".join(c for c in self.name if c.isdigit())
        return int(digits), self.name

    @property
    def disagreement(self):
        """Whether claim, prediction and measurements do not all say the same."""
        return self.verdict in (NOT_REPRODUCED, UNDECIDED) or self.data in (CONTRADICTS, MIXED)


def needs(*figures):
    """Of a claim's function, named c<number>, or c<number><letter> for a part of one, with the claim as its text: not testable where one of
    these figures has no records."""
    def decorate(claim):
        @functools.wraps(claim)
        def examine(predicted, measured, folder):
            missing = [figure for figure in figures if not any(run.figure == figure for run in predicted)]
            finding = (Finding(NOT_TESTABLE, NO_DATA, f"there are no records of {missing[0]}", "") if missing
                       else claim(predicted, measured, folder))
            finding.name, finding.claim = claim.__name__.capitalize(), claim.__doc__
            return finding
        return examine
    return decorate


def verdict_of(holds):
    return NOT_TESTABLE if holds is None else REPRODUCED if holds else NOT_REPRODUCED


def holds_in_most(outcomes):
    """None without any outcome."""
    outcomes = list(outcomes)
    return sum(outcomes) >= MOST * len(outcomes) if outcomes else None


def verdict_of_margins(margins):
    """The lead of the claimed winner over the best other (below 1: it is behind), in each cell. Undecided: ties decide."""
    margins = list(margins)
    if not margins:
        return NOT_TESTABLE
    sure, possible = (holds_in_most(margin > 1 + sign * TIE for margin in margins) for sign in (1, -1))
    return REPRODUCED if sure else UNDECIDED if possible else NOT_REPRODUCED


def count_margins(margins):
    margins = list(margins)
    ahead, behind = sum(m > 1 + TIE for m in margins), sum(m < 1 - TIE for m in margins)
    return f"ahead by over {TIE:.0%} in {ahead}, behind by over {TIE:.0%} in {behind}, closer in {len(margins) - ahead - behind} of {len(margins)} cells"


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
