"""The documented models in double precision, from an experiment's config alone: forward, backward by hand, SGD, Adam.

Written from docs/models.md ("What is computed"), docs/configuration.md and the random numbers of lib/base/random.h, and without a line of
dtbench's: it knows one device, one batch, and nothing of how work is divided. Arrays are [samples, T, features]. A layer is a function that
returns its output, and a function from the output's gradient to the input's that adds the parameters' to theirs.
Usage: reference_model.py CONFIG prints the losses of a config without a sweep, which gives all keys that have no default here.
"""
import functools
import json
import math
import sys

import numpy

WEIGHT, TOKEN, DROPOUT, ATTENTION = 1, 2, 3, 4  # purposes of random numbers
DEFAULTS = {
    "vocab_size": 50000, "block_size": 256, "dropout": 0.1, "mlp": "gelu", "ffn": 0, "norm": "layer", "norm_epsilon": 1e-5,
    "position": "learned", "position_rows": 0, "attention_dropout": "same", "rope": {}, "kv_heads": 0, "bias": "all", "tied": False, "qk_norm": False, "attention": "fused", "dtype": "fp16",
    "layers": None, "heads": None, "hidden": None,
}
ROPE_DEFAULTS = {
    "base": 10000, "scaling": "none", "factor": 8, "low_frequency_factor": 1, "high_frequency_factor": 4, "original_length": 8192,
}
DEVIATION = 0.02  # standard deviation of initial weights


# ---- random numbers ----


def philox(seed, counter):
    """Philox4x32-10 on arrays: four words of a counter, each a number or an array, give words [..., 4]."""
    low, half = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    c0, c1, c2, c3 = numpy.broadcast_arrays(*(numpy.asarray(c, dtype=numpy.uint64) for c in counter))
    for _ in range(10):
        p0, p1 = numpy.uint64(0xD2511F53) * c0, numpy.uint64(0xCD9E8D57) * c2
        c0, c2 = (p1 >> half) ^ c1 ^ numpy.uint64(k0), (p0 >> half) ^ c3 ^ numpy.uint64(k1)
        c1, c3 = p1 & low, p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack([c0, c1, c2, c3], axis=-1)


def blocks_for(count, size):
    return numpy.arange((count + size - 1) // size, dtype=numpy.uint64)


@functools.lru_cache(maxsize=256)
def normal(seed, tensor_id, shape):
    count = math.prod(shape)
    uniform = (philox(seed, (blocks_for(count, 4), 0, tensor_id, WEIGHT << 24)).astype(float) + 1) / 2.0**32
    radius, angle = numpy.sqrt(-2 * numpy.log(uniform[:, 0::2])), 2 * math.pi * uniform[:, 1::2]
    deviates = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], axis=-1)
    return deviates.reshape(-1)[:count].reshape(shape)


def random_tokens(seed, samples, length, vocab_size):
    """[samples, length + 1]: the last one is a target alone."""
    words = philox(seed, (blocks_for(length + 1, 4), 0, numpy.array(samples)[:, None], TOKEN << 24)).reshape(len(samples), -1)
    return (words[:, : length + 1] * numpy.uint64(vocab_size) >> numpy.uint64(32)).astype(int)


@functools.lru_cache(maxsize=256)
def dropout_mask(probability, seed, purpose, layer, samples, heads, length, columns):
    """[samples, heads, length, columns]: the factors of elements. `samples` is a range of global numbers."""
    threshold = int(probability * 65536 + 0.5)
    sample, head, row = numpy.ogrid[samples.start : samples.stop, 0:heads, 0:length]
    first = head[..., None].astype(numpy.uint64) << numpy.uint64(20)
    words = philox(seed, (first + blocks_for(columns, 8), row[..., None], sample[..., None], purpose << 24 | layer))
    bits = numpy.stack([words & numpy.uint64(0xFFFF), words >> numpy.uint64(16)], axis=-1)
    return (bits.reshape(len(samples), heads, length, -1)[..., :columns] >= threshold) * (65536 / (65536 - threshold))


# ---- the description ----


