"""Passes: each is a small function from program to program, that changes no bit of any elementwise result.

They may be applied in any order, alone or together; `PASSES` is the order in which `optimise` applies them.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from functrace import errors
from functrace.compile.capture import capture, order
from functrace.compile.program import ARRAY, GUARD, NUMBER, Instruction, Kind, Program
from functrace.core.primitive import Primitive
from functrace.core.tracer import Tracer
from functrace.locks import COPY
from functrace.ops import elementwise as e
from functrace.ops import shape as _shape
from functrace.ops.activations import COMPOSED
from functrace.ops.contract import matmul
from functrace.ops.index import getitem
from functrace.ops.positions import keeps_all
from functrace.ops.registry import rules
from functrace.transforms.tracing import identity, replaced

NEGATIVE, ADD, SUBTRACT, MULTIPLY, SQUARE, AND = map(rules, (e.negative, e.add, e.subtract, e.multiply, e.square, e.bitwise_and))
BROADCAST, RESHAPE, TRANSPOSE, GETITEM, MATMUL = map(rules, (_shape.broadcast_to, _shape.reshape, _shape.transpose, getitem, matmul))


@lru_cache(4096)
def is_elementwise(p: Primitive) -> bool:
    """Whether a primitive is a ufunc of one result, which broadcasts its arguments."""
    fun = p.fun
    return isinstance(fun, np.ufunc) and fun.nout == 1 and fun.signature is None


def dead(program: Program) -> Program:
    """Without what neither an output nor a guard needs."""
    live = set(program.outputs)
    kept = []
    for i in reversed(program.instructions):
        if i.primitive is GUARD or i.out in live:
            live.update(i.args)
            kept.append(i)
    return program.with_(reversed(kept))


def maker(made: dict[int, Instruction], v: int, *names: str) -> Instruction | None:
    """What made a value, if it is an operation of one of these names."""
    by = made.get(v)
    return by if by is not None and by.primitive.name in names else None


Rewritten: TypeAlias = "Instruction | tuple[Instruction, ...] | int | None"
Rule = Callable[[Instruction, dict[int, Instruction]], Rewritten]


def rewritten(program: Program, rule: Rule, *names: str) -> Program:
    """Apply `rule` to each instruction, or to those of these `names`, given what made each value: it returns others, or a value that is
    the same.
    """
    if names and not program.has(*names):
        return program
    made: dict[int, Instruction] = {}
    renamed: dict[int, int] = {}
    out = []
    for i in program.instructions:
        args = i.args
        if renamed and not renamed.keys().isdisjoint(args):
            i = Instruction(i.primitive, i.out, tuple([renamed.get(a, a) for a in args]), i.params)
        new = rule(i, made) if not names or i.primitive.name in names else None
        if new is None:
            made[i.out] = i
            out.append(i)
            continue
        if isinstance(new, int):
            renamed[i.out] = new
            continue
        for one in new if isinstance(new, tuple) else (new,):
            made[one.out] = one
            out.append(one)
    return program.with_(out, [renamed.get(k, k) for k in program.outputs])


def common(program: Program) -> Program:
    """With each value computed once: of two instructions alike the second goes, and of constants alike the first is read."""
    seen: dict[Any, int] = {}
    alike: dict[Any, int] = {}  # constants, the first of each
    number = {-1 - k: alike.setdefault(_content(x), -1 - k) for k, x in enumerate(program.consts)}

    def rule(i: Instruction, _made: Any) -> int | Instruction | None:
        args = tuple([number.get(a, a) for a in i.args])
        first = seen.setdefault((id(i.primitive), args, identity(i.params)), i.out)
        if first != i.out:
            return first
        return None if args == i.args else Instruction(i.primitive, i.out, args, i.params)

    guards: set[Any] = set()
    program = rewritten(program, lambda i, made: None if i.primitive is GUARD else rule(i, made))
    kept = []
    for i in program.instructions:
        if i.primitive is GUARD:
            key = (i.args, id(i.params[0]))
            if key in guards:
                continue
            guards.add(key)
        kept.append(i)
    return program.with_(kept)


def _content(x: Any) -> Any:
    """What a number or a small array has in common with those alike, to the bit."""
    if type(x) in (int, float):
        return type(x), repr(x)
    small = type(x) is np.ndarray and x.dtype != object and x.nbytes <= COPY
    return (x.dtype, x.shape, x.strides, x.tobytes()) if small else id(x)


def _is(program: Program, k: int, number: float) -> bool:
    """Whether a value is a real constant of which every element is `number`; -0.0 is not 0."""
    x: Any = program.constant(k) if k < 0 else None
    x = x.flat[0] if _splat(x) else x
    return isinstance(x, (int, float, np.generic)) and x == number and not np.iscomplexobj(x) and not np.signbit(x)


def algebra(program: Program) -> Program:
    """With identities that hold to the last bit: `x * 1`, `x / 1`, `x - 0` are x; `-(-x)` is x; `a + -b` is `a - b`; `-a * b` is
    `-(a * b)`, so that signs may meet, and `-x * x` the negative square; the sum of `-x` is `0 - sum(x)`, since a sum is never -0;
    the absolute value of `-x` and `0 - x` is that of x. And those of masks: see `_condition`.
    """
    kinds = program.kinds

    def bare(a: int, made: dict[int, Instruction]) -> int:
        """x, if the value is `-x` of floats: the negative of an integer may wrap round."""
        by, kind = maker(made, a, "negative"), kinds[a]
        return by.args[0] if by is not None and kind is not None and kind.dtype.kind in "fc" and kinds[by.args[0]] == kind else a

    def signs_met(i: Instruction, made: dict[int, Instruction]) -> Rewritten:
        plain = tuple([bare(a, made) for a in i.args])
        negated = sum(a != b for a, b in zip(plain, i.args))
        if negated == 2:
            return Instruction(i.primitive, i.out, plain, ())
        if not negated or kinds[i.out].dtype.kind != "f":
            return None
        product = program.value(kinds[i.out])
        squared = i.primitive.name == "multiply" and plain[0] == plain[1]
        made_of = Instruction(SQUARE, product, plain[:1], ()) if squared else Instruction(i.primitive, product, plain, ())
        return made_of, Instruction(NEGATIVE, i.out, (product,), ())

    def neutral(i: Instruction, _made: dict[int, Instruction]) -> Rewritten:
        (x, y), name, kind = i.args, i.primitive.name, kinds[i.out]
        if kind.dtype.kind == "c":  # an infinity times 1 + 0j has a NaN
            return None
        if x >= 0 and kinds[x] == kind and _is(program, y, 0 if name == "subtract" else 1):
            return x
        return y if name == "multiply" and y >= 0 and kinds[y] == kind and _is(program, x, 1) else None

    def opposite(i: Instruction, made: dict[int, Instruction]) -> Rewritten:
        (x, y), name = i.args, i.primitive.name
        if (positive := bare(y, made)) != y:
            return Instruction(SUBTRACT if name == "add" else ADD, i.out, (x, positive), ())
        if name == "add" and (positive := bare(x, made)) != x:
            return Instruction(SUBTRACT, i.out, (y, positive), ())
        return None

    def total(i: Instruction, made: dict[int, Instruction]) -> Rewritten:
        if (positive := bare(i.args[0], made)) == i.args[0]:
            return None
        total, zero = program.value(kinds[i.out]), program.const(np.zeros((), kinds[i.out].dtype))
        return Instruction(i.primitive, total, (positive,), i.params), Instruction(SUBTRACT, i.out, (zero, total), ())

    def size(i: Instruction, made: dict[int, Instruction]) -> Rewritten:
        (x,) = i.args
        by = maker(made, x, "subtract")
        opposed = by is not None and _is(program, by.args[0], 0) and kinds[by.args[1]] == kinds[x]
        positive = by.args[1] if by is not None and opposed else bare(x, made)
        return Instruction(i.primitive, i.out, (positive,), ()) if positive != x else None

    def twice(i: Instruction, made: dict[int, Instruction]) -> Rewritten:
        by = maker(made, i.args[0], "negative")
        return by.args[0] if by is not None and kinds[by.args[0]] == kinds[i.out] else None

    def nothing(i: Instruction, _made: dict[int, Instruction]) -> Rewritten:
        return i.args[0] if i.args[0] >= 0 and kinds[i.args[0]] == kinds[i.out] else None

    laws: dict[str, tuple[Rule, ...]] = {
        **dict.fromkeys(("multiply", "divide"), (signs_met, neutral)),
        "subtract": (neutral, opposite),
        "add": (opposite,),
        "sum": (total,),
        "negative": (twice,),
        "absolute": (size,),
        "stop_gradient": (lambda i, _made: i.args[0],),
        "conjugate": (lambda i, made: nothing(i, made) if (k := kinds[i.out]) is not None and k.dtype.kind == "f" else None,),
        **dict.fromkeys(("positive", "astype", "astype_constant"), (nothing,)),
        **dict.fromkeys(("where", "bitwise_or", "not_equal"), (lambda i, made: _condition(program, i, made),)),
    }

    def rule(i: Instruction, made: dict[int, Instruction]) -> Rewritten:
        for law in laws[i.primitive.name]:
            if (found := law(i, made)) is not None:
                return found
        return None

    return rewritten(program, rule, *laws)


def _condition(program: Program, i: Instruction, made: dict[int, Instruction]) -> int | None:
    """What an operation on truth values comes to: `c | False` and `c != 0` are c; `where(c, 1, 0) != 0` is; `where(True, x, y)` is x."""
    found = None
    if i.primitive.name == "where" and _holds(program, i.args[0]):
        found = i.args[1]
    elif i.primitive.name == "bitwise_or":
        found = next((b for a, b in (i.args, i.args[::-1]) if _is(program, a, 0)), None)
    elif i.primitive.name == "not_equal" and _is(program, i.args[1], 0):
        by = maker(made, i.args[0], "where")
        found = by.args[0] if by is not None and _holds(program, by.args[1]) and _is(program, by.args[2], 0) else i.args[0]
    return found if found is not None and found >= 0 and program.kinds[found] == program.kinds[i.out] else None


def _holds(program: Program, k: int) -> bool:
    """Whether a value is a constant without a zero."""
    return k < 0 and isinstance(x := program.constant(k), (np.ndarray, np.generic)) and x.dtype.kind in "biufc" and bool(x.all())


def turned(program: Program, v: int, made: dict[int, Instruction]) -> int | None:
    """The transpose of a matrix, if it costs nothing."""
    if v < 0:
        x = program.constant(v)
        return program.const(x.T) if isinstance(x, np.ndarray) and x.ndim == 2 else None
    by = maker(made, v, "transpose")
    return by.args[0] if by is not None and by.params[0] == (1, 0) else None


def moves(program: Program) -> Program:
    """With one reshape, transpose or broadcast for several in a row, and none that changes nothing; what indexes all elements in their
    order is a reshape; (x.T @ y).T is y.T @ x.
    """
    kinds = program.kinds
    uses = program.uses()

    def swapped(product: Instruction, out: int, made: dict[int, Instruction]) -> tuple[Instruction, ...] | None:
        x, y = product.args
        kind, left = kinds[y], turned(program, x, made)  # then both are matrices, as the product is
        if left is None or kind is None:
            return None
        if (right := turned(program, y, made)) is not None:
            return (Instruction(product.primitive, out, (right, left), ()),)
        right = program.value(Kind(kind.shape[::-1], kind.dtype))
        return Instruction(TRANSPOSE, right, (y,), ((1, 0),)), Instruction(product.primitive, out, (right, left), ())

    def rule(i: Instruction, made: dict[int, Instruction]) -> Rewritten:
        product = maker(made, i.args[0], "matmul")
        if product is not None and uses[product.out] == 1 and i.primitive is TRANSPOSE and i.params[0] == (1, 0):
            return swapped(product, i.out, made)
        if i.primitive.name in ("getitem", "placed"):
            if not (program.is_array(i.args[0]) and program.is_array(i.out) and keeps_all(i.params[0], kinds[i.args[0]], kinds[i.out])):
                return None
            i = Instruction(RESHAPE, i.out, i.args, kinds[i.out][:1])
        before = maker(made, i.args[0], i.primitive.name)
        if before is not None and i.primitive is not BROADCAST:
            params = i.params if i.primitive is RESHAPE else (tuple(before.params[0][a] for a in i.params[0]),)
            i = Instruction(i.primitive, i.out, before.args, params)
        (x,) = i.args
        still = i.primitive is not TRANSPOSE or i.params[0] == tuple(range(len(i.params[0])))
        return x if still and x >= 0 and kinds[x] is not None and kinds[x] == kinds[i.out] else i

    return rewritten(program, rule, "reshape", "transpose", "broadcast_to", "getitem", "placed")


def sink(program: Program) -> Program:
    """With no broadcast whose result only meets arrays of its shape: ufuncs broadcast by themselves."""
    kinds = program.kinds
    numbers: dict[Any, int] = {}  # of constants

    def rule(i: Instruction, made: dict[int, Instruction]) -> Instruction | None:
        if not is_elementwise(i.primitive) or len(i.args) < 2:
            return None
        out = kinds[i.out]
        if out is None or not out.shape:
            return None
        args = list(i.args)
        for k, a in enumerate(args):
            if (by := maker(made, a, "broadcast_to")) is not None:
                source = by.args[0]
            elif a < 0 and _splat(program.constant(a)):
                x = program.constant(a)
                one = np.array(x[(0,) * x.ndim])
                key = one.dtype, one.tobytes()
                if key not in numbers:
                    numbers[key] = program.const(one)
                source = numbers[key]
            else:
                continue
            others = [kinds[b] for j, b in enumerate(args) if j != k]
            shape = np.broadcast_shapes(kinds[source].shape, *(o.shape for o in others if o is not None))
            if shape == out.shape and kinds[source].form != NUMBER:
                args[k] = source
        return Instruction(i.primitive, i.out, tuple(args), ()) if tuple(args) != i.args else None

    return rewritten(program, rule)


def _splat(x: Any) -> bool:
    """Whether an array has one element again and again, to the bit; one that is not small, only if it is in memory once."""
    if not isinstance(x, np.ndarray) or x.size == 0 or x.dtype.kind not in "fcbui":
        return False
    if x.strides == (0,) * x.ndim or x.size > 1 << 16:
        return x.strides == (0,) * x.ndim
    first, last = x[(0,) * x.ndim].tobytes(), x[(-1,) * x.ndim].tobytes()
    return first == last and bool((np.ascontiguousarray(x).view(np.uint8).reshape(-1, x.itemsize) == np.frombuffer(first, np.uint8)).all())


@lru_cache(1024)
def _takes_in(ufunc: Any, dtype: Any, whole: bool, second: int) -> bool:
    """Whether a ufunc takes a Python number, `whole` or not, in the dtype of an array beside it."""
    number = int if whole else float
    return ufunc.resolve_dtypes((dtype, number, None) if second else (number, dtype, None))[:2] == (dtype, dtype)  # type: ignore[no-any-return]


def scalars(program: Program) -> Program:
    """With Python numbers that meet floating-point arrays as 0-d arrays of their dtype, which ufuncs take faster.

    Not where the ufunc takes them in another: `ldexp` takes an integer, `jv` a real order, and some of SciPy's go on in float64.
    """
    kinds = program.kinds
    made: dict[Any, int] = {}

    def rule(i: Instruction, _made: Any) -> Instruction | None:
        if len(i.args) != 2 or not is_elementwise(i.primitive):
            return None
        for k, a in enumerate(i.args):
            other = kinds[i.args[1 - k]]
            if a >= 0 or other is None or other.form != ARRAY or not other.shape:
                continue
            x = program.constant(a)
            if type(x) in (int, float) and other.dtype.kind in "fc":
                dtype = other.dtype
                if not _takes_in(i.primitive.fun, dtype, type(x) is int, k):
                    continue
            elif isinstance(x, np.generic) and x.dtype.kind in "fc":
                dtype = x.dtype
            else:
                continue
            key = (type(x), repr(x), dtype)
            if key not in made:
                made[key] = program.const(np.array(x, dtype))
            return Instruction(i.primitive, i.out, (i.args[0], made[key]) if k else (made[key], i.args[1]), i.params)
        return None

    return rewritten(program, rule)


def _moderate(x: Any) -> bool:
    size = np.abs(x)
    return bool(np.all((size == 0) | (size > 2.0**-20) & (size < 2.0**20)))


_ROUNDED = frozenset(("sum", "matmul"))
_PASSED_ON = frozenset(("multiply", "negative", "transpose", "reshape"))


def regroup(program: Program) -> Program:
    """With the small factors of a product multiplied first, where only sums and matrix products read it: those are right to rounding.

    One of the two is a constant of moderate size: the product of any two might overflow where the other order does not.
    """
    kinds = program.kinds
    uses, exact = program.uses(), set(program.outputs)
    for i in reversed(program.instructions):
        if not (i.primitive.name in _ROUNDED or i.primitive.name in _PASSED_ON and i.out not in exact):
            exact.update(i.args)

    def together(a: int, b: int, whole: Kind) -> int | tuple[Instruction, ...]:
        """The product of two factors, the value of a constant or the instruction that makes it; () if it is not to be made."""
        x, y = kinds[a], kinds[b]
        if x is None or y is None or not max(x.size, y.size) < whole.size or whole.dtype.itemsize < 4:
            return ()
        if not all(k.dtype == whole.dtype or n < 0 and type(program.constant(n)) in (int, float) for n, k in ((a, x), (b, y))):
            return ()
        joint = Kind(np.broadcast_shapes(x.shape, y.shape), whole.dtype)
        if joint.size >= whole.size or not any(n < 0 and _moderate(program.constant(n)) for n in (a, b)):
            return ()
        if joint.shape:
            return (Instruction(MULTIPLY, program.value(joint), (a, b), ()),)
        return program.const(np.asarray(program.constant(a) * program.constant(b), whole.dtype)) if a < 0 and b < 0 else ()

    def origin(c: int, whole: Kind, made: dict[int, Instruction]) -> tuple[int, list[Instruction]]:
        """The small factor of which this one is made, and the steps that do so."""
        spread: list[Instruction] = []
        while (last := maker(made, c, "reshape", "broadcast_to")) is not None and kinds[last.out].size >= whole.size:
            spread.insert(0, last)
            c = last.args[0]
        return c, spread

    def rule(i: Instruction, made: dict[int, Instruction]) -> tuple[Instruction, ...] | None:
        if i.out in exact:
            return None
        for p, c in (i.args, i.args[::-1]):
            by, whole = maker(made, p, "multiply"), kinds[p]
            if by is None or p in exact or uses[p] != 1 or whole is None or whole != kinds[i.out]:
                continue
            c, spread = origin(c, whole, made)
            for large, small in (by.args, by.args[::-1]):
                fits = kinds[large] == whole and not (spread and (kinds[small] is None or kinds[small].shape))
                if fits and (both := together(small, c, whole)):
                    steps = [] if isinstance(both, int) else [*both]
                    factor = both if isinstance(both, int) else both[0].out
                    for step in spread:
                        steps.append(Instruction(step.primitive, program.value(kinds[step.out]), (factor,), step.params))
                        factor = steps[-1].out
                    return *steps, Instruction(MULTIPLY, i.out, (large, factor), ())
        return None

    return rewritten(program, rule, "multiply")


class Lifting:
    """NumPy, for functions of ours that are run on tracers to see what they do: `asarray` leaves what is an array."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def asarray(x: Any) -> Any:
        """As NumPy's."""
        return x if isinstance(x, Tracer) else np.asarray(x)


