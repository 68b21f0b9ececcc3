"""The compiled tape: the workloads of the other modules, and a recurrent network by `scan`, under `jit`.

`NumPy by hand` is written as a person writes it, on whole arrays; `NumPy tuned` by hand too, with shared subexpressions, `out=`
buffers and blocks that stay in the cache, on as many threads as functrace uses. `ready` is the time to capture, compile and run
a function once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import bundle, chain, elementwise, gmm, hessian, lstm, mlp, pairs
from benchmarks.harness import EAGER, HAND, JIT, OURS, Build, Target, Workload, jax, namespace
from benchmarks.numpy_style import logsumexp_of

PEERS = ("NumPy by hand", "PyTorch", "JAX jit", "JAX jit, scan")
WORKLOADS: list[Workload] = []


def again(workload: Workload, sizes: tuple[str, ...], targets: list[Target], ours: Build, peers: tuple[str, ...] = PEERS) -> Workload:
    """A workload with functrace jitted, and some of its other contestants."""
    new = Workload(
        f"jit, {workload.name}", workload.about, workload.problem, {s: workload.sizes[s] for s in sizes}, targets, rtol=workload.rtol
    )
    for kind, label, build in workload.contestants:
        if label in peers:
            new.contestant(kind, label)(build)
    new.contestant(OURS, "functrace")(ours)
    WORKLOADS.append(new)
    return new


def jitted(make: Callable[[Any, Any, Any], Any], arguments: Callable[[Any], tuple[Any, ...]]) -> Build:
    """A contestant: `make(ft, fnp, p)`, jitted, on the problem's arguments."""

    def build(p: Any) -> Any:
        import functrace as ft
        import functrace.numpy as fnp
        from functrace.compile.jit import jit

        g, args = jit(make(ft, fnp, p)), arguments(p)
        return lambda: g(*args)

    return build


def on_threads(count: int, build: Build) -> Build:
    """A contestant on a number of threads."""

    def counted(p: Any) -> Any:
        from functrace import threads

        threads.set_count(count)
        return build(p)

    return counted


def chained(np: Any, x: Any) -> Any:
    for _ in range(chain.STEPS):
        x = np.sin(x) * x + x
    return np.sum(x)


jit_chain = again(
    chain.chain,
    ("4 float64",),
    [Target("NumPy by hand", 1.0), Target("functrace, eager", 0.25)],
    jitted(lambda ft, fnp, _p: ft.grad(lambda x: chained(fnp, x)), lambda p: (p.x,)),
)
jit_chain.contestant(EAGER, "functrace, eager")(chain.functrace)


# Elementwise


def _expression(ft: Any, fnp: Any, _p: Any) -> Any:
    return ft.grad(lambda x: elementwise.f(fnp, x))


def tuned(p: Any) -> Any:
    """The gradient by hand in blocks, with buffers; on the threads of functrace's pool."""
    from functrace import threads

    x, block = p.x, 1 << 15 if threads.count() == 1 else 1 << 16
    two = x.dtype.type(2)
    sets: list[Any] = []

    def run() -> Any:
        out = np.empty_like(x)

        def piece(lo: int) -> None:
            a, o = x[lo : lo + block], out[lo : lo + block]
            buffers = sets.pop() if sets else [np.empty(block, x.dtype) for _ in range(5)]
            t, e, one, g, u = (b[: len(a)] for b in buffers)
            np.multiply(a, a, u)
            np.tanh(a, t)
            np.add(u, 1, one)
            np.negative(u, u)
            np.exp(u, e)
            np.multiply(t, e, g)
            np.log(one, u)
            np.add(g, u, g)
            np.multiply(g, two, g)
            np.multiply(t, t, u)
            np.subtract(1, u, u)
            np.multiply(u, e, u)
            np.multiply(a, t, t)
            np.multiply(t, e, t)
            np.multiply(t, two, t)
            np.subtract(u, t, u)
            np.divide(a, one, one)
            np.multiply(one, two, one)
            np.add(u, one, u)
            np.multiply(g, u, o)
            sets.append(buffers)

        threads.run(piece, range(0, len(x), block))
        return out

    return run


def torch_compile(p: Any) -> Any:
    """PyTorch's compiler, if it works here."""
    import torch

    x = torch.tensor(p.x, requires_grad=True)
    f = torch.compile(lambda x: elementwise.f(torch, x))

    def run() -> Any:
        return torch.autograd.grad(f(x), x)

    try:
        run()
    except Exception as error:  # no C++ compiler, for one
        raise ImportError(f"torch.compile: {type(error).__name__}") from None
    return run


