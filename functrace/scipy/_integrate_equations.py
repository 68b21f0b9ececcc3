"""Differential equations from initial values, of `scipy.integrate`: explicit and implicit Runge-Kutta methods, and events."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate as _scipy
from scipy.optimize import OptimizeResult, brentq

from functrace import errors, tree
from functrace.core.tracer import value
from functrace.ops.create import lift
from functrace.ops.functions import refuse
from functrace.ops.statistics import as_float
from functrace.optimize import solution
from functrace.scipy._interpolate_splines import CubicHermiteSpline
from functrace.scipy._optimize_constrained import polished
from functrace.scipy.optimize import face
from functrace.transforms.closures import lift_closure
from functrace.transforms.derivatives import jacobian

_face = functools.partial(face, _scipy)


# steps: each method gives, from (f, t, h, y, f(t, y), scale), the new state, its slope, the error, and what makes the interpolant


def _rms(x: Any) -> float:
    """The root mean square over the components; the largest of a batch."""
    return float(np.max(np.sqrt(np.mean(np.abs(value(x)) ** 2, axis=-1)), initial=0.0))


def _combined(K: Any, row: Any) -> Any:
    total: Any = 0.0
    for c, k in zip(row, K):
        if c != 0:
            total = total + float(c) * k
    return total


def _scale(y: Any, new: Any, rtol: float, atol: Any) -> Any:
    return atol + np.maximum(np.abs(value(y)), np.abs(value(new))) * rtol


def _error(method: Any, K: Any, h: float, scale: Any) -> float:
    if method is not _scipy.DOP853:
        return _rms(value(_combined(K, method.E)) * h / scale)
    five, three = (np.linalg.norm(value(_combined(K, e)) / scale, axis=-1) ** 2 for e in (method.E5, method.E3))
    total = np.sqrt((five + 0.01 * three) * scale.shape[-1])
    return float(np.max(abs(h) * five / np.where(total > 0, total, 1.0), initial=0.0))


def _polynomial(y: Any, h: Any, Q: Any) -> Callable[[Any], Any]:
    return lambda x: y + h * functools.reduce(lambda s, q: (s + q) * x, reversed(Q), 0.0)


def _interpolant(method: Any, f: Any, t: Any, h: Any, y: Any, new: Any, K: Any) -> Callable[[Any], Any]:
    """The solution within a step, as a function of the part x of it."""
    if method is not _scipy.DOP853:
        return _polynomial(y, h, [_combined(K, column) for column in method.P.T])
    K = list(K)
    for a, c in zip(method.A_EXTRA, method.C_EXTRA):
        K.append(f(t + float(c) * h, y + h * _combined(K, a)))
    delta = new - y
    F = [delta, h * K[0] - delta, 2 * delta - h * (K[method.n_stages] + K[0]), *(h * _combined(K, d) for d in method.D)]

    def at(x: Any) -> Any:
        out: Any = 0.0
        for i, part in enumerate(reversed(F)):
            out = (out + part) * (x if i % 2 == 0 else 1 - x)
        return out + y

    return at


def _explicit(method: Any) -> Callable[..., Any]:
    def take(f: Any, t: Any, h: Any, step: float, y: Any, slope: Any, rtol: float, atol: Any) -> Any:
        K = [slope]
        for a, c in zip(method.A[1:], method.C[1:]):
            K.append(f(t + float(c) * h, y + h * _combined(K, a)))
        new = y + h * _combined(K, method.B)
        K.append(f(t + h, new))
        error = _error(method, K, step, _scale(y, new, rtol, atol))
        return new, K[-1], error, lambda: _interpolant(method, f, t, h, y, new, K)

    return take


# Radau's method IIA of order 5: Hairer and Wanner 1996, "Solving ordinary differential equations II", table IV.5.6 and section IV.8
_R = float(np.sqrt(6.0))
_NODES = ((4 - _R) / 10, (4 + _R) / 10, 1.0)
_WEIGHTS = np.array(
    [
        [(88 - 7 * _R) / 360, (296 - 169 * _R) / 1800, (-2 + 3 * _R) / 225],
        [(296 + 169 * _R) / 1800, (88 + 7 * _R) / 360, (-2 - 3 * _R) / 225],
        [(16 - _R) / 36, (16 + _R) / 36, 1 / 9],
    ]
)
_EMBEDDED = np.array([-13 - 7 * _R, -13 + 7 * _R, -1]) / 3
_GAMMA = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
_LAGRANGE = np.linalg.inv(np.array(_NODES)[:, None] ** np.arange(1, 4))  # the cubic through 0 and the three stages


def _newton(g: Any, x: Any) -> Any:
    """The root of `g`, to rounding: an error in it is one in the derivative. NaN if it is not found, so that the step is refused."""
    flat: Any = lambda v: np.reshape(g(np.reshape(v, x.shape)), -1)
    v, near = np.reshape(x, -1), False
    with np.errstate(all="ignore"):
        for _ in range(10):
            try:
                move = np.linalg.solve(jacobian(flat)(v), flat(v))
            except np.linalg.LinAlgError:
                break
            v = v - move
            if near:
                return np.reshape(v, x.shape)
            near = np.linalg.norm(move) <= 1e-7 * np.linalg.norm(v)
    return np.full(x.shape, np.nan)


def _radau(f: Any, t: Any, h: Any, _step: float, y: Any, slope: Any, rtol: float, atol: Any) -> Any:
    def equation(Y: Any) -> Any:
        return Y - y - h * (_WEIGHTS @ np.stack([f(t + c * h, Y[i]) for i, c in enumerate(_NODES)]))

    Z = solution(equation, lambda g: g, np.stack([y] * 3), (), _newton, None) - y
    new = y + Z[2]
    scale = _scale(y, new, rtol, atol)
    matrix = _GAMMA * np.eye(y.shape[0]) - h * jacobian(lambda u: f(t, u))(y)
    estimate: Any = lambda slope: np.linalg.solve(matrix, h * slope + _EMBEDDED @ Z)
    rough = estimate(slope)
    error = _rms(value(rough) / scale)
    if error >= 1:  # of stiff components the first is far too large
        error = _rms(value(estimate(f(t, y + rough))) / scale)
    return new, f(t + h, new), error, lambda: _polynomial(y, 1.0, list(_LAGRANGE @ Z))


_METHODS: dict[str, tuple[Callable[..., Any], int]] = {
    **{m.__name__: (_explicit(m), m.error_estimator_order) for m in (_scipy.RK45, _scipy.RK23, _scipy.DOP853)},
    **dict.fromkeys(("Radau", "BDF", "LSODA"), (_radau, 3)),
}
_OF_IMPLICIT = ("jac", "jac_sparsity", "lband", "uband", "min_step")  # by which a method is faster: the Jacobian is found here


def _first_step(f: Any, t0: float, y0: Any, f0: Any, span: float, order: int, rtol: float, atol: Any) -> float:
    """Hairer, Norsett and Wanner 1993, "Solving ordinary differential equations I", section II.4."""
    if span == 0:
        return 0.0
    scale = atol + np.abs(value(y0)) * rtol
    d0, d1 = _rms(value(y0) / scale), _rms(value(f0) / scale)
    h0 = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, abs(span))
    f1 = f(t0 + h0 * np.sign(span), y0 + h0 * np.sign(span) * f0)
    d2 = _rms(value(f1 - f0) / scale) / h0
    h1 = max(1e-6, h0 * 1e-3) if d1 <= 1e-15 and d2 <= 1e-15 else (0.01 / max(d1, d2)) ** (1 / (order + 1))
    return min(100 * h0, h1, abs(span))


# events


class _Event:
    """A function of time and state, what it was after the last step, where it was zero, and how often it may be."""

    def __init__(self, event: Any, args: tuple[Any, ...]) -> None:
        self.at: Any = lambda t, y: np.reshape(lift(event(t, y, *args)), ())
        last, self.direction = getattr(event, "terminal", None), getattr(event, "direction", 0)
        if last is not None and (int(last) != last or last < 0):
            raise ValueError("The `terminal` attribute of each event must be a boolean or positive integer.")
        self.left = int(last or 0)
        self.before: Any = None
        self.times: list[Any] = []
        self.states: list[Any] = []

    def crossed(self, t: Any, y: Any) -> bool:
        before, self.before = self.before, self.at(t, y)
        if before is None:
            return False
        up, down = (before <= 0) & (self.before >= 0), (before >= 0) & (self.before <= 0)
        return bool(up if self.direction > 0 else down if self.direction < 0 else up | down)

    def place(self, t: Any, h: Any, within: Any) -> Any:
        """The part of the step after which it is zero, of the interpolant: differentiated by the implicit function theorem."""
        at, precision = self.at, 4 * float(np.finfo(float).eps)
        solver: Any = lambda g, _start: brentq(g, 0.0, 1.0, xtol=precision, rtol=precision)
        return solution(lambda x: at(t + h * x, within(x)), lambda g: g, 0.5, (), solver, None)

    def entered(self, t: Any, y: Any) -> bool:
        self.times.append(t)
        self.states.append(y)
        self.left -= 1
        return self.left == 0


def _watched(events: Any, args: tuple[Any, ...]) -> list[_Event]:
    return [_Event(event, args) for event in ([] if events is None else [events] if callable(events) else events)]


def _last_of(found: list[_Event], t: Any, h: Any, within: Any) -> Any:
    """Enter the zeros in a step, in their order; the part of the step after which the integration ends, or None."""
    for place, _, event in sorted((event.place(t, h, within), k, event) for k, event in enumerate(found)):
        if event.entered(t + h * place, within(place)):
            return place
    return None


# integration


def _accepted(attempt: Any, t: float, h: float, end: float, max_step: float, order: int) -> tuple[float, float, Any]:
    """The step from `t`, of the length `h` if it can be, whose error is accepted: its end, the length of the next, and what it gave."""
    direction = float(np.sign(end - t))
    least = 10 * abs(np.nextafter(t, direction * np.inf) - t)
    longest = 10.0
    while True:
        new = t + min(max(h, least), max_step) * direction
        new = end if direction * (new - end) > 0 else new
        made, h = attempt(t, new), abs(new - t)
        error = made[2]
        factor = 10.0 if error == 0 else 0.9 * error ** (-1 / (order + 1))
        if error < 1:
            return new, h * min(longest, factor), made
        if not h > least:
            raise errors.ConvergenceError(
                "solve_ivp: the required step size is less than the spacing between numbers.\n"
                '  A stiff problem wants method="Radau"; a state that grows without bound ends there.'
            )
        h *= max(0.2, factor)
        longest = 1.0


@_face(note="Radau, BDF and LSODA all by Radau's method; the derivative is that of the steps taken, so it is as accurate as the tolerances")
def solve_ivp(
    fun: Any, t_span: Any, y0: Any, method: Any, t_eval: Any, dense_output: bool, events: Any, vectorized: bool, args: Any,
    rtol: float = 1e-3, atol: Any = 1e-6, max_step: float = np.inf, first_step: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """`scipy.integrate.solve_ivp`; of stiff equations by Radau's method. A batch under `vmap` takes common steps."""
    name = getattr(method, "__name__", method)
    if name not in _METHODS:
        refuse("solve_ivp with a method of one's own", method=(method, None))
    take, order = _METHODS[name]
    refuse("solve_ivp", **{k: (v, None) for k, v in options.items() if take is not _radau or k not in _OF_IMPLICIT})
    f: Any = lambda t, y: np.ravel(_stacked(fun(t, y[:, None] if vectorized else y, *(args or ()))))
    start, stop = t_span
    t, end = _longest(start, stop, t_eval is not None or dense_output)
    begin, span, direction = t, end - t, float(np.sign(end - t)) or 1.0
    clock: Any = lambda s: start + (stop - start) * ((s - begin) / span if span else 0.0)  # traced if the ends are
    y = as_float(y0)
    if y.ndim != 1:
        raise ValueError(f"solve_ivp: y0 must have one axis, not the shape {y.shape}.")
    if not max_step > 0 or first_step is not None and not 0 < first_step <= abs(span):
        raise ValueError(f"solve_ivp: max_step={max_step} and first_step={first_step} must be positive, and no longer than t_span.")
    if take is _radau and y.dtype.kind == "c":
        raise ValueError(f"solve_ivp: the method {name} takes no complex states; solve for real and imaginary parts.")
    slope = f(start, y)
    h = _first_step(f, t, y, slope, span, order, rtol, atol) if first_step is None else first_step
    times, states = ([start], [y]) if t_eval is None else ([], [])
    wanted = [] if t_eval is None else [lift(t_eval)[k] for k in range(np.shape(lift(t_eval))[0])]
    asked = np.array([begin, *map(value, wanted), end]) * direction
    if not np.all(asked[1:] >= asked[:-1]):
        raise ValueError("solve_ivp: the values in t_eval must lie within t_span, and be sorted.")
    pieces: list[tuple[float, Any]] = []
    watched = _watched(events, args or ())
    for event in watched:
        event.crossed(start, y)
    last = None
    while direction * (end - t) > 0 and last is None:
        attempt: Any = lambda t, new: take(f, clock(t), clock(new) - clock(t), new - t, y, slope, rtol, atol)
        new_t, h, (new, new_slope, _, interpolant) = _accepted(attempt, t, h, end, max_step, order)
        tt, reached = clock(t), clock(new_t)
        hh = reached - tt
        due: Any = lambda limit: wanted and bool(direction * wanted[0] <= direction * limit)
        found = [event for event in watched if event.crossed(reached, new)]
        limit: Any = new_t
        within: Any = interpolant() if dense_output or found or due(limit) else None
        last = _last_of(found, tt, hh, within) if found else None
        if last is not None:
            limit, new = tt + hh * last, within(last)
            reached = limit
        pieces.append((new_t, lambda s, within=within, tt=tt, hh=hh: within((s - tt) / hh)))
        if t_eval is None:
            times.append(reached)
            states.append(new)
        while due(limit):
            times.append(wanted.pop(0))
            states.append(pieces[-1][1](times[-1]))
        t, y, slope = new_t, new, new_slope
    status, message = (0, "solved") if last is None else (1, "A termination event occurred.")
    return OptimizeResult(
        t=_stacked(times),
        y=np.stack(states, axis=-1) if states else np.zeros((y.shape[0], 0)),
        sol=_continuous(pieces, direction, y) if dense_output else None,
        t_events=None if events is None else [_stacked(event.times) for event in watched],
        y_events=None if events is None else [_stacked(event.states) for event in watched],
        status=status,
        message=message,
        success=True,
    )


