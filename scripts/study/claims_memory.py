"""Claims about what fits: C8 to C10 and C16 (figures 10 to 13, 20, 21 and the model of a trillion parameters)."""
from finding import AGREES, CONTRADICTS, NO_DATA, Finding, needs, number, verdict_of
from runs import MODELS, parameters, select, short_count

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


@needs("claim_10", "claim_10_large_host", "claim_10_others")
def c10(predicted, measured, _):
    """Only FSDP reaches 1T; 4085 s per iteration at batch 1 on 32 GPUs over 100 Gbit/s."""
    asked = select(predicted, figure="claim_10")
    large = select(predicted, figure="claim_10_large_host")
    others = select(predicted, figure="claim_10_others")
    ran = next((run for run in asked + large if run.ok), None)
    only = not any(run.ok for run in others)
    off = ran.step_s / CLAIMED_1T_S - 1 if ran else None
    words, remark = "does not fit", "reproduced means: only FSDP fits, and the time is within 25 %"
    if ran:
        words = f"{number(ran.step_s)} s per iteration ({off:+.0%} of the claim), {ran.peak_bytes / 1e9:.1f} GB of a GPU's memory"
    if ran and not asked[0].ok:
        words += f"; that is with more host memory: as claimed it runs out of memory ({asked[0].error})"
        remark = (f"16-bit parameters and gradients alone are {4 * parameters('GPT1T') / 1e12:.2f} TB, and four nodes with 8 GPUs of "
                  f"40 GB and 680 GB of host memory (a2-highgpu-8g) have {4 * (8 * 40 + 680) / 1000:.2f} TB in all: unless the study's "
                  "hosts had more, the claim cannot be true of 32 GPUs. Reproduced means: only FSDP fits, given the host memory, and "
                  "the time is within 25 %")
    words += f"; DDP and PDP with 8 stages: {'out of memory' if only else 'one of them fits'}"
    return Finding(verdict_of(bool(ran and only and abs(off) <= 0.25)), NO_DATA, words, "no run of this model is among the measurements",
                   remark)


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


CLAIMS = (c8, c9, c10, c16)
