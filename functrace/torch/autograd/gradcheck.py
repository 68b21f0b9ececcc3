"""`gradcheck` and `gradgradcheck`: gradients against central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch._backward import grad, sequence
from functrace.torch._draws import randn_like
from functrace.torch._dtypes import warn
from functrace.torch._index import stack
from functrace.torch._modes import enable_grad, paused
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.func import Run
from functrace.torch.testing import make_tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient is not what the differences say."""

    __module__ = "torch.autograd.gradcheck"


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` agree with central differences of step `eps`, in every entry.

    Raises GradcheckError where they do not, or, unless `raise_exception`, returns False. `check_forward_ad` checks forward mode
    too; `fast_mode`, a check of random projections in PyTorch, checks every entry here. What `check_undefined_grad` and
    `check_grad_dtypes` look for is not checked.
    """
    inputs = sequence(inputs)
    try:
        _check(
            func, inputs, eps, atol, rtol, nondet_tol, check_forward_ad or check_batched_forward_grad, check_backward_ad, check_batched_grad
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Any, inputs: Sequence[Any], eps: float, atol: float, rtol: float, nondet: float, forward: bool, backward: bool, batched: bool
) -> None:
    which = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x._rg]
    if not which:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.")
    for k in which:
        if inputs[k]._a.dtype.itemsize < (16 if inputs[k]._a.dtype.kind == "c" else 8):
            warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check will likely fail if all "
                "the inputs are not of double precision floating point or complex. "
            )
    with enable_grad():
        outputs = _tensors(func, inputs)
    numerical = [_differences(func, inputs, k, eps) for k in which]  # per input: per output (elements of the input, of the output)
    moving = [j for j, t in enumerate(outputs) if t._rg]
    if not moving and any(np.any(d) for row in numerical for d in row):
        raise GradcheckError("Numerical gradient for function expected to be zero")
    for j, out in enumerate(outputs):
        for row, k in zip(numerical, which):
            if out._a.dtype.kind not in "fc":
                continue
            for unit in _units(out):
                want = _projected(row[j], unit, len(_units(inputs[k])) > 1)
                if backward:
                    got = _analytical(out, inputs[k], unit)
                    _compare(j, k, want, got, atol, rtol)
                    if np.max(np.abs(_analytical(out, inputs[k], unit) - got), initial=0.0) > nondet:
                        raise GradcheckError(
                            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
                            "different values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism "
                            f"was {nondet}."
                        )
    if batched and backward:
        _check_batched(outputs, [inputs[k] for k in which], moving)
    if forward:
        _check_forward(func, inputs, which, numerical, atol, rtol)


def _compare(j: int, k: int, want: Any, got: Any, atol: float, rtol: float, what: str = "") -> None:
    if not np.allclose(got, want, rtol, atol):
        raise GradcheckError(
            f"{what}Jacobian mismatch for output {j} with respect to input {k},\nnumerical:{wrap(want)!r}\nanalytical:{wrap(got)!r}\n"
        )


def _tensors(func: Any, inputs: Sequence[Any]) -> list[Any]:
    """The results of `func` that are tensors."""
    return [t for t in sequence(func(*inputs)) if isinstance(t, Tensor)]


def _outputs(func: Any, inputs: Sequence[Any]) -> list[Any]:
    with paused():
        return [np.array(t._a) for t in _tensors(func, inputs)]


def _units(x: Any) -> tuple[Any, ...]:
    """The directions of a tensor's elements: of complex ones the real, and the imaginary."""
    return (1.0, 1.0j) if x._a.dtype.kind == "c" else (1.0,)


def _differences(func: Any, inputs: Sequence[Any], k: int, eps: float) -> list[Any]:
    """Derivatives along each element of input k, the imaginary directions of a complex one after the real."""
    x = inputs[k]
    rows: list[list[Any]] = []
    for unit in _units(x):
        for place in np.ndindex(x._a.shape):
            ends, before = [], x._a[place].copy()
            for sign in (1, -1):
                x._a[place] = before + sign * eps * unit  # in place: the tensor may be an argument twice
                ends.append(_outputs(func, inputs))
            x._a[place] = before
            rows.append([((p - m) / (2 * eps)).ravel() if p.dtype.kind in "fc" else np.zeros(p.size) for p, m in zip(*ends)])
    return [np.array([row[j] for row in rows]).reshape(len(rows), a.size) for j, a in enumerate(_outputs(func, inputs))]


def _projected(d: Any, unit: complex, complex_input: bool) -> Any:
    """The gradient, in PyTorch's sense, of the part of the result along `unit`."""
    part = np.real(np.conjugate(unit) * d) if d.dtype.kind == "c" else d
    if not complex_input:
        return part
    half = len(part) // 2
    return part[:half] + 1j * part[half:]


def _analytical(out: Any, x: Any, unit: complex) -> Any:
    found = np.zeros((x._a.size, out._a.size), x._a.dtype)
    if not out._rg:
        return found
    for place in range(out._a.size):
        seed = np.zeros(out._a.size, out._a.dtype)
        seed[place] = unit
        (g,) = grad(out, x, wrap(seed.reshape(out._a.shape)), retain_graph=True, allow_unused=True)
        if g is not None:
            found[:, place] = g._a.ravel()
    return found


def _check_batched(outputs: Sequence[Any], inputs: Sequence[Any], moving: Sequence[int]) -> None:
    for j in moving:
        out = outputs[j]
        rows = stack([randn_like(out) for _ in range(2)])
        whole = grad(out, inputs, rows, retain_graph=True, allow_unused=True, is_grads_batched=True)
        for r in range(2):
            for a, b in zip(grad(out, inputs, rows[r], retain_graph=True, allow_unused=True), whole):
                if a is not None and not np.allclose(a._a, b._a[r]):
                    raise GradcheckError(f"While testing batched gradients of output {j}: a row of the batch differs from the loop.")


def _check_forward(func: Any, inputs: Sequence[Any], which: Sequence[int], numerical: Any, atol: float, rtol: float) -> None:
    run = Run("gradcheck", lambda *xs: _tensors(func, xs), inputs, which, {}, False)
    push = run.pushing()
    for row, k, place in zip(numerical, which, range(len(which))):
        x = inputs[k]
        columns = []
        for unit in _units(x):
            for element in range(x._a.size):
                ts = [wrap(np.zeros_like(inputs[i]._a)) for i in which]
                ts[place]._a.reshape(-1)[element] = unit
                columns.append([t.detach()._a.ravel() for t in push(ts)])
        for j in range(len(run.out)):
            got = np.array([c[j] for c in columns])
            if run.out[j]._a.dtype.kind in "fc":
                _compare(j, k, row[j], got, atol, rtol, "Forward mode: ")


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the gradients of the gradients agree with differences; see `gradcheck`."""
    inputs = sequence(inputs)
    if grad_outputs is None:
        outs = [t for t in _tensors(func, inputs) if t._rg]
        grad_outputs = [make_tensor(t.shape, dtype=t.dtype, device=t.device, low=-1, high=1, requires_grad=True) for t in outs]
    grad_outputs = sequence(grad_outputs)
    n = len(inputs)

    def first(*args: Any) -> tuple[Any, ...]:
        xs = args[:n]
        with enable_grad():
            outs = [t for t in _tensors(func, xs) if t._rg]
            moving = [x for x in xs if isinstance(x, Tensor) and x._rg]
            found = grad(outs, moving, args[n:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first,
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )
