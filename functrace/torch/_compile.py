"""`torch.compile`: a pure function of tensors runs as a program of `functrace.jit`; all else runs as it is.

Pure is what can be seen to be so before it runs: the code, and that of the functions it calls, reads only its arguments, constants,
and names of the shim, and writes nothing but its own variables. When it is recorded, that it wrote to an argument or drew
a random number is noticed, and the program is thrown away. Where gradients are wanted it runs as it is.
"""

from __future__ import annotations

import dis
import functools
import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from functrace import jit
from functrace.torch import _dtypes, _modes
from functrace.torch._contact import replaced, tree
from functrace.torch._device import Absent
from functrace.torch._missing import answer
from functrace.torch._modes import forward_levels, recording
from functrace.torch._random import default_generator
from functrace.torch._tensor import Tensor, wrap

_BUILTINS = frozenset(
    (abs, all, any, bool, dict, divmod, enumerate, isinstance, len, list, map, max, min, range, reversed, round, set, sorted, str, sum)
    + (tuple, zip, float, int, complex, slice, pow)
)  # fmt: skip
_CONSTANTS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), _dtypes.dtype, _dtypes.Size)
_WRITES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "STORE_DEREF", "IMPORT_NAME", "YIELD_VALUE"))
_UNSEEN = frozenset(
    "backward requires_grad retain_grad register_hook data item tolist numpy stride manual_seed seed initial_seed get_rng_state rand randn "
    "randint randperm rand_like randn_like randint_like normal bernoulli multinomial dropout save load set_default_dtype is_grad_enabled "
    "_a".split()
)
_PROGRAMS = 64  # of other constants each; from then on a function with another runs as it is


class _Impure(Exception):
    """What a function did while it was recorded can't be repeated by a program."""


