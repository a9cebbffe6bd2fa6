"""Claims about the network, and the rule that follows: C4 and C11 to C15 (figures 6, 7, 14 to 21)."""
from dataclasses import replace

import ratios
import style
import traces
from finding import (AGREES, CLEAR, CONTRADICTS, NO_DATA, UNDECIDED, Finding, count, count_margins, data_of, exceptions, holds_in_most, median, needs,
                     number, span, verdict_of, verdict_of_margins)
from runs import GPUS_PER_NODE, PARADIGMS, of_figure, pairs, parameters, select, short_count

ACO_LIMIT_MS = 20  # "the boundary between high and low is around 20ms/sample"
CLAIMED_SAVING = 0.26
CLAIMED_ALONE_MS = 17
NOMINAL_BUCKET_BYTES = 25 * 2**20
FP16_BYTES = 2


def _cause_of_17_ms(measured, size, alone):
    """Which bytes the claim's 17 ms go with. A step whose time does not depend on the batch is all-reduces alone, one after the other."""
    runs = [run for run in select(measured, paradigm="ddp", model="GPTLarge", gpus=16, gpus_per_node=8) if run.batch <= 8]
    nominal_ms = alone * NOMINAL_BUCKET_BYTES / size
    text = (f"the claim does not say of how many bytes its {CLAIMED_ALONE_MS} ms are; at the predicted rate the nominal bucket of 25 MiB "
            f"takes {nominal_ms:.1f} ms")
    if not runs:
        return text
    gradients = FP16_BYTES * parameters("GPTLarge")
    of_size, of_nominal = (gradients / b * CLAIMED_ALONE_MS / 1e3 for b in (size, NOMINAL_BUCKET_BYTES))
    return (f"{text}. The authors' own steps of figure 6's run, {span(run.step_s for run in runs)} s at batches up to 8, hold all gradients "
            f"in buckets of 25 MiB at {CLAIMED_ALONE_MS} ms ({of_nominal:.2f} s), and are longer than with {CLAIMED_ALONE_MS} ms for "
            f"{size / 1e6:.1f} MB ({of_size:.2f} s): the predicted bucket is larger, the rate is the same")


def _errors(predicted, measured):
    """Median errors of step times of runs on several nodes."""
    found = pairs([run for run in predicted if run.gpus > GPUS_PER_NODE], measured)
    return len(found), median(abs(mine.step_s / theirs.step_s - 1) for mine, theirs in found)


def _without_gain(predicted, measured):
    """Step times on a network on which several communicators together get no more than one."""
    without = [replace(run, network="gcp_a2") for run in predicted if run.figure.startswith("claim_04_without_gain")]
    keys = {run.key() for run in without}
    mine = [run for run in predicted if run.key() in keys]
    number_of, with_gain = _errors(mine, measured)
    _, off = _errors(without, measured)
    return (number_of, with_gain, off) if number_of else None


@needs("figure_06", "figure_07")
def c4(predicted, measured, folder):
    """One AllReduce at a time cannot saturate the NIC: alone 17 ms, two concurrent ones 25 ms each, 26 % less for the same bytes."""
    found = traces.all_reduces(folder)
    if not found:
        return Finding(verdict_of(None), NO_DATA, "no all-reduces overlap in the traces", "")
    size, alone, both = found
    saving = 1 - both / (2 * alone)
    without = _without_gain(predicted, measured)
    data, words, remark = NO_DATA, "traces are not among the measurements", ""
    if without:
        count_of, with_gain, off = without
        data = AGREES if with_gain < off else CONTRADICTS
        words = (f"traces are not among them; step times of PDP on several nodes ({count_of} runs) are predicted with an error of {with_gain:.0%} "
                 f"(median) where several communicators get more than one, and of {off:.0%} where they do not")
        remark = "the simulator's constant for that (nic.gain) is fitted on step times, and not taken from the claim; "
    remark += "two at once save more than claimed; " if saving > CLAIMED_SAVING + 0.1 else ""
    return Finding(
        verdict_of(abs(saving - CLAIMED_SAVING) <= 0.1), data,
        f"all-reduce of a bucket of {size / 1e6:.1f} MB over 16 GPUs: {alone:.1f} ms alone (figure 6), {both:.1f} ms each where the other "
        f"stage's overlaps it all the time (figure 7): {saving:.0%} less for the same bytes", words,
        remark + _cause_of_17_ms(measured, size, alone))


