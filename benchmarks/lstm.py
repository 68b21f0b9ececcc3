"""Value and gradient of unrolled LSTMs.

`lstm, batch`: the ordinary cell, one layer, 50 steps, a batch of 32, 64 inputs, 128 hidden units, float32.
`lstm, long`: ADBench's, whose gates are elementwise: 2 layers of 14 units over 1024 steps of text, float64; all is overhead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, FASTEST, HAND, JIT, OURS, Target, Workload, jax, namespace


def sigmoid_of(np: Any) -> Any:
    return lambda x: 1 / (1 + np.exp(-x))


# The ordinary cell.


def batch_problem(steps: int, batch: int, inputs: int, hidden: int) -> Any:
    rng = np.random.default_rng(0)
    shapes = [(inputs, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,), (hidden, 1)]
    params = [rng.normal(0, 0.1, shape).astype(np.float32) for shape in shapes]
    xs = rng.normal(size=(steps, batch, inputs)).astype(np.float32)
    return namespace(params=params, xs=xs, target=rng.normal(size=(batch, 1)).astype(np.float32), hidden=hidden, batch=batch)


batch = Workload(
    "lstm, batch",
    "value_and_grad of an unrolled LSTM, 50 steps, batch 32, 64 -> 128, float32",
    batch_problem,
    {"T 50": {"steps": 50, "batch": 32, "inputs": 64, "hidden": 128}},
    [Target(FASTEST, 1.0)],
    rtol=1e-4,
)


def batch_loss(np: Any, sigmoid: Any, p: Any, wx: Any, wh: Any, b: Any, v: Any) -> Any:
    n = p.hidden
    h = c = np.zeros((p.batch, n), dtype=np.float32)
    for x in p.xs:
        z = x @ wx + h @ wh + b
        i, f, g, o = sigmoid(z[:, :n]), sigmoid(z[:, n : 2 * n]), np.tanh(z[:, 2 * n : 3 * n]), sigmoid(z[:, 3 * n :])
        c = f * c + i * g
        h = o * np.tanh(c)
    return np.mean((h @ v - p.target) ** 2)


@batch.contestant(HAND, "NumPy by hand")
def batch_by_hand(p: Any) -> Any:
    sigmoid = sigmoid_of(np)

    def run() -> Any:
        wx, wh, b, v = p.params
        n, steps = p.hidden, len(p.xs)
        h = c = np.zeros((p.batch, n), np.float32)
        z_x = p.xs @ wx + b
        kept = []
        for t in range(steps):
            z = z_x[t] + h @ wh
            s = sigmoid(z)
            i, f, o = s[:, :n], s[:, n : 2 * n], s[:, 3 * n :]
            g = np.tanh(z[:, 2 * n : 3 * n])
            old_h, old_c = h, c
            c = f * c + i * g
            tc = np.tanh(c)
            h = o * tc
            kept.append((old_h, old_c, i, f, g, o, tc))
        error = h @ v - p.target
        gy = 2 * error / np.float32(error.size)
        gv, gh, gc = h.T @ gy, gy @ v.T, np.zeros_like(c)
        gz = np.empty_like(z_x)
        for t in reversed(range(steps)):
            old_h, old_c, i, f, g, o, tc = kept[t]
            gc = gc + gh * o * (1 - tc * tc)
            gz[t, :, :n] = gc * g * i * (1 - i)
            gz[t, :, n : 2 * n] = gc * old_c * f * (1 - f)
            gz[t, :, 2 * n : 3 * n] = gc * i * (1 - g * g)
            gz[t, :, 3 * n :] = gh * tc * o * (1 - o)
            gc = gc * f
            gh = gz[t] @ wh.T
        rows = gz.reshape(-1, 4 * n)
        gwx = p.xs.reshape(len(rows), -1).T @ rows
        gwh = np.concatenate([k[0] for k in kept]).T @ rows
        return np.mean(error**2), [gwx, gwh, rows.sum(axis=0), gv]

    return run


@batch.contestant(OURS, "functrace")
def batch_functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    g = ft.value_and_grad(lambda params: batch_loss(fnp, sigmoid_of(fnp), p, *params))
    return lambda: g(p.params)


@batch.contestant(EAGER, "PyTorch")
def batch_pytorch(p: Any) -> Any:
    import torch

    params = [torch.tensor(a, requires_grad=True) for a in p.params]
    xs, target = torch.tensor(p.xs), torch.tensor(p.target)

    def run() -> Any:
        wx, wh, b, v = params
        h = c = torch.zeros(p.batch, p.hidden)
        for x in xs:
            i, f, g, o = (x @ wx + h @ wh + b).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        value = ((h @ v - target) ** 2).mean()
        return value, torch.autograd.grad(value, params)

    return run


@batch.contestant(EAGER, "autograd")
def batch_autograd(p: Any) -> Any:
    import autograd.numpy as anp
    from autograd import value_and_grad

    g = value_and_grad(lambda params: batch_loss(anp, sigmoid_of(anp), p, *params))
    return lambda: g(p.params)


@batch.contestant(EAGER, "MyGrad")
def batch_mygrad(p: Any) -> Any:
    import mygrad as mg
    from mygrad.nnet import sigmoid

    def run() -> Any:
        wx, wh, b, v = params = [mg.tensor(a) for a in p.params]
        n = p.hidden
        h = c = np.zeros((p.batch, n), np.float32)
        for x in p.xs:
            z = mg.matmul(x, wx) + mg.matmul(h, wh) + b
            i, f, g, o = sigmoid(z[:, :n]), sigmoid(z[:, n : 2 * n]), mg.tanh(z[:, 2 * n : 3 * n]), sigmoid(z[:, 3 * n :])
            c = f * c + i * g
            h = o * mg.tanh(c)
        value = ((h @ v - p.target) ** 2).mean()
        value.backward()
        return value.data, [a.grad for a in params]

    return run


@batch.contestant(JIT, "JAX jit, scan")
def batch_jax(p: Any) -> Any:
    j = jax()
    jnp, sigmoid, n = j.numpy, j.nn.sigmoid, p.hidden
    xs = jnp.asarray(p.xs)

    def loss(params: Any) -> Any:
        wx, wh, b, v = params

        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            z = x @ wx + h @ wh + b
            c = sigmoid(z[:, n : 2 * n]) * c + sigmoid(z[:, :n]) * jnp.tanh(z[:, 2 * n : 3 * n])
            return (sigmoid(z[:, 3 * n :]) * jnp.tanh(c), c), None

        zeros = jnp.zeros((p.batch, n), jnp.float32)
        (h, _), _ = j.lax.scan(step, (zeros, zeros), xs)
        return jnp.mean((h @ v - p.target) ** 2)

    g, params = j.jit(j.value_and_grad(loss)), [jnp.asarray(a) for a in p.params]
    return lambda: j.block_until_ready(g(params))


# ADBench's cell: gate by gate, elementwise.


def long_problem(steps: int, layers: int, width: int) -> Any:
    rng = np.random.default_rng(0)
    params = [rng.normal(0, 0.5, shape) for shape in ((layers, 4, width), (layers, 4, width), (3, width))]
    state = [(rng.normal(size=width), rng.normal(size=width)) for _ in range(layers)]
    text = np.eye(width)[rng.integers(0, width, steps)]
    return namespace(params=params, state=state, text=text)


long = Workload(
    "lstm, long",
    "value_and_grad of ADBench's LSTM, 2 layers of 14, float64",
    long_problem,
    {"T 1024": {"steps": 1024, "layers": 2, "width": 14}, "T 128": {"steps": 128, "layers": 2, "width": 14}},
    [Target(FASTEST, 1.0)],
    quick=("T 128",),
)


def long_loss(np: Any, sigmoid: Any, p: Any, weights: Any, biases: Any, ends: Any) -> Any:
    scale, out, shift = ends
    state = list(p.state)
    layers = list(zip(weights, biases))
    total = 0.0
    for x, following in zip(p.text, p.text[1:]):
        x = x * scale
        for k, (w, b) in enumerate(layers):
            h, c = state[k]
            forget, take = sigmoid(x * w[0] + b[0]), sigmoid(h * w[1] + b[1])
            give, change = sigmoid(x * w[2] + b[2]), np.tanh(h * w[3] + b[3])
            c = c * forget + take * change
            x = give * np.tanh(c)
            state[k] = x, c
        y = x * out + shift
        total = total + np.sum(following * (y - np.log(2 + np.sum(np.exp(y)))))
    return -total / len(p.text)


@long.contestant(EAGER, "PyTorch")
def long_pytorch(p: Any) -> Any:
    import torch

    params = [torch.tensor(a, requires_grad=True) for a in p.params]
    data = namespace(text=torch.tensor(p.text), state=[(torch.tensor(h), torch.tensor(c)) for h, c in p.state])

    def run() -> Any:
        value = long_loss(torch, torch.sigmoid, data, *params)
        return value, torch.autograd.grad(value, params)

    return run


@long.contestant(OURS, "functrace")
def long_functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    g = ft.value_and_grad(lambda params: long_loss(fnp, sigmoid_of(fnp), p, *params))
    return lambda: g(p.params)


@long.contestant(EAGER, "autograd")
def long_autograd(p: Any) -> Any:
    import autograd.numpy as anp
    from autograd import value_and_grad

    g = value_and_grad(lambda params: long_loss(anp, sigmoid_of(anp), p, *params))
    return lambda: g(p.params)


@long.contestant(EAGER, "MyGrad")
def long_mygrad(p: Any) -> Any:
    import sys

    import mygrad as mg
    from mygrad.nnet import sigmoid

    def run() -> Any:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(10**6)  # MyGrad walks its graph by recursion
        params = [mg.tensor(a) for a in p.params]
        value = long_loss(mg, sigmoid, p, *params)
        value.backward()
        sys.setrecursionlimit(limit)
        return value.data, [a.grad for a in params]

    return run


def scanned_loss(scan: Any, np: Any, sigmoid: Any, p: Any, text: Any, params: Any) -> Any:
    """The same by `scan`."""
    weights, biases, (scale, out, shift) = params

    def step(state: Any, pair: Any) -> Any:
        x, following = pair
        x, new = x * scale, []
        for (h, c), w, b in zip(state, weights, biases):
            c = c * sigmoid(x * w[0] + b[0]) + sigmoid(h * w[1] + b[1]) * np.tanh(h * w[3] + b[3])
            x = sigmoid(x * w[2] + b[2]) * np.tanh(c)
            new.append((x, c))
        y = x * out + shift
        return new, np.sum(following * (y - np.log(2 + np.sum(np.exp(y)))))

    _, terms = scan(step, p.state, (text[:-1], text[1:]))
    return -np.sum(terms) / len(text)


@long.contestant(JIT, "JAX jit, scan")
def long_jax(p: Any) -> Any:
    j = jax()
    text = j.numpy.asarray(p.text)
    g = j.jit(j.value_and_grad(lambda params: scanned_loss(j.lax.scan, j.numpy, j.nn.sigmoid, p, text, params)))
    params = [j.numpy.asarray(a) for a in p.params]
    return lambda: j.block_until_ready(g(params))


WORKLOADS = [batch, long]