_ELEMENTWISE = [
    ("1e4 float64", {"NumPy by hand": 0.9, "JAX jit": 1.0, "PyTorch": 0.5}),
    ("1e6 float64", {"NumPy by hand": 0.4, "JAX jit": 1.2, "PyTorch": 0.5, "NumPy tuned": 1.15, "one": 1.15}),
    ("1e6 float32", {"NumPy by hand": 0.4, "PyTorch": 0.5, "NumPy tuned": 1.15, "one": 1.15}),
    ("1e7 float64", {"NumPy by hand": 0.35, "JAX jit": 0.6, "PyTorch": 0.5, "torch.compile": 1.0, "NumPy tuned": 1.15, "one": 1.15}),
    ("1e7 float32", {"NumPy by hand": 0.35, "JAX jit": 0.6}),
]
_whole = replace(elementwise.elementwise, sizes={**elementwise.elementwise.sizes, "1e7 float32": {"n": 10**7, "dtype": "float32"}})
for _size, _most in _ELEMENTWISE:
    _targets = [Target(peer, most) for peer, most in _most.items() if peer != "one"]
    if "one" in _most:
        _targets.append(Target("NumPy tuned, 1 thread", _most["one"], ours="functrace, 1 thread"))
    _workload = again(_whole, (_size,), _targets, jitted(_expression, lambda p: (p.x,)))
    _workload.name += f" {_size}"
    if "one" in _most:
        _workload.contestant(HAND, "NumPy tuned")(tuned)
        _workload.contestant(HAND, "NumPy tuned, 1 thread")(on_threads(1, tuned))
        _workload.contestant(OURS, "functrace, 1 thread")(on_threads(1, jitted(_expression, lambda p: (p.x,))))
    if "torch.compile" in _most:
        _workload.contestant(JIT, "torch.compile")(torch_compile)


# The models


again(
    mlp.mlp,
    ("batch 128, float32",),
    [Target("NumPy by hand", 1.0), Target("JAX jit", 1.0), Target("PyTorch", 0.9)],
    jitted(lambda ft, fnp, p: ft.value_and_grad(lambda params: mlp.loss(fnp, logsumexp_of(fnp), params, p)), lambda p: (p.params,)),
)
for _workload in gmm.WORKLOADS:
    if "product" in _workload.name:
        again(
            _workload,
            tuple(_workload.sizes),
            [Target("NumPy by hand (product)", 0.7), Target("JAX jit", 1.0), Target("PyTorch", 0.5)],
            jitted(
                lambda ft, fnp, p: ft.value_and_grad(lambda params: gmm.likelihood(fnp, logsumexp_of(fnp), gmm.product, p, *params)),
                lambda p: (p.params,),
            ),
            ("NumPy by hand (product)", *PEERS),
        )
again(
    bundle.bundle,
    ("1000 observations", "20000 observations"),
    [Target("JAX jit, vmap(jacrev)", 1.0), Target("PyTorch, vmap(jacrev)", 0.5)],
    jitted(
        lambda ft, fnp, p: ft.vmap(ft.jacrev(lambda *a: bundle.residual(fnp, *a), argnums=(0, 1, 2))),
        lambda p: (p.cams, p.points, p.weights, p.features),
    ),
    ("PyTorch, vmap(jacrev)", "JAX jit, vmap(jacrev)"),
)
again(
    hessian.hessian,
    ("50 features",),
    [Target("NumPy by hand", 1.0), Target("JAX jit", 1.0), Target("PyTorch, torch.func.hessian", 0.5)],
    jitted(lambda ft, fnp, p: ft.hessian(lambda w: hessian.loss(fnp, p, w)), lambda p: (p.w,)),
    (*PEERS, "PyTorch, torch.func.hessian"),
)
again(
    pairs.pairs,
    ("1000 x 1000",),
    [Target("NumPy by hand", 0.4), Target("JAX jit", 1.0), Target("PyTorch", 0.5)],
    jitted(lambda ft, fnp, p: ft.grad(lambda x, y: pairs.energy(fnp, x, y), (0, 1)), lambda p: (p.x, p.y)),
)


