"""SciPy's minimisers over pytrees, in one call: `minimize`, `lbfgs`. SciPy is imported when one is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrace import edge, errors, tree
from functrace.core.tracer import Tracer
from functrace.optimize import ravel_pytree, scipy_objective
from functrace.places import user_line
from functrace.transforms.arguments import name_of
from functrace.transforms.derivatives import hessian, hvp

_NO_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_HESSIANS = ("dogleg", "trust-exact")


class MinimizeResult(NamedTuple):
    """What `minimize` found: parameters, value and gradient there, whether and why it stopped, and SciPy's whole result.

    >>> from functrace import optim
    >>> result = optim.lbfgs(lambda x: (x - 3.0) ** 2, 0.0)
    >>> result.success, round(float(result.x), 6)
    (True, 3.0)
    """

    x: Any
    fun: float
    grad: Any
    success: bool
    message: str
    nit: int
    scipy: Any


@edge.boundary
def minimize(
    f: Callable[..., Any],
    params: Any,
    *args: Any,
    method: str = "L-BFGS-B",
    bounds: Any = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    callback: Callable[[Any], Any] | None = None,
    **kwargs: Any,
) -> MinimizeResult:
    """The parameters at which `f(params, *args, **kwargs)` is least, by `scipy.optimize.minimize` with exact derivatives.

    Args:
        f: returns one real number.
        params: where to start: a pytree of floating-point arrays and numbers.
        *args, **kwargs: passed on to `f`, not differentiated.
        method: any of SciPy's. Those that use second derivatives get Hessian products (`trust-exact` and `dogleg` the Hessian).
        bounds: `(lower, upper)`, each None, a number, or a tree like `params`; for methods that take them.
        tol, options: SciPy's.
        callback: called with the parameters, a tree, after each iteration.

    Returns:
        A `MinimizeResult`; `x` and `grad` are trees like `params`, in its dtypes. Look at `success`: not to converge is no error.

    Raises:
        ConversionError: `params`, `args` or what `f` closes over is traced. The minimum as a function of something else is
            differentiated by `functrace.scipy.optimize.minimize` or `functrace.implicit_root`.
        IntegerInputError, InputTypeError: `params` holds integers or complex numbers.

    >>> import functrace as ft, numpy as np
    >>> def rosenbrock(p):
    ...     return (1 - p["a"]) ** 2 + 100 * (p["b"] - p["a"] ** 2) ** 2
    >>> result = ft.optim.minimize(rosenbrock, {"a": -1.0, "b": 2.0}, method="trust-ncg")
    >>> result.success, result.x["a"].round(5), result.x["b"].round(5)
    (True, np.float64(1.0), np.float64(1.0))
    """
    edge.check_call("minimize(f, params)", f)
    from scipy.optimize import Bounds
    from scipy.optimize import minimize as run

    if any(isinstance(x, Tracer) for x in tree.leaves((params, args, kwargs))):
        raise errors.ConversionError(
            f"minimize({name_of(f)}): an argument is traced, and a solver's steps are not differentiated.\n"
            "  Use functrace.scipy.optimize.minimize or functrace.implicit_root, which differentiate the equation that the solution solves."
        )
    both, x0, unravel = scipy_objective(f, params, *args, **kwargs)

    def flat(x: Any) -> Any:
        return f(unravel(x), *args, **kwargs)

    fun: Callable[..., Any] = both
    how: dict[str, Any] = {"jac": True}
    if method.lower() in _NO_GRADIENT:
        fun = lambda x: float(flat(x))
        how = {}
    elif method.lower() in _PRODUCTS:
        how["hessp"] = lambda x, v: hvp(flat, (x,), (v,))
    elif method.lower() in _HESSIANS:
        how["hess"] = hessian(flat)
    if bounds is not None:
        low, high = (_bound(b, params, x0) for b in bounds)
        how["bounds"] = Bounds(-np.inf if low is None else low, np.inf if high is None else high)
    if callback is not None:
        how["callback"] = lambda x, *_state: callback(unravel(x))
    found = run(fun, x0, method=method, tol=tol, options=options, **how)
    gradient = found.jac if how.get("jac") else None
    return MinimizeResult(
        unravel(found.x),
        float(found.fun),
        None if gradient is None else unravel(gradient),
        bool(found.success),
        str(found.message),
        int(found.get("nit", 0)),
        found,
    )


def _bound(bound: Any, params: Any, x0: Any) -> Any:
    if bound is None or isinstance(bound, (int, float)) and tree.structure(params) != tree.structure(bound):
        return bound
    if tree.structure(bound) != tree.structure(params):
        raise errors.TreeError(
            f"minimize: a bound has the structure {tree.structure(bound)!r}, the parameters {tree.structure(params)!r}.\n"
            f"  At {user_line(4)}.\n  Give None, a number, or a tree like the parameters."
        )
    return ravel_pytree(tree.map(lambda b, x: np.broadcast_to(np.asarray(b, float), np.shape(x)), bound, params))[0]


@edge.boundary
def lbfgs(
    f: Callable[..., Any], params: Any, *args: Any, maxiter: int = 1000, tol: float | None = None, bounds: Any = None, **kwargs: Any
) -> MinimizeResult:
    """`minimize` by L-BFGS-B (Byrd, Lu, Nocedal & Zhu 1995), the method of choice for smooth functions of many parameters.

    `maxiter` is the number of iterations; for the other arguments, the result and errors see `minimize`.

    >>> import functrace as ft, numpy as np
    >>> result = ft.optim.lbfgs(lambda p: np.sum((p["w"] - 2) ** 2), {"w": np.zeros(3)})
    >>> result.x["w"].round(6)
    array([2., 2., 2.])
    """
    return minimize(f, params, *args, bounds=bounds, tol=tol, options={"maxiter": maxiter}, **kwargs)
