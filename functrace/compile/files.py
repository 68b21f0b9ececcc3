"""Programs in files: a zip archive of arrays, one of which is a JSON text.

Nothing in a file is code: operations are looked up by name among those that are declared. What a program can't be written with is
refused when it is saved.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from functrace import edge, errors
from functrace.compile.capture import PYTHON, read_word, reader
from functrace.compile.export import OPEN, ufunc_name
from functrace.compile.passes import dead
from functrace.compile.program import GUARD, Instruction, Kind, Program, program_of
from functrace.core.primitive import Aval, Primitive
from functrace.core.tape import ITEM, Tape
from functrace.ops.constants import NAMED
from functrace.ops.index import HOLE
from functrace.transforms.arguments import name_of
from functrace.transforms.calls import CALL, LATER
from functrace.transforms.control_body import Body
from functrace.transforms.control_branches import SwitchCall
from functrace.transforms.control_loops import ScanCall
from functrace.transforms.control_while import WhileCall

VERSION = 1
_LOOPS: dict[str, tuple[Any, str]] = {  # how a call is made again: of its function, and these
    "scan": (ScanCall, "body counts length reversed at_once"),
    "while": (WhileCall, "test body counts"),
    "switch": (SwitchCall, "programs counts what names"),
}
_KINDS = {made: kind for kind, (made, _) in _LOOPS.items()}
# Not what passes and exports make for themselves: one of that calls any function of NumPy's by name.
_DECLARING = tuple([f"functrace.{layer}" for layer in ("ops", "random", "scipy", "transforms")])


def _primitives() -> dict[str, Primitive]:
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
    return found | {"call": CALL}  # which has no name of its own, but in loops and branches


class _Archive:
    """What a file holds: arrays, and JSON that refers to them by number, and to operations by name."""

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays, self.known = arrays, _primitives()

    def row(self, primitive: Primitive, out: int, args: Sequence[int], params: Any) -> list[Any]:
        """An instruction as JSON."""
        if self.known.get(primitive.name) is not primitive or primitive is CALL and type(params[0]) not in _KINDS:
            found = params[0] if primitive is CALL else primitive.name
            raise errors.UnsupportedError(f"save: {found} is not a declared operation, so a file can't name it.\n  {OPEN} saved.")
        return [primitive.name, out, list(args), self.pack(params)]

    def read_row(self, name: str, out: int, args: Sequence[int], params: Any) -> tuple[Primitive, int, tuple[int, ...], Any]:
        """The instruction that `row` made JSON of."""
        if name not in self.known:
            raise errors.UnsupportedError(
                f"load: the file uses {name!r}, which is not a declared operation.\n"
                "  Import what declares it first: functrace.scipy.special, say, or functrace.random."
            )
        return self.known[name], out, tuple(args), self.unpack(params)

    def pack(self, x: Any) -> Any:
        """A parameter or constant as JSON; arrays go to `arrays`."""
        if x is None or type(x) in (bool, int, str):
            return x
        if type(x) in (tuple, list):
            return {type(x).__name__: [*map(self.pack, x)]}
        if type(x) is float:
            return {"float": x.hex()}
        if type(x) is complex:
            return {"complex": [x.real.hex(), x.imag.hex()]}
        if type(x) is slice:
            return {"slice": [*map(self.pack, (x.start, x.stop, x.step))]}
        if x is ... or x is HOLE or x is LATER:
            return {"the": "..." if x is ... else "hole" if x is HOLE else "later"}
        if isinstance(x, np.dtype) and x.kind in "fciub":
            return {"dtype": x.str}
        if ufunc_name(x):
            return {"ufunc": ufunc_name(x)}
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fciub":
            self.arrays.append(np.asarray(x))
            return {"scalar" if isinstance(x, np.generic) else "array": len(self.arrays) - 1}
        if type(x) in _KINDS:
            kind = _KINDS[type(x)]
            return {"loop": [kind, name_of(x.function), *(self.pack(getattr(x, a)) for a in _LOOPS[kind][1].split())]}
        if isinstance(x, Body):
            avals = {k: None if v is None else [list(v.shape), v.dtype.str] for k, v in x.avals.items()}
            rows, template = [self.row(*row) for row in x.code], [*map(self.pack, x.template)]
            for lock in x.locks:
                lock.check()
            return {"body": [x.what, x.inputs, x.outputs, avals, list(x.items.items()), rows, template]}
        word = read_word(x)
        if word is None:
            raise errors.UnsupportedError(f"save: a {type(x).__name__} ({x!r}) can't be saved: a file holds arrays and numbers, no code")
        return {"read": word}

    def unpack(self, x: Any) -> Any:
        """What `pack` made JSON of."""
        if not isinstance(x, dict):
            return x
        ((tag, inside),) = x.items()
        if tag in ("tuple", "list", "slice"):
            parts = [*map(self.unpack, inside)]
            return slice(*parts) if tag == "slice" else tuple(parts) if tag == "tuple" else parts
        makers: dict[str, Callable[[Any], Any]] = {
            "float": float.fromhex,
            "complex": lambda z: complex(*map(float.fromhex, z)),
            "the": {"...": ..., "hole": HOLE, "later": LATER}.__getitem__,
            "dtype": np.dtype,
            "ufunc": lambda z: next(f for n, f in vars(np).items() if n == z and isinstance(f, np.ufunc)),
            "array": lambda k: self.arrays[k],
            "scalar": lambda k: self.arrays[k][()],
            "read": reader,
            "loop": lambda z: _LOOPS[z[0]][0](SimpleNamespace(__name__=z[1]), *map(self.unpack, z[2:])),
            "body": lambda z: self.body(*z),
        }
        return makers[tag](inside)

    def body(self, what: str, inputs: Any, outputs: Any, avals: Any, items: Any, rows: Any, template: Any) -> Body:
        """A body of these parts."""
        made = object.__new__(Body)
        made.__dict__.update(what=what, inputs=inputs, outputs=outputs, items=dict(items), looked=False, locks=[], lifted=[])
        made.avals = {int(k): None if v is None else Aval(Kind(tuple(v[0]), np.dtype(v[1]))) for k, v in avals.items()}
        made.code = [self.read_row(*row) for row in rows]
        made.template = [*map(self.unpack, template)]
        return made

    def program(self, text: dict[str, Any]) -> Program:
        """The program of a file's text."""
        rows = [Instruction(*self.read_row(*row)) for row in text["instructions"]]
        kinds = {int(k): None if v is None else Kind(tuple(v[0]), np.dtype(v[1]), v[2]) for k, v in text["kinds"].items()}
        return Program(text["inputs"], rows, text["outputs"], [*map(self.unpack, text["constants"])], kinds, text["names"])


