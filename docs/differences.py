"""Writes `docs/differences.md`: where PyTorch or JAX give another value or derivative than functrace. `python -m docs.differences`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).with_name("differences.md")


class Difference(NamedTuple):
    """Functions of which an oracle differs, in the value (and so the derivative) or in the derivative alone.

    `where`: "points", "complex", a keyword argument, or "" for any call.
    """

    names: str
    oracle: str
    what: str
    where: str
    theirs: str
    ours: str


DIFFERENT = (
    Difference("hypot", "torch", "derivative", "points", "NaN at (0, 0)", "0, the zero subgradient"),
    Difference("fmax fmin", "torch", "derivative", "points", "a tie goes to the first argument", "1/2 each, as its own `maximum`"),
    Difference("clip", "torch", "derivative", "points", "1 at a bound", "1/2, as `minimum(maximum(x, low), high)`"),
    Difference("angle", "torch", "value", "points", "the value at -0.0 is 0", "pi, as in NumPy"),
    Difference("logaddexp", "torch", "derivative", "points", "NaN where both arguments are -inf", "0"),
    Difference("scipy.special.logsumexp", "torch", "derivative", "points", "NaN where all elements are -inf", "0"),
    Difference(
        "scipy.special.xlogy", "torch", "derivative", "points", "NaN at (0, 0) in the second argument", "0, as the value is 0 beside it"
    ),
    Difference(
        "scipy.special.gammainc scipy.special.gammaincc",
        "torch",
        "derivative",
        "points",
        "NaN at x = 0 with a = 1",
        "1 and -1, the density",
    ),
    Difference("sinc", "torch", "derivative", "points", "few or no digits near 0, where it subtracts equal numbers", "all digits"),
    Difference("median nanmedian", "torch", "value", "", "the lower of two middle elements", "their mean, as in NumPy"),
    *(
        Difference("quantile nanquantile", oracle, "derivative", "points", "0 in `q` at an element", "the slope to its right, as `interp`")
        for oracle in ("torch", "jax")
    ),
    Difference("ldexp", "torch", "derivative", "", "0 where the exponent is negative, an integer power", "`2.0**exponent`"),
    Difference("linalg.det scipy.linalg.det", "torch", "derivative", "", "0 at a singular matrix", "the adjugate, which is right"),
    Difference(
        "linalg.cholesky linalg.eigh linalg.eigvalsh scipy.linalg.cholesky scipy.linalg.eigh scipy.linalg.eigvalsh",
        "torch",
        "derivative",
        "",
        "one triangle is read, but the gradient is shared with the other",
        "it lies in the one that is read",
    ),
    Difference("linalg.pinv", "torch", "derivative", "hermitian", "as `linalg.eigh`", "as `linalg.eigh`"),
    *(
        Difference(
            "linalg.pinv",
            oracle,
            "derivative",
            keyword,
            "what it would be if the singular values left out were zero",
            "the derivative of what is left",
        )
        for oracle, keyword in (("torch", "rcond"), ("torch", "rtol"), ("jax", "rcond"), ("jax", "rtol"))
    ),
    Difference("linalg.lstsq scipy.linalg.lstsq", "torch", "value", "", "has a derivative of the solution only", "of the residuals too"),
    Difference("scipy.linalg.lu_factor", "torch", "value", "", "pivots count from one", "from zero, as in SciPy"),
    Difference("absolute fabs", "jax", "derivative", "points", "1 at 0", "0, the zero subgradient, as PyTorch"),
    Difference("sinc", "jax", "derivative", "points", "few or no digits near 0, where it subtracts equal numbers", "all digits"),
    Difference("hypot", "jax", "derivative", "points", "1/2 each at (0, 0)", "0, the zero subgradient"),
    Difference(
        "copysign",
        "jax",
        "derivative",
        "points",
        "a slope of one side where the first argument is 0",
        "0, as of `abs`, and as PyTorch",
    ),
    Difference("arctan2 angle", "jax", "derivative", "points", "NaN at (0, 0)", "0"),
    Difference("fmax fmin", "jax", "derivative", "points", "a tie goes to the second argument", "1/2 each, as its own `maximum`"),
    Difference(
        "maximum.accumulate minimum.accumulate",
        "jax",
        "derivative",
        "points",
        "shares a tie in halves, step by step",
        "evenly among all that are the extreme so far",
    ),
    Difference("std", "jax", "derivative", "points", "NaN where there is no spread", "0, the zero subgradient"),
    Difference(
        "linalg.norm",
        "jax",
        "derivative",
        "points",
        "NaN or 1 where the norm, or an element that decides it, is 0",
        "0, the zero subgradient",
    ),
    Difference(
        "logaddexp.reduce logaddexp scipy.special.logsumexp",
        "jax",
        "derivative",
        "points",
        "NaN where all elements are -inf",
        "0",
    ),
    Difference("scipy.special.i0", "jax", "derivative", "points", "1 at 0, the slope of `abs` there", "0, which is right"),
    Difference("scipy.special.expi", "jax", "value", "points", "the value at 0 is NaN", "-inf, as in SciPy"),
    Difference(
        "scipy.special.gammainc scipy.special.gammaincc", "jax", "derivative", "points", "NaN at x = 0 with a = 1", "1 and -1, the density"
    ),
    Difference("scipy.special.ndtri", "jax", "derivative", "points", "0 at 0 and 1", "inf"),
    Difference(
        "scipy.special.rel_entr scipy.special.kl_div",
        "jax",
        "derivative",
        "points",
        "0 or -1 where an argument is 0",
        "the limit, infinite, and 0 at (0, 0)",
    ),
    Difference("scipy.special.xlogy", "jax", "derivative", "points", "-inf at (0, 0) in the first argument", "0, as PyTorch"),
    Difference("scipy.special.boxcox1p", "jax", "derivative", "points", "0 in lmbda at lmbda = 0", "log1p(x)**2 / 2, the limit"),
    Difference(
        "scipy.stats.laplace.logpdf scipy.stats.laplace.pdf",
        "jax",
        "derivative",
        "points",
        "at the centre the slope of the right side",
        "0, the middle",
    ),
    Difference(
        "scipy.stats.expon.cdf scipy.stats.uniform.cdf scipy.stats.pareto.cdf",
        "jax",
        "derivative",
        "points",
        "the slope of inside, or NaN, at an end of the support",
        "0",
    ),
    Difference(
        "scipy.stats.beta.pdf scipy.stats.beta.logpdf scipy.stats.chi2.pdf scipy.stats.chi2.logpdf scipy.stats.gamma.pdf "
        "scipy.stats.pareto.pdf scipy.stats.pareto.logpdf",
        "jax",
        "derivative",
        "points",
        "NaN in x or a parameter, at an end of the support or outside of it",
        "0",
    ),
    Difference(
        "arccosh",
        "jax",
        "derivative",
        "complex",
        "the derivative of another branch, 1/sqrt(z*z - 1), where the real part is negative",
        "that of the value",
    ),
    Difference(
        "linalg.cholesky linalg.eigh linalg.eigvalsh scipy.linalg.eigh scipy.stats.multivariate_normal.pdf "
        "scipy.stats.multivariate_normal.logpdf",
        "jax",
        "value",
        "",
        "a matrix is made symmetric, or read whole",
        "one triangle is read, as in NumPy and SciPy, and has the gradient",
    ),
    Difference("linalg.svd linalg.pinv", "jax", "value", "hermitian", "as `linalg.eigh`", "as `linalg.eigh`"),
    Difference(
        "scipy.linalg.cholesky",
        "jax",
        "derivative",
        "",
        "the gradient is that of a symmetric matrix",
        "it lies in the triangle that is read",
    ),
    Difference(
        "scipy.linalg.solve",
        "jax",
        "value",
        "assume_a",
        "as `linalg.eigh` and `scipy.linalg.cholesky`",
        "one triangle is read, and has the gradient",
    ),
    Difference("scipy.linalg.cho_factor", "jax", "value", "", "zeros in the other triangle", "what SciPy leaves there"),
    Difference("linalg.lstsq", "jax", "value", "", "residuals of any problem", "of overdetermined ones of full rank only, as in NumPy"),
    Difference("nanstd", "jax", "derivative", "", "NaN where there is no spread", "0, the zero subgradient"),
    Difference(
        "unique unique_values unique_counts unique_inverse unique_all union1d setdiff1d setxor1d",
        "jax",
        "derivative",
        "",
        "a silent 0",
        "1 for the element that is taken",
    ),
    Difference("polydiv", "jax", "value", "", "the remainder is padded with zeros", "as NumPy gives it"),
    Difference("scipy.ndimage.map_coordinates", "jax", "value", "mode", "another value beyond the edge", "SciPy's"),
    Difference(
        "scipy.special.poch", "jax", "value", "", "NaN at negative integers, where the gamma function has poles", "SciPy's value, the limit"
    ),
    Difference("scipy.special.spence", "jax", "derivative", "", "NaN at 1", "-1, the limit"),
)
NO_DERIVATIVE: dict[str, str] = {
    "jax": """linalg.eig nextafter scipy.linalg.qr_multiply scipy.linalg.sqrtm scipy.linalg.eigh_tridiagonal
    scipy.linalg.polar scipy.stats.gumbel_l.ppf scipy.stats.gumbel_r.ppf""",
    "torch": """heaviside full_like bincount histogram histogramdd vander unique linspace logspace full scipy.special.j0
    scipy.special.j1 scipy.special.y0 scipy.special.y1 scipy.special.k0 scipy.special.k0e scipy.special.k1 scipy.special.k1e""",
}
NOT_COMPARED: dict[str, dict[str, str]] = {
    "jax": {
        "scipy.optimize.minimize": "has no sample: it has tests of its own",
        "scipy.stats.multinomial.pmf": "takes integer arrays of counts, our samples have floats",
        "scipy.stats.multinomial.logpmf": "takes integer arrays of counts, our samples have floats",
    },
    "torch": {
        "select": "another function: one index along an axis",
    },
}

_HEAD = """# Where PyTorch and JAX differ