def plain_lstm(p: Any) -> Any:
    """The LSTM by hand, a step at a time: each step's products and their cotangents where they occur."""
    sigmoid = lstm.sigmoid_of(np)

    def run() -> Any:
        wx, wh, b, v = p.params
        n = p.hidden
        h = c = np.zeros((p.batch, n), np.float32)
        kept = []
        for x in p.xs:
            z = x @ wx + h @ wh + b
            i, f, g, o = sigmoid(z[:, :n]), sigmoid(z[:, n : 2 * n]), np.tanh(z[:, 2 * n : 3 * n]), sigmoid(z[:, 3 * n :])
            before = h, c
            c = f * c + i * g
            t = np.tanh(c)
            h = o * t
            kept.append((x, *before, i, f, g, o, t))
        error = h @ v - p.target
        gy = 2 * error / np.float32(error.size)
        gv, gh, gc = h.T @ gy, gy @ v.T, np.zeros_like(c)
        gwx, gwh, gb = np.zeros_like(wx), np.zeros_like(wh), np.zeros_like(b)
        for x, h0, c0, i, f, g, o, t in reversed(kept):
            gc = gc + gh * o * (1 - t * t)
            parts = [gc * g * i * (1 - i), gc * c0 * f * (1 - f), gc * i * (1 - g * g), gh * t * o * (1 - o)]
            gz = np.concatenate(parts, axis=1)
            gwx += x.T @ gz
            gwh += h0.T @ gz
            gb += gz.sum(axis=0)
            gc = gc * f
            gh = gz @ wh.T
        return np.mean(error**2), [gwx, gwh, gb, gv]

    return run


jit_lstm = again(
    lstm.batch,
    ("T 50",),
    [Target("NumPy, step by step", 1.0), Target("JAX jit, scan", 2.5), Target("PyTorch", 0.15)],
    jitted(lambda ft, fnp, p: ft.value_and_grad(lambda ps: lstm.batch_loss(fnp, lstm.sigmoid_of(fnp), p, *ps)), lambda p: (p.params,)),
)
jit_lstm.contestant(HAND, "NumPy, step by step")(plain_lstm)
jit_long = again(
    lstm.long,
    ("T 128",),
    [Target("PyTorch", 0.15), Target("JAX jit, scan", 2.5, "functrace, scan")],
    jitted(lambda ft, fnp, p: ft.value_and_grad(lambda ps: lstm.long_loss(fnp, lstm.sigmoid_of(fnp), p, *ps)), lambda p: (p.params,)),
)


