"""Programs outside of functrace: as NumPy source that runs alone, and in files.

A file is a zip archive of arrays, one of which is a JSON text: nothing in it is code, and operations are looked up by name among
those that are declared. What a program can't be written with is refused when it is saved.
"""

from __future__ import annotations

import base64
import builtins
import json
import keyword
import linecache
import operator
import os
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from functrace import errors
from functrace.compile.capture import PYTHON, form
from functrace.compile.passes import dead, expand, is_elementwise
from functrace.compile.program import GUARD, NOTHING, NUMBER, SCALAR, Instruction, Kind, Program, kind_of
from functrace.core.primitive import Primitive
from functrace.core.tape import ITEM, Tape
from functrace.core.tracer import value
from functrace.ops.constants import NAMED
from functrace.ops.index import HOLE, is_basic
from functrace.transforms.naming import Lines, names_of

VERSION = 1
_READS: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "form": form,
    "array": np.array,
    "type": type,
    "str": str,
    "round": round,
}


_METHODS = ("item", "tolist")


def _word(read: Any) -> Any:
    """How a guard reads a value, by name; a method with its arguments as a list. None for what has no name."""
    if isinstance(read, operator.methodcaller):
        method = list(read.__reduce__()[1])
        return method if method[0] in _METHODS else None
    return next((w for w, f in _READS.items() if f is read), None)


def _reader(word: Any) -> Any:
    if isinstance(word, str):
        return _READS[word]
    if word[0] not in _METHODS or not all(type(k) is int for k in word[1:]):
        raise errors.UnsupportedError(f"load: the file reads a value by {word!r}, which is none of {', '.join([*_READS, *_METHODS])}")
    return operator.methodcaller(*word)


def program_of(tape: Tape) -> Program:
    """The program that a tape of `functrace.trace` recorded."""
    for lock in tape.locks:
        lock.check()
    consts: list[Any] = []
    kinds: dict[int, Kind | None] = {k: kind_of(x) for k, x in enumerate(tape.inputs)}

    def number(x: Any) -> int:
        consts.append(value(x))
        kinds[-len(consts)] = kind_of(consts[-1])
        return -len(consts)

    rows = []
    guards = list(enumerate(tape.guards))
    for index in range(len(tape.entries) + 1):
        while guards and guards[0][1][0] == index:
            k, (_, slot, read, found) = guards.pop(0)
            rows.append(Instruction(GUARD, NOTHING, (slot,), (read, found, k)))
        if index < len(tape.entries):
            primitive, out, slots, args, ans, params = tape.entries[index]
            kinds[out] = None if isinstance(ans, tuple) else kind_of(value(ans))
            refs = slots if primitive is ITEM else [s if s >= 0 else number(a) for s, a in zip(slots, args)]
            rows.append(Instruction(primitive, out, tuple(refs), params))
    outputs = [s if s >= 0 else number(x) for s, x in zip(tape.slots, tape.outputs)]
    return Program(len(tape.inputs), rows, outputs, consts, kinds, tape.names)


