"""Claims about throughput on NVLink and Ethernet: C1 to C3 and C5 to C7 (figures 3 to 5, 8 and 9)."""
import curves
from finding import (AGREES, CONTRADICTS, NO_DATA, TIE, UNDECIDED, Finding, count, count_margins, data_of, exceptions, holds_in_most, median, needs,
                     plain_cells, span, verdict_of, verdict_of_margins)
from runs import PARADIGMS, fastest, select, short_count

SCALED = tuple(curves.SCALING.values())


def _scaling_cells(runs):
    return {key: cell for key, cell in plain_cells(runs).items() if key[0] in SCALED}


@needs(*curves.SCALING)
def c1(predicted, measured, _):
    """On one node DDP has the highest throughput for GPTSmall, GPTLarge and GPT2.7B."""
    def advantages(runs):
        """[(DDP over the best other, that one's name)]"""
        found = []
        for (_, _, gpus), cell in _scaling_cells(runs).items():
            other = fastest(run for run in cell.values() if run.paradigm != "ddp")
            if gpus in (2, 4, 8) and "ddp" in cell and other:
                found.append((cell["ddp"].tokens_per_s / other.tokens_per_s, other.paradigm))
        return found
    mine, theirs = ([margin for margin, _ in advantages(runs)] for runs in (predicted, measured))
    verdict = verdict_of_margins(mine)
    near = " or ".join(sorted({name.upper() for margin, name in advantages(predicted) if abs(margin - 1) <= TIE}))
    return Finding(
        verdict, data_of(v > 1 for v in theirs),
        f"DDP fastest in {count(v > 1 for v in mine)} (2 to 8 GPUs), {count_margins(mine)}; DDP over the best other {span(mine)}",
        f"DDP fastest in {count(v > 1 for v in theirs)}; DDP over the best other {span(theirs)}",
        f"{near} is the one that is close; README.md says what was excluded as the reason for steps of FSDP within a node that are predicted too "
        "short" if verdict == UNDECIDED else "",
        f"the measurements do; for the prediction, a trace of {near} on one node with GPTMedium at batch 64, where the device is the limit: whether it "
        "waits for the host between two steps, and how long a gather takes" if verdict == UNDECIDED else "")


@needs(*curves.SCALING)
def c2(predicted, measured, _):
    """Global throughput falls from 8 to 16 GPUs for every paradigm."""
    def falls(runs):
        cells = _scaling_cells(runs)
        return {(model, batch, name): cells[model, batch, 16][name].tokens_per_s / cell[name].tokens_per_s
                for (model, batch, gpus), cell in cells.items() if gpus == 8 and (model, batch, 16) in cells
                for name in PARADIGMS if name in cell and name in cells[model, batch, 16]}
    def rising(found):
        return exceptions(f"{name.upper()} {model} batch {batch}" for (model, batch, name), v in found.items() if v >= 1)
    mine, theirs = falls(predicted), falls(measured)
    by_paradigm = ", ".join(f"{name.upper()} {span(v for k, v in mine.items() if k[2] == name)}" for name in PARADIGMS)
    return Finding(
        verdict_of(holds_in_most(v < 1 for v in mine.values())),
        data_of(v < 1 for v in theirs.values()),
        f"lower in {count(v < 1 for v in mine.values())}; 16 GPUs over 8: {by_paradigm}{rising(mine)}",
        f"lower in {count(v < 1 for v in theirs.values())}; 16 GPUs over 8: {span(theirs.values())}{rising(theirs)}")


@needs(*curves.SCALING)
def c3(predicted, measured, _):
    """From 2 nodes on PDP beats DDP, and the gap widens slightly with model size."""
    def gaps(runs):
        return {key: cell["pdp"].tokens_per_s / cell["ddp"].tokens_per_s for key, cell in _scaling_cells(runs).items()
                if key[2] >= 16 and "pdp" in cell and "ddp" in cell}

    def by_model(found):
        return {model: median(v for k, v in found.items() if k[0] == model) for model in SCALED if any(k[0] == model for k in found)}

    def words(found):
        return ", ".join(f"{short_count(model)} {value:.2f}" for model, value in by_model(found).items())

    def behind(found):
        return exceptions(f"{model} batch {batch} on {gpus} GPUs" for (model, batch, gpus), v in found.items() if v <= 1)
    mine, theirs = gaps(predicted), gaps(measured)
    medians = list(by_model(mine).values())
    faster = holds_in_most(v > 1 for v in mine.values())
    widens = medians[-1] > medians[0]
    remark = "PDP is ahead, but no further with the largest model than with the smallest" if faster and not widens else ""
    return Finding(
        verdict_of(bool(faster and widens)),
        data_of(v > 1 for v in theirs.values()),
        f"PDP faster in {count(v > 1 for v in mine.values())}; median PDP over DDP: {words(mine)}{behind(mine)}",
        f"PDP faster in {count(v > 1 for v in theirs.values())}; median PDP over DDP: {words(theirs)}{behind(theirs)}", remark)