@jit_long.contestant(OURS, "functrace, scan")
def long_scan(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    g = ft.jit(ft.value_and_grad(lambda params: lstm.scanned_loss(ft.scan, fnp, lstm.sigmoid_of(fnp), p, p.text, params)))
    return lambda: g(p.params)


# A recurrent network of 500 steps


def rnn_problem(steps: int, hidden: int) -> Any:
    rng = np.random.default_rng(0)
    w = rng.normal(0, 0.5 * hidden**-0.5, (hidden, hidden))
    return namespace(w=w, b=rng.normal(0, 0.1, hidden), xs=rng.normal(size=(steps, hidden)), hidden=hidden)


rnn = Workload(
    "jit, rnn",
    "gradient of a recurrent network of 500 steps, h = tanh(h w + x + b), float64",
    rnn_problem,
    {"500 steps, 32 units": {"steps": 500, "hidden": 32}},
    [Target("NumPy by hand", 1.0), Target("NumPy tuned", 1.15), Target("JAX jit", 2.5), Target("PyTorch", 0.15)],
)
WORKLOADS.append(rnn)


def rnn_loss(scan: Any, np: Any, p: Any, xs: Any, w: Any, b: Any) -> Any:
    h, _ = scan(lambda h, x: (np.tanh(h @ w + x + b), None), np.zeros(p.hidden), xs)
    return np.sum(h * h)


@rnn.contestant(HAND, "NumPy by hand")
def rnn_by_hand(p: Any) -> Any:
    def run() -> Any:
        h, hs = np.zeros(p.hidden), []
        for x in p.xs:
            hs.append(h)
            h = np.tanh(h @ p.w + x + p.b)
        hs.append(h)
        g, gw, gb = 2 * h, np.zeros_like(p.w), np.zeros_like(p.b)
        for k in range(len(p.xs) - 1, -1, -1):
            gz = g * (1 - hs[k + 1] * hs[k + 1])
            gw += np.outer(hs[k], gz)
            gb += gz
            g = p.w @ gz
        return gw, gb

    return run


@rnn.contestant(HAND, "NumPy tuned")
def rnn_tuned(p: Any) -> Any:
    """As few calls of NumPy in each step as there can be: three forwards and two backwards, all else for all steps at once."""
    dot, add, tanh, multiply = np.dot, np.add, np.tanh, np.multiply

    def run() -> Any:
        hs = np.zeros((len(p.xs) + 1, p.hidden))
        h, w, zs = hs[0], p.w, p.xs + p.b
        for z, new in zip(zs, hs[1:]):
            dot(h, w, new)
            add(new, z, new)
            h = tanh(new, new)
        slopes, gzs, g = 1 - hs[1:] ** 2, np.empty_like(zs), 2 * h
        for slope, gz in zip(slopes[::-1], gzs[::-1]):
            multiply(g, slope, gz)
            dot(w, gz, g)
        return hs[:-1].T @ gzs, gzs.sum(axis=0)

    return run


def _rnn(ft: Any, fnp: Any, p: Any) -> Any:
    from functrace.transforms.control import scan

    return ft.grad(lambda w, b: rnn_loss(scan, fnp, p, p.xs, w, b), (0, 1))


rnn.contestant(OURS, "functrace")(jitted(_rnn, lambda p: (p.w, p.b)))


@rnn.contestant(EAGER, "PyTorch")
def rnn_pytorch(p: Any) -> Any:
    import torch

    w, b = (torch.tensor(a, requires_grad=True) for a in (p.w, p.b))
    xs = torch.tensor(p.xs)

    def run() -> Any:
        h = torch.zeros(p.hidden, dtype=torch.float64)
        for x in xs:
            h = torch.tanh(h @ w + x + b)
        return torch.autograd.grad((h * h).sum(), (w, b))

    return run


@rnn.contestant(JIT, "JAX jit")
def rnn_jax(p: Any) -> Any:
    j = jax()
    xs, w, b = (j.numpy.asarray(a) for a in (p.xs, p.w, p.b))
    g = j.jit(j.grad(lambda w, b: rnn_loss(j.lax.scan, j.numpy, p, xs, w, b), (0, 1)))
    return lambda: j.block_until_ready(g(w, b))


# How long until it runs


ready = Workload(
    "jit, ready",
    "capture, compile and run x = sin(x) * 0.9 in an unrolled loop, and its gradient, for the first time",
    lambda ops: namespace(ops=ops, x=np.linspace(0.01, 0.02, 4)),
    {"300 operations": {"ops": 300}, "10000 operations": {"ops": 10_000}},
    [Target("1 s", 1.0)],
)
WORKLOADS.append(ready)


def _loop(np: Any, ops: int) -> Any:
    def f(x: Any) -> Any:
        for _ in range(ops // 2):
            x = np.sin(x) * 0.9
        return np.sum(x)

    return f


@ready.contestant(OURS, "functrace")
def ready_functrace(p: Any) -> Any:
    import functrace.numpy as fnp
    from functrace.compile.jit import jit

    return lambda: jit(_loop(fnp, p.ops))(p.x)


@ready.contestant(OURS, "functrace, gradient")
def ready_functrace_gradient(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp
    from functrace.compile.jit import jit

    return lambda: jit(ft.value_and_grad(_loop(fnp, p.ops)))(p.x)[0]


@ready.contestant(JIT, "JAX jit")
def ready_jax(p: Any) -> Any:
    if p.ops > 1000:
        raise ImportError("its time grows with the square of the length")
    j = jax()
    return lambda: j.jit(_loop(j.numpy, p.ops))(j.numpy.asarray(p.x)).block_until_ready()


@ready.contestant(JIT, "torch.compile")
def ready_torch(p: Any) -> Any:
    if p.ops > 1000:
        raise ImportError("a few hundred operations take it seconds")
    import torch

    x = torch.tensor(p.x)
    torch.compiler.config.force_disable_caches = True

    def run() -> Any:
        torch.compiler.reset()
        return torch.compile(_loop(torch, p.ops))(x)

    try:
        run()
    except Exception as error:  # no C++ compiler, for one
        raise ImportError(f"torch.compile: {type(error).__name__}") from None
    return run


@ready.contestant(HAND, "1 s")
def second(p: Any) -> Any:
    import time

    def run() -> Any:
        time.sleep(1.0)
        return _loop(np, p.ops)(p.x)

    return run
