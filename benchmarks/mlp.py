"""Value and gradient of a multilayer perceptron 784-256-128-10 on a batch of 128, float32, cross entropy by logsumexp."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.harness import EAGER, FASTEST, HAND, JIT, OURS, Target, Workload, jax, namespace

LAYERS = (784, 256, 128, 10)


def problem(batch: int) -> Any:
    rng = np.random.default_rng(0)
    params = []
    for m, n in itertools.pairwise(LAYERS):
        params.append((rng.normal(0, m**-0.5, (m, n)).astype(np.float32), rng.normal(0, 0.1, n).astype(np.float32)))
    labels = rng.integers(0, 10, batch)
    return namespace(params=params, x=rng.normal(size=(batch, 784)).astype(np.float32), labels=labels, rows=np.arange(batch))


mlp = Workload(
    "mlp",
    "value_and_grad of 784-256-128-10, cross entropy",
    problem,
    {"batch 128, float32": {"batch": 128}},
    [Target(FASTEST, 1.0)],
    rtol=1e-4,
)
WORKLOADS = [mlp]


def loss(np: Any, logsumexp: Any, params: Any, p: Any) -> Any:
    """For the libraries that speak NumPy."""
    h = p.x
    for w, b in params[:-1]:
        h = np.maximum(h @ w + b, 0)
    w, b = params[-1]
    logits = h @ w + b
    return np.mean(logsumexp(logits, axis=1) - logits[p.rows, p.labels])


@mlp.contestant(HAND, "NumPy by hand")
def by_hand(p: Any) -> Any:
    def run() -> Any:
        hs, h = [], p.x
        for w, b in p.params:
            hs.append(h)
            h = h @ w + b
            if len(hs) < len(p.params):
                h = np.maximum(h, 0)
        top = h.max(axis=1, keepdims=True)
        e = np.exp(h - top)
        s = e.sum(axis=1, keepdims=True)
        value = np.mean(np.log(s[:, 0]) + top[:, 0] - h[p.rows, p.labels])
        g = e / s
        g[p.rows, p.labels] -= 1
        g /= np.float32(len(g))
        grads: list[Any] = []
        for (w, _), h in zip(reversed(p.params), reversed(hs)):
            grads.append((h.T @ g, g.sum(axis=0)))
            if h is not p.x:
                g = (g @ w.T) * (h > 0)
        return value, grads[::-1]

    return run


@mlp.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp
    from benchmarks.numpy_style import logsumexp_of

    g = ft.value_and_grad(lambda params: loss(fnp, logsumexp_of(fnp), params, p))
    return lambda: g(p.params)


@mlp.contestant(EAGER, "PyTorch")
def pytorch(p: Any) -> Any:
    import torch

    params = [(torch.tensor(w, requires_grad=True), torch.tensor(b, requires_grad=True)) for w, b in p.params]
    flat = [x for pair in params for x in pair]
    data, labels = torch.tensor(p.x), torch.tensor(p.labels)

    def run() -> Any:
        h = data
        for w, b in params[:-1]:
            h = torch.relu(h @ w + b)
        w, b = params[-1]
        logits = h @ w + b
        value = (torch.logsumexp(logits, 1) - logits.gather(1, labels[:, None])[:, 0]).mean()
        return value, torch.autograd.grad(value, flat)

    return run


@mlp.contestant(EAGER, "PyTorch, nn.functional")
def pytorch_nn(p: Any) -> Any:
    import torch
    from torch.nn import functional as F

    params = [(torch.tensor(w.T.copy(), requires_grad=True), torch.tensor(b, requires_grad=True)) for w, b in p.params]
    flat = [x for pair in params for x in pair]
    data, labels = torch.tensor(p.x), torch.tensor(p.labels)

    def run() -> Any:
        h = data
        for w, b in params[:-1]:
            h = F.relu(F.linear(h, w, b))
        value = F.cross_entropy(F.linear(h, *params[-1]), labels)
        return value, [g.mT if g.ndim == 2 else g for g in torch.autograd.grad(value, flat)]

    return run


@mlp.contestant(EAGER, "autograd")
def hips(p: Any) -> Any:
    import autograd.numpy as anp
    from autograd import value_and_grad
    from autograd.scipy.special import logsumexp

    g = value_and_grad(lambda params: loss(anp, logsumexp, params, p))
    return lambda: g(p.params)


@mlp.contestant(EAGER, "MyGrad")
def mygrad(p: Any) -> Any:
    import mygrad as mg
    from mygrad.nnet import relu
    from mygrad.nnet.losses import softmax_crossentropy

    def run() -> Any:
        params = [(mg.tensor(w), mg.tensor(b)) for w, b in p.params]
        h = p.x
        for w, b in params[:-1]:
            h = relu(mg.matmul(h, w) + b)
        w, b = params[-1]
        value = softmax_crossentropy(h @ w + b, p.labels)
        value.backward()
        return value.data, [(w.grad, b.grad) for w, b in params]

    return run


@mlp.contestant(JIT, "JAX jit")
def jax_jit(p: Any) -> Any:
    j = jax()
    data = namespace(x=j.numpy.asarray(p.x), rows=j.numpy.asarray(p.rows), labels=j.numpy.asarray(p.labels))
    g = j.jit(j.value_and_grad(lambda params: loss(j.numpy, j.scipy.special.logsumexp, params, data)))
    params = j.tree.map(j.numpy.asarray, p.params)
    return lambda: j.block_until_ready(g(params))
