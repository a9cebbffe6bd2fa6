"""Claims about what fits: C8 to C10, C16, C17 and C18 (figures 10 to 13, 20, 21 and the model of a trillion parameters)."""
from dataclasses import replace

from finding import AGREES, CONTRADICTS, NO_DATA, UNDECIDED, Finding, median, needs, number, span, verdict_of
from runs import MODELS, fastest, parameters, select, short_count

CLAIMED_1T_S = 4085


def _largest(runs):
    return max({run.model for run in runs if run.ok}, key=lambda model: list(MODELS).index(model), default=None)


def _least_gb(runs):
    return min(run.peak_bytes for run in runs) / 1e9


@needs("figure_10", "figure_12_ddp")
def c8(predicted, measured, _):
    """DDP runs out of memory beyond 2.8B parameters."""
    runs = select(predicted, paradigm="ddp", gpus=32, batch=16)
    largest, theirs = _largest(runs), _largest(select(measured, paradigm="ddp"))
    beyond = select(runs, model="GPT6.7B")
    return Finding(
        verdict_of(largest == "GPT2.7B"),
        AGREES if theirs == "GPT2.7B" else CONTRADICTS,
        f"largest that fits on 32 GPUs with batch 16: {short_count(largest)}; {short_count('GPT6.7B')} needs "
        + ", ".join(f"{run.peak_bytes / 1e9:.1f} GB ({run.activation})" for run in beyond),
        f"largest DDP model with a measurement: {short_count(theirs)} (only runs that ended are recorded)")


@needs("figure_12_pdp")
def c9(predicted, measured, _):
    """PDP with 2 stages runs out at 16B, with 4 stages at 34B."""
    runs = select(predicted, paradigm="pdp", gpus=32, batch=16)
    two, four = _largest(select(runs, stages=2)), _largest(select(runs, stages=4))
    their_two, their_four = _largest(select(measured, paradigm="pdp", stages=2)), _largest(select(measured, paradigm="pdp", stages=4))
    failing = [(2, "GPT13B"), (4, "GPT39B")]
    least = ", ".join(f"{short_count(model)} with {stages} stages at least {_least_gb(select(runs, stages=stages, model=model)):.1f} GB"
                      for stages, model in failing)
    return Finding(
        verdict_of(two == "GPT6.7B" and four == "GPT13B"),
        AGREES if (their_two, their_four) == ("GPT6.7B", "GPT13B") else CONTRADICTS,
        f"largest that fits: {short_count(two)} with 2 stages, {short_count(four)} with 4; {least}",
        f"largest with a measurement: {short_count(their_two)} with 2 stages, {short_count(their_four)} with 4")


@needs("claim_10", "claim_10_others")
def c10a(predicted, _measured, _folder):
    """Only FSDP reaches 1T on 32 GPUs."""
    asked, others = select(predicted, figure="claim_10"), select(predicted, figure="claim_10_others")
    fits, only = any(run.ok for run in asked), not any(run.ok for run in others)
    return Finding(
        verdict_of(fits and only), NO_DATA,
        f"on the study's hosts FSDP {'fits' if fits else f'runs out of memory ({asked[0].error})'}; DDP and PDP with 8 stages: "
        f"{'out of memory' if only else 'one of them fits'}", "no run of this model is among the measurements",
        "" if fits else f"16-bit parameters and gradients alone are {4 * parameters('GPT1T') / 1e12:.2f} TB, and four nodes with 8 GPUs of "
        f"40 GB and 680 GB of host memory (a2-highgpu-8g) have {4 * (8 * 40 + 680) / 1000:.2f} TB in all",
        "" if fits else "the memory of the study's hosts, and where its gradients were")


@needs("claim_10", "claim_10_large_host")
def c10b(predicted, _measured, _folder):
    """1T takes 4085 s per iteration at batch 1 on 32 GPUs over 100 Gbit/s."""
    asked, large = select(predicted, figure="claim_10"), select(predicted, figure="claim_10_large_host")
    ran = next((run for run in asked + large if run.ok), None)
    if not ran:
        return Finding(verdict_of(False), NO_DATA, "does not fit", "no run of this model is among the measurements", decides="the hosts' memory")
    off = ran.step_s / CLAIMED_1T_S - 1
    return Finding(
        verdict_of(abs(off) <= 0.25), NO_DATA,
        f"{number(ran.step_s)} s per iteration ({off:+.0%} of the claim), {ran.peak_bytes / 1e9:.1f} GB of a GPU's memory"
        + ("" if asked[0].ok else "; with 2 TiB of host memory a node, since it does not fit with the study's"),
        "no run of this model is among the measurements",
        decides="a step of this model, with its hosts' memory and what was offloaded: one is enough, since 25 % of 4085 s is far more than "
                "repeats differ by")