@needs("figure_06", "figure_07", "claim_04_lone")
def c4b(_predicted, _measured, folder):
    """PDP's all-reduce, before it overlaps with another, is about 6 % faster than the same all-reduce in DDP."""
    size, alone, _both = traces.all_reduces(folder) or (0, 0, 0)
    lone = traces.lone_all_reduce_ms(folder, size)
    if not lone:
        return Finding(verdict_of(None), NO_DATA, "no such all-reduce is in the traces", "")
    faster, links = 1 - lone / alone, 1 - (2 * 7 / 8) / (2 * 15 / 16)
    return Finding(
        verdict_of(0.03 <= faster <= 0.12), NO_DATA,
        f"{size / 1e6:.1f} MB over the 8 GPUs of a stage {lone:.1f} ms, over 16 GPUs {alone:.1f} ms: {faster:.0%} less", "traces are not among them",
        f"a ring of 8 ranks sends 2 * 7 / 8 of the buffer over each link, one of 16 ranks 2 * 15 / 16: {links:.0%} less, as much as the claim says; "
        "what the simulated collective sends between two nodes does not depend on the ranks" if faster < 0.03 else "",
        "the algorithm that NCCL took in the traced runs (NCCL_DEBUG=INFO)" if faster < 0.03 else "")


def _by_series(found):
    """{series: [(model, ratio)]}, smallest model first."""
    result = {}
    for model in ratios.MODELS_SHOWN:
        for (series, name), ratio in found.items():
            if name == model:
                result.setdefault(series, []).append((model, ratio))
    return result


def _mean_by_model(found):
    groups = {}
    for series, model, ratio in found:
        groups.setdefault((series, model), []).append(ratio)
    return {key: sum(values) / len(values) for key, values in groups.items()}


def _growing(points):
    """The share of pairs of models in which the larger has the larger ratio."""
    values = [ratio for _, ratio in points]
    return [later > earlier for i, earlier in enumerate(values) for later in values[i + 1:]]


def _pdp_least(found):
    models = {model for _, model in found}
    return [found["pdp", m] <= min(found[s, m] for s in ("ddp", "fsdp") if (s, m) in found) for m in models
            if ("pdp", m) in found and any((s, m) in found for s in ("ddp", "fsdp"))]


@needs("figure_14")
def c11(predicted, measured, _):
    """The gain of NVLink over Ethernet at batch 8 grows with model size for all three; PDP gains least."""
    mine = ratios.predicted_ratios(predicted, "figure_14")
    theirs = _mean_by_model(ratios.measured_ratios(measured, "figure_14"))
    mine, theirs = ({k: v for k, v in f.items() if k[0] in PARADIGMS and parameters(k[1]) < 10e9} for f in (mine, theirs))

    def words(found):
        return "; ".join(f"{series.upper()} {', '.join(f'{short_count(m)} {r:.1f}' for m, r in points)}"
                         for series, points in _by_series(found).items())
    growing = [holds_in_most(_growing(points)) for points in _by_series(mine).values()]
    least = _pdp_least(mine)
    measured_ups = [o for points in _by_series(theirs).values() for o in _growing(points)]
    ups = [o for points in _by_series(mine).values() for o in _growing(points)]
    return Finding(
        verdict_of(all(growing) and bool(holds_in_most(least))), data_of(measured_ups + _pdp_least(theirs)),
        f"4 nodes over 1: {words(mine)}. The larger model gains more in {count(ups, 'pairs')}; PDP least with {count(least, 'models')}",
        f"{words(theirs)}. The larger model gains more in {count(measured_ups, 'pairs')}; PDP least with "
        f"{count(_pdp_least(theirs), 'models')}" if theirs else "no pairs")