def _longest(start: Any, stop: Any, single: bool) -> tuple[float, float]:
    """The ends of the time; of a batch those of the longest, by which the steps of all are chosen."""
    starts, stops = np.broadcast_arrays(value(start), value(stop))
    if starts.size > 1 and single:
        raise errors.UnsupportedError(
            "solve_ivp: a batch of times t_span has no common t_eval= or dense_output=.\n"
            "  Leave these out, or solve over the parts from 0 to 1 of each time, of which the equation is (stop - start) * fun(t, y)."
        )
    k = int(np.argmax(np.abs(stops - starts)))
    return float(starts.flat[k]), float(stops.flat[k])


def _continuous(pieces: list[tuple[float, Any]], direction: float, y: Any) -> Callable[[Any], Any]:
    """The solution as a function of time, a number or a vector, by the piece in which it lies; at the ends the nearest is continued."""

    def sol(t: Any) -> Any:
        t = lift(t)
        if t.ndim:
            return np.stack([sol(t[k]) for k in range(t.shape[0])], axis=-1)
        piece: Any = next((piece for end, piece in pieces[:-1] if direction * t <= direction * end), pieces[-1][1] if pieces else None)
        return piece(t) if pieces else y

    return sol


def _stacked(x: Any) -> Any:
    return lift(x) if not isinstance(x, (list, tuple)) else np.stack([lift(v) for v in x]) if x else np.zeros(0)