@needs("figure_20_large", "figure_21_large")
def c16(predicted, measured, _):
    """Batch 256 with 13B and more does not fit on either network."""
    large = [model for model in MODELS if parameters(model) > 10e9]
    mine = select(predicted, model=large, batch=256, gpus=8)
    mine = [run for run in mine if run.figure.startswith(("figure_20", "figure_21"))]
    theirs = [run for run in select(measured, model=large, batch=256, gpus=8) if run.ok]
    fitting = [run for run in mine if run.ok]

    def words(runs):
        return "; ".join(sorted({f"{run.paradigm.upper()} {short_count(run.model)}, {run.activation}"
                                 f"{', parameters on the host' if run.parameter_offload else ''}, {run.gpus_per_node} GPUs per node, "
                                 f"{run.peak_bytes / 1e9:.1f} GB" for run in runs}))
    shown = sorted(fitting, key=lambda run: (-parameters(run.model), run.peak_bytes))[:2]
    return Finding(
        verdict_of(not fitting),
        CONTRADICTS if theirs else AGREES if measured else NO_DATA,
        f"{len(fitting)} of {len(mine)} variants fit" + (f", for example {words(shown)}" if shown else
                                                         f"; the least any needs: {_least_gb(mine):.1f} GB" if mine else ""),
        words(theirs) if theirs else "no such measurement")


@needs("figure_12_pdp")
def c17(predicted, measured, _):
    """34B is about the limit of PDP with pipelines in one machine."""
    def reach(runs):
        return {stages: _largest(select(runs, stages=stages)) for stages in sorted({run.stages for run in runs})}

    def words(found):
        return ", ".join(f"{short_count(model)} with {stages}" for stages, model in found.items())
    runs = select(predicted, paradigm="pdp", gpus=32, batch=16)
    mine, theirs = reach(runs), reach(select(measured, paradigm="pdp"))
    longest = max(mine)
    beyond = sum(parameters(model) > parameters("GPT39B") for model in {run.model for run in runs if run.ok})
    fits = fastest(select(runs, stages=longest, model="GPT39B"))
    sharded = fastest(select(predicted, paradigm="fsdp", model="GPT39B", gpus=32, batch=16))
    rate = (f"; with {longest} stages 34B takes {fits.peak_bytes / 1e9:.1f} GB ({fits.activation}, {fits.chunks} chunks) at "
            f"{number(fits.tokens_per_s)} tokens/s, FSDP {number(sharded.tokens_per_s)}") if fits and sharded else ""
    return Finding(
        verdict_of(fits is None and not beyond), NO_DATA if max(theirs) < longest else AGREES if not theirs[longest] else CONTRADICTS,
        f"the largest that fits (stages, all in one node): {words(mine)}{rate}", f"the largest with a measurement: {words(theirs)}",
        "a pipeline of 8 GPUs is the longest in a machine, and the study's text announces such pipelines, which its figures do not show: "
        "the limit is that of 4 stages" if fits else "",
        f"a run of 34B with {longest} stages and activation checkpointing" if max(theirs) < longest else "")


@needs("figure_20_large", "figure_21_large")
def c18(predicted, measured, _):
    """Finer FSDP units take less memory and more time."""
    def pairs(runs):
        """[(time, memory)] of linear units over blocks, where nothing else differs."""
        fsdp = [run for run in select(runs, paradigm="fsdp", gpus=8) if run.ok and run.unit]
        blocks = {replace(run, unit="", step_s=None, peak_bytes=None, aco_ms=None, host_s=None): run for run in fsdp if run.unit == "block"}
        bare = [(replace(run, unit="", step_s=None, peak_bytes=None, aco_ms=None, host_s=None), run) for run in fsdp if run.unit == "linear"]
        return [(run.step_s / blocks[key].step_s, run.peak_bytes / blocks[key].peak_bytes) for key, run in bare if key in blocks]

    def words(found):
        return (f"{len(found)} pairs: step time {median(t for t, _ in found):.2f} (median; {span(t for t, _ in found)}), memory "
                f"{median(m for _, m in found):.2f} ({span(m for _, m in found)}) of those with blocks") if found else "no pairs"

    def holds(found):
        return bool(median(t for t, _ in found) > 1 and median(m for _, m in found) < 1)
    mine, theirs = pairs(predicted), pairs(measured)
    data = NO_DATA if not theirs else AGREES if holds(theirs) else CONTRADICTS
    alike = bool(mine) and all(abs(memory - 1) < 0.001 for _, memory in mine)
    return Finding(
        UNDECIDED if alike else verdict_of(holds(mine) if mine else None), data, words(mine), words(theirs),
        "the peaks of the measured runs say that the inner layers were wrapped in all of them, whatever their files are called, and the profile does "
        "as they did (schedule.gathers_layers)" if alike else "", "runs whose peaks differ with the wrapping" if alike else "")


CLAIMS = (c8, c9, c10a, c10b, c16, c17, c18)
