"""Claims about the network, and the rule that follows: C4 and C11 to C15 (figures 6, 7, 14 to 21)."""
import ratios
import style
import traces
from finding import AGREES, CONTRADICTS, NO_DATA, Finding, count, data_of, exceptions, holds_in_most, needs, span, verdict_of
from runs import PARADIGMS, parameters, select, short_count

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


@needs("figure_06", "figure_07")
def c4(_predicted, measured, folder):
    """One AllReduce at a time cannot saturate the NIC: alone 17 ms, two concurrent ones 25 ms each, 26 % less for the same bytes."""
    found = traces.all_reduces(folder)
    if not found:
        return Finding(verdict_of(None), NO_DATA, "no all-reduces overlap in the traces", "")
    size, alone, both = found
    saving = 1 - both / (2 * alone)
    remark = "two at once save more than claimed; " if saving > CLAIMED_SAVING + 0.1 else ""
    return Finding(
        verdict_of(abs(saving - CLAIMED_SAVING) <= 0.1), NO_DATA,
        f"all-reduce of a bucket of {size / 1e6:.1f} MB over 16 GPUs: {alone:.1f} ms alone (figure 6), {both:.1f} ms each where the other "
        f"stage's overlaps it all the time (figure 7): {saving:.0%} less for the same bytes", "traces are not among the measurements",
        remark + _cause_of_17_ms(measured, size, alone) + ". The cluster file says where its rates of one communicator and of several "
        "come from; where that is this claim, this row shows no more than that the simulator keeps to it")


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
    return Finding(
        verdict_of(holds), NO_DATA,
        f"plain over faster sockets: FSDP {span(fsdp)}, DDP {span(ddp)}, PDP {span(pdp)}",
        "no run with faster sockets is among the measurements",
        "the simulated transport only carries more: it helps whoever waits for the network, and nothing in it could make anyone slower. "
        "Its rates are taken from the claim's \"up to 3 times\", so FSDP's gain is no evidence either" if not holds else "")


def recommended(model, aco_ms):
    """The study's rule."""
    if parameters(model) > 10e9:
        return "fsdp"
    if aco_ms > ACO_LIMIT_MS:
        return "pdp"
    return "ddp" if parameters(model) < 3e9 else "fsdp"


@needs("figure_20", "figure_20_pdp", "figure_21", "figure_21_pdp")
def c15(predicted, measured, _):
    """Recommendation: small and medium models with high ACO (> 20 ms/sample) PDP, with low ACO DDP; above 10B FSDP."""
    outcomes, by_data, named, clear = [], [], [], []
    for figure in ratios.WINNERS:
        for model, _, mine, theirs in ratios.winner_cells(predicted, measured, figure):
            if not mine:
                continue
            aco = next(mine[name].aco_ms for name in ("ddp", "pdp", "fsdp") if name in mine)
            advice = recommended(model, aco)
            outcomes.append(advice == ratios.winner(mine))
            if len(theirs) < 2:
                continue
            best = sorted((run.tokens_per_s for run in theirs.values()), reverse=True)
            by_data.append(advice == ratios.winner(theirs))
            named.append(ratios.winner(mine) == ratios.winner(theirs))
            if best[0] > 1.15 * best[1]:
                clear.append(named[-1])
    return Finding(
        verdict_of(holds_in_most(outcomes)), data_of(by_data),
        f"the rule names the predicted winner in {count(outcomes)} of figures 20 and 21",
        f"it names the measured winner in {count(by_data)} where two paradigms were measured; the prediction does in {count(named)}, and "
        f"in {count(clear)} where the two best differ by over 15 %",
        "ACO is the prediction's, of DDP where it fits: step times without communication were not measured")


CLAIMS = (c4, c11, c12, c13, c14, c15)
