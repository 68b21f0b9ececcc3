"""The one place where the shim meets the library below: the public `vjp`, and the rules of declared ops.

`rules(op)` is "the value and pullback of one declared op" without a trace: `fun(*arrays, *params)`, and for each argument k
`vjps[k](g, ans, *args, *params)`, the cotangent of argument k, not yet summed over broadcast axes. A parameter of a rule whose
name begins with an underscore says that the rule looks at most at its shape and dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace import stop_gradient, tree, value, vjp, vmap
from functrace.core.batch import BatchTrace, BranchSplit, batched
from functrace.core.primitive import Primitive, bind, looks_into
from functrace.core.reverse import fit
from functrace.core.tracer import BatchTracer, Tracer
from functrace.ops import index, shape
from functrace.ops import reduce as reduction
from functrace.ops.calculus import sinc_
from functrace.ops.contract import matmul
from functrace.ops.index import index_add, index_set
from functrace.ops.inplace import View, complex_of, linked
from functrace.ops.kinds import jvp_from_vjp, linear, undeclared
from functrace.ops.registry import rules
from functrace.pool import empty as buffer
from functrace.pool import holds as is_buffer
from functrace.pool import product

__all__ = [
    "BROADCAST", "GETITEM", "MATMUL", "RESHAPE", "SUM", "TRANSPOSE", "BatchTrace", "BatchTracer", "BranchSplit", "Primitive", "Tracer",
    "View", "batched", "bind", "buffer", "complex_of", "fit", "index_add", "index_set", "is_buffer", "jvp_from_vjp",
    "linear", "linked", "looks", "product", "rules", "sinc_", "stop_gradient", "tree", "undeclared", "value", "vjp", "vmap",
]  # fmt: skip

Rule = Callable[..., Any]


def looks(rule: Rule | None, arity: int) -> tuple[bool, ...]:
    """Which of (result, *arguments) a rule looks into."""
    return tuple(looks_into(rule, arity))


RESHAPE, TRANSPOSE, BROADCAST, GETITEM = rules(shape.reshape), rules(shape.transpose), rules(shape.broadcast_to), rules(index.getitem)
SUM, MATMUL = rules(reduction.sum_), rules(matmul)