# What is not a ufunc, as NumPy source: {0} and {1} are arguments, {p}, {q} and {r} parameters, {rest} all of either.
_SOURCE = {
    "astype": "np.asarray({0}).astype({p})[()]",
    "astype_constant": "np.asarray({0}).astype({p})[()]",
    "getitem": "{0}[{p}]",
    "max": "np.max({0}, axis={p}, keepdims={q})",
    "min": "np.min({0}, axis={p}, keepdims={q})",
    "any": "np.any({0}, axis={p}, keepdims={q})",
    "all": "np.all({0}, axis={p}, keepdims={q})",
    "argmax": "np.argmax({0}, axis={p}, keepdims={q})",
    "argmin": "np.argmin({0}, axis={p}, keepdims={q})",
    "argsort": "np.argsort({0}, axis={p}, kind='stable')",
    "prod": "np.prod({0}, axis={p})",
    "cumsum": "np.cumsum({0}, axis={p})",
    "cumprod": "np.cumprod({0}, axis={p})",
    "concatenate": "np.concatenate([{rest}], axis={p})",
    "stack": "np.stack([{rest}], axis={p})",
    "complex": "np.stack(np.broadcast_arrays({0}, {1}), -1).view(np.result_type({0}, np.complex64))[..., 0][()]",
    "stop_gradient": "{0}",
    "strong": "np.asarray({0})[()]",
    "sinc": "np.sinc({0})",
    "i0": "np.i0({0})",
    "fft": "np.fft.fft({0}, {p}, {q}, {r})",
    "ifft": "np.fft.ifft({0}, {p}, {q}, {r})",
    "rfft": "np.fft.rfft({0}, {p}, {q}, {r})",
    "irfft": "np.fft.irfft({0}, {p}, {q}, {r})",
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
}
# NumPy's own functions, of the arguments and then the parameters.
_PLAIN = """add.reduceat allclose argpartition argwhere array_equal array_equiv broadcast_to convolve cross digitize flatnonzero imag
isclose iscomplex isneginf isposinf isreal lexsort linalg.cholesky linalg.det linalg.inv linalg.qr linalg.slogdet linalg.solve
linalg.svd matmul maximum.accumulate minimum.accumulate nonzero real repeat reshape roll round searchsorted transpose where""".split()
_SIGNS = "add+ sub- mul* truediv/ floordiv// mod% pow** lshift<< rshift>> and& or| xor^ eq== ne!= lt< le<= gt> ge>="
_PYTHON = {word.rstrip("+-*/%=!<>&|^"): word.lstrip("abcdefghijklmnopqrstuvwxyz") for word in _SIGNS.split()}
_OPEN = "Record loops with unroll=True, and branches with Python's if; a while_loop, and a rule of your own, can't be"


def literal(x: Any) -> str:
    """A constant or parameter as source."""
    if isinstance(x, np.ndarray):
        if x.size <= 64 and x.dtype.kind in "fiub" and (x.dtype.kind != "f" or np.isfinite(x).all()):
            return f"np.array({x.tolist()!r}, dtype={str(x.dtype)!r}){'' if x.size else f'.reshape({x.shape})'}"
        text = base64.b85encode(np.ascontiguousarray(x).tobytes()).decode()
        return f"np.frombuffer(base64.b85decode({text!r}), dtype={x.dtype.str!r}).reshape({x.shape})"
    if isinstance(x, np.generic):
        return f"{literal(np.array(x))}[()]" if isinstance(x.item(), np.generic) else f"np.{x.dtype.type.__name__}({literal(x.item())})"
    if isinstance(x, np.dtype):
        return f"np.dtype({x.str!r})"
    if type(x) is tuple:
        return f"({', '.join(map(literal, x))}{',' if len(x) == 1 else ''})"
    if type(x) is slice:
        return f"slice({literal(x.start)}, {literal(x.stop)}, {literal(x.step)})"
    if type(x) is complex:
        return f"complex({literal(x.real)}, {literal(x.imag)})"
    if type(x) in (int, bool, str, type(None), type(...), float):
        text = repr(x)
        return f"float({text!r})" if text in ("inf", "-inf", "nan") else text
    raise errors.UnsupportedError(f"to_python: a {type(x).__name__} can't be written as NumPy source")