@edge.boundary
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
    archive = _Archive([])
    rows = [archive.row(i.primitive, i.out, i.args, i.params) for i in program.instructions]
    kinds = {str(k): None if v is None else [list(v.shape), v.dtype.str, v.form] for k, v in program.kinds.items()}
    text = {
        "functrace": VERSION,
        "inputs": program.ninputs,
        "names": list(program.names),
        "instructions": rows,
        "outputs": program.outputs,
        "constants": [*map(archive.pack, program.consts)],
        "kinds": kinds,
    }
    header = np.frombuffer(json.dumps(text).encode(), np.uint8)
    with nullcontext(file) if hasattr(file, "write") else open(file, "wb") as stream:  # np.savez itself appends .npz to a path
        np.savez_compressed(stream, program=header, **{f"a{k}": x for k, x in enumerate(archive.arrays)})


@edge.boundary
def load(file: Any) -> Program:
    """What `save` saved, as a function of the tape's inputs that returns the list of its outputs. No code in a file is run.

    `file` is a path, or an object with `read`. The function can be differentiated, batched and compiled as any other. Where the
    traced function looked at a value, it raises if it finds another.

    Raises:
        UnsupportedError: the file is of another version, broken, or names an operation that does not exist.
        CallError: `file` is neither, or the function is given another shape than was recorded, or a dtype that is of another kind.

    >>> import functrace as ft, numpy as np, io
    >>> file = io.BytesIO()
    >>> ft.save(file, ft.trace(ft.grad(np.sin))(0.0))
    >>> _ = file.seek(0)
    >>> ft.load(file)(0.0)
    [np.float64(1.0)]
    """
    if not isinstance(file, (str, os.PathLike)) and not hasattr(file, "read"):
        raise errors.CallError(f"load: the file must be a path, or an object with read, got {errors.describe(file)}.")
    archive: Any = None
    try:
        with np.load(file, allow_pickle=False) as archive:
            text = json.loads(archive["program"].tobytes().decode())
            arrays = [archive[f"a{k}"] for k in range(len(archive.files) - 1)]
        if text.get("functrace") == VERSION:
            return _Archive(arrays).program(text)
    except (OSError, errors.FunctraceError):
        raise
    except Exception as error:
        found = "it is no .npz file" if archive is None else error
        raise errors.UnsupportedError(f"load: the file was not written by functrace.save, or is broken ({found})") from error
    raise errors.UnsupportedError(f"load: the file has format {text.get('functrace')!r}, this version of functrace reads {VERSION}")
