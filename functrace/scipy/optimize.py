"""SciPy's `optimize`, whose results are differentiated through the equations that they solve, not through the solvers.

`root`, `brentq`, `minimize`, `least_squares`, `curve_fit` and the like may depend on traced values by `args`, or by the variables that
the function closes over. Solutions are polished by Newton steps, since an error in them is one in the derivative. Where nothing is traced
these are SciPy's own: pass `jac=functrace.grad(f)` to `minimize`, which else takes differences.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy import optimize
>>> ft.grad(lambda a: optimize.brentq(lambda x: x**2 - a, 0.0, 10.0))(4.0).round(9)
np.float64(0.25)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.optimize as _scipy

from functrace import errors, tree
from functrace.ops.create import lift, number
from functrace.ops.functions import refuse
from functrace.ops.index import index
from functrace.ops.registry import Declared, Sample, declare, each, one
from functrace.optimize import fixed_point as _fixed_point
from functrace.optimize import opaque, solution
from functrace.scipy._optimize_constrained import constrained, polished
from functrace.scipy._shared import by_name, declarer, late, named, only_first, taking
from functrace.transforms.closures import lift_closure
from functrace.transforms.derivatives import grad, hessian, jacobian

if TYPE_CHECKING:
    from scipy.optimize import *  # noqa: F403


def involved(*values: Any) -> bool:
    """Whether a traced value is among these, or among what the functions among them hold, at any depth."""
    return bool(lift_closure(values)[1])


def face(module: Any, *samples: Sample, name: str = "", note: str = "") -> Callable[[Any], Any]:
    """Declare a function whose first argument is a function: SciPy's own unless a traced value is involved."""

    def enter(function: Any) -> Any:
        own_name = name or function.__name__
        own, path = getattr(module, own_name), f"{module.__name__}.{own_name}"
        ours = taking(own_name, own, function, lambda f: f)

        def call(*args: Any, **kwargs: Any) -> Any:
            if isinstance(args[1] if len(args) > 1 else kwargs.get("x0"), dict):
                raise errors.InputTypeError(
                    f"{path}: it starts from a dict, where SciPy wants a vector.\n"
                    "  Use functrace.optim.minimize, or functrace.scipy_objective, which makes a function of a vector."
                )
            return (ours if involved(args, kwargs) else own)(*args, **kwargs)

        call.__name__, call.__doc__ = own_name, function.__doc__ or f"`{path}`."
        call.__wrapped__ = ours  # type: ignore[attr-defined]
        declare(Declared(path, call, own, samples, note=note))
        return call

    return enter


_declared = declarer(_scipy)
_face = functools.partial(face, _scipy)


def as_args(args: Any) -> tuple[Any, ...]:
    """SciPy's `args`, which may be one argument."""
    return args if isinstance(args, tuple) else (args,)


def _result(fun: Any, x: Any, args: Any, how: str = "the implicit function theorem") -> Any:
    return _scipy.OptimizeResult(x=x, fun=fun(x, *as_args(args)), success=True, message=f"solved; derivatives by {how}")


# equations


@_face()
def root(fun: Any, x0: Any, args: Any, method: str, tol: Any, callback: Any, options: Any) -> Any:
    def solver(g: Any, start: Any) -> Any:
        found = _scipy.root(g, start, method=method, tol=tol, callback=callback, options=options)
        return polished(g, np.reshape(found.x, np.shape(start)), found)

    x = solution(fun, lambda g: g, np.atleast_1d(lift(x0)), as_args(args), solver, None)
    return _result(fun, x, args)


@_face(Sample(lambda rng: (lambda x, p: x**3 + x - p, np.ones(2), (np.array([1.0, 2.0]),)), wrt=(2,)))
def fsolve(func: Any, x0: Any, args: Any, full_output: Any, **_how: Any) -> Any:
    refuse("fsolve", full_output=(full_output, False))
    return root(func, x0, args).x


def _bracketed(name: str) -> Any:
    own = getattr(_scipy, name)

    def function(f: Any, a: Any, b: Any, args: Any, full_output: bool, **how: Any) -> Any:
        refuse(name, full_output=(full_output, False))
        return number(solution(f, lambda g: g, lift(a) * 1.0, as_args(args), lambda g, x0: own(g, x0, b, **how), None))

    sample = Sample(lambda rng: (lambda x, p, q: q * x**3 + x - p, 0.0, 3.0, (1.4, 0.8)), {"xtol": 1e-14}, (3,))
    return _face(sample, name=name)(function)