def _statement(i: Instruction, out: str, args: list[str], program: Program) -> str:
    name, kind = i.primitive.name, program.kinds[i.out]
    if i.primitive is ITEM:
        return f"{out} = {args[0]}[{i.params[0]}]"
    if is_elementwise(i.primitive) and getattr(np, i.primitive.fun.__name__, None) is i.primitive.fun:
        return f"{out} = np.{i.primitive.fun.__name__}({', '.join(args)})"
    if name.startswith("operator."):
        word = {"neg": "-", "pos": "+", "invert": "~", "abs": "abs", "round": "round"}.get(name[9:])
        return f"{out} = {word}({', '.join(args)})" if word else f"{out} = {args[0]} {_PYTHON[name[9:]]} {args[1]}"
    if name == "call":
        raise errors.UnsupportedError(f"to_python: {i.params[0]} has no form in NumPy source.\n  {_OPEN} written.")
    params = list(map(literal, i.params)) if name not in ("gather", "scatter") else []
    if name in ("sum", "sum_columns"):
        x = program.kinds[i.args[0]]
        if (
            x is not None
            and len(x.shape) > 1
            and 1 < x.shape[-1] < 8
            and x.size >= 512
            and i.params[0] in (-1, (-1,))
            and x.dtype.char in "fd"
        ):
            total = " + ".join(f"{args[0]}[..., {k}]" for k in range(x.shape[-1]))
            return f"{out} = ({total}){'[..., None]' if i.params[1] else ''}"
        return f"{out} = np.add.reduce({args[0]}, axis={params[0]}, keepdims={params[1]})"
    if name == "index_set" and kind is not None:
        return f"{out} = np.array({args[0]}, dtype={literal(kind.dtype)}); {out}[{params[0]}] = {args[1]}"
    if name == "on_diagonal":
        x = program.kinds[i.args[0]]
        if x is not None and (x.shape[0] + abs(i.params[0]),) * 2 == i.params[1]:
            return f"{out} = np.diag({args[0]}, {params[0]})"
    if name == "placed":
        put = f"{out}[{params[0]}] = {args[0]}" if is_basic(i.params[0]) else f"np.add.at({out}, {params[0]}, {args[0]})"
        return f"{out} = np.zeros({params[1]}, {args[0]}.dtype); {put}"
    if name == "index_add":
        add = f"{out}[{params[0]}] += {args[1]}" if is_basic(i.params[0]) else f"np.add.at({out}, {params[0]}, {args[1]})"
        return f"{out} = np.array({args[0]}); {add}"
    if name == "gather":
        rest = iter(args[1:])
        return f"{out} = {args[0]}[{', '.join(next(rest) if p is HOLE else literal(p) for p in i.params[0])},]"
    if name in _PLAIN:
        return f"{out} = np.{name}({', '.join([*args, *params])})"
    source = None if name in ("sinc", "i0") and i.params[0] else _SOURCE.get(name)  # theirs is the order of the derivative
    if source is None:
        raise errors.UnsupportedError(
            f"to_python: {name} has no form in NumPy source.\n  Save the tape with functrace.save, or compute that part outside."
        )
    named = dict(zip("pqr", params), rest=", ".join(args))
    return f"{out} = {source.format(*args, **named)}"


def _takes_numbers(i: Instruction, program: Program, kind: Kind) -> bool:
    """Whether an instruction does with a Python number what it does with NumPy's of that kind."""
    return is_elementwise(i.primitive) and all((k := program.kinds[a]) and (k.form == NUMBER or k.dtype == kind.dtype) for a in i.args)


def _check(x: str, read: Any, found: Any) -> str:
    """What a guard asks of `x`."""
    word = _word(read)
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
    place = where.partition(", in ")[0]
    file, _, line = place.rpartition(":")
    text = linecache.getline(file, int(line)).strip() if line.isdigit() else ""
    short = where.removeprefix(os.path.dirname(file) + os.sep) if os.path.exists(file) else where
    return f"{short}: {text}" if text else short


