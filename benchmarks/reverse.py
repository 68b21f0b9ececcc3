"""What a compiled gradient costs beside the compiled function: value and gradient together, in units of the value alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import chain, elementwise, gmm, jit, lstm, mlp
from benchmarks.harness import OURS, Build, Target, Workload
from benchmarks.numpy_style import logsumexp_of

WORKLOADS = []
VALUE, BOTH = "functrace, value", "functrace, value and gradient"


def _compiled(function: Callable[..., Any], arguments: Callable[[Any], tuple[Any, ...]], transform: str | None) -> Build:
    """A contestant: `function(ft, fnp, p, *args)`, or its derivative, jitted; it gives the value."""

    def build(p: Any) -> Any:
        import functrace as ft
        import functrace.numpy as fnp

        args = arguments(p)
        f = lambda *args: function(ft, fnp, p, *args)
        if transform is None:
            g = ft.jit(f)
            return lambda: g(*args)
        both = ft.jit(getattr(ft, transform)(f, tuple(range(len(args)))))
        return lambda: both(*args)[0]

    return build


def beside(workload: Workload, sizes: tuple[str, ...], function: Callable[..., Any], arguments: Callable[[Any], tuple[Any, ...]]) -> None:
    """Enter the function of a workload and its gradient."""
    new = Workload(f"reverse, {workload.name}", workload.about, workload.problem, {s: workload.sizes[s] for s in sizes}, rtol=workload.rtol)
    new.targets = [Target(VALUE, 3.0, BOTH)]
    new.contestant(OURS, VALUE)(_compiled(function, arguments, None))
    new.contestant(OURS, BOTH)(_compiled(function, arguments, "value_and_grad"))
    WORKLOADS.append(new)


beside(chain.chain, ("4 float64",), lambda _ft, fnp, _p, x: jit.chained(fnp, x), lambda p: (p.x,))
beside(
    elementwise.elementwise, ("1e4 float64", "1e6 float64", "1e7 float64"), lambda _ft, fnp, _p, x: elementwise.f(fnp, x), lambda p: (p.x,)
)
beside(mlp.mlp, ("batch 128, float32",), lambda _ft, fnp, p, ps: mlp.loss(fnp, logsumexp_of(fnp), ps, p), lambda p: (p.params,))
for _workload in gmm.WORKLOADS:
    if "product" in _workload.name:
        beside(
            _workload,
            tuple(_workload.sizes),
            lambda _ft, fnp, p, *ps: gmm.likelihood(fnp, logsumexp_of(fnp), gmm.product, p, *ps),
            lambda p: p.params,
        )
beside(lstm.batch, ("T 50",), lambda _ft, fnp, p, *ps: lstm.batch_loss(fnp, lstm.sigmoid_of(fnp), p, *ps), lambda p: p.params)
beside(
    lstm.long,
    ("T 128",),
    lambda ft, fnp, p, *ps: lstm.scanned_loss(ft.scan, fnp, lstm.sigmoid_of(fnp), p, p.text, ps),
    lambda p: p.params,
)
beside(jit.rnn, tuple(jit.rnn.sizes), lambda ft, fnp, p, w, b: jit.rnn_loss(ft.scan, fnp, p, p.xs, w, b), lambda p: (p.w, p.b))