@needs(*curves.SCALING)
def c5(predicted, measured, _):
    """Batch 20 beats batch 8 in throughput everywhere."""
    def gains(runs):
        cells = plain_cells(runs)
        return [cells[model, 20, gpus][name].tokens_per_s / cell[name].tokens_per_s for (model, batch, gpus), cell in cells.items()
                if batch == 8 and model in SCALED and (model, 20, gpus) in cells
                for name in PARADIGMS if name in cell and name in cells[model, 20, gpus]]
    mine, theirs = gains(predicted), gains(measured)
    return Finding(
        verdict_of(holds_in_most(v > 1 for v in mine)), data_of(v > 1 for v in theirs),
        f"higher in {count(v > 1 for v in mine)}; batch 20 over 8: {span(mine)}",
        f"higher in {count(v > 1 for v in theirs)}; batch 20 over 8: {span(theirs)}")


def _batch_series(runs):
    """Throughput against batch on 32 GPUs, smallest batch first: figures 8 and 9."""
    found = {}
    for run in select(runs, gpus=32, gpus_per_node=8, activation="keep", parameter_offload=False, model=tuple(curves.BATCHES.values()),
                      unit=("", "block"), stages=(1, 2), network="gcp_a2"):
        if run.ok and run.chunks in (1, 2, 4):
            found.setdefault((run.paradigm, run.model, run.chunks), {})[run.batch] = run
    return {key: [by_batch[b] for b in sorted(by_batch)] for key, by_batch in found.items()}


@needs("figure_08", "figure_09")
def c6(predicted, measured, _):
    """Throughput grows with batch until about 32 GB of the 40 GB are in use, then regresses (allocator defragmentation)."""
    def falls(runs):
        """Of series that go beyond 32 GB: throughput at the largest batch over the best at 32 GB or less."""
        result = []
        for series in _batch_series(runs).values():
            below = [r for r in series if r.peak_bytes <= 32e9]
            if below and series[-1].peak_bytes > 32e9:
                result.append(series[-1].tokens_per_s / max(r.tokens_per_s for r in below))
        return result
    mine, theirs = falls(predicted), falls(measured)
    regresses = holds_in_most(v < 1 for v in mine)
    return Finding(
        verdict_of(regresses), data_of(v < 1 for v in theirs),
        f"lower beyond 32 GB in {count((v < 1 for v in mine), 'series')}; the largest batch over the best below 32 GB: {span(mine)}",
        f"lower in {count((v < 1 for v in theirs), 'series')}; {span(theirs)}",
        "" if regresses else "the simulated allocator takes no time to defragment: the predictions show what the paradigms alone would do",
        "" if regresses else "steps at the largest batches with the allocator's count of retries (num_alloc_retries of torch.cuda.memory_stats), "
        "on GPUs with 40 GB and with 80 GB")


@needs("figure_08_pdp", "figure_09_pdp")
def c7(predicted, measured, _):
    """More pipeline chunks cost a little throughput and save much memory."""
    def pairs(runs):
        """(throughput, memory) of 4 chunks over 2, where nothing else differs."""
        chosen = select(runs, paradigm="pdp", stages=2, activation="keep", network="gcp_a2")
        two = {(r.model, r.gpus, r.gpus_per_node, r.batch): r for r in chosen if r.ok and r.chunks == 2}
        return [(r.tokens_per_s / two[key].tokens_per_s, r.peak_bytes / two[key].peak_bytes)
                for r in chosen if r.ok and r.chunks == 4 and (key := (r.model, r.gpus, r.gpus_per_node, r.batch)) in two]

    def words(found):
        return (f"4 chunks over 2, {len(found)} pairs: throughput {median(t for t, _ in found):.2f} (median; {span(t for t, _ in found)}), "
                f"memory {median(m for _, m in found):.2f} ({span(m for _, m in found)})")

    def holds(found):
        """Less memory by 10 % or more, and throughput lower by no more than 20 %."""
        return bool(0.8 <= median(t for t, _ in found) <= 1 and median(m for _, m in found) <= 0.9) if found else None
    mine, theirs = pairs(select(predicted, figure=("figure_08_pdp", "figure_09_pdp"))), pairs(measured)
    data = NO_DATA if not theirs else AGREES if holds(theirs) else CONTRADICTS
    faster = median(t for t, _ in theirs) > 1 if theirs else False
    return Finding(verdict_of(holds(mine)), data, words(mine), words(theirs) if theirs else "no pairs",
                   "in most measurements more chunks are faster: the bubble shrinks" if faster else "")


CLAIMS = (c1, c2, c3, c5, c6, c7)