def _plain(f: Any) -> Any:
    """A function without the traced values that it closes over."""
    open_f, captured = lift_closure(f)
    for leaf in tree.leaves(captured):
        if np.shape(value(leaf)) != np.shape(leaf):
            raise errors.UnsupportedError("solve_bvp: the examples of a batch have no common mesh.\n  Solve for one after another.")
    return open_f(tree.map(value, captured))


@_face(note="on the mesh that SciPy finds; not under vmap")
def solve_bvp(fun: Any, bc: Any, x: Any, y: Any, p: Any, tol: float, max_nodes: int, verbose: int, bc_tol: Any) -> Any:
    """`scipy.integrate.solve_bvp`, differentiated through the equations of the collocation on the mesh that was found."""
    x, y = lift(x) * 1.0, lift(y) * 1.0
    more: Any = {"tol": tol, "max_nodes": max_nodes, "verbose": verbose, "bc_tol": bc_tol}
    ends = _plain(lambda: (x, y, p))()
    found = _scipy.solve_bvp(_plain(fun), _plain(bc), *ends, **more)
    if not found.success:
        raise errors.ConvergenceError(f"solve_bvp: no solution found, so it has no derivative: {found.message}")
    mesh = x[0] + (x[-1] - x[0]) * ((found.x - found.x[0]) / (found.x[-1] - found.x[0]))
    unknown = {"y": found.y} if p is None else {"y": found.y, "p": found.p}
    h = mesh[1:] - mesh[:-1]
    f: Any = lambda t, z: _stacked(fun(t, *z.values()))

    def equations(z: Any) -> Any:
        """Kierzenka and Shampine 2001, "A BVP solver based on residual control": the three-stage Lobatto formula."""
        y, slope = z["y"], f(mesh, z)
        between = {**z, "y": (y[:, 1:] + y[:, :-1]) / 2 - h / 8 * (slope[:, 1:] - slope[:, :-1])}
        steps = y[:, 1:] - y[:, :-1] - h / 6 * (slope[:, :-1] + slope[:, 1:] + 4 * f(mesh[:-1] + h / 2, between))
        return np.concatenate([np.reshape(steps, -1), np.reshape(_stacked(bc(y[:, 0], y[:, -1], *list(z.values())[1:])), -1)])

    z = solution(equations, lambda g: g, unknown, (), polished, None)
    slope = f(mesh, z)
    return OptimizeResult(
        **{k: found[k] for k in ("rms_residuals", "niter", "status", "message", "success")},
        sol=CubicHermiteSpline(mesh, z["y"], slope, axis=1),
        p=z.get("p"),
        x=mesh,
        y=z["y"],
        yp=slope,
    )


@_face(note="by DOP853 with the same tolerances; of stiff equations use solve_ivp")
def odeint(
    func: Any, y0: Any, t: Any, args: Any, full_output: int, rtol: Any, atol: Any, tcrit: Any, tfirst: bool, **_steps: Any,
) -> Any:  # fmt: skip
    refuse("odeint", full_output=(full_output, False), tcrit=(tcrit, None))
    t = lift(t)
    f: Any = (lambda s, y: func(s, y, *args)) if tfirst else (lambda s, y: func(y, s, *args))
    tolerances = {k: 1.49012e-8 if v is None else v for k, v in (("rtol", rtol), ("atol", atol))}
    return np.swapaxes(solve_ivp(f, (t[0], t[-1]), np.atleast_1d(lift(y0)), "DOP853", t, **tolerances).y, -1, -2)
