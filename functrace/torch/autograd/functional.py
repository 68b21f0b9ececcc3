"""`torch.autograd.functional`: Jacobians and products with them. `torch.func` has the same for functions of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch._contact import tree
from functrace.torch._modes import paused
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.func import Run, basis, jacobian_blocks

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(x: Any, what: str, name: str) -> tuple[bool, tuple[Any, ...]]:
    several = isinstance(x, tuple)
    xs = x if several else (x,)
    for k, t in enumerate(xs):
        if not isinstance(t, Tensor):
            which = f"value at index {k}" if several else f"given {what}"
            raise TypeError(f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {which} has type {type(t)}.")
    return several, xs


def _of_its_class(t: Any, like: Any) -> Any:
    """What stands for an argument, as of the argument's class, if that is one of the user's."""
    if not type(like)._kept:
        return t
    out = like.detach()
    out._rg, out._edge = True, t._edge
    return out


def _check_grad(t: Any, k: int = 0) -> None:
    """Refuse, in strict mode, a result that does not require grad."""
    if not t._rg:
        raise RuntimeError(
            f"Output {k} of the user-provided function does not require gradients. The outputs must be computed in a differentiable manner "
            "from the input when running in strict mode."
        )


class _Call:
    """A call of the user's function, seen as a function from a tuple to a tuple."""

    def __init__(self, name: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool) -> None:
        self.several, self.inputs = _as_tuple(inputs, "inputs", name)
        if create_graph:
            self.inputs = tuple(t if t._rg else t.detach().requires_grad_() for t in self.inputs)
        self.strict, self.create = strict, create_graph

        def flat(*xs: Any) -> list[Any]:
            xs = tuple(map(_of_its_class, xs, self.inputs))
            self.several_out, outs = _as_tuple(func(*xs), "outputs of the user-provided function", name)
            return list(outs)

        with paused(create_graph):
            self.run = Run(name, flat, self.inputs, range(len(self.inputs)), {}, False)
        self.outs = self.run.out
        if strict:
            self._check_dependence(name)
        self.result = self.given([self.run.settle(t) for t in self.outs])

    def _check_dependence(self, name: str) -> None:
        for j, t in enumerate(self.outs):
            _check_grad(t, j)
            for i, reached in enumerate(self.run.reached(t)):
                if not reached:
                    which = "The output" if name == "vjp" else f"Output {j}"
                    raise RuntimeError(
                        f"{which} of the user-provided function is independent of input {i}. This is not allowed in strict mode."
                    )

    def given(self, xs: Sequence[Any]) -> Any:
        """What belongs to the results, as the function gives it."""
        return tuple(xs) if self.several_out else xs[0]

    def taken(self, xs: Sequence[Any]) -> Any:
        """What belongs to the arguments, as they were given."""
        return tuple(xs) if self.several else xs[0]

    def vector(self, v: Any, like: Sequence[Any], what: str) -> list[Any]:
        """The vector of a product, checked; ones where it may be left out."""
        if v is None:
            if len(like) != 1 or like[0]._a.size != 1:
                raise RuntimeError(f"The vector v can only be None if {what} a single Tensor with a single element.")
            return [wrap(np.ones_like(like[0]._a))]
        _, vs = _as_tuple(v, "v", "the product")
        if len(vs) != len(like):
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}.")
        for k, (a, b) in enumerate(zip(vs, like)):
            if a._a.shape != b._a.shape:
                which = f"Entry {k} in " if len(like) > 1 else ""
                raise RuntimeError(f"{which}v has invalid size: should be {b.shape} but got {a.shape}.")
        return list(vs)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function of tensors; a tuple of them for each that is several."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than inputs, '
            '"forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`."
        )
    call = _Call("jacobian", func, inputs, create_graph, strict)
    for t in () if vectorize else call.outs:
        if t._a.dtype.kind == "c":
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {t.dtype}")
    with paused(create_graph):
        blocks = jacobian_blocks(call.run, strategy == "forward-mode")
    return call.given([call.taken(row) for row in blocks])


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one number as its result."""
    several, xs = _as_tuple(inputs, "inputs", "hessian")
    found = jacobian(_gradient("hessian", func, strict), xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if several else found[0][0]


# libraries that differentiate by themselves import these


def _construct_standard_basis_for(tensors: Sequence[Any], tensor_numels: Sequence[int]) -> tuple[Any, ...]:
    total = sum(tensor_numels)
    return tuple(t.reshape(total, n) for t, n in zip(basis(tensors, slice(total), total), tensor_numels))


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    return inputs if create_graph else tree.map(Tensor.detach, inputs)


def _tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    outer, inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack, True)
    res = res if inner else tuple(x[0] for x in res)
    return res if outer else res[0]


def _gradient(name: str, func: Callable[..., Any], strict: bool, value: list[Any] | None = None) -> Callable[..., Any]:
    """The gradient of a function with one number as its result, which is put into `value`."""

    def checked(*xs: Any) -> Any:
        several, (out, *_) = _as_tuple(func(*xs), "outputs of the user-provided function", name)
        if several:
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        if out._a.size != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
        if strict:
            _check_grad(out)
        return out

    def gradient(*xs: Any) -> Any:
        out, row = vjp(checked, xs, create_graph=True)
        for k, t in enumerate(row):
            if strict and not t._rg:
                raise RuntimeError(
                    "While computing the hessian, found that the jacobian of the user-provided function with respect to input "
                    f"{k} is independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
                    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for example)."
                )
        if value is not None:
            value[:] = [out]
        return row

    return gradient


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The result, and the product of a vector with the Jacobian."""
    call = _Call("vjp", func, inputs, create_graph, strict)
    vs = call.vector(v, call.outs, "the user-provided function returns")
    with paused(create_graph):
        return call.result, call.taken(call.run.pull(vs))


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The result, and the product of the Jacobian with a vector."""
    call = _Call("jvp", func, inputs, create_graph, strict)
    vs = call.vector(v, call.inputs, "the input to the user-provided function is")
    with paused(create_graph):
        return call.result, call.given(call.run.pushing()(vs))


def _second(name: str, func: Any, inputs: Any, v: Any, create_graph: bool, strict: bool, product: Callable[..., Any]) -> tuple[Any, Any]:
    several, xs = _as_tuple(inputs, "inputs", name)
    value: list[Any] = []
    vs = v if isinstance(v, tuple) or v is None else (v,)
    _, found = product(_gradient(name, func, strict, value), xs, vs, create_graph, strict)
    return value[0] if create_graph else value[0].detach(), found if several else found[0]


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The result, and the product of a vector with the matrix of second derivatives."""
    return _second("vhp", func, inputs, v, create_graph, strict, vjp)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The result, and the product of the matrix of second derivatives with a vector."""
    return _second("hvp", func, inputs, v, create_graph, strict, jvp)