@needs("figure_14", "figure_14_large", "figure_15", "figure_16")
def c12(predicted, measured, folder):
    """FSDP's gain falls from 13B on, where parameter offloading and finer units make host-device copies the bottleneck."""
    mine = ratios.predicted_ratios(predicted, "figure_14")
    before, after = mine.get(("fsdp", "GPT6.7B")), mine.get(("fsdp, host", "GPT13B"))
    resident = mine.get(("fsdp", "GPT13B"))
    spans = traces.step_of("figure_15", predicted, folder)
    step, without = (1e3 * select(predicted, figure=figure)[0].step_s for figure in ("figure_15", "figure_16"))
    copies = traces.busy_ms(spans, lambda s: s.name.startswith("copy "))
    network = traces.busy_ms(spans, lambda s: s.row == "network")
    compute = traces.busy_ms(spans, lambda s: s.row == "compute")
    theirs = ratios.measured_ratios(measured, "figure_14")
    small = [r for s, m, r in theirs if s.startswith("fsdp") and parameters(m) < 10e9]
    large = [(m, s, r) for s, m, r in theirs if s.startswith("fsdp") and parameters(m) > 10e9]
    data = NO_DATA if not (small and large) else AGREES if max(r for _, _, r in large) < max(small) else CONTRADICTS
    if before is None or after is None:
        return Finding(verdict_of(None), data, "FSDP does not fit on both networks", "")
    limits = copies > 0.5 * step  # copies are the bottleneck when they go on for most of the step
    host = 1e3 * select(predicted, figure="figure_15")[0].host_s
    bound = max((("the host", host), ("copies", copies), ("collectives", network), ("kernels", compute)), key=lambda one: one[1])
    remark = "" if limits else (
        f"host-device copies are not what limits the predicted step: {bound[0]} {'do' if bound[0][-1] == 's' else 'does'}, for "
        f"{bound[1]:,.0f} ms of it")
    if not limits and bound[0] == "the host":
        remark += ("; the device waits for a host that makes room for each gathered unit (the profile's memory.in_flight, full_at and "
                   "reallocation), with and without offloading")
    if after < before and resident is not None and resident < (before + after) / 2:
        remark += ("; " if remark else "") + "the predicted gain falls as much with the parameters on the GPUs: offloading is not the cause"
    return Finding(
        verdict_of(bool(after < before and limits)), data,
        f"gain {before:.1f} at 6.8B, {after:.1f} at 16B with parameters on the host"
        + (f" ({resident:.1f} with them on the GPUs)" if resident else "")
        + f"; in a step of figure 15 ({step:,.0f} ms, {without:,.0f} ms without offloading) copies between host and device are under way "
        f"for {copies:,.0f} ms, collectives for {network:,.0f} ms, kernels for {compute:,.0f} ms, and the device waits for the host for "
        f"{host:,.0f} ms",
        (f"largest gain below 10B {max(small):.1f}; above: "
         + ", ".join(f"{short_count(m)} {r:.1f} (parameters on the {'host' if 'host' in s else 'GPUs'})" for m, s, r in large))
        if small and large else f"FSDP pairs of both placements at batch 8: {len(small)} below 10B, {len(large)} above", remark)