<!-- Written by `python -m docs.differences` from its tables. Don't edit. -->

This page compares functrace with PyTorch {torch} and JAX {jax}. Every function that they also have is run in all of them, on the samples
of its tests and at kinks, ties, zeros and complex numbers, in double precision. Values and gradients agree to nine digits except for what
is listed here. A test fails if a row is no longer true, or if a difference is missing. [Another page](parity.md) says how
`functrace.torch` differs from PyTorch.

In the column *where*, *points* means that they differ only at single points, and *any call* that they may differ anywhere. Where a
function reads only one triangle of a matrix, or returns several results, the test still compares what must agree: the gradient at symmetric
matrices, and the first result.
"""
VERSIONS = {"torch": "2.13", "jax": "0.10"}


def _code(names: str) -> str:
    return " ".join(f"`{name}`" for name in names.split())


def _section(oracle: str, title: str) -> str:
    rows = [d for d in DIFFERENT if d.oracle == oracle]
    out = f"## {title}\n\n| functions | what | where | {title} | functrace |\n|---|---|---|---|---|\n"
    for d in rows:
        where = {"": "any call", "points": "points", "complex": "complex numbers"}.get(d.where, f"`{d.where}=`")
        out += f"| {_code(d.names)} | {d.what} | {where} | {d.theirs} | {d.ours} |\n"
    out += f"\nWithout a derivative there, so that the value is compared: {_code(NO_DERIVATIVE[oracle])}.\n"
    out += "\n| not compared | why |\n|---|---|\n"
    return out + "".join(f"| {_code(names)} | {reason} |\n" for reason, names in _by_reason(oracle).items())


def _by_reason(oracle: str) -> dict[str, str]:
    out = dict[str, str]()
    for name, reason in NOT_COMPARED[oracle].items():
        out[reason] = f"{out.get(reason, '')} {name}"
    return out


def page() -> str:
    """What `differences.md` should be."""
    return "\n".join([_HEAD.format(**VERSIONS), _section("torch", "PyTorch"), _section("jax", "JAX")])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