brentq, brenth, ridder, bisect, toms748 = (_bracketed(name) for name in ("brentq", "brenth", "ridder", "bisect", "toms748"))


@_face(Sample(lambda rng: (lambda x, p: x**3 + x - p, 1.0), {"args": (1.4,), "tol": 1e-14}, ()))
def newton(func: Any, x0: Any, args: Any, tol: float, maxiter: int) -> Any:
    """`scipy.optimize.newton`; the derivatives that the iteration needs are found here."""
    slope: Any = lambda g: grad(lambda y: np.sum(g(y)))
    solver: Any = lambda g, start: polished(g, _scipy.newton(g, start, slope(g), tol=tol, maxiter=maxiter))
    return solution(func, lambda g: g, lift(x0) * 1.0, as_args(args), solver, None)


@_face()
def root_scalar(f: Any, args: Any, method: Any, bracket: Any, x0: Any, fprime: Any, fprime2: Any, x1: Any, **how: Any) -> Any:
    start = float(bracket[0]) if x0 is None else x0

    def solver(g: Any, x: Any) -> Any:
        slope = None if bracket is not None else lambda y: grad(g)(float(y))
        how.update({"fprime2": lambda y: grad(grad(g))(float(y))} if method == "halley" else {})
        found = _scipy.root_scalar(g, method=method, bracket=bracket, x0=None if bracket is not None else x, fprime=slope, **how)
        if not found.converged:
            raise errors.ConvergenceError(f"root_scalar: {found.flag}")
        return polished(g, np.float64(found.root))

    x = solution(f, lambda g: g, start, as_args(args), solver, None)
    return _scipy.OptimizeResult(root=x, converged=True, flag="converged")


@_face(Sample(lambda rng: (lambda x, p: p * np.cos(x), np.ones(2), (np.array([0.5, 0.7]),)), {"xtol": 1e-15}, (2,)))
def fixed_point(func: Any, x0: Any, args: Any, **how: Any) -> Any:
    solver: Any = lambda g, x: _scipy.fixed_point(g, x, **how)
    return _fixed_point(func, lift(x0) * 1.0, *as_args(args), solver=solver)


# minima


def _limits(bounds: Any) -> Any:
    if bounds is None:
        return None
    if hasattr(bounds, "lb"):
        return bounds.lb, bounds.ub
    low, high = zip(*bounds)
    return np.array([-np.inf if v is None else v for v in low], float), np.array([np.inf if v is None else v for v in high], float)


def _stationary(bounds: Any, cost: Any = lambda y: y) -> Any:
    """The equations of a minimum: the slope is zero, or x is at a bound, which it would cross."""

    def make(g: Any) -> Any:
        def equation(x: Any, *a: Any) -> Any:
            slope = grad(lambda y: cost(g(y, *a)))(x)
            if bounds is None:
                return slope
            (low, high), near = bounds, 1e-7 * (1 + np.abs(x))
            fixed = (x <= low + near) & (slope > 0) | (x >= high - near) & (slope < 0)
            return np.where(
                fixed, x - np.where(slope > 0, np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)), slope
            )

        return equation

    return make


_BY_HESSIAN = ("dogleg", "trust-ncg", "trust-krylov", "trust-exact")
_GRADIENT_FREE = ("Nelder-Mead", "Powell", "COBYLA", "COBYQA")
_BOWL: Any = lambda x, p: np.sum((x - p) ** 2 * np.arange(1.0, 3.0)) + np.sum(x) ** 4


@_face(note="constraints that hold at the minimum are to be independent")
def minimize(fun: Any, x0: Any, args: Any, jac: Any, hess: Any, hessp: Any, bounds: Any, constraints: Any, **how: Any) -> Any:
    """`scipy.optimize.minimize`; the gradients that the method needs are found here."""
    refuse("minimize", jac=(True if jac is True else None, None))
    limits, method = _limits(bounds), how["method"]
    if not isinstance(constraints, (tuple, list)) or len(constraints):
        x = constrained(fun, np.atleast_1d(lift(x0)), as_args(args), limits, constraints, **how)
        return _result(fun, x, args, "the conditions of Karush, Kuhn and Tucker")
    make = _stationary(limits)

    def solver(g: Any, start: Any) -> Any:
        more = {} if method in _GRADIENT_FREE else {"jac": grad(g)}
        more |= {"hess": hessian(g)} if method in _BY_HESSIAN else {}
        found = _scipy.minimize(g, start, bounds=bounds, **how, **more)
        return polished(make(g), np.reshape(found.x, np.shape(start)), found, limits)

    x = solution(fun, make, np.atleast_1d(lift(x0)), as_args(args), solver, None)
    return _result(fun, x, args)