class Parameter:
    def __init__(self, value):
        self.value, self.grad, self.first, self.second = value, 0.0, 0.0, 0.0


class Model:
    """`parameters` by layer and name; the list has a tied table once."""

    def __init__(self, config):
        given = config["model"]
        unknown = (set(given) - set(DEFAULTS)) | (set(given.get("rope", {})) - set(ROPE_DEFAULTS))
        if unknown:
            raise ValueError(f"the reference does not know the model's keys {sorted(unknown)}")
        self.seed, self.sum_loss = config["seed"], config.get("loss") == "sum"
        for key, value in {**DEFAULTS, **given}.items():
            setattr(self, key, value)
        self.rope = {**ROPE_DEFAULTS, **self.rope}
        self.ffn = self.ffn or 4 * self.hidden
        self.kv_heads = self.kv_heads or self.heads
        self.bias = {True: "all", False: "none"}.get(self.bias, self.bias)
        self.width = self.hidden // self.heads
        self.layer_count = 1 + 3 * self.layers + 2
        self.parameters = {layer: self.make_layer(layer) for layer in range(self.layer_count)}
        if self.tied:
            self.parameters[self.layer_count - 1]["weight"] = self.parameters[0]["token.weight"]

    def shapes(self, layer):
        """The layer's tensors in their order, which gives each its random numbers."""
        d, f, w, all_biased = self.hidden, self.ffn, self.width, self.bias == "all"
        norm = [("norm.gain", (d,))] + [("norm.bias", (d,))] * (all_biased and self.norm == "layer")
        if layer == 0:
            return [("token.weight", (self.vocab_size, d))] + [("position.weight", (self.position_rows or self.block_size, d))] * (self.position == "learned")
        if layer == self.layer_count - 1:
            return [("weight", (self.vocab_size, d))] * (not self.tied)
        if layer == self.layer_count - 2:
            return norm
        kind = (layer - 1) % 3
        if kind == 0:
            rows = {"q": d, "k": self.kv_heads * w, "v": self.kv_heads * w}
            return (norm + [(f"{name}.weight", (rows[name], d)) for name in "qkv"]
                    + [(f"{name}.bias", (rows[name],)) for name in "qkv"] * (self.bias != "none")
                    + [("q_norm.gain", (w,)), ("k_norm.gain", (w,))] * self.qk_norm
                    + [("projection.weight", (d, d))] + [("projection.bias", (d,))] * all_biased)
        if kind == 1:
            gated = self.mlp == "swiglu"
            return (norm + [("gate.weight", (f, d))] * gated + [("weight", (f, d))]
                    + ([("gate.bias", (f,))] * gated + [("bias", (f,))]) * all_biased)
        return [("weight", (d, f))] + [("bias", (d,))] * all_biased

    def make_layer(self, layer):
        made = {}
        for place, (name, shape) in enumerate(self.shapes(layer)):
            if name.endswith("weight"):
                value = DEVIATION * normal(self.seed, 16 * layer + place, shape)
            else:
                value = numpy.full(shape, 1.0 if name.endswith("gain") else 0.0)
            made[name] = Parameter(value)
        return made

    def all_parameters(self):
        return {id(p): p for layer in self.parameters.values() for p in layer.values()}.values()


# ---- layers ----


def linear(x, weight, bias=None):
    rows = x.reshape(-1, x.shape[-1])
    y = rows @ weight.value.T + (bias.value if bias else 0)

    def backward(dy):
        drows = dy.reshape(-1, dy.shape[-1])
        weight.grad = weight.grad + drows.T @ rows
        if bias:
            bias.grad = bias.grad + drows.sum(axis=0)
        return (drows @ weight.value).reshape(x.shape)

    return y.reshape(x.shape[:-1] + y.shape[-1:]), backward


def standardised(x, epsilon, centred):
    """Over the last axis: to variance 1 around the mean, or to mean square 1."""
    c = x - x.mean(axis=-1, keepdims=True) if centred else x
    rstd = 1 / numpy.sqrt((c * c).mean(axis=-1, keepdims=True) + epsilon)
    y = c * rstd

    def backward(dy):
        dc = rstd * (dy - y * (dy * y).mean(axis=-1, keepdims=True))
        return dc - dc.mean(axis=-1, keepdims=True) if centred else dc

    return y, backward


