"""Distributions of vectors and matrices. Of a symmetric matrix the lower triangle is read, as by SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp
import scipy.stats as _scipy

from functrace.ops.create import lift, number
from functrace.ops.functions import refuse
from functrace.ops.gauge import diagonal, full_hermitian, transposed
from functrace.ops.registry import Sample, implements
from functrace.places import user_line
from functrace.scipy._linalg_systems import solve_triangular
from functrace.scipy._shared import real, with_axes
from functrace.scipy._special_functions import multigammaln

_LOG2, _LOG_2PI = float(np.log(2.0)), float(np.log(2 * np.pi))


def _float(x: Any) -> Any:
    """As `real`, but single precision stays."""
    x = lift(x)
    return x if x.dtype in (np.float32, np.float16) else real(x)


def _declare(name: str, methods: str, args: Callable[..., Any], wrt: tuple[int, ...]) -> Callable[[Any], Any]:
    """Declare the logarithm of a density, and the density; or a summary of a distribution under its own name."""

    def enter(function: Any) -> Any:
        own = getattr(_scipy, name, None)
        for method in methods.split() if own is not None else ():
            plain = function if method.startswith("log") or " " not in methods else (lambda *a, **k: np.exp(function(*a, **k)))
            plain.__name__ = method
            implements(getattr(own, method), [Sample(args, wrt=wrt)], name=f"scipy.stats.{name}.{method}")(plain)
        return function

    return enter


def _spd(rng: Any, n: int) -> Any:
    return 0.2 * rng.normal(size=(n, n)) + np.diag(1.0 + np.arange(n))


def _factor(cov: Any) -> tuple[Any, Any]:
    """The Cholesky factor of a covariance matrix, and the logarithm of its determinant."""
    factor = np.linalg.cholesky(full_hermitian(with_axes(real(cov), 2)))
    return factor, 2 * np.sum(np.log(diagonal(factor)))


def _half(factor: Any, x: Any) -> Any:
    return solve_triangular(factor, x, lower=True)


def _gaussian(x: Any, mean: Any, cov: Any) -> tuple[Any, Any, int]:
    """Squared Mahalanobis distances, log det, and the dimension, for the forms of arguments that SciPy takes."""
    cov = real(1.0 if cov is None else cov)
    mean = None if mean is None else np.reshape(real(mean), -1)
    dim = mean.shape[0] if mean is not None else cov.shape[0] if cov.ndim else 1
    if cov.ndim < 2:
        cov = cov * np.eye(dim) if cov.ndim == 0 or dim == 1 else np.diag(cov)
    x = real(x)
    x = np.reshape(x, (1, *x.shape)) if x.ndim == 0 or x.ndim == 1 and dim > 1 else x[:, None] if x.ndim == 1 else x
    deviation = np.reshape(x if mean is None else x - mean, (-1, dim))
    factor, logdet = _factor(np.reshape(cov, (dim, dim)))
    squares = np.sum(_half(factor, transposed(deviation)) ** 2, axis=0)
    return np.reshape(squares, tuple(k for k in x.shape[:-1] if k != 1)), logdet, dim


def _singular(cov: Any) -> bool:
    """Whether SciPy takes a covariance matrix for singular."""
    cov = real(1.0 if cov is None else cov)
    spread = np.linalg.eigvalsh(cov) if cov.ndim == 2 else np.reshape(cov, -1)
    return bool(np.min(spread) <= 1e6 * np.finfo(float).eps * np.max(np.abs(spread)))


_MVN: Any = lambda rng: (rng.normal(size=(3, 2)), rng.normal(size=2), _spd(rng, 2))


@_declare("multivariate_normal", "logpdf pdf", _MVN, (0, 1, 2))
def _multivariate_normal(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    refuse("multivariate_normal", allow_singular=(allow_singular and _singular(cov), False))
    squares, logdet, dim = _gaussian(x, mean, cov)
    return -(dim * _LOG_2PI + logdet + squares) / 2


@_declare("multivariate_normal", "entropy", lambda rng: (rng.normal(size=2), _spd(rng, 2)), (1,))
def _multivariate_normal_entropy(mean: Any = None, cov: Any = 1) -> Any:
    centre = np.zeros(np.shape(cov)[:1] or 1) if mean is None else mean
    _, logdet, dim = _gaussian(centre, centre, cov)
    return (dim * (_LOG_2PI + 1) + logdet) / 2


@_declare("multivariate_t", "logpdf pdf", lambda rng: (*_MVN(rng), 3.3), (0, 1, 2))
def _multivariate_t(x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False) -> Any:
    refuse("multivariate_t", allow_singular=(allow_singular and _singular(shape), False))
    df = np.minimum(real(df), 1e300)  # as good as infinite
    squares, logdet, dim = _gaussian(x, loc, shape)
    front = sp.gammaln(dim / 2) - sp.betaln(df / 2, dim / 2) - dim / 2 * np.log(df * np.pi)
    return front - logdet / 2 - (df + dim) / 2 * np.log1p(squares / df)


@_declare("dirichlet", "logpdf pdf", lambda rng: (rng.dirichlet(np.full(3, 4.0))[:2], rng.uniform(1.2, 3.0, size=3)), (0, 1))
def _dirichlet(x: Any, alpha: Any) -> Any:
    x, alpha = _float(x), with_axes(_float(alpha), 1)
    if x.shape[:1] == (alpha.shape[0] - 1,):
        x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)], axis=0)
    if x.shape[:1] != alpha.shape:
        raise ValueError(f"x has {x.shape[:1]} entries along its first axis, alpha {alpha.shape}.\n  At {user_line()}.")
    terms = sp.xlogy(np.reshape(alpha - 1, (-1, *(1,) * (x.ndim - 1))), x)
    return np.sum(terms, axis=0) - np.sum(sp.gammaln(alpha)) + sp.gammaln(np.sum(alpha))


_ALPHA: Any = lambda rng: (rng.uniform(1.2, 3.0, size=3),)


@_declare("dirichlet", "mean", _ALPHA, (0,))
def _dirichlet_mean(alpha: Any) -> Any:
    alpha = with_axes(_float(alpha), 1)
    return alpha / np.sum(alpha)


@_declare("dirichlet", "var", _ALPHA, (0,))
def _dirichlet_var(alpha: Any) -> Any:
    alpha = with_axes(_float(alpha), 1)
    total = np.sum(alpha)
    return alpha * (total - alpha) / (total * total * (total + 1))


@_declare("dirichlet", "entropy", _ALPHA, (0,))
def _dirichlet_entropy(alpha: Any) -> Any:
    alpha = with_axes(_float(alpha), 1)
    total = np.sum(alpha)
    spread = (total - alpha.shape[-1]) * sp.psi(total) - np.sum((alpha - 1) * sp.psi(alpha))
    return np.sum(sp.gammaln(alpha)) - sp.gammaln(total) + spread


@_declare("multinomial", "logpmf pmf", lambda rng: (np.array([1.0, 3.0, 2.0]), 6, np.array([0.2, 0.5, 0.3])), ())
def _multinomial(x: Any, n: Any, p: Any) -> Any:
    x, n, p = (real(a) for a in (x, n, p))
    p = np.concatenate([p[..., :-1], 1 - np.sum(p[..., :-1], axis=-1, keepdims=True)], axis=-1)  # as SciPy does
    out = sp.gammaln(n + 1) + np.sum(sp.xlogy(x, p) - sp.gammaln(x + 1), axis=-1)
    good = (np.sum(x, axis=-1) == n) & np.all((x >= 0) & (x == np.floor(x)), axis=-1)
    return number(np.where(np.all((p >= 0) & (p <= 1), axis=-1), np.where(good, out, -np.inf), np.nan))


@_declare("dirichlet_multinomial", "logpmf pmf", lambda rng: (np.array([1, 3, 2]), rng.uniform(1.2, 3.0, size=3), 6), (1,))
def _dirichlet_multinomial(x: Any, alpha: Any, n: Any) -> Any:
    n, (x, alpha) = real(n), np.broadcast_arrays(real(x), real(alpha))
    total = np.sum(alpha, axis=-1)
    out = sp.gammaln(total) + sp.gammaln(n + 1) - sp.gammaln(n + total)
    out = out + np.sum(sp.gammaln(x + alpha) - sp.gammaln(alpha) - sp.gammaln(x + 1), axis=-1)
    return number(np.where(np.sum(x, axis=-1) == n, out, -np.inf))


def _wishart_args(rng: Any) -> tuple[Any, ...]:
    a, b = _spd(rng, 2), _spd(rng, 2)
    return a + a.T, 3.7, b + b.T


@_declare("wishart", "logpdf pdf", _wishart_args, ())
def _wishart(x: Any, df: Any, scale: Any) -> Any:
    x, df = real(x), real(df)
    (factor, logdet), dim = _factor(scale), x.shape[0]
    trace = np.trace(_half(factor, transposed(_half(factor, x))))
    normal = df * dim / 2 * _LOG2 + df / 2 * logdet + multigammaln(df / 2, dim)
    return (df - dim - 1) / 2 * _factor(x)[1] - trace / 2 - normal


@_declare("invwishart", "logpdf pdf", _wishart_args, ())
def _invwishart(x: Any, df: Any, scale: Any) -> Any:
    x, df, scale = real(x), real(df), real(scale)
    (factor, logdet), dim = _factor(x), x.shape[0]
    trace = np.trace(_half(factor, transposed(_half(factor, scale))))
    normal = df * dim / 2 * _LOG2 + (df + dim + 1) / 2 * logdet + multigammaln(df / 2, dim)
    return df / 2 * _factor(scale)[1] - trace / 2 - normal


@_declare(
    "matrix_normal", "logpdf pdf", lambda rng: (rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), _spd(rng, 2), _spd(rng, 3)), (0, 1, 2, 3)
)
def _matrix_normal(X: Any, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
    x = real(X)
    m, n = x.shape[-2:]
    rows, columns = (c * np.eye(k) if c.ndim == 0 else np.diag(c) if c.ndim == 1 else c for c, k in ((real(rowcov), m), (real(colcov), n)))
    (row, logrow), (column, logcolumn) = _factor(rows), _factor(columns)
    deviation = x if mean is None else x - real(mean)
    white = _half(column, transposed(_half(row, deviation)))
    return -(m * n * _LOG_2PI + n * logrow + m * logcolumn + np.sum(white * white, axis=(-2, -1))) / 2


@_declare("normal_inverse_gamma", "logpdf pdf", lambda rng: (0.3, 0.8, 0.1, 1.4, 2.2, 0.9), (0, 1, 2))
def _normal_inverse_gamma(x: Any, s2: Any, mu: Any = 0.0, lmbda: Any = 1.0, a: Any = 1.0, b: Any = 1.0) -> Any:
    x, s2, mu, lmbda, a, b = (real(v) for v in (x, s2, mu, lmbda, a, b))
    return (
        (np.log(lmbda) - np.log(2 * np.pi * s2)) / 2
        + a * np.log(b)
        - sp.gammaln(a)
        - (a + 1) * np.log(s2)
        - (2 * b + lmbda * (x - mu) ** 2) / (2 * s2)
    )
