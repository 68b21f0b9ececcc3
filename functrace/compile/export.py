"""Programs outside of functrace: as NumPy source that runs alone. A loop is one of Python's, a branch an `if`."""

from __future__ import annotations

import base64
import builtins
import keyword
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functrace import errors
from functrace.compile.bodies import body_program
from functrace.compile.capture import read_word
from functrace.compile.passes import EXPANDED, Lifting, dead, expand, is_elementwise
from functrace.compile.program import GUARD, NUMBER, SCALAR, Instruction, Kind, Program, program_of
from functrace.core.primitive import Primitive
from functrace.core.tape import Tape
from functrace.ops.index import HOLE
from functrace.ops.positions import is_basic
from functrace.places import text_of
from functrace.transforms.calls import CALL
from functrace.transforms.control_body import Body
from functrace.transforms.control_branches import SwitchCall
from functrace.transforms.control_loops import ScanCall
from functrace.transforms.control_while import WhileCall
from functrace.transforms.naming import CHECK, Lines, names_of

# Operations as NumPy source: {0} and {1} are arguments, {args} all of them, {p}, {q} and {r} parameters, {every} arguments and parameters;
# {out}, {shape} and {dtype} are the result's, {name} is the operation's.
_ALIKE = {
    "np.{name}({every})": "add.reduceat allclose argpartition argwhere array_equal array_equiv broadcast_to convolve cross digitize "
    "flatnonzero hypot.accumulate imag isclose iscomplex isneginf isposinf isreal lexsort linalg.det linalg.eig linalg.eigvalsh linalg.inv "
    "linalg.pinv linalg.qr linalg.slogdet linalg.solve logaddexp.accumulate logaddexp2.accumulate matmul maximum.accumulate "
    "minimum.accumulate nonzero real repeat reshape roll round searchsorted transpose tril triu where",
    "np.{name}({0}, axis={p}, keepdims={q})": "max min any all argmax argmin",
    "np.{name}({0}, axis={p})": "prod cumsum cumprod",
    "np.{name}({0})": "sinc i0",
    "np.fft.{name}({every})": "fft ifft rfft irfft",
}
_BINARY = "add sub mul truediv floordiv mod pow lshift rshift and or xor eq ne lt le gt ge", "+ - * / // % ** << >> & | ^ == != < <= > >="
_UNARY = "neg pos invert abs round real imag", "- + ~ abs round np.real np.imag"
_SOURCE = {name: form.replace("{name}", name) for form, names in _ALIKE.items() for name in names.split()}
_SOURCE |= {f"operator.{name}": f"{{0}} {sign} {{1}}" for name, sign in zip(*map(str.split, _BINARY))}
_SOURCE |= {f"operator.{name}": f"{sign}({{args}})" for name, sign in zip(*map(str.split, _UNARY))}
_SOURCE |= {
    "item": "{0}[{p}]",
    "operator.conjugate": "{0}.conjugate()",
    "gather": "{0}[{p}]",
    "scatter": "np.zeros({q}, {0}.dtype); np.add.at({out}, {p}, {0})",
    "placed": "np.zeros({q}, {0}.dtype); {out}[{p}] = {0}",
    "placed at": "np.zeros({q}, {0}.dtype); np.add.at({out}, {p}, {0})",
    "index_set": "np.array({0}, dtype={dtype}); {out}[{p}] = {1}",
    "index_add": "np.array({0}); {out}[{p}] += {1}",
    "index_add at": "np.array({0}); np.add.at({out}, {p}, {1})",
    "add_along": "np.zeros({shape}, {0}.dtype); "
    "np.add.at({out}, (*np.indices({0}.shape)[:{p}], {1}, *np.indices({0}.shape)[{p} + 1:]), {0})",
    "diagonal matrix": "np.diag({0}, {p})",
    "astype": "np.asarray({0}).astype({p})[()]",
    "astype_constant": "np.asarray({0}).astype({p})[()]",
    "getitem": "{0}[{p}]",
    "argsort": "np.argsort({0}, axis={p}, kind='stable')",
    "sum": "np.add.reduce({0}, axis={p}, keepdims={q})",
    "concatenate": "np.concatenate([{args}], axis={p})",
    "stack": "np.stack([{args}], axis={p})",
    "complex": "np.stack(np.broadcast_arrays({0}, {1}), -1).view(np.result_type({0}, np.complex64))[..., 0][()]",
    "mirror": "{0}",
    "stop_gradient": "{0}",
    "strong": "np.asarray({0})[()]",
    "linalg.cholesky": "np.linalg.cholesky({0}, upper={p})",
    "linalg.eigh": "np.linalg.eigh({0}, {p})",
    "linalg.lower_inv": "np.linalg.inv({0})",
    "linalg.matrix_rank": "np.linalg.matrix_rank({0}, {p}, {q}, rtol={r})",
    "linalg.svd": "np.linalg.svd({0}, {p})",
    "linalg.svdvals": "np.linalg.svd({0}, compute_uv=False)",
    "logaddexp.reduce": "np.logaddexp.reduce({0}, axis=-1, keepdims=True)",
    "logaddexp2.reduce": "np.logaddexp2.reduce({0}, axis=-1, keepdims=True)",
    "extended": "np.take({0}, {p}, {r})",
    "modf": "np.modf({0})[0]",
    "frexp_exponent": "np.frexp({0})[1]",
    "var": "np.var({0}, axis={p}, ddof={q}, keepdims={r})",
    "std": "np.std({0}, axis={p}, ddof={q}, keepdims={r})",
    "convolve_within": "np.convolve({0}, {1}, 'valid')",
    "take_along": "np.take_along_axis({0}, {1}, {p})",
    "diagonal": "np.diagonal({0}, {p}, -2, -1)",
    "diagonals": "np.einsum({0}, [*{p}], [*dict.fromkeys({p})])",
    "fix": "np.trunc({0})",
    "are_regular": "(np.linalg.cond({0}, 'fro') < np.finfo({0}.dtype).eps ** -0.5) & (abs(np.linalg.det({0})) >= np.finfo({0}.dtype).tiny)"
    " & (abs(np.linalg.det({0})) < np.inf)",
    "are_singular": "np.isinf(np.linalg.cond({0}, 1))",
    "isin": "np.isin({0}, {1}, {p}, {q}, kind={r})",
    "nanargmax": "np.nanargmax({0}, {p}, keepdims={q})",
    "nanargmin": "np.nanargmin({0}, {p}, keepdims={q})",
    "histogram": "np.histogram({0}, {1})[0]",
    "ravel_multi_index": "np.ravel_multi_index(({args},), {p}, mode={q}, order={r})",
    "unravel_index": "np.unravel_index({0}, {p}, order={q})",
    "weighted_quantile": "np.argmax({0}[None] == np.{r}({0}, {p}, axis=0, weights={1}, method={q})[:, None], axis=1)",
    "between": "(lambda x, y, z, t: (lambda r: np.where(np.isnan(z), z, r) if z.size else r)(np.where(t == 0, x, x / 2 + y / 2) if {p} "
    "else np.where(np.isfinite(y - x), x + (y - x) * t, np.where((t == 0) | (x == y), x, x + (y * t - x * t)))))"
    "(*np.split({0}, [np.shape({1})[-1], 2 * np.shape({1})[-1]], -1), {1})",
    "unique": "np.unique({0}, True, True, True, {p}, equal_nan={q})[1:]",
    "intersect1d": "np.intersect1d({0}, {1}, {p}, return_indices=True)[1:]",
    "last": "np.isin(np.arange(np.size({0})), np.unique(np.ravel({0})[::-1], True)[1])[::-1].reshape(np.shape({0}))",
    "shares": "(lambda x, y, t, n: np.where(t, (y > 0) / np.maximum(n, 1), {q}(np.where(t, 0, x) - np.where(n > 0, np.inf, y)))"
    ".astype(x.dtype))({0}, {1}, ({0} == {1}) & np.isinf({0}), np.sum(({0} == {1}) & np.isinf({0}), axis={p}, keepdims=True))",
}