def norm(m, x, parameters):
    gain, bias = parameters["norm.gain"], parameters.get("norm.bias")
    normed, normed_backward = standardised(x, m.norm_epsilon, m.norm == "layer")
    y = normed * gain.value + (bias.value if bias else 0)

    def backward(dy):
        gain.grad = gain.grad + (dy * normed).sum(axis=(0, 1))
        if bias:
            bias.grad = bias.grad + dy.sum(axis=(0, 1))
        return normed_backward(dy * gain.value)

    return y, backward


def head_norm(m, x, gain):
    """x [samples, heads, T, width]"""
    normed, normed_backward = standardised(x, m.norm_epsilon, False)

    def backward(dy):
        gain.grad = gain.grad + (dy * normed).sum(axis=(0, 1, 2))
        return normed_backward(dy * gain.value)

    return normed * gain.value, backward


def dropout(m, x, layer, samples):
    if m.dropout == 0:
        return x, lambda dy: dy
    mask = dropout_mask(m.dropout, m.seed, DROPOUT, layer, samples, 1, m.block_size, m.hidden)[:, 0]
    return x * mask, lambda dy: dy * mask


def rope_frequencies(m):
    turn = m.rope["base"] ** (-2 * numpy.arange(m.width // 2) / m.width)
    if m.rope["scaling"] == "none":
        return turn
    low, high = m.rope["low_frequency_factor"], m.rope["high_frequency_factor"]
    kept = numpy.clip((m.rope["original_length"] * turn / (2 * math.pi) - low) / (high - low), 0, 1)
    return turn * (kept + (1 - kept) / m.rope["factor"])


def rope(m, x):
    """x [samples, heads, T, width]: elements i and i + width / 2 of a head turn together."""
    angle = numpy.arange(m.block_size)[:, None] * rope_frequencies(m)

    def turned(z, sine):
        a, b = numpy.split(z, 2, axis=-1)
        return numpy.concatenate([a * numpy.cos(angle) - b * sine, b * numpy.cos(angle) + a * sine], axis=-1)

    return turned(x, numpy.sin(angle)), lambda dy: turned(dy, -numpy.sin(angle))


def alibi_slopes(heads):
    def of_power(n):
        return [2 ** (-8 * (i + 1) / n) for i in range(n)]

    power = 2 ** int(math.log2(heads))
    return of_power(power) + of_power(2 * power)[::2][: heads - power]


def score_bias(m):
    """[heads or 1, T, T], added to scores: minus infinity where a key is later than its query."""
    distance = numpy.arange(m.block_size)[:, None] - numpy.arange(m.block_size)  # query - key
    slopes = numpy.array(alibi_slopes(m.heads) if m.position == "alibi" else [0.0])
    return numpy.where(distance >= 0, -slopes[:, None, None] * distance, -math.inf)


def heads_of(x, count):
    """[samples, T, count * width] to [samples, count, T, width]."""
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(0, 2, 1, 3)


def rows_of(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def weighted(m, q, k, v, mask):
    """Causal attention, all [samples, heads, T, width]; each head of k and v serves so many neighbouring heads of q."""
    group = m.heads // m.kv_heads
    k, v, scale = numpy.repeat(k, group, axis=1), numpy.repeat(v, group, axis=1), 1 / math.sqrt(m.width)
    scores = q @ k.transpose(0, 1, 3, 2) * scale + score_bias(m)
    exponentials = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    softmax = exponentials / exponentials.sum(axis=-1, keepdims=True)

    def shared(gradient):
        return gradient.reshape(gradient.shape[0], m.kv_heads, group, *gradient.shape[2:]).sum(axis=2)

    def backward(dy):
        dsoftmax = dy @ v.transpose(0, 1, 3, 2) * mask
        dscores = softmax * (dsoftmax - (dsoftmax * softmax).sum(axis=-1, keepdims=True)) * scale
        dk, dv = dscores.transpose(0, 1, 3, 2) @ q, (softmax * mask).transpose(0, 1, 3, 2) @ dy
        return dscores @ k, shared(dk), shared(dv)

    return softmax * mask @ v, backward


def chain(steps, x):
    """x through functions that each return output and backward; the backward of all."""
    backwards = []
    for step in steps:
        x, backward = step(x)
        backwards.append(backward)

    def back(dy):
        for backward in reversed(backwards):
            dy = backward(dy)
        return dy

    return x, back


def attention(m, x, layer, samples):
    """q, k and v from x [samples, T, d], attention, projection."""
    p = m.parameters[layer]

    def make(name, count):
        steps = [lambda z: linear(z, p[name + ".weight"], p.get(name + ".bias")),
                 lambda z: (heads_of(z, count), rows_of)]
        if m.qk_norm and name != "v":
            steps.append(lambda z: head_norm(m, z, p[name + "_norm.gain"]))
        if m.position == "rope" and name != "v":
            steps.append(lambda z: rope(m, z))
        return chain(steps, x)

    (q, q_backward), (k, k_backward), (v, v_backward) = make("q", m.heads), make("k", m.kv_heads), make("v", m.kv_heads)
    mask = dropout_mask(m.dropout, m.seed, ATTENTION, layer, samples, m.heads, m.block_size, m.block_size) if m.dropout and m.attention_dropout == "same" else 1.0
    mixed, mixed_backward = weighted(m, q, k, v, mask)
    y, y_backward = linear(rows_of(mixed), p["projection.weight"], p.get("projection.bias"))

    def backward(dy):
        dq, dk, dv = mixed_backward(heads_of(y_backward(dy), m.heads))
        return q_backward(dq) + k_backward(dk) + v_backward(dv)

    return y, backward


ERF = numpy.frompyfunc(math.erf, 1, 1)


def gelu(x):
    phi = 0.5 * (1 + ERF(x / math.sqrt(2)).astype(float))
    return x * phi, lambda dy: dy * (phi + x * numpy.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def gelu_new(x):
    root = math.sqrt(2 / math.pi)
    tanh = numpy.tanh(root * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + tanh), lambda dy: dy * 0.5 * (1 + tanh + x * (1 - tanh**2) * root * (1 + 3 * 0.044715 * x * x))


def relu(x):
    return numpy.maximum(x, 0), lambda dy: dy * (x > 0)


GELUS = {"gelu": gelu, "gelu_new": gelu_new, "relu": relu}


def silu(x):
    sigmoid = 1 / (1 + numpy.exp(-x))
    return x * sigmoid, lambda dy: dy * sigmoid * (1 + x * (1 - sigmoid))


def mlp(m, x, layer):
    """`layer` is that of the norm and the first product; the second is in the next one."""
    p, down = m.parameters[layer], m.parameters[layer + 1]
    up, up_backward = linear(x, p["weight"], p.get("bias"))
    if m.mlp in GELUS:
        active, active_backward = GELUS[m.mlp](up)
    else:
        gate, gate_backward = linear(x, p["gate.weight"], p.get("gate.bias"))
        open_gate, silu_backward = silu(gate)
        active = open_gate * up
    y, y_backward = linear(active, down["weight"], down.get("bias"))

    def backward(dy):
        dactive = y_backward(dy)
        if m.mlp in GELUS:
            return up_backward(active_backward(dactive))
        return up_backward(dactive * open_gate) + gate_backward(silu_backward(dactive * up))

    return y, backward


def residual(branch):
    def step(x):
        y, backward = branch(x)
        return x + y, lambda dy: dy + backward(dy)

    return step


def block(m, number, samples):
    """Its two residual branches, as one step of a chain. Each begins with a norm and ends with a dropout of its own."""
    first = 1 + 3 * number
    return lambda x: chain([
        residual(lambda z: chain([lambda y: norm(m, y, m.parameters[first]), lambda y: attention(m, y, first, samples),
                                  lambda y: dropout(m, y, first, samples)], z)),
        residual(lambda z: chain([lambda y: norm(m, y, m.parameters[first + 1]), lambda y: mlp(m, y, first + 1),
                                  lambda y: dropout(m, y, first + 2, samples)], z)),
    ], x)


def embedding(m, tokens):
    table, positions = m.parameters[0]["token.weight"], m.parameters[0].get("position.weight")
    y = table.value[tokens] + (positions.value[:m.block_size] if positions else 0)

    def backward(dy):
        gradient = numpy.zeros_like(table.value)
        numpy.add.at(gradient, tokens, dy)
        table.grad = table.grad + gradient
        if positions:
            positions.grad = positions.grad + numpy.pad(dy.sum(axis=0), ((0, len(positions.value) - m.block_size), (0, 0)))

    return y, backward


def loss(m, logits, targets):
    """The loss, the magnitude of its terms, and the logits' gradient."""
    if m.sum_loss:
        samples = len(targets)
        return logits.sum() / samples, numpy.abs(logits).sum() / samples, numpy.full_like(logits, 1 / samples)
    exponentials = numpy.exp(logits - logits.max(axis=-1, keepdims=True))
    softmax = exponentials / exponentials.sum(axis=-1, keepdims=True)
    wanted = numpy.zeros_like(logits)
    numpy.put_along_axis(wanted, targets[..., None], 1.0, axis=-1)
    mean = -numpy.log((softmax * wanted).sum(axis=-1)).mean()
    return mean, mean, (softmax - wanted) / targets.size


def forward_backward(m, samples):
    """The loss of a range of samples, and its size; parameters have their gradients afterwards."""
    drawn = random_tokens(m.seed, samples, m.block_size, m.vocab_size)
    for parameter in m.all_parameters():
        parameter.grad = 0.0
    x, embedding_backward = embedding(m, drawn[:, :-1])
    last = m.layer_count - 1
    steps = ([lambda z: dropout(m, z, 0, samples)] + [block(m, number, samples) for number in range(m.layers)]
             + [lambda z: norm(m, z, m.parameters[last - 1]), lambda z: linear(z, m.parameters[last]["weight"])])
    logits, backward = chain(steps, x)
    value, size, dlogits = loss(m, logits, drawn[:, 1:])
    embedding_backward(backward(dlogits))
    return value, size


# ---- training ----


def update(m, optimizer, step):
    rate, limit = optimizer["learning_rate"], optimizer.get("clip_norm", 0)
    norm = math.sqrt(sum((p.grad**2).sum() for p in m.all_parameters()))
    for p in m.all_parameters():
        p.grad = p.grad * (limit / norm if 0 < limit < norm else 1)
        if optimizer["name"] == "sgd":
            p.value = p.value - rate * p.grad
            continue
        beta1, beta2, epsilon = optimizer.get("beta1", 0.9), optimizer.get("beta2", 0.999), optimizer.get("epsilon", 1e-8)
        p.first = beta1 * p.first + (1 - beta1) * p.grad
        p.second = beta2 * p.second + (1 - beta2) * p.grad**2
        p.value = p.value - rate * (p.first / (1 - beta1**step)) / (numpy.sqrt(p.second / (1 - beta2**step)) + epsilon)


def train(config, noise=0.0, draw=0):
    """[(loss, its size)] of the experiment's steps. noise: the size of random numbers that are added to the initial parameters, and to each tensor's gradient in every step relative to its largest one; each `draw` has other numbers."""
    m = Model(config)
    r = numpy.random.default_rng([config["seed"], draw])
    batch = config["batch_size"] * config["world_size"] // config.get("context", {}).get("size", 1)
    steps = config["steps"]["warmup"] + config["steps"]["timed"]
    out = []
    for p in m.all_parameters():
        p.value = p.value * (1 + noise * r.standard_normal(p.value.shape))
    for step in range(steps):
        out.append(forward_backward(m, range(step * batch, (step + 1) * batch)))
        for p in m.all_parameters():
            p.grad = p.grad + noise * numpy.abs(p.grad).max() * r.standard_normal(p.value.shape)
        update(m, config["optimizer"], step + 1)
    return out


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print([float(value) for value, _ in train(json.load(file))])
