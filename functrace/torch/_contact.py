"""The one place where the shim meets the library below: the public `vjp`, and the rules of declared ops.

`rules(op)` is "the value and pullback of one declared op" without a trace: `fun(*arrays, *params)`, and for each argument k
`vjps[k](g, ans, *args, *params)`, the cotangent of argument k, not yet summed over broadcast axes. A parameter of a rule whose
name begins with an underscore says that the rule looks at most at its shape and dtype.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import stop_gradient, tree, vjp, vmap
from functrace.core.batch import BatchTrace, BranchSplit, batched
from functrace.core.primitive import Primitive, bind, looks_into
from functrace.core.reverse import fit as plain_fit
from functrace.core.tracer import BatchTracer, Tracer, levels, value
from functrace.edge import boundary, note, trim
from functrace.ops import cumulative, decompositions, gauge, index, linalg, shape
from functrace.ops import reduce as reduction
from functrace.ops.arrange import on_diagonal
from functrace.ops.calculus import sinc_
from functrace.ops.choice import chosen
from functrace.ops.contract import matmul
from functrace.ops.elementwise import MANY_POWERS, by_magnitude
from functrace.ops.elementwise import logistic as plain_logistic
from functrace.ops.gauge import conj
from functrace.ops.inplace import View, complex_of, linked, updated
from functrace.ops.kinds import jvp_from_vjp, linear, same, undeclared
from functrace.ops.registry import rules
from functrace.ops.shape import along as at_axis
from functrace.places import is_user_file, level, user_frame
from functrace.pool import empty as buffer
from functrace.pool import holds as is_buffer
from functrace.pool import product
from functrace.references import IN_LOCAL
from functrace.sums import products
from functrace.transforms.batching import spread
from functrace.transforms.tracing import replaced

__all__ = [
    "BROADCAST", "CHOLESKY", "CUMPROD", "CUMSUM", "DET", "GETITEM", "HALF", "INV", "IN_LOCAL", "MANY_POWERS", "MATMUL", "MAX", "MIRROR",
    "PROD", "RESHAPE", "SUM", "SVDVALS", "TRANSPOSE", "BatchTrace", "BatchTracer", "BranchSplit", "Primitive", "Tracer", "View",
    "alike", "are_hermitian", "at_axis", "batched", "bind", "boundary", "buffer", "by_magnitude", "chosen", "complex_of", "conj",
    "dot_of", "fit", "floats", "in_floats", "index_add", "index_set", "is_buffer", "is_user_file", "jvp_from_vjp", "level", "levels",
    "linear", "linked", "looks", "note", "on_diagonal", "plain_logistic", "planned", "product", "products", "read", "replaced", "rules",
    "same", "sinc_", "spread", "stop_gradient", "tree", "trim", "undeclared", "unread", "unset", "user_frame", "value", "vjp", "vmap",
]  # fmt: skip

Rule = Callable[..., Any]


def looks(rule: Rule | None, arity: int) -> tuple[bool, ...]:
    """Which of (result, *arguments) a rule looks into."""
    return tuple(looks_into(rule, arity))


RESHAPE, TRANSPOSE, BROADCAST, GETITEM = rules(shape.reshape), rules(shape.transpose), rules(shape.broadcast_to), rules(index.getitem)
INDEX_SET = rules(index.index_set)
SUM, MAX, PROD, MATMUL = rules(reduction.sum_), rules(reduction.max_), rules(reduction.prod), rules(matmul)
DET, INV, SVDVALS = rules(linalg._det), rules(linalg._inv), rules(decompositions._svdvals)
CHOLESKY, MIRROR, are_hermitian = rules(decompositions._cholesky), rules(gauge.mirror), gauge._are_hermitian
CUMSUM, CUMPROD = rules(reduction.cumsum), rules(cumulative._cumprod)


HALF = np.dtype(np.float16)
_FEW = 1 << 12  # elements below which memory costs little to take


def floats(a: Any) -> Any:
    """An array of half numbers in float32; all else, and what only has its shape and dtype, as it is."""
    return a.astype(np.float32) if getattr(a, "dtype", None) == HALF and hasattr(a, "astype") else a


def fit(d: Any, x: Any) -> Any:
    """A gradient summed to the shape, and cast to the dtype, of the argument that it belongs to."""
    return plain_fit(floats(d), x)


def in_floats(fun: Rule, arity: int = 1) -> Rule:
    """A function of arrays, or a rule, computed in float32 where they are of half numbers: sums of these soon are not."""

    @functools.wraps(fun)
    def wide(x: Any, *args: Any, **how: Any) -> Any:
        if x.dtype is not HALF:
            return fun(x, *args, **how)
        return fun(floats(x), *map(floats, args), **how).astype(HALF)

    wide.saves = looks(fun, arity)  # type: ignore[attr-defined]
    return wide


def dot_of(x: Any, y: Any) -> Any:
    """`x @ y` of two matrices: where one is a column or a row, several times as fast as `matmul`."""
    if type(x) is np.ndarray and type(y) is np.ndarray and x.dtype is y.dtype:
        m, n = x.shape[0], y.shape[1]
        return np.dot(x, y) if m * n < _FEW else np.dot(x, y, buffer((m, n), x.dtype))
    return product(x, y)


def planned(*operands: Any, **options: Any) -> Any:
    """`np.einsum` by matrix products, in the order of the result; NumPy's own leaves it transposed in memory."""
    from functrace.ops.einsum import einsum

    return einsum(*operands, optimize=True, **options)


