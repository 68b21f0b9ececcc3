"""Newton steps that make solutions exact; and minima under constraints, for `minimize` of `scipy.optimize`.

Minima under constraints are differentiated through the conditions of Karush, Kuhn and Tucker: Nocedal and Wright 2006, "Numerical
optimization", theorem 12.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.optimize as _scipy

from functrace import errors
from functrace.ops.create import lift
from functrace.optimize import ravel_pytree, solution
from functrace.transforms.derivatives import grad, jacobian


def polished(equation: Callable[[Any], Any], x: Any, found: Any = None, bounds: Any = None) -> Any:
    """A solution after Newton steps, as long as they help, within bounds. If one leads far away in vain, or the solver says that it
    `found` none and the equation does not hold now, it raises.
    """
    flat, unravel = ravel_pytree(x)
    f: Any = lambda v: ravel_pytree(equation(unravel(v)))[0]
    rest, lost = f(flat), False
    for _ in range(8):
        try:
            step = np.linalg.solve(jacobian(f)(flat), rest)
        except np.linalg.LinAlgError:
            break
        new = flat - step if bounds is None else np.clip(flat - step, *bounds)
        left = f(new)
        if not np.linalg.norm(left) < np.linalg.norm(rest):
            lost = np.linalg.norm(step) > 1e-3 * (1 + np.linalg.norm(flat))
            break
        flat, rest = new, left
    if lost or found is not None and not found.success and not np.linalg.norm(rest) <= 1e-8 * (1 + np.linalg.norm(flat)):
        why = getattr(found, "message", "the equation does not hold")
        raise errors.ConvergenceError(f"no solution found, so it has no derivative: {why}")
    return unravel(flat)


def _functions(constraints: Any, start: Any) -> Iterator[tuple[bool, Any]]:
    """Functions that are zero (True), or not negative, where the constraints hold."""
    for c in [constraints] if isinstance(constraints, (dict, _scipy.LinearConstraint, _scipy.NonlinearConstraint)) else constraints:
        if isinstance(c, dict):
            if c["type"] not in ("eq", "ineq"):
                raise ValueError(f"minimize: unknown constraint type {c['type']!r}, neither 'eq' nor 'ineq'")
            yield c["type"] == "eq", _applied(c["fun"], c.get("args", ()))
            continue
        of = _product(c.A) if isinstance(c, _scipy.LinearConstraint) else c.fun
        low, high = (np.broadcast_to(v, np.shape(np.atleast_1d(lift(of(start))))) for v in (c.lb, c.ub))
        yield True, _beyond(of, low == high, low, 1)
        yield False, _beyond(of, (low < high) & np.isfinite(low), low, 1)
        yield False, _beyond(of, (low < high) & np.isfinite(high), high, -1)


def _applied(fun: Any, args: Any) -> Any:
    args = args if isinstance(args, tuple) else (args,)
    return lambda x: fun(x, *args)


def _product(matrix: Any) -> Any:
    matrix = matrix.toarray() if hasattr(matrix, "toarray") else np.atleast_2d(matrix)
    return lambda x: matrix @ x


def _beyond(of: Any, which: Any, limit: Any, sign: int) -> Any:
    places = np.flatnonzero(which)
    return lambda x: sign * (np.atleast_1d(lift(of(x)))[places] - limit[places])


def _joined(first: Any, second: Any) -> Any:
    return lambda x, *args: np.concatenate([first(x, *args), np.reshape(lift(second(x)), -1)])


def constrained(fun: Any, x0: Any, args: tuple[Any, ...], bounds: Any, constraints: Any, **options: Any) -> Any:
    """The minimum of `fun` where the constraints hold, and the bounds, which are two arrays or None."""
    start = x0 * 1.0
    rows: Any = lambda x, *a: np.reshape(lift(fun(x, *a)), 1)
    kinds: list[bool] = []
    limits = _scipy.Bounds(*bounds) if bounds is not None else None
    for kind, part in _functions(constraints, start):
        kinds += [kind] * int(lift(part(start)).size)
        rows = _joined(rows, part)
    stated = len(kinds)
    for sign, limit in zip((1, -1), bounds or ()):
        limit = np.broadcast_to(limit, start.shape)
        kinds += [False] * int(np.count_nonzero(np.isfinite(limit)))
        rows = _joined(rows, _beyond(lambda x: x, np.isfinite(limit), limit, sign))
    equal = np.array(kinds, bool)

    def make(g: Any) -> Any:
        def conditions(z: Any, *a: Any) -> Any:
            held, forces = g(z["x"], *a)[1:], z["forces"]
            signs = np.concatenate([np.ones(1), -forces])
            return {"x": grad(lambda x: g(x, *a) @ signs)(z["x"]), "forces": np.where(equal | (held < forces), held, forces)}

        return conditions

    def solver(g: Any, z: Any) -> Any:
        given = [_given(g, np.flatnonzero(equal[:stated] == kind) + 1, kind) for kind in (True, False) if kind in kinds[:stated]]
        more = {} if options["method"] in ("COBYLA", "COBYQA") else {"jac": grad(lambda x: g(x)[0])}
        found = _scipy.minimize(lambda x: float(g(x)[0]), z["x"], bounds=limits, constraints=given, **more, **options)
        held, slopes = g(found.x)[1:], jacobian(lambda x: g(x)[1:])(found.x)
        active = equal | (held < 1e-4 * (1 + np.max(np.abs(found.x), initial=0.0)))
        forces = np.zeros(len(equal))
        forces[active] = np.linalg.lstsq(slopes[active].T, grad(lambda x: g(x)[0])(found.x), rcond=None)[0]
        said = _scipy.OptimizeResult(success=False, message=found.message)  # the conditions themselves must hold
        return polished(make(g), {"x": found.x, "forces": forces}, said)

    return solution(rows, make, {"x": start, "forces": np.zeros(len(equal))}, args, solver, None)["x"]


def _given(g: Any, places: Any, equal: bool) -> dict[str, Any]:
    part: Callable[[Any], Any] = lambda x: g(x)[places]
    return {"type": "eq" if equal else "ineq", "fun": part, "jac": lambda x: jacobian(part)(x)}