@needs("figure_14", "figure_17")
def c13(predicted, measured, _):
    """At batch 64 the network matters less."""
    def drops(eight, sixty_four):
        return [sixty_four[key] < eight[key] for key in sixty_four if key in eight]

    def others(eight, sixty_four):
        return exceptions(f"{short_count(model)} with {style.NAMES[series]} ({eight[series, model]:.2f} at 8, "
                          f"{sixty_four[series, model]:.2f} at 64)" for series, model in sixty_four
                          if (series, model) in eight and sixty_four[series, model] >= eight[series, model])
    mine = [ratios.predicted_ratios(predicted, figure) for figure in ("figure_14", "figure_17")]
    theirs = [_mean_by_model(ratios.measured_ratios(measured, figure)) for figure in ("figure_14", "figure_17")]
    outcomes, measured_outcomes = drops(*mine), drops(*theirs)
    return Finding(
        verdict_of(holds_in_most(outcomes)), data_of(measured_outcomes),
        f"smaller gain at batch 64 in {count(outcomes)}; gains {span(mine[0].values())} at batch 8, {span(mine[1].values())} at 64"
        f"{others(*mine)}",
        f"smaller gain in {count(measured_outcomes)}; gains {span(theirs[0].values())} at batch 8, {span(theirs[1].values())} at 64"
        f"{others(*theirs)}")


@needs("figure_18", "figure_19")
def c14(predicted, _measured, _folder):
    """A faster socket transport helps FSDP up to 3 times, DDP sometimes not, PDP almost never."""
    found = [ratios.predicted_ratios(predicted, figure) for figure in ("figure_18", "figure_19")]

    def of(name):
        return [r for f in found for (series, _), r in f.items() if series.startswith(name)]
    fsdp, ddp, pdp = of("fsdp"), of("ddp"), of("pdp")
    holds = max(fsdp) > 2 and min(ddp) < 1 and bool(holds_in_most(r <= 1.02 for r in pdp))
    explains = max(fsdp) > 2
    return Finding(
        verdict_of(holds), NO_DATA,
        f"plain over faster sockets: FSDP {span(fsdp)}, DDP {span(ddp)}, PDP {span(pdp)}",
        "no run with faster sockets is among the measurements",
        "" if holds else "the text says that the transport makes all-reduces 30 to 60 % faster, and 60 % is what is simulated: "
        + ("" if explains else "no step can gain 3 times by that, so the claim's number contradicts the text's; ")
        + "it helps whoever waits for the network, and nothing in it makes anyone slower",
        "" if holds else "all-reduces and all-gathers timed with both transports (nccl-tests), alone and two at once")


def recommended(model, aco_ms):
    """The study's rule."""
    if parameters(model) > 10e9:
        return "fsdp"
    if aco_ms > ACO_LIMIT_MS:
        return "pdp"
    return "ddp" if parameters(model) < 3e9 else "fsdp"


def _lead(best, name):
    """The paradigm's lead over the best other; None where either is missing."""
    others = [run.tokens_per_s for other, run in best.items() if other != name]
    return best[name].tokens_per_s / max(others) if name in best and others else None


def _same_runs(predicted, measured, figure, model, batch):
    """The fastest of each paradigm, {paradigm: run}, of what was predicted and measured alike."""
    both = pairs(of_figure(predicted, figure), ratios.in_cell(measured, figure, model, batch))
    return ratios.best_of(mine for mine, _ in both), ratios.best_of(theirs for _, theirs in both)


def _recommendation(predicted, measured, figure, wanted):
    """Whether the study's rule names the fastest, and the prediction the measured fastest, in a figure's cells of the wanted models."""
    leads, by_data, named, clear, close = [], [], [], [], []
    for model, batch, mine, _ in ratios.winner_cells(predicted, measured, figure):
        if not mine or not wanted(model):
            continue
        advice = recommended(model, next(mine[name].aco_ms for name in ("ddp", "pdp", "fsdp") if name in mine))
        if len(mine) > 1:
            leads.append(_lead(mine, advice) or 0)
        alike, theirs = _same_runs(predicted, measured, figure, model, batch)
        if len(theirs) < 2:
            continue
        fastest_one = ratios.winner(theirs)
        by_data.append(advice == fastest_one)
        named.append(ratios.winner(alike) == fastest_one)
        if _lead(theirs, fastest_one) > 1 + CLEAR:
            clear.append(named[-1])
        elif not named[-1]:
            close.append(_lead(alike, ratios.winner(alike)) - 1)
    return leads, by_data, named, clear, close