def _varies(key: Any) -> bool:
    """Whether an index differs between the examples of a batch."""
    for p in key if type(key) is tuple else (key,):  # noqa: SIM110 - `any` takes three times as long
        if isinstance(p, Tracer):
            return True
    return False


def alike(a: Any, name: str) -> Any:
    """The plain array that an operation looks into. Raises where it differs between the examples of a batch."""
    while isinstance(a, Tracer):
        if isinstance(a, BatchTracer) and a.owner.size == 1:
            a = a.below[0]
            continue
        if isinstance(a, BatchTracer):
            raise NotImplementedError(f"{name} under vmap: its indices, targets or lengths differ between the examples: loop over them.")
        a = a.below
    return a


def read(x: Any, key: Any) -> Any:
    """`x[key]`."""
    if _varies(key):
        return index.index(x, key)
    at = key[0] if type(key) is tuple and len(key) == 1 else None
    if type(at) is type(x) is np.ndarray and at.dtype.kind == "i" and x.flags.c_contiguous and x.ndim:
        return x.take(at, 0)  # of rows that are whole, several times as fast
    return x[key]


def unread(g: Any, _ans: Any, _x: Any, key: Any) -> Any:
    """The cotangent of what `read` reads from; of half numbers in float32."""
    g = floats(g)
    return index_add(np.zeros(_x.shape, g.dtype), g, key) if _varies(key) else GETITEM.vjps[0](g, _ans, _x, key)


def index_set(x: Any, v: Any, key: Any) -> Any:
    """A copy of `x` with `v` at an index."""
    return updated(x, key, v, "set") if _varies(key) else index.index_set(x, v, key)


def unset(g: Any, _ans: Any, _x: Any, _v: Any, key: Any) -> Any:
    """The cotangent of what `index_set` writes."""
    if type(g) is np.ndarray and not _varies(key) and np.isfinite(g).all():
        return INDEX_SET.vjps[1](g, _ans, _x, _v, key)
    return vjp(lambda v: (index_set(np.zeros(_x.shape, g.dtype), v, key),), np.zeros(_v.shape, g.dtype))[1]((g,))[0]


def index_add(x: Any, v: Any, key: Any) -> Any:
    """A copy of `x` with `v` added at an index; repeated positions add up."""
    if x.dtype == HALF:
        return index_add(floats(x), floats(v), key).astype(HALF)
    return updated(x, key, v, "add") if _varies(key) else index.index_add(x, v, key)