@_face()
def minimize_scalar(fun: Any, bounds: Any, args: Any, **how: Any) -> Any:
    make = _stationary(bounds)

    def solver(g: Any, _start: Any) -> Any:
        found = _scipy.minimize_scalar(g, bounds=bounds, **how)
        return polished(make(g), np.float64(found.x), found, bounds)

    x = solution(fun, make, 0.0, as_args(args), solver, None)
    return _result(fun, x, args)


def _scalar_minimum(name: str, count: int) -> Any:
    own = getattr(_scipy, name)

    def function(func: Any, args: Any, full_output: Any, **how: Any) -> Any:
        refuse(name, full_output=(full_output, False))
        ends = tuple(how.pop(end) for end in ("x1", "x2")[:count])
        make = _stationary(ends or None)
        solver: Any = lambda g, _start: polished(make(g), np.float64(own(g, *ends, **how)), None, ends or None)
        return solution(func, make, 0.0, as_args(args), solver, None)

    return _face(Sample(lambda rng: (lambda x, p: (x - p) ** 2 + x**4, *(0.0, 2.0)[:count], (1.4,)), wrt=()), name=name)(function)


brent, golden, fminbound = _scalar_minimum("brent", 0), _scalar_minimum("golden", 0), _scalar_minimum("fminbound", 2)


def _minimum(name: str, method: str) -> Any:
    def function(f: Any, x0: Any, args: Any, maxiter: Any, gtol: Any = None) -> Any:
        return minimize(f, x0, args, method).x

    function.__doc__ = f"`scipy.optimize.{name}`; the gradient is found here."
    return _face(Sample(lambda rng: (_BOWL, np.zeros(2)), {"args": (np.array([1.0, 2.0]),), "disp": 0}, ()), name=name)(function)


fmin, fmin_powell, fmin_bfgs, fmin_cg = (
    _minimum(*pair) for pair in (("fmin", "Nelder-Mead"), ("fmin_powell", "Powell"), ("fmin_bfgs", "BFGS"), ("fmin_cg", "CG"))
)
_HALF_SQUARES: Any = lambda r: np.sum(r * r) / 2