def _pure(function: Any, seen: set[int]) -> bool:
    """Whether a value that a function reads can't change, or do, what a program would miss."""
    if id(function) in seen:
        return True
    seen.add(id(function))
    if isinstance(function, _CONSTANTS):
        return True
    if isinstance(function, ModuleType):
        return function is math or function.__name__.startswith("functrace.torch")
    if isinstance(function, Tensor):
        return type(function) is Tensor and not function._rg
    if isinstance(function, (tuple, frozenset)):
        return all(_pure(x, seen) for x in function)
    if isinstance(function, functools.partial):
        return all(_pure(x, seen) for x in (function.func, *function.args, *function.keywords.values()))
    if not isinstance(function, FunctionType):
        return any(function is f for f in _BUILTINS) or function in (math.sqrt, math.sin, math.cos, math.exp, math.log)
    cells = [c.cell_contents for c in function.__closure__ or () if _filled(c)]
    if (function.__module__ or "").startswith(("functrace.torch", "functrace.ops")):
        own = getattr(function, "__wrapped__", None)
        inner = [own, *(c for c in cells if isinstance(c, FunctionType))]
        return function.__name__ not in _UNSEEN and all(_pure(f, seen) for f in inner)
    if not _quiet(function.__code__):
        return False
    found = [_global(function, name) for name in set(_read(function.__code__))]
    return all(_pure(x, seen) for x in (*found, *cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _global(function: FunctionType, name: str) -> Any:
    builtins = function.__globals__["__builtins__"]
    return ChainMap(function.__globals__, builtins if isinstance(builtins, dict) else vars(builtins)).get(name, _Impure)


def _codes(code: CodeType) -> Iterable[CodeType]:
    todo = [code]
    while todo:
        code = todo.pop()
        yield code
        todo.extend(c for c in code.co_consts if isinstance(c, CodeType))


def _read(code: CodeType) -> Iterable[str]:
    return (i.argval for c in _codes(code) for i in dis.get_instructions(c) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


def _quiet(code: CodeType) -> bool:
    """Whether the code writes nothing that outlives it, and names nothing that draws, reads or changes other state."""
    for c in _codes(code):
        for i in dis.get_instructions(c):
            if i.opname in _WRITES and not (i.opname == "STORE_DEREF" and i.argval in c.co_cellvars):
                return False
            named = i.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL")
            if named and (i.argval in _UNSEEN or (i.argval.endswith("_") and not i.argval.startswith("_"))):
                return False
    return True


class Compiled:
    """A function that `torch.compile` returned."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._orig_mod = self._torchdynamo_orig_callable = function
        self.programs: dict[Any, Any] = {}  # a jitted function of arrays by what else there is in the arguments; None: runs as it is

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self._orig_mod
        leaves: Sequence[Any] = args
        places: Sequence[int] = range(len(args))
        inside: Any = None
        if kwargs or not all(map(_plain, args)):  # not only tensors, as most calls have
            leaves, inside = tree.flatten((args, kwargs))
            places = [k for k, x in enumerate(leaves) if isinstance(x, Tensor)]
            if not all(_plain(x) if isinstance(x, Tensor) else isinstance(x, _CONSTANTS) for x in leaves):  # an object may change
                return function(*args, **kwargs)
        if not places or _modes.depth or forward_levels.get():
            return function(*args, **kwargs)
        try:
            rest = tuple(_named(x) for x in leaves if not isinstance(x, Tensor)) if inside else ()
            key = inside, rest, tuple(places), _dtypes.get_default_dtype(), bool(recording())
            program = self.programs.get(key, self)
        except TypeError:
            return function(*args, **kwargs)
        if program is self:
            if len(self.programs) >= _PROGRAMS:
                return function(*args, **kwargs)
            treedef = inside or tree.flatten((args, kwargs))[1]
            constants = replaced(leaves, places, [None] * len(places))  # the tensors of this call are none of its own
            program = jit(_of_arrays(function, constants, places, treedef)) if isinstance(function, FunctionType) else None
            self.programs[key] = program
        if program is None:
            return function(*args, **kwargs)
        try:
            found = program(*(leaves[k]._a for k in places))
        except Exception:
            self.programs[key] = None  # the function itself says what is wrong, if anything is
            return function(*args, **kwargs)
        if isinstance(found, np.ndarray):
            return wrap(np.asarray(found))
        return tree.map(lambda x: wrap(np.asarray(x)) if isinstance(x, (np.ndarray, np.generic)) else x, found)


def _named(x: Any) -> Any:
    """A constant as a part of a key: a NaN is like another, and zeros differ by their signs."""
    return type(x), repr(x) if isinstance(x, (float, complex)) else x


def _plain(t: Any) -> bool:
    return type(t) is Tensor and not t._rg and type(t._a) is np.ndarray


def _of_arrays(function: Callable[..., Any], leaves: Sequence[Any], places: Sequence[int], treedef: Any) -> Callable[..., Any]:
    """A function of tensors and constants as one of arrays. Raises `_Impure` where it did more than compute."""

    def of_arrays(*arrays: Any) -> Any:
        if not _pure(function, set()):
            raise _Impure
        tensors = [wrap(a) for a in arrays]
        full = replaced(leaves, places, tensors)
        args, kwargs = tree.unflatten(treedef, full)
        before = default_generator.get_state()
        out = function(*args, **kwargs)
        after, now = tree.flatten((args, kwargs))
        same = len(after) == len(full) and now == treedef and all(x is y for x, y in zip(after, full))
        if not np.array_equal(before, default_generator.get_state()):
            default_generator.set_state(before)
            raise _Impure
        outs = tree.leaves(out)
        shared = {id(t) for t in (*tensors, *outs)}
        if not same or any(t._ver[0] for t in tensors) or any(x._ver is t._ver for x in outs if isinstance(x, Tensor) for t in tensors):
            raise _Impure
        if any(isinstance(x, Tensor) and id(x._base) in shared for x in outs):
            raise _Impure
        return tree.map(_array, out)

    of_arrays.__name__ = function.__name__  # for warnings
    return of_arrays


def _array(x: Any) -> Any:
    if isinstance(x, Tensor):
        if type(x) is not Tensor or x._rg:
            raise _Impure
        return x._a
    if not isinstance(x, (int, float, bool, str)):
        raise _Impure
    return x


def compile(model: Any = None, **options: Any) -> Any:
    """A function that computes the same; one of tensors that is pure runs as a program after its first call. Modules run as they are.

    >>> import functrace.torch as torch
    >>> @torch.compile
    ... def f(x):
    ...     return torch.sin(x) * 2
    >>> f(torch.zeros(2))
    tensor([0., 0.])
    """
    for option in options:
        if option not in ("fullgraph", "dynamic", "backend", "mode", "options", "disable", "name"):
            raise TypeError(f"compile() got an unexpected keyword argument '{option}'")
    if model is None:
        return lambda function: compile(function, **options)
    if not callable(model):
        raise AssertionError("A callable function is expected, but got " + type(model).__name__)
    return Compiled(model) if isinstance(model, (FunctionType, functools.partial)) and not options.get("disable") else model


def _disable(fn: Any = None, recursive: bool = True, **_options: Any) -> Any:
    """The function itself."""
    return fn if fn is not None else lambda function: function


compiler = SimpleNamespace(
    compile=compile,
    disable=_disable,
    **dict.fromkeys(("is_compiling", "is_dynamo_compiling", "is_exporting"), answer(False)),
    **dict.fromkeys(("reset", "cudagraph_mark_step_begin"), answer(None)),
    **dict.fromkeys(("allow_in_graph", "assume_constant_result"), _disable),
)
_dynamo = SimpleNamespace(config=SimpleNamespace(), OptimizedModule=Absent("compiler").OptimizedModule, **vars(compiler))
# with it PyTorch's vmap takes a tensor for an index, as ours does without
_dynamo.eval_frame = _dynamo
_dynamo._trace_wrapped_higher_order_op = SimpleNamespace(TransformGetItemToIndex=nullcontext)
