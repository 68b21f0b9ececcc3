"""Optimisation: pytrees as flat vectors (`ravel_pytree`, `scipy_objective`), and solutions of equations, differentiated implicitly.

SciPy is not imported here: optimisers and solvers are passed in, and what they need is a function of a vector.
Source of the implicit rules: Blondel et al. 2022, "Efficient and modular implicit differentiation".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from functrace import edge, errors, tree
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer, bare
from functrace.ops.create import lift, typed
from functrace.ops.index import index
from functrace.ops.kinds import batch_by_loop
from functrace.ops.shape import astype, reshape
from functrace.places import user_line
from functrace.transforms.arguments import name_of, refuse_tensors
from functrace.transforms.closures import lift_closure
from functrace.transforms.constants import stop_gradient, value
from functrace.transforms.custom import custom_vjp
from functrace.transforms.derivatives import jacobian, jvp, value_and_grad, vjp
from functrace.transforms.sketches import alike, sketch

__all__ = ["fixed_point", "implicit_root", "linear_solve", "ravel_pytree", "scipy_objective"]

T = TypeVar("T")
Unravel = Callable[[Any], Any]


def as_float(x: Any) -> Any:
    """A Python number as float64 (complex128, bool), as it counts in `grad`; anything else as it is."""
    if hasattr(type(x), "dtype") or not isinstance(x, (bool, int, float, complex)):
        return x
    return np.bool_(x) if isinstance(x, bool) else np.complex128(x) if isinstance(x, complex) else np.float64(x)


def _array(leaf: Any, number: int) -> Any:
    leaf = as_float(leaf)
    if isinstance(leaf, (Tracer, np.ndarray, np.generic)):
        return leaf
    raise errors.InputTypeError(
        f"ravel_pytree: leaf {number} is a {type(leaf).__name__}, which is not an array or a number.\n  At {user_line(3)}.\n"
        "  Leave it out of the tree, or register its class with functrace.tree.register."
    )


@edge.boundary
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
    kinds = [(x.shape, x.dtype, not isinstance(bare(x), np.ndarray)) for x in arrays]
    ends = np.cumsum([0, *(x.size for x in arrays)]).tolist()
    flat = _join(arrays, common)

    @edge.boundary
    def unravel(vector: Any) -> Any:
        x = vector if isinstance(vector, Tracer) else np.asarray(vector)
        if x.shape != (ends[-1],):
            raise errors.TreeError(
                f"unravel: the vector has shape {x.shape}, but the tree holds {ends[-1]} numbers: {treedef!r}.\n"
                f"  It comes from another tree, or was cut."
            )
        if x.dtype.kind == "c" and common.kind != "c":
            raise errors.InputTypeError(f"unravel: the vector is {x.dtype}, but the tree is real.\n  Pass its real part.")
        parts = [_part(x, start, stop, *kind) for start, stop, kind in zip(ends, ends[1:], kinds)]
        return tree.unflatten(treedef, parts)

    return flat, unravel


def _join(arrays: list[Any], dtype: Any) -> Any:
    return np.concatenate([typed(np.reshape(x, -1), dtype) for x in arrays]) if arrays else np.zeros(0, dtype)


def _part(x: Any, start: int, stop: int, shape: tuple[int, ...], dtype: Any, scalar: bool) -> Any:
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if isinstance(x, Tracer):  # the ops themselves: what they give is no view of the vector, so it can be written to
        part = index(x, start) if scalar else reshape(index(x, slice(start, stop)), shape)
        return part if part.dtype == dtype else part.astype(dtype) if dtype.kind not in "fc" else astype(part, dtype)
    part = x[start:stop].reshape(shape).astype(dtype)
    return part[()] if scalar else part


@edge.boundary
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
            raise errors.InputTypeError(f"{found}; SciPy minimises over real numbers.\n  Hold its real and imaginary parts as two leaves.")
        raise errors.IntegerInputError(
            f"{found}; integers and booleans have no derivative.\n"
            "  Pass x.astype(float), or, if it is not to be varied, as another argument."
        )
    both = value_and_grad(f)

    @edge.boundary
    def fun(x: Any, *more: Any) -> tuple[float, np.ndarray[Any, Any]]:
        cost, grads = both(unravel(x), *args, *more, **kwargs)
        return float(cost), _join(tree.leaves(grads), np.dtype(float))

    return fun, flat.astype(float), unravel


# Solutions of equations: whatever solver finds them, their derivatives follow from the equations


@edge.boundary
def opaque(fun: Callable[..., Any], *args: Any) -> Any:
    """`fun` of pytrees, run on plain arrays; a batch is taken example by example. What it returns counts as a constant."""
    edge.check_call("opaque(fun, *args)", fun)
    leaves, treedef = tree.flatten(args)
    return _SOLVER.op(*leaves, params=(fun, treedef))


_SOLVER: Primitive = Primitive(
    "solver",
    lambda *xs: np.asarray(xs[-2](*tree.unflatten(xs[-1], xs[:-2]))),
    arity=None,
    constant=True,
    batch=lambda *call: batch_by_loop(_SOLVER, *call),
)


def _minus(x: Any) -> Any:
    return tree.map(lambda leaf: None if leaf is None else -leaf, x)


def _linear(forward: Any, backward: Any, params: Any, b: Any, solver: Any) -> Any:
    """The vector x with `forward(x, params) == b`; `backward` is its transpose."""

    @custom_vjp
    def solve(params: Any, b: Any) -> Any:
        return opaque(lambda p, b: solver(lambda v: forward(v, p), b), params, b)

    def fwd(params: Any, b: Any) -> Any:
        x = _linear(forward, backward, params, b, solver)  # not `solve`, which would hold itself alive
        return x, (params, x, forward(x, params))

    def bwd(saved: Any, g: Any) -> Any:
        params, x, before = saved
        now, pull = vjp(lambda p: forward(x, p), params)
        _check_unchanged(before, now)
        u = _linear(backward, forward, params, g, solver)
        return _minus(pull(u)[0]), u

    solve.defvjp(fwd, bwd)
    return solve(params, b)


def _check_unchanged(before: Any, now: Any) -> None:
    if not alike([sketch(before)], [now]):
        raise errors.MutatedError(
            "the equation gives another result than when it was solved, so the derivative would be of another.\n"
            f"  At {user_line()}.\n  What its function reads has changed since: pass that as an argument."
        )


def _transposed(matvec: Any, example: Any) -> Any:
    return lambda v, p: vjp(lambda y: matvec(y, p), np.zeros(example.shape, example.dtype))[1](v)[0]


def implicit(residual: Any, solve: Any, x0: Any, params: Any, linear_solver: Any = None) -> Any:
    """The vector x with `residual(x, params) == 0` that `solve(x0, params)` finds."""

    @custom_vjp
    def root(x0: Any, params: Any) -> Any:
        return opaque(solve, x0, params)

    def fwd(x0: Any, params: Any) -> Any:
        x = implicit(residual, solve, x0, params, linear_solver)  # not `root`, which would hold itself alive
        return x, (x, params, x + residual(x, params))

    def bwd(saved: Any, g: Any) -> Any:
        x, params, before = saved
        now, pull = vjp(lambda p: residual(x, p), params)
        _check_unchanged(before, x + now)
        if linear_solver is None:
            u = np.linalg.solve(np.swapaxes(jacobian(lambda y: residual(y, params))(x), -1, -2), g)
        else:
            forward: Any = lambda v, p: jvp(lambda y: residual(y, p[1]), (p[0],), (v,))[1]
            u = _linear(_transposed(forward, x), forward, (x, params), g, linear_solver)
        return None, _minus(pull(u)[0])

    root.defvjp(fwd, bwd)
    return root(stop_gradient(x0), params)


def solution(f: Callable[..., Any], make: Callable[[Any], Any], x0: Any, args: tuple[Any, ...], solver: Any, linear_solver: Any) -> Any:
    """The x at which the equation `make(f)(x, *args) == 0` holds, as `solver(f with args, x0)` finds it: see `implicit_root`."""
    start, unravel = ravel_pytree(x0)
    if start.dtype.kind not in "fc":
        start, unravel = start.astype(float), ravel_pytree(tree.map(lambda x: np.asarray(x) * 1.0, x0))[1]
    open_f, captured = lift_closure(f)

    def vector(what: str, value: Any) -> Any:
        flat = ravel_pytree(value)[0]
        if flat.shape != start.shape:
            raise errors.TreeError(f"{name_of(f)}: {what} has {flat.size} numbers, x0 has {start.size}.\n  They must be as many.")
        return flat

    def residual(x: Any, params: Any) -> Any:
        return vector("its result", make(open_f(params[1]))(unravel(x), *params[0]))

    def solve(x0: Any, params: Any) -> Any:
        g = open_f(params[1])
        return vector("the solution found", solver(lambda x: g(x, *params[0]), unravel(x0))).astype(x0.dtype)

    return unravel(implicit(residual, solve, start, (args, captured), linear_solver))


@edge.usage("implicit_root(f, x0, solver=solve), where solve(f, x0) returns the root", "f(x, *args), and solver(f, x0)")
def implicit_root(f: Callable[..., Any], x0: T, *args: Any, solver: Callable[..., Any], linear_solver: Any = None) -> T:
    """The solution x of `f(x, *args) == 0`, differentiated through the equation, not through the solver.

    With `f(x(p), p) == 0`, `dx/dp = -(df/dx)^-1 df/dp` (the implicit function theorem). Reverse and forward mode, any order, and
    `vmap`, which calls the solver for one example after another.

    Args:
        f: returns a pytree with as many numbers as x. Traced values may be arguments, or what it holds:
            variables that it closes over, the attributes of its object.
        x0: where the solver starts, a pytree like x; it has no derivative.
        *args: pytrees, passed on to `f`.
        solver: any code: `solver(g, x0)` gets plain arrays and `g(x) = f(x, *args)`, and returns x. It must solve the equation
            precisely, which is not checked: an error in x is one in the derivative.
        linear_solver: `linear_solver(matvec, b)` for the linear equations of the derivative, where a dense matrix is too large.

    >>> import functrace as ft
    >>> from scipy.optimize import brentq
    >>> def cube_root(a):
    ...     return ft.implicit_root(lambda x: x**3 - a, 1.0, solver=lambda g, x0: brentq(g, 0.0, 10.0, xtol=1e-14))
    >>> print(cube_root(8.0).round(9), ft.grad(cube_root)(8.0).round(9), ft.grad(ft.grad(cube_root))(8.0).round(9))
    2.0 0.083333333 -0.006944444
    """
    edge.check_call("implicit_root(f, x0, solver=solver)", f, solver)
    return solution(f, lambda g: g, x0, args, solver, linear_solver)  # type: ignore[no-any-return]


def _largest(x: Any) -> Any:
    return np.max([np.max(np.abs(leaf), initial=0.0) for leaf in tree.leaves(x)], initial=0.0)


def _check_alike(what: str, new: Any, x: Any) -> None:
    if tree.structure(new) != tree.structure(x) or any(np.shape(a) != np.shape(b) for a, b in zip(tree.leaves(new), tree.leaves(x))):
        raise errors.TreeError(
            f"{what}: the shapes of f's result are {tree.map(np.shape, new)}, those of x {tree.map(np.shape, x)}.\n  At {user_line()}.\n"
            "  The result must have the structure and the shapes of x."
        )


def _iterate(what: str, g: Callable[..., Any], x: Any, tol: float, maxiter: int) -> Any:
    change, noise = np.inf, max([8 * np.finfo(y.dtype).eps for y in map(np.asarray, tree.leaves(x)) if y.dtype.kind in "fc"], default=0.0)
    for k in range(maxiter):
        new = g(x)
        refuse_tensors("fixed_point", tree.leaves(new), "Return x.numpy().")
        _check_alike(what, new, x)
        with np.errstate(all="ignore"):
            last, change = change, _largest(tree.map(np.subtract, new, x))
        if np.isnan(change):  # of x, or infinite twice
            raise errors.ConvergenceError(
                f"{what}: no convergence, x is not finite after {k + 1} iterations.\n  Pass a solver, or another start."
            )
        if change <= (max(tol, noise) if last <= change else tol) * (1 + _largest(new)) < np.inf:  # rounding may go to and fro
            return new
        x = new
    raise errors.ConvergenceError(
        f"{what}: no convergence to {tol:g} in {maxiter} iterations; the last one changed x by {change:.2g}.\n"
        "  Pass a solver, or another start."
    )


@edge.usage("fixed_point(f, x0)", "f(x, *args)")
def fixed_point(
    f: Callable[..., T],
    x0: T,
    *args: Any,
    solver: Callable[..., Any] | None = None,
    linear_solver: Any = None,
    tol: float = 1e-14,
    maxiter: int = 10_000,
) -> T:
    """The solution of `x == f(x, *args)`, differentiated through the equation: for the arguments see `implicit_root`.

    Without `solver(f, x0)` the function is applied again and again, until x changes by no more than `tol`, relative to `1 + max|x|`,
    or by rounding alone, or `maxiter` times.

    Raises:
        ConvergenceError: x did not settle in `maxiter` steps.

    >>> import functrace as ft, numpy as np
    >>> print(ft.grad(lambda a: ft.fixed_point(lambda x: a * np.cos(x), 1.0))(1.0).round(9))
    0.441610792
    """
    edge.check_call("fixed_point(f, x0)", f)
    what = f"fixed_point({name_of(f)})"

    def residual(x: Any, new: Any) -> Any:
        _check_alike(what, new, x)
        return tree.map(lambda u, v: u - v, x, new)

    run = solver or (lambda g, x: _iterate(what, g, x, tol, maxiter))
    return solution(f, lambda g: lambda x, *a: residual(x, g(x, *a)), x0, args, run, linear_solver)  # type: ignore[no-any-return]


@edge.boundary
def linear_solve(matvec: Callable[..., Any], b: Any, *, solver: Any = None, symmetric: bool = False) -> Any:
    """The vector x with `matvec(x) == b`, differentiated with respect to `b` and to what `matvec` closes over.

    Args:
        matvec: a linear function of a vector.
        b: a vector.
        solver: any code: `solver(matvec, b)` on plain arrays, also used for the transposed equation; by default the dense matrix
            is formed and factorised.
        symmetric: `matvec` is its own transpose, which spares the work of finding it.

    >>> import functrace as ft, numpy as np
    >>> ft.jacobian(lambda s: ft.linear_solve(lambda x: s * x, np.array([1.0, 2.0])))(np.array([1.0, 4.0]))
    array([[-1.   ,  0.   ],
           [ 0.   , -0.125]])
    """
    edge.check_call("linear_solve(matvec, b), with matvec = lambda x: A @ x", matvec)
    if any(map(np.ndim, tree.leaves(b))) and not tree.structure(b).alone:
        found = errors.describe(b)
        raise errors.InputTypeError(f"linear_solve: b must be a vector, got {found}.\n  Make one of a tree: functrace.ravel_pytree(b).")
    given, b = b, lift(b)
    if b.dtype.kind not in "fcbiu" or solver is None and b.ndim != 1:
        raise errors.InputTypeError(
            f"linear_solve: b must be a vector of numbers, got {errors.describe(given)}.\n"
            "  For several right-hand sides use vmap, or for a matrix A np.linalg.solve(A, b)."
        )
    b = b if b.dtype.kind in "fc" else b.astype(float)
    if solver is None:
        matrix, offset = jacobian(lambda x: (matvec(x),) * 2, has_aux=True)(np.zeros(b.shape, b.dtype))
        if np.shape(matrix) != (b.size, b.size):
            raise errors.InputTypeError(f"linear_solve: matvec gives an array of shape {np.shape(matrix)[:-1]} for a vector of {b.size}.")
        if np.any(np.abs(value(offset)) > 0):
            raise errors.InputTypeError(
                f"linear_solve: matvec is not linear: of zeros it gives {value(offset)}.\n"
                "  Subtract that from b, or use implicit_root for an equation that is not linear."
            )
        return np.linalg.solve(matrix, b)
    open_matvec, captured = lift_closure(matvec)
    forward: Any = lambda v, p: open_matvec(p)(v)
    return _linear(forward, forward if symmetric else _transposed(forward, b), captured, b, solver)


__dir__ = edge.own_names(globals())