def _called(name: str) -> Any:
    """A NumPy function as an op of its own, for primitives that are expanded: functrace's op would be that very primitive."""

    def call(*args: Any) -> Any:
        form = tuple([HOLE if hasattr(a, "dtype") else a for a in args])
        return _NUMPY(*(a for a in args if hasattr(a, "dtype")), params=(name, form))

    return staticmethod(call)


def _call(*args: Any) -> Any:
    *arrays, name, form = args
    rest = iter(arrays)
    return getattr(np, name)(*(next(rest) if p is HOLE else p for p in form))


_NUMPY: Any = Primitive("numpy", _call, arity=None, constant=True, batch=lambda *_: None).op


class _Lifting(Lifting):
    """The `np` that expanded primitives see: see `_called`."""

    einsum, dot = _called("einsum"), _called("dot")


_PARTS = EXPANDED.union(("are_hermitian", "recurrence"))  # what is written as the operations that it does
OPEN = "A rule of your own, a checkpoint, and a function of another library can't be"


def ufunc_name(x: Any) -> str | None:
    """The name of a ufunc of NumPy's."""
    return next((n for n, f in vars(np).items() if f is x), None) if isinstance(x, np.ufunc) else None


def literal(x: Any, holes: Iterator[str] | None = None) -> str:
    """A constant or parameter as source; `holes` are what stands in those of an index."""
    if x is HOLE and holes is not None:
        return next(holes)
    if isinstance(x, np.ndarray):
        order = np.argsort([-abs(n) for n in x.strides], kind="stable").tolist()
        if order != sorted(order):  # of which BLAS makes other bits
            return f"{literal(x.transpose(order))}.transpose({np.argsort(order).tolist()})"
        if x.size <= 64 and x.dtype.kind in "fiub" and (x.dtype.kind != "f" or np.isfinite(x).all()):
            return f"np.array({x.tolist()!r}, dtype={str(x.dtype)!r}){'' if x.size else f'.reshape({x.shape})'}"
        text = base64.b85encode(np.ascontiguousarray(x).tobytes()).decode()
        return f"np.frombuffer(base64.b85decode({text!r}), dtype={x.dtype.str!r}).reshape({x.shape})"
    if isinstance(x, np.generic):
        return f"{literal(np.array(x))}[()]" if isinstance(x.item(), np.generic) else f"np.{x.dtype.type.__name__}({literal(x.item())})"
    if isinstance(x, np.dtype):
        return f"np.dtype({x.str!r})"
    if ufunc_name(x):
        return f"np.{ufunc_name(x)}"
    if type(x) is tuple:
        return _tuple([literal(y, holes) for y in x])
    if type(x) is slice:
        return f"slice({literal(x.start)}, {literal(x.stop)}, {literal(x.step)})"
    if type(x) is complex:
        return f"complex({literal(x.real)}, {literal(x.imag)})"
    if type(x) in (int, bool, str, type(None), type(...), float):
        text = repr(x)
        return f"float({text!r})" if text in ("inf", "-inf", "nan") else text
    raise errors.UnsupportedError(f"to_python: a {type(x).__name__} can't be written as NumPy source")