def _within(bounds: Any, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    ends = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    low, high = (np.broadcast_to(np.asarray(v, float), shape) for v in ends)
    below, above = np.isfinite(low), np.isfinite(high)
    first, last = np.where(below, low, np.where(above, high - 2, 0.0)), np.where(above, high, np.where(below, low + 2, 2.0))
    return low, high, (first + last) / 2


class _Fit(_scipy.OptimizeResult):  # type: ignore[misc]
    """What `least_squares` found; the Jacobian is computed when it is asked for."""

    def __init__(self, slopes: Callable[[], Any], **found: Any) -> None:
        super().__init__(**found)
        object.__setattr__(self, "_slopes", slopes)

    def __missing__(self, key: str) -> Any:
        if key not in ("jac", "grad"):
            raise KeyError(key)
        self[key] = self._slopes() if key == "jac" else self["jac"].T @ self["fun"]
        return self[key]


@_face()
def least_squares(fun: Any, x0: Any, jac: Any, bounds: Any, loss: Any, args: Any, kwargs: Any, **how: Any) -> Any:
    """`scipy.optimize.least_squares`, with linear loss; bounds may be active."""
    refuse("least_squares", loss=(loss, "linear"), kwargs=(kwargs or None, None))
    limits = _within(bounds, np.shape(np.atleast_1d(lift(x0))))[:2]
    make = _stationary(limits, _HALF_SQUARES)

    def solver(g: Any, start: Any) -> Any:
        found = _scipy.least_squares(g, start, jac=lambda x: jacobian(g)(x), bounds=limits, **how)
        return polished(make(g), found.x, found, limits)

    x = solution(fun, make, np.atleast_1d(lift(x0)), as_args(args), solver, None)
    residuals: Any = lambda x: fun(x, *as_args(args))
    rest = residuals(x)
    return _Fit(lambda: jacobian(residuals)(x), x=x, fun=rest, cost=_HALF_SQUARES(rest), success=True)


@_face(
    Sample(
        lambda rng: (lambda p, y: p[0] * np.exp(p[1] * np.arange(4.0)) - y, np.array([1.0, 0.2]), (np.array([1.0, 1.3, 2.0, 2.6]),)), wrt=()
    )
)
def leastsq(func: Any, x0: Any, args: Any) -> Any:
    return least_squares(func, x0, method="lm", args=args).x, 1


@_face(Sample(lambda rng: (lambda x, a, b: a * np.exp(b * x), np.arange(4.0), np.array([1.0, 1.3, 2.0, 2.6])), wrt=()))
def curve_fit(
    f: Any, xdata: Any, ydata: Any, p0: Any, sigma: Any, absolute_sigma: bool, bounds: Any, full_output: bool, nan_policy: Any,
    loss: Any = "linear", **_how: Any,
) -> Any:  # fmt: skip
    """`scipy.optimize.curve_fit`: parameters and covariance, differentiable in the data and in `sigma`."""
    refuse("curve_fit", full_output=(full_output, False), loss=(loss, "linear"), nan_policy=(nan_policy, None))
    start = _within(bounds, (len(inspect.signature(f).parameters) - 1,))[2] if p0 is None else np.atleast_1d(lift(p0))
    spread = lift(1.0 if sigma is None else sigma)
    weight = np.linalg.inv(np.linalg.cholesky(spread)) if spread.ndim > 1 else 1 / spread
    count = start.shape[0]
    open_f, captured = lift_closure(f)

    def residual(p: Any, x: Any, y: Any, w: Any, c: Any) -> Any:
        rest = open_f(c)(x, *(p[k] for k in range(count))) - y
        return w @ rest if w.ndim > 1 else w * rest

    places = lift(xdata) if isinstance(xdata, (list, tuple)) else tree.map(lift, xdata)
    data = (places, lift(ydata) * 1.0, weight, captured)
    found = least_squares(residual, start, bounds=bounds, method="trf", args=data, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    cov = np.linalg.inv(found.jac.T @ found.jac)
    return found.x, cov if absolute_sigma else cov * (2 * found.cost / (found.fun.shape[0] - count))


@named(_scipy, "lsq_linear")
def lsq_linear(A: Any, b: Any, bounds: Any, **_how: Any) -> Any:
    """`scipy.optimize.lsq_linear`; bounds may be active."""
    a, b = lift(A) * 1.0, lift(b) * 1.0
    low, high, inside = _within(bounds, a.shape[1:])
    return least_squares(lambda x, a, b: a @ x - b, inside, bounds=(low, high), args=(a, b))


@_declared("nnls", Sample(lambda rng: (rng.normal(size=(5, 3)), rng.normal(size=5)), wrt=(0, 1)))
def nnls(A: Any, b: Any, *more: Any, **kwargs: Any) -> Any:
    """`scipy.optimize.nnls`; what is zero stays zero."""
    a, b = lift(A).astype(float), lift(b).astype(float)
    free = opaque(lambda a, b: _scipy.nnls(a, b, *more, **kwargs)[0] > 0, a, b)
    part = a * free
    x = np.linalg.solve(part.T @ part + np.eye(a.shape[1]) * ~free, part.T @ b)
    return x, np.linalg.norm(a @ x - b)


@_declared(
    "linprog", note="bounds are constants; where one vertex is the minimum, and as many constraints are active as there are variables"
)
def linprog(
    c: Any, A_ub: Any = None, b_ub: Any = None, A_eq: Any = None, b_eq: Any = None, bounds: Any = (0, None), *how: Any, **more: Any
) -> Any:
    """`scipy.optimize.linprog`: the vertex, from the equations of the constraints that are active there."""
    c = np.ravel(lift(c)) * 1.0
    n, bounds = c.shape[0], (0, None) if bounds is None else bounds
    only_first("linprog (its bounds may be rows of A_ub)", bounds)
    refuse("linprog", integrality=(more.get("integrality"), None))
    low, high = (np.broadcast_to(v, n) for v in _limits(bounds if np.ndim(bounds[0]) else [bounds]))
    eye = np.eye(n)
    stated = [(A_eq, b_eq), (A_ub, b_ub), (-eye[low > -np.inf], -low[low > -np.inf]), (eye[high < np.inf], high[high < np.inf])]
    parts = [(np.atleast_2d(lift(a) * 1.0), np.atleast_1d(lift(b) * 1.0)) for a, b in stated if a is not None]
    matrix, right = (np.concatenate(part) for part in zip(*parts))
    equal = 0 if A_eq is None else parts[0][0].shape[0]

    def active(c: Any, matrix: Any, right: Any) -> Any:
        found = _scipy.linprog(c, matrix[equal:], right[equal:], matrix[:equal], right[:equal], (None, None), *how, **more)
        if not found.success:
            raise errors.ConvergenceError(f"linprog: no solution found, so it has no derivative: {found.message}")
        which = np.flatnonzero((np.arange(len(right)) < equal) | (right - matrix @ found.x < 1e-8 * (1 + np.abs(right))))
        rows = matrix[which]
        if len(which) == n == np.linalg.matrix_rank(rows):
            forces = np.linalg.solve(rows.T, c)
            if np.all(np.abs(forces[which >= equal]) > 1e-9 * np.max(np.abs(c))):
                return which
        raise ArithmeticError(
            f"linprog: {len(which)} constraints are active at the minimum, of {n} variables. It has no derivative, as one of them is "
            "redundant there, or other points are as good. Add a small quadratic term, by minimize."
        )

    which = opaque(active, c, matrix, right)
    x = np.linalg.solve(index(matrix, which), index(right, which))
    slack = [right_ - matrix_ @ x for matrix_, right_ in parts[: len(parts) - 2]]
    con = slack.pop(0) if equal else np.zeros(0)
    return _scipy.OptimizeResult(
        x=x,
        fun=c @ x,
        slack=slack[0] if slack else np.zeros(0),
        con=con,
        success=True,
        status=0,
        message="solved; derivatives by the vertex",
    )


@_declared("isotonic_regression", note="the blocks are constant")
def isotonic_regression(y: Any, *, weights: Any = None, increasing: bool = True) -> Any:
    """`scipy.optimize.isotonic_regression`: weighted means of blocks, found by SciPy."""
    y = lift(y)
    w = np.ones(y.shape[0]) if weights is None else lift(weights) * 1.0

    def block(y: Any, w: Any) -> Any:
        ends = _scipy.isotonic_regression(y, weights=w, increasing=increasing).blocks
        return np.searchsorted(np.sort(ends)[1:], np.arange(len(y)), side="right")

    which = opaque(block, y, w)
    same = which[:, None] == which
    return _scipy.OptimizeResult(x=(same @ (w * y)) / (same @ w))


@_declared("linear_sum_assignment", one(3, 3), constant=True)
def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> Any:
    """`scipy.optimize.linear_sum_assignment`: indices."""
    both = opaque(lambda c: np.stack(_scipy.linear_sum_assignment(c, maximize)), lift(cost_matrix))
    return both[0], both[1]


@_declared("rosen", one(4))
def rosen(x: Any) -> Any:
    x = lift(x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0, axis=0)


rosen_der = _declared("rosen_der", one(4), one(4, 2))(lambda x: grad(lambda y: np.sum(rosen(y)))(lift(x)))
rosen_hess = _declared("rosen_hess", one(4))(lambda x: hessian(rosen)(lift(x)))
rosen_hess_prod = _declared("rosen_hess_prod", each((4,), (4,)))(lambda x, p: hessian(rosen)(lift(x)) @ p)

_REASONS = {
    "a global or discrete search: give its result to functrace.optimize.implicit_root of the gradient": "basinhopping brute "
    "differential_evolution direct dual_annealing shgo milp quadratic_assignment",
    "use root, minimize or least_squares, which find derivatives themselves": "anderson broyden1 broyden2 diagbroyden excitingmixing "
    "linearmixing newton_krylov fmin_cobyla fmin_l_bfgs_b fmin_ncg fmin_slsqp fmin_tnc line_search bracket",
    "numerical derivatives: use functrace.grad and functrace.check_grads": "approx_fprime check_grad",
}
REFUSED = by_name(_REASONS)


__getattr__, __dir__ = late(_scipy, REFUSED)
