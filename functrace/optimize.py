"""Pytrees for optimisers that want one flat vector: `ravel_pytree`, and `scipy_objective` for `scipy.optimize.minimize`.

SciPy is not imported here: what it needs is a function of a vector, and that is NumPy's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import errors, tree
from functrace.core.tracer import Tracer
from functrace.ops.index import index
from functrace.ops.shape import astype, reshape
from functrace.transforms.arguments import name_of
from functrace.transforms.derivatives import value_and_grad

Unravel = Callable[[Any], Any]


def _array(leaf: Any, number: int) -> Any:
    """A leaf as an array; Python numbers count as float64 (complex128), as in `grad`."""
    if isinstance(leaf, (Tracer, np.ndarray, np.generic)):
        return leaf
    if isinstance(leaf, bool):
        return np.bool_(leaf)
    if isinstance(leaf, (int, float)):
        return np.float64(leaf)
    if isinstance(leaf, complex):
        return np.complex128(leaf)
    raise errors.InputTypeError(
        f"ravel_pytree: leaf {number} is a {type(leaf).__name__}, which is not an array or a number.\n  At {errors.user_line(3)}.\n"
        "  Leave it out of the tree, or register its class with functrace.tree.register."
    )


def ravel_pytree(tree_: Any, /) -> tuple[Any, Unravel]:
    """One vector with all the numbers of a pytree, and the function that makes the pytree of such a vector again.

    Args:
        tree_: a pytree of arrays and numbers. Python numbers count as float64.

    Returns:
        `(flat, unravel)`. `flat` is a new 1-d array of the leaves' common dtype (float64 if there are none), dict entries in the
        order of their sorted keys. `unravel(vector)` gives a tree like the original: its shapes, its dtypes, scalars where it had
        scalars, memory of its own. Both work on traced values and are differentiable.

    Raises:
        InputTypeError: a leaf is neither array nor number, or `unravel` is given a complex vector for real leaves.
        TreeError: `unravel` is given something other than a vector of the right length.

    >>> import functrace as ft, numpy as np
    >>> flat, unravel = ft.ravel_pytree({"w": np.eye(2), "b": 5.0})
    >>> flat
    array([5., 1., 0., 0., 1.])
    >>> unravel(flat + 1)
    {'w': array([[2., 1.],
           [1., 2.]]), 'b': np.float64(6.0)}
    """
    leaves, treedef = tree.flatten(tree_)
    arrays = [_array(leaf, k) for k, leaf in enumerate(leaves)]
    common = np.result_type(*(x.dtype for x in arrays)) if arrays else np.dtype(float)
    kinds = [(x.shape, x.dtype, not isinstance(x, np.ndarray)) for x in arrays]
    ends = np.cumsum([0, *(x.size for x in arrays)]).tolist()
    flat = _join(arrays, common)

    def unravel(vector: Any) -> Any:
        x = vector if isinstance(vector, Tracer) else np.asarray(vector)
        if x.shape != (ends[-1],):
            raise errors.TreeError(
                f"unravel: the vector has shape {x.shape}, but the tree holds {ends[-1]} numbers: {treedef!r}.\n  At {errors.user_line()}."
            )
        if x.dtype.kind == "c" and common.kind != "c":
            raise errors.InputTypeError(
                f"unravel: the vector is {x.dtype}, but the tree is real.\n  At {errors.user_line()}.\n  Pass its real part."
            )
        parts = [_part(x, start, stop, *kind) for start, stop, kind in zip(ends, ends[1:], kinds)]
        return tree.unflatten(treedef, parts)

    return flat, unravel


def _join(arrays: list[Any], dtype: Any) -> Any:
    """The elements of all arrays, one after another, in memory of their own."""
    if not arrays:
        return np.zeros(0, dtype)
    parts = [np.reshape(x, -1) for x in arrays]
    return np.concatenate([x if x.dtype == dtype else x.astype(dtype) for x in parts])


def _part(x: Any, start: int, stop: int, shape: tuple[int, ...], dtype: Any, scalar: bool) -> Any:
    if isinstance(x, Tracer):  # the ops themselves: what they give is no view of the vector, so it can be written to
        part = reshape(index(x, slice(start, stop)), shape)
        return part if part.dtype == dtype else part.astype(dtype) if dtype.kind not in "fc" else astype(part, dtype)
    part = x[start:stop].reshape(shape).astype(dtype)
    return part[()] if scalar else part


def scipy_objective(
    f: Callable[..., Any], params: Any, *args: Any, **kwargs: Any
) -> tuple[Callable[..., tuple[float, np.ndarray[Any, Any]]], np.ndarray[Any, Any], Unravel]:
    """A function of a pytree as `scipy.optimize.minimize` wants it: value and gradient as a function of one float64 vector.

    Args:
        f: called as `f(params, *args, **kwargs)`; returns one real number.
        params: a pytree of floating-point arrays and numbers, the starting point.
        *args, **kwargs: passed on to `f`, not differentiated.

    Returns:
        `(fun, x0, unravel)` for `result = scipy.optimize.minimize(fun, x0, jac=True)`; `unravel(result.x)` are the best parameters,
        a tree like `params`. What `minimize` gets as its own `args` is passed to `f` after the others.

    Raises:
        IntegerInputError: `params` holds integers, which can't be varied smoothly.
        InputTypeError: `params` holds complex numbers, or something that is no number.

    >>> import functrace as ft, numpy as np
    >>> def cost(p, y):
    ...     return np.sum((p["scale"] * np.arange(3.0) + p["offset"] - y) ** 2)
    >>> fun, x0, unravel = ft.scipy_objective(cost, {"scale": 1.0, "offset": 0.0}, np.array([1.0, 3.0, 5.0]))
    >>> fun(x0)
    (14.0, array([-12., -16.]))
    >>> unravel(np.array([1.0, 2.0]))
    {'scale': np.float64(2.0), 'offset': np.float64(1.0)}
    """
    flat, unravel = ravel_pytree(params)
    for k, leaf in enumerate(_array(x, k) for k, x in enumerate(tree.leaves(params))):
        if leaf.dtype.kind == "f":
            continue
        found = f"scipy_objective({name_of(f)}): leaf {k} of the parameters is {errors.describe(leaf)}"
        if leaf.dtype.kind == "c":
            raise errors.InputTypeError(
                f"{found}; SciPy minimises over real numbers.\n  At {errors.user_line()}.\n"
                "  Hold its real and imaginary parts as two leaves."
            )
        raise errors.IntegerInputError(
            f"{found}; integers and booleans have no derivative.\n  At {errors.user_line()}.\n"
            "  Pass x.astype(float), or, if it is not to be varied, as another argument."
        )
    both = value_and_grad(f)

    def fun(x: Any, *more: Any) -> tuple[float, np.ndarray[Any, Any]]:
        value, grads = both(unravel(x), *args, *more, **kwargs)
        return float(value), _join(tree.leaves(grads), np.dtype(float))

    return fun, flat.astype(float), unravel