def _form(i: Instruction, program: Program) -> str | None:
    """How an operation is written, to be filled in as in `_ALIKE`; None if it can't be."""
    name, fun, params = i.primitive.name, i.primitive.fun, i.params
    if is_elementwise(i.primitive) and getattr(np, fun.__name__, None) is fun:
        return f"np.{fun.__name__}({{args}})"
    if name == "numpy":
        return f"np.{params[0]}{{q}}"
    if name in ("sinc", "i0") and params[0]:  # the order of the derivative
        return None
    if name in ("placed", "index_add") and not is_basic(params[0]):
        name += " at"
    if name == "on_diagonal" and (x := program.kinds[i.args[0]]) is not None and (x.size + abs(params[0]),) * 2 == params[1]:
        name = "diagonal matrix"
    return _SOURCE.get(name)


def _statement(i: Instruction, out: str, args: list[str], program: Program) -> str:
    """The line of an instruction."""
    name, kind, form = i.primitive.name, program.kinds[i.out], _form(i, program)
    if name == "call":
        raise errors.UnsupportedError(f"to_python: {i.params[0]} has no form in NumPy source.\n  {OPEN} written.")
    holes = iter(args if name == "numpy" else args[1:])
    try:
        params = [literal(p, holes) for p in i.params]
    except errors.UnsupportedError:  # it has functions of its own
        form = None
    if form is None:
        raise errors.UnsupportedError(
            f"to_python: {name} has no form in NumPy source.\n  Save the tape with functrace.save, or compute that part outside."
        )
    if name.startswith("operator.") and args[0][0] == "-":  # it may be the base of a power
        args = [f"({args[0]})", *args[1:]]
    named = dict(zip("pqr", params), out=out, args=", ".join(args), every=", ".join([*args, *params]))
    if kind is not None:
        named |= {"shape": repr(kind.shape), "dtype": literal(kind.dtype)}
    return f"{out} = {form.format(*args, **named)}"


def _takes_numbers(i: Instruction, program: Program, kind: Kind) -> bool:
    """Whether an instruction does with a Python number what it does with NumPy's of that kind."""
    return is_elementwise(i.primitive) and all((k := program.kinds[a]) and (k.form == NUMBER or k.dtype == kind.dtype) for a in i.args)