def _recommends(predicted, measured, figure, wanted):
    leads, by_data, named, clear, close = _recommendation(predicted, measured, figure, wanted)
    verdict = verdict_of_margins(leads)
    misses = f"; where they do not, the predicted one is ahead by {max(close):.0%} at most" if close else ""
    return Finding(
        verdict, data_of(by_data),
        f"what the rule names is fastest in {count(lead > 1 for lead in leads)}, {count_margins(leads)}",
        f"it is the fastest in {count(by_data)} where the same runs of two paradigms were measured; the predictions of these runs name the measured "
        f"fastest in {count(named)}, and in {count(clear)} where the two best differ by over {CLEAR:.0%}{misses}",
        "ACO is the prediction's, of DDP where it fits: step times without communication were not measured",
        "" if verdict != UNDECIDED else "repeated runs of the two best in the cells that are close, their steps without communication, and the trace "
                                        "that C1 names")


@needs("figure_20", "figure_20_pdp", "figure_20_pdp_long")
def c15a(predicted, measured, _):
    """Recommendation on Ethernet (figure 20), below 10B: PDP where ACO is high (> 20 ms/sample), else DDP (FSDP where DDP does not fit)."""
    return _recommends(predicted, measured, "figure_20", lambda model: parameters(model) < 10e9)


@needs("figure_21", "figure_21_pdp", "figure_21_pdp_long")
def c15b(predicted, measured, _):
    """Recommendation on NVLink (figure 21), below 10B: PDP where ACO is high (> 20 ms/sample), else DDP (FSDP where DDP does not fit)."""
    return _recommends(predicted, measured, "figure_21", lambda model: parameters(model) < 10e9)


@needs("figure_20_large", "figure_21_large", "figure_20_pdp_long", "figure_21_pdp_long")
def c15c(predicted, measured, _):
    """Recommendation above 10B: FSDP is optimal."""
    leads, words, by_data, ahead = [], [], [], []
    for figure in ratios.WINNERS:
        mine, theirs = ({(model, batch): best for model, batch, best in cells if best and parameters(model) > 10e9} for cells in (
            [(m, b, p) for m, b, p, _ in ratios.winner_cells(predicted, measured, figure)],
            [(m, b, t) for m, b, _, t in ratios.winner_cells(predicted, measured, figure)]))
        leads += [_lead(best, "fsdp") or (2 if "fsdp" in best else 0) for best in mine.values()]  # alone it is the fastest
        by_data += [ratios.winner(best) == "fsdp" for best in theirs.values() if len(best) > 1]
        ahead += [best["pdp"].tokens_per_s / best["fsdp"].tokens_per_s for best in theirs.values() if "pdp" in best and "fsdp" in best]
        rivals = {key: best["pdp"].tokens_per_s / best["fsdp"].tokens_per_s for key, best in mine.items() if "pdp" in best and "fsdp" in best}
        if rivals:
            (model, batch), most = max(rivals.items(), key=lambda item: item[1])
            pdp, fsdp = mine[model, batch]["pdp"], mine[model, batch]["fsdp"]
            words.append(f"figure {figure[7:]}: PDP is ahead of FSDP in {count((r > 1 for r in rivals.values()), 'cells in which both fit')}, at "
                         f"{short_count(model)} and batch {batch} {most:.2f} times ({pdp.stages} stages {number(pdp.tokens_per_s)} tokens/s, FSDP "
                         f"{number(fsdp.tokens_per_s)})")
    return Finding(verdict_of_margins(leads), data_of(by_data), "; ".join(words) or "PDP fits nowhere",
                   f"FSDP is the fastest in {count(by_data)} where two were measured; PDP over FSDP {span(ahead)}",
                   "pipelines of 4 stages on Ethernet are on 2 nodes of 4 GPUs, since they do not go from node to node; FSDP is on 4 nodes of 2 GPUs")


CLAIMS = (c4, c4b, c11, c12, c13, c14, c15a, c15b, c15c)