def to_python(tape: Tape | Program, name: str = "f") -> str:
    """A tape as the source of a Python function of its inputs that needs NumPy only, and gives the same bits.

    Values have the names that your program gives them, and its lines stand above what they became. Where the traced function looked
    at a value (`if x > 0`) the source checks that it finds the same. Operations that NumPy's functions don't have
    (`UnsupportedError` names them) can't be written so.

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
    program = dead(expand(program_of(tape) if isinstance(tape, Tape) else tape))
    given = {k: n for k, n in enumerate(program.names) if k < program.ninputs}
    taken = {"np", "base64", name, *dir(builtins)}
    names = _identifiers(names_of(tape) if isinstance(tape, Tape) else given, taken)
    for k in range(program.ninputs):
        names.setdefault(k, next(n for n in (f"x{k}", f"x{k}_", f"input_{k}") if n not in taken))
    lines = [f"def {name}({', '.join(names[k] for k in range(program.ninputs))}):"]
    for k in range(program.ninputs):
        kind, readers = program.kinds[k], [i for i in program.instructions if k in i.args]
        if kind is not None and kind.form == SCALAR and not all(_takes_numbers(i, program, kind) for i in readers):
            lines.append(f"    {names[k]} = np.{kind.dtype.type.__name__}({names[k]})")
    where = {}
    if isinstance(tape, Tape) and isinstance(tape.frames, Lines):  # without the line that called for the tape
        where = {e[1]: tape.frames.text(row) for row, e in enumerate(tape.entries) if tape.frames.call[row] >= 0}
    before = ""

    def text(k: int) -> str:
        return names[k] if k >= 0 else literal(program.constant(k))

    for i in program.instructions:
        if i.primitive is GUARD:
            lines.append(f"    assert {_check(text(i.args[0]), *i.params[:2])}, 'recorded for another branch'")
            continue
        comment = _comment(where.get(i.out, ""))
        if comment and comment != before:
            lines.append(f"    # {comment}")
            before = comment
        if i.out not in names:
            names[i.out] = next(n for n in (f"v{i.out}", f"v{i.out}_", f"value_{i.out}") if n not in taken)
        lines.append("    " + _statement(i, names[i.out], list(map(text, i.args)), program))
    lines.append(f"    return {', '.join(map(text, program.outputs))}")
    body = "\n".join(lines)
    return ("import base64\n" if "base64." in body else "") + "import numpy as np\n\n\n" + body


# Files


_DECLARING = tuple([f"functrace.{layer}" for layer in ("ops", "scipy", "compile", "transforms")])


def _primitives() -> dict[str, Primitive]:
    """All declared primitives by name."""
    found: dict[str, Primitive] = {"item": ITEM, "guard": GUARD, **PYTHON, **NAMED}
    for module in [m for n, m in sys.modules.items() if n.startswith(_DECLARING)]:
        members = list(vars(module).values())
        for x in (*members, *(x for table in members if type(table) is dict for x in table.values())):
            p = x if isinstance(x, Primitive) else getattr(x, "primitive", None)
            if isinstance(p, Primitive):
                found.setdefault(p.name, p)
    from functrace.ops.registry import TABLE

    for declared in TABLE.values():
        if declared.primitive is not None:
            found[declared.primitive.name] = declared.primitive
    found.pop("call", None)  # which has no name of its own
    return found


def _pack(x: Any, arrays: list[Any]) -> Any:
    """A parameter or constant as JSON; arrays go to `arrays`."""
    if x is None or type(x) in (bool, int, str):
        return x
    if type(x) in (tuple, list):
        return {type(x).__name__: [_pack(q, arrays) for q in x]}
    if type(x) is float:
        return {"float": x.hex()}
    if type(x) is complex:
        return {"complex": [x.real.hex(), x.imag.hex()]}
    if type(x) is slice:
        return {"slice": [_pack(q, arrays) for q in (x.start, x.stop, x.step)]}
    if x is ... or x is HOLE:
        return {"the": "..." if x is ... else "hole"}
    if isinstance(x, np.dtype) and x.kind in "fciub":
        return {"dtype": x.str}
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fciub":
        arrays.append(np.asarray(x))
        return {"scalar" if isinstance(x, np.generic) else "array": len(arrays) - 1}
    word = _word(x)
    if word is None:
        raise errors.UnsupportedError(f"save: a {type(x).__name__} ({x!r}) can't be saved: a file holds arrays and numbers, no code")
    return {"read": word}


def _unpack(x: Any, arrays: list[Any]) -> Any:
    if not isinstance(x, dict):
        return x
    ((tag, inside),) = x.items()
    if tag in ("tuple", "list", "slice"):
        parts = [_unpack(q, arrays) for q in inside]
        return slice(*parts) if tag == "slice" else tuple(parts) if tag == "tuple" else parts
    makers: dict[str, Callable[[Any], Any]] = {
        "float": float.fromhex,
        "complex": lambda z: complex(*map(float.fromhex, z)),
        "the": lambda z: ... if z == "..." else HOLE,
        "dtype": np.dtype,
        "array": lambda k: arrays[k],
        "scalar": lambda k: arrays[k][()],
        "read": _reader,
    }
    return makers[tag](inside)


@errors.boundary
def save(file: Any, tape: Tape | Program) -> None:
    """Save a tape (of `functrace.trace`) to a file, or to an open binary file: its operations by name, its constants as arrays.

    Args:
        file: a path, or an object with `write`.
        tape: what `functrace.trace` returned, or a program of `Jitted.programs`.

    Raises:
        UnsupportedError: the tape holds something that is neither array, number nor text, or a rule of your own.

    >>> import functrace as ft, numpy as np, io
    >>> file = io.BytesIO()
    >>> ft.save(file, ft.trace(lambda x: np.sin(x) * 2)(1.0))
    >>> _ = file.seek(0)
    >>> ft.load(file)(0.5)
    [np.float64(0.958851077208406)]
    """
    if not isinstance(tape, (Tape, Program)):
        given = errors.describe(tape)
        raise errors.CallError(f"save: {given} stands where a tape is expected.\n  Write save(file, functrace.trace(f)(x)).")
    program = dead(program_of(tape) if isinstance(tape, Tape) else tape)
    arrays: list[Any] = []
    known = _primitives()
    rows = []
    for i in program.instructions:
        if known.get(i.primitive.name) is not i.primitive:
            found = i.params[0] if i.primitive.name == "call" else i.primitive.name
            raise errors.UnsupportedError(
                f"save: {found} is not a declared operation, so a file can't name it.\n  At {errors.user_line()}.\n  {_OPEN} saved."
            )
        rows.append([i.primitive.name, i.out, list(i.args), _pack(i.params, arrays)])
    kinds = {str(k): None if v is None else [list(v.shape), v.dtype.str, v.form] for k, v in program.kinds.items()}
    text = {
        "functrace": VERSION,
        "inputs": program.ninputs,
        "names": list(program.names),
        "instructions": rows,
        "outputs": program.outputs,
        "constants": [_pack(x, arrays) for x in program.consts],
        "kinds": kinds,
    }
    header = np.frombuffer(json.dumps(text).encode(), np.uint8)
    with nullcontext(file) if hasattr(file, "write") else open(file, "wb") as stream:  # np.savez itself appends .npz to a path
        np.savez_compressed(stream, program=header, **{f"a{k}": x for k, x in enumerate(arrays)})


@errors.boundary
def load(file: Any) -> Program:
    """What `save` saved, as a function of the tape's inputs that returns the list of its outputs. No code in a file is run.

    `file` is a path, or an object with `read`. The function can be differentiated, batched and compiled as any other. Where the
    traced function looked at a value, it raises if it finds another.

    Raises:
        UnsupportedError: the file is of another version, or names an operation that there is not.
        CallError: the function is given another shape than was recorded, or a dtype that is of another kind.

    >>> import functrace as ft, numpy as np, io
    >>> file = io.BytesIO()
    >>> ft.save(file, ft.trace(ft.grad(np.sin))(0.0))
    >>> _ = file.seek(0)
    >>> ft.load(file)(0.0)
    [np.float64(1.0)]
    """
    with np.load(file, allow_pickle=False) as archive:
        text = json.loads(archive["program"].tobytes().decode())
        arrays = [archive[f"a{k}"] for k in range(len(archive.files) - 1)]
    if text.get("functrace") != VERSION:
        raise errors.UnsupportedError(f"load: the file has format {text.get('functrace')!r}, this version of functrace reads {VERSION}")
    known = _primitives()
    rows = []
    for name, out, args, params in text["instructions"]:
        if name not in known:
            raise errors.UnsupportedError(f"load: the file uses {name!r}, which is not a declared operation")
        rows.append(Instruction(known[name], out, tuple(args), _unpack(params, arrays)))
    kinds = {int(k): None if v is None else Kind(tuple(v[0]), np.dtype(v[1]), v[2]) for k, v in text["kinds"].items()}
    consts = [_unpack(x, arrays) for x in text["constants"]]
    return Program(text["inputs"], rows, text["outputs"], consts, kinds, text["names"])