def _check(x: str, read: Any, found: Any) -> str:
    word = read_word(read)
    if isinstance(word, list):
        return f"repr({x}.{word[0]}({', '.join(map(literal, word[1:]))})) == {repr(found)!r}"
    if word == "type":
        return f"type({x}) is {found.__name__}"
    if word == "form":
        return f"np.shape({x}) == {found[0]!r}"
    if word == "array":
        return f"np.array_equal({x}, {literal(found)}{', equal_nan=True' if found.dtype.kind in 'fc' else ''})"
    if isinstance(found, (float, complex)) and (found != found or not found):
        return f"repr({word}({x})) == {repr(found)!r}"
    return f"{'int' if word == 'index' else word}({x}) == {literal(found)}"


def _identifiers(names: dict[int, str], taken: set[str]) -> dict[int, str]:
    """The names that Python can use, made of the user's: `params['w']` becomes `params_w`. What has none, or `%3`, is left out."""
    out: dict[int, str] = {}
    for k, name in names.items():
        plain = re.sub(r"\W+", "_", name).strip("_")
        if name.startswith("%") or not plain.isidentifier():
            continue
        while keyword.iskeyword(plain) or plain in taken:
            plain += "_"
        taken.add(plain)
        out[k] = plain
    return out


def _comment(where: str) -> str:
    """The user's line, `path/file.py:12, in f`, without its folder and with its text where it can be read."""
    file, text = where.rpartition(":")[0], text_of(where)
    short = where.removeprefix(os.path.dirname(file) + os.sep) if os.path.exists(file) else where
    return f"{short}: {text}" if text else short


class _Writer:
    def __init__(self, taken: set[str]) -> None:
        self.lines: list[str] = []
        self.taken = taken
        self.depth = 1
        self.where: dict[int, str] = {}  # of each value of the function, not of those in loops, the user's line
        self.before = ""

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str, k: int = 0) -> str:
        while f"{prefix}{k}" in self.taken:
            k += 1
        self.taken.add(f"{prefix}{k}")
        return f"{prefix}{k}"

    def assign(self, names: Sequence[str], values: Sequence[str]) -> None:
        if names:
            self.line(f"{', '.join(names)} = {', '.join(values)}")

    def let(self, text: str) -> str:
        if not text.isidentifier():
            self.assign([name := self.fresh("c")], [text])
            return name
        return text

    def block(self, program: Program, names: dict[int, str]) -> list[str]:
        """The lines of a program of named inputs, and what its outputs are called."""
        text: Callable[[int], str] = lambda k: names[k] if k in names else literal(program.constant(k))
        for i in program.instructions:
            if i.primitive is GUARD:
                reason = (
                    "the derivative is not finite here"
                    if self.depth == 1 and self.where.get(i.args[0]) == CHECK
                    else "recorded for another branch"
                )
                self.line(f"assert {_check(text(i.args[0]), *i.params[:2])}, {reason!r}")
                continue
            comment = _comment(self.where.get(i.out, "")) if self.depth == 1 else ""
            if comment and comment != self.before:
                self.line(f"# {comment}")
                self.before = comment
            if i.out not in names:
                names[i.out] = self.fresh("v", i.out)
            if i.primitive is CALL and type(i.params[0]) in _CALLS:
                kinds = [program.kinds[k] for k in i.args]
                args = [f"np.{k.dtype.type.__name__}({text(a)})" if k and k.form == NUMBER else text(a) for k, a in zip(kinds, i.args)]
                _CALLS[type(i.params[0])](self, i.params[0], names[i.out], [*map(self.let, args)])
            else:
                self.line(_statement(i, names[i.out], list(map(text, i.args)), program))
        return [text(k) for k in program.outputs]

    def opened(self, body: Body, inputs: Sequence[str]) -> tuple[Program, dict[int, str]]:
        """The program of a part of a loop, its inputs and its arrays by name."""
        for lock in body.locks:
            lock.check()
        program = dead(expand(body_program(body), _PARTS, _Lifting()))
        used = {*program.outputs, *(a for i in program.instructions for a in i.args)}
        arrays = {k: self.let(literal(x)) for k in used if k < 0 and isinstance(x := program.constant(k), np.ndarray)}
        return program, dict(enumerate(inputs)) | arrays

    def scan(self, call: ScanCall, out: str, args: list[str]) -> None:
        """A `for` loop, which collects the steps' results in lists."""
        constants, carry, xs = call.split(args)
        state, rows = [self.fresh("s") for _ in carry], [self.fresh("x") for _ in xs]
        lists = [self.fresh("y") for _ in call.body.outputs[len(carry) :]]
        step = self.opened(call.body, [*constants, *state, *rows])
        self.assign([*state, *lists], [*carry, *("[]" for _ in lists)])
        way = "[::-1]" if call.reversed else ""
        each = f"zip({', '.join(x + way for x in xs)})" if len(xs) > 1 else xs[0] + way if xs else f"range({call.length})"
        self.line(f"for {', '.join(rows) or '_'} in {each}:")
        self.depth += 1
        results = self.block(*step)
        for name, y in zip(lists, results[len(state) :]):
            self.line(f"{name}.append({y})")
        self.assign(state, results[: len(state)])
        self.depth -= 1
        self.assign([out], [_tuple([*state, *(f"np.stack({name}{way})" for name in lists)])])

    def repeat(self, call: WhileCall, out: str, args: list[str]) -> None:
        a, b, start = call.split(args)
        state = [self.fresh("s") for _ in start]
        test, step = self.opened(call.test, [*a, *state]), self.opened(call.body, [*b, *state])
        self.assign(state, start)
        self.line("while True:")
        self.depth += 1
        self.line(f"if not {self.block(*test)[0]}: break")
        self.assign(state, self.block(*step))
        self.depth -= 1
        self.assign([out], [_tuple(state)])

    def choose(self, call: SwitchCall, out: str, args: list[str]) -> None:
        branches = [self.opened(body, call.of(k, args)) for k, body in enumerate(call.programs)]
        self.assign([index := self.fresh("k")], [f"min(max(int({args[0]}), 0), {len(branches) - 1})"])
        for k, branch in enumerate(branches):
            self.line(f"{'el' if k else ''}if {index} == {k}:")
            self.depth += 1
            self.assign([out], [_tuple(self.block(*branch))])
            self.depth -= 1