NUMPY = Lifting()
EXPANDED = COMPOSED.union(
    ("contraction", "logaddexp_weight", "coroot", "cosine", "length", "one_minus_square", "std", "var", "whole_power")
)


def expand(program: Program, names: frozenset[str] = EXPANDED, numpy: Any = NUMPY) -> Program:
    """With the operations that some primitives are made of in their place, so that other passes see them."""
    kinds = program.kinds
    known: dict[Any, Any] = {}  # what is inside, by primitive, parameters and kinds of arguments

    def inside(i: Instruction) -> tuple[list[Instruction], Program, list[Any], list[int]] | None:
        """The steps of an instruction in a program of their own, that program, its arguments, and which of them it does not hold."""
        fun = i.primitive.fun
        assert isinstance(fun, types.FunctionType)
        seen = {**fun.__globals__, "np": numpy}
        for name, helper in fun.__globals__.items():
            if isinstance(helper, types.FunctionType) and helper.__globals__ is fun.__globals__:
                seen[name] = types.FunctionType(helper.__code__, seen, name, helper.__defaults__, helper.__closure__)
        numpy_fun = types.FunctionType(fun.__code__, seen, fun.__name__, fun.__defaults__, fun.__closure__)
        values = [np.ones(k.shape, k.dtype) if a >= 0 else program.constant(a) for a in i.args if (k := kinds[a]) is not None]
        moving = [k for k, a in enumerate(i.args) if a >= 0 or i.primitive.name not in EXPANDED]

        def run(*xs: Any) -> list[Any]:
            return [numpy_fun(*replaced(values, moving, xs), *i.params)]

        try:
            inner = capture(run, [values[k] for k in moving], i.primitive.name).program
        except (errors.FunctraceError, TypeError):
            return None
        if inner is None or inner.outputs[0] < inner.ninputs:
            return None
        steps = [j for j in inner.instructions if j.primitive is not GUARD or j.params[0] is not order]  # ops do not depend on it
        return None if any(j.primitive in (GUARD, i.primitive) for j in steps) else (steps, inner, values, moving)

    def rule(i: Instruction, _made: Any) -> tuple[Instruction, ...] | None:
        if any(kinds[a] is None for a in i.args):
            return None
        key = (i.primitive, identity(i.params), *[kinds[a] if a >= 0 else a for a in i.args])
        if key not in known:
            known[key] = inside(i)
        if known[key] is None:
            return None
        steps, inner, values, moving = known[key]
        numbers: dict[int, int] = {k: i.args[m] for k, m in enumerate(moving)}
        for n, x in enumerate(inner.consts):
            numbers[-1 - n] = next((i.args[m] for m, v in enumerate(values) if v is x), 0) or program.const(x)
        for j in steps:
            numbers[j.out] = i.out if j.out == inner.outputs[0] else program.value(inner.kinds[j.out])
        return tuple(Instruction(j.primitive, numbers[j.out], tuple(numbers[a] for a in j.args), j.params) for j in steps)

    return rewritten(program, rule, *names)