_CALLS: dict[type, Callable[..., None]] = {ScanCall: _Writer.scan, WhileCall: _Writer.repeat, SwitchCall: _Writer.choose}


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def to_python(tape: Tape | Program, name: str = "f") -> str:
    """A tape as the source of a Python function of its inputs that needs NumPy only, and gives the same bits.

    Values have the names that your program gives them, and its lines stand above what they became. Loops and branches are Python's.
    Where the traced function looked at a value (`if x > 0`) the source checks that it finds the same. Operations that NumPy's functions
    don't have (`UnsupportedError` names them) can't be written so.

    Args:
        tape: what `functrace.trace` returned, or a program of `Jitted.programs`.
        name: what the function is to be called.

    Raises:
        UnsupportedError: an operation or a constant that can't be written.

    >>> import functrace as ft, numpy as np
    >>> def g(x):
    ...     y = np.sin(x)
    ...     return y * x + 2
    >>> print(ft.trace(g)(1.0).to_python())  # doctest: +ELLIPSIS
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def f(x):
        # ...:2, in g: y = np.sin(x)
        y = np.sin(x)
        # ...:3, in g: return y * x + 2
        v2 = np.multiply(y, x)
        v3 = np.add(v2, 2)
        return v3
    """
    program = dead(expand(program_of(tape) if isinstance(tape, Tape) else tape, _PARTS, _Lifting()))
    given = {k: n for k, n in enumerate(program.names) if k < program.ninputs}
    writer = _Writer({"np", "base64", name, *dir(builtins)})
    names = _identifiers(names_of(tape) if isinstance(tape, Tape) else given, writer.taken)
    for k in range(program.ninputs):
        if k not in names:
            names[k] = writer.fresh("x", k)
    for k in range(program.ninputs):
        kind, readers = program.kinds[k], [i for i in program.instructions if k in i.args]
        if kind is not None and kind.form == SCALAR and not all(_takes_numbers(i, program, kind) for i in readers):
            writer.line(f"{names[k]} = np.{kind.dtype.type.__name__}({names[k]})")
    if isinstance(tape, Tape) and isinstance(tape.frames, Lines):  # without the line that called for the tape
        writer.where = {e[1]: tape.frames.text(row) for row, e in enumerate(tape.entries) if tape.frames.call[row] >= 0}
    writer.line(f"return {', '.join(writer.block(program, names))}")
    body = "\n".join([f"def {name}({', '.join(names[k] for k in range(program.ninputs))}):", *writer.lines])
    return ("import base64\n" if "base64." in body else "") + "import numpy as np\n\n\n" + body
