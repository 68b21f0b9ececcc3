"""How the transforms name arguments, flatten them, and refuse what has no derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from functrace import edge, errors, tree
from functrace.core.tracer import Tracer, bare
from functrace.operands import is_tensor, unwrapped
from functrace.ops.blank import apart
from functrace.ops.create import lift
from functrace.places import user_frame, user_line

Key = int | str
Argnums = int | Sequence[int] | None
Argnames = str | Sequence[str] | None


def name_of(f: Any) -> str:
    """What to call a function in messages."""
    return getattr(f, "__name__", None) or type(f).__name__


def made_name(f: Any) -> str:
    """What to call a function by itself: `grad(loss)`, where `name_of` says `loss`."""
    made = str(getattr(f, "__qualname__", ""))
    return made if "(" in made else name_of(f)


def check_tuples(what: str, f: Any, primals: Any, tangents: Any) -> None:
    """Refuse primals and tangents that are not tuples or lists of one length."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise errors.CallError(
            f"{what}({name_of(f)}): primals and tangents must be tuples or lists, got {errors.describe(primals)} and "
            f"{errors.describe(tangents)}.\n  Write {what}(f, (x,), (v,)), not {what}(f, x, v)."
        )
    if len(primals) != len(tangents):
        raise errors.CotangentError(
            f"{what}({name_of(f)}): {len(primals)} primals and {len(tangents)} tangents.\n"
            "  Give a tangent for each primal, zeros where it does not move."
        )


def as_output(what: str, x: Any) -> Any:
    """A leaf of a result that is not traced: an array as it is, a number as NumPy's scalar."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x
    if isinstance(x, (bool, int, float, complex)):
        return np.asarray(x)[()]
    remedy = "Return x.numpy()" if is_tensor(x) else "Results are arrays, numbers, or pytrees of them"
    raise errors.CallError(f"{what}: the function returned a {type(x).__name__}.\n  {remedy}; has_aux=True carries others out.")


def as_row(what: str, x: Any) -> Any:
    """A leaf of a result that is joined with those of other examples or steps: as NumPy sees it, unless that is an object."""
    out = lift(x)
    if out.dtype.kind == "O" and not hasattr(x, "dtype"):
        raise errors.CallError(f"{what}: the function returned a {type(x).__name__}.\n  Results are arrays, numbers, or pytrees of them.")
    return out


def refuse_tensors(what: object, leaves: Iterable[Any], remedy: str) -> None:
    """Raise if there is a tensor among what a function of arrays is given or returns."""
    for x in leaves:
        if is_tensor(x):
            kind = type(x).__name__
            raise errors.InputTypeError(f"{what}: a {kind} keeps a history of its own, which functions of arrays don't see.\n  {remedy}")


def signature(f: Any) -> Any:
    """`inspect.signature`, imported when first asked for: it takes a third of the time of importing functrace."""
    import inspect

    return inspect.signature(f)


def parameters(f: Any) -> list[Any] | None:
    """What `f` takes; None where it can't be read."""
    try:
        return [*signature(f).parameters.values()]
    except (TypeError, ValueError):
        return None


def all_names(f: Any) -> list[str]:
    """The names of all its arguments."""
    return [p.name for p in parameters(f) or ()]


def positional(f: Any, needed: bool = False) -> list[str]:
    """The names of the arguments that can be passed by position: those that must be, if only what is `needed` is asked for."""
    places = [p for p in parameters(f) or () if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [p.name for p in places if not needed or p.default is p.empty]


def by_position(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call by position, so that a rule sees them in one order however they were passed."""
    if isinstance(f, np.ufunc) and not kwargs:  # whose out= and where= are no arguments of a rule
        return args
    if not kwargs and type(f) is FunctionType and len(args) == f.__code__.co_argcount and not hasattr(f, "__wrapped__"):
        return args  # all there are: `bind` takes longer than what it is for
    try:
        bound = signature(f).bind(*args, **kwargs)
    except ValueError:  # a builtin without a signature
        return args
    bound.apply_defaults()
    if only := sorted(bound.kwargs.keys() & kwargs.keys()):
        found = f"{name_of(f)}: a rule gets arguments by position, and {', '.join(only)} can be passed by keyword only"
        raise errors.CustomRuleError(f"{found}.\n  Make it an ordinary parameter.")
    return bound.args  # type: ignore[no-any-return]


def listed(what: str, f: Any, option: str, given: Any, kind: type) -> tuple[Any, ...]:
    """The positions (`int`) or names (`str`) in an option, which may be one alone. Those of `argnums` and `argnames` have an order."""
    kinds = (int, np.integer) if kind is int else str
    several = np.iterable(given) and not (option in ("argnums", "argnames") and isinstance(given, (set, frozenset)))
    keys = (given,) if isinstance(given, kinds) or not several else tuple(given)
    if not all(isinstance(k, kinds) for k in keys):
        wanted = "an int or a tuple of ints" if kind is int else "a string or a tuple of strings"
        other = f"; for a name use {option[:-4]}names=" if option in ("argnums", "static_argnums") else ""
        raise errors.ArgnumsError(f"{what}({name_of(f)}): {option} must be {wanted}, got {given!r}{other}.")
    return keys


def check_taken(f: Any, option: str, keys: Sequence[Key]) -> None:
    """Refuse static arguments that `f` does not take, as far as its signature can be read."""
    known, places = parameters(f), positional(f)
    if known is None:
        return
    names = [p.name for p in known if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for key in keys:
        taken = key in names if isinstance(key, str) else -len(places) <= key < len(places)
        if not taken and not any(p.kind == (p.VAR_KEYWORD if isinstance(key, str) else p.VAR_POSITIONAL) for p in known):
            raise errors.ArgnumsError(
                f"jit({name_of(f)}): {option} names {repr(key) if isinstance(key, str) else f'argument {key}'}, which the function does "
                f"not take; its parameters are {all_names(f)}.\n  Correct the name."
            )


def resolve(what: str, f: Any, args: Sequence[Any], kwargs: dict[str, Any], argnums: Argnums, argnames: Argnames) -> tuple[list[Key], bool]:
    """The arguments to differentiate, as positions in `args` or names in `kwargs`, and whether the result is a tuple.

    A position may be passed by keyword, and a name by position. Neither `argnums` nor `argnames` means the first argument.
    """
    if argnames is None and (argnums is None or type(argnums) is int and argnums == 0):
        argnums = 0
        if args:
            return [0], False
    first = [*range(len(args))]
    if type(argnums) is tuple and argnames is None and [*argnums] == first[: len(argnums)]:
        return first[: len(argnums)], True
    numbers = () if argnums is None else listed(what, f, "argnums", argnums, int)
    names = () if argnames is None else listed(what, f, "argnames", argnames, str)
    several = not (isinstance(argnums, (int, np.integer)) and argnames is None or isinstance(argnames, str) and argnums is None)
    keys: list[Key] = []
    for k in numbers:
        if -len(args) <= k < len(args):
            keys.append(int(k) % len(args))
            continue
        places = positional(f)
        if 0 <= k < len(places) and places[k] in kwargs:
            keys.append(places[k])
            continue
        only = [name for name in all_names(f) if name in kwargs and name not in places]
        raise errors.ArgnumsError(
            f"{what}({name_of(f)}): argnums={argnums} names argument {k}, but the call has {len(args)} positional argument(s)"
            f"{f' and the keywords {sorted(kwargs)}' if kwargs else ''}.\n"
            f"  Positions count from 0; the function's parameters are {all_names(f)}"
            f"{f', of which {only[0]!r} has no position: use argnames={only[0]!r}' if only else ''}."
        )
    for name in names:
        if name in kwargs:
            keys.append(name)
            continue
        places = positional(f)
        if name in places[: len(args)]:
            keys.append(places.index(name))
            continue
        raise errors.ArgnumsError(
            f"{what}({name_of(f)}): argnames={argnames!r} names {name!r}, which the call does not pass; the function's parameters are "
            f"{all_names(f)}.\n  Correct the name, or pass the argument."
        )
    if len(set(keys)) != len(keys):
        raise errors.ArgnumsError(f"{what}({name_of(f)}): argnums={argnums}, argnames={argnames} name an argument twice.")
    return keys, several


def label(f: Any, key: Key) -> str:
    """`argument 0 ('x')`."""
    if isinstance(key, str):
        return f"argument {key!r}"
    parameters = positional(f)
    return f"argument {key} ({parameters[key]!r})" if key < len(parameters) else f"argument {key}"


def differentiable(what: str, f: Any, key: Key, leaf: Any, treedef: tree.TreeDef) -> Any:
    """A leaf as something to differentiate; None for an integer leaf of a container, which gets a zero gradient.

    A Python number is taken as float64 (complex128); an integer array as the argument itself is refused.
    """
    kind = type(leaf)
    if kind is np.ndarray or isinstance(leaf, (Tracer, np.generic, np.ndarray)):
        if leaf.dtype.kind in "fc":
            return apart(leaf)
        if isinstance(leaf, Tracer) and type(leaf.below) is int:
            return leaf * 1.0  # type: ignore[operator]
        if leaf.dtype.kind not in "bui":
            raise errors.InputTypeError(
                f"{what}({name_of(f)}): {label(f, key)} is {errors.describe(leaf)}, which holds no numbers that can be differentiated.\n"
                f"  Convert it: x.astype(float)."
            )
    elif kind is int or isinstance(leaf, float):
        return np.float64(leaf)
    elif isinstance(leaf, complex):
        return np.complex128(leaf)
    elif not isinstance(leaf, (bool, int, float, complex)):
        other = "Pass x.numpy(), or use functrace.torch.func, whose functions take tensors."
        number = "Pass np.asarray(x)." if hasattr(kind, "__array__") else "Pass float(x)." if hasattr(kind, "__float__") else ""
        usual = "Pass it as another argument, or register its class with functrace.tree.register."
        if any(hasattr(cls, "__dataclass_fields__") for cls, _, _ in treedef.nodes):
            usual = "Mark what is not to vary in the dataclass: field(metadata={'static': True})."
        remedy = other if is_tensor(leaf) else number or usual
        raise errors.InputTypeError(
            f"{what}({name_of(f)}): {label(f, key)} {'is' if treedef.alone else 'holds'} a {kind.__name__}, which is not an array or a "
            f"number.\n  {remedy}"
        )
    if not treedef.alone:
        return None
    frame = user_frame()
    solver = frame is not None and str(frame.f_globals.get("__name__")).startswith("scipy.")
    raise errors.IntegerInputError(
        f"{what}({name_of(f)}): {label(f, key)} is {errors.describe(leaf if isinstance(leaf, Tracer) else np.asarray(leaf))}; integers and "
        f"booleans have no derivative.\n  {'Start SciPy from floats, 1.0 for 1.' if solver else 'Pass x.astype(float).'}"
    )


_ALONE: Any = (tree.ONE_LEAF,)
_FIRST: Any = ((0,),)


class Flat:
    """A call with some arguments flattened: `inputs`, and `call(inputs)` to make it with others in their place."""

    __slots__ = ("args", "f", "inputs", "keys", "kwargs", "places", "plain", "treedefs", "wholes")
    inputs: list[Any]
    treedefs: list[tree.TreeDef]
    wholes: list[list[Any]]  # all leaves of each argument
    places: list[list[int | None]]  # for each leaf its number among the inputs

    def __init__(self, what: str, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], keys: Sequence[Key]) -> None:
        self.f, self.args, self.kwargs, self.keys = f, args, kwargs, keys
        self.plain = len(keys) == 1 and keys[0] == 0 and type(args[0]) is np.ndarray and args[0].dtype.kind in "fc"
        if self.plain:  # by far the most calls
            self.inputs, self.treedefs, self.places = [args[0]], _ALONE, _FIRST
            self.wholes = [self.inputs]
            return
        given = [args[key] if isinstance(key, int) else kwargs[key] for key in keys]
        self.plain = len(given) > 1 and {*map(type, given)} == {np.ndarray} and all(x.dtype.kind in "fc" for x in given)
        if self.plain:  # arrays, in no containers
            self.inputs, self.treedefs = given, [tree.ONE_LEAF] * len(given)
            self.wholes, self.places = [[x] for x in given], [[k] for k in range(len(given))]
            return
        if not keys and not args and set(positional(f, needed=True)) - kwargs.keys():
            edge.check_call(f"{what}(f, (x,), (v,))" if what in ("jvp", "hvp") else f"{what}(f, x), not {what}(f)(x)", args=())
        self.inputs, self.treedefs, self.wholes, self.places = [], [], [], []
        for key, whole in zip(keys, given):
            leaves, treedef = tree.flatten(whole)
            alone = treedef.alone
            opaque = treedef.build is None and [c.__name__ for c, _, aux in treedef.nodes if getattr(aux, "labels", True) is False]
            if opaque and not alone:
                raise errors.InputTypeError(
                    f"{what}({name_of(f)}): {label(f, key)} is or holds a {opaque[0]} of something other than numbers "
                    f"of one dtype.\n  At {user_line(4)}.\n"
                    "  Pass its numeric part: x.astype(float), or dict(df) with the columns that vary."
                )
            places: list[int | None] = []
            for leaf in leaves:
                usual = type(leaf) is np.ndarray and leaf.dtype.kind in "fc"
                x = leaf if usual else differentiable(what, f, key, leaf, treedef)
                if x is None:
                    places.append(None)
                else:
                    places.append(len(self.inputs))
                    self.inputs.append(x)
            self.treedefs.append(treedef)
            self.wholes.append(leaves)
            self.places.append(places)

    def call(self, inputs: Sequence[Any]) -> Any:
        """The function's result for these inputs."""
        if self.places is _FIRST:
            return self.f(*inputs, *self.args[1:], **self.kwargs)
        args, kwargs, values = list(self.args), self.kwargs, inputs
        if not self.plain:
            filled = [[x if p is None else inputs[p] for x, p in zip(leaves, places)] for leaves, places in zip(self.wholes, self.places)]
            values = [*map(tree.built, self.treedefs, filled)]
        for key, value in zip(self.keys, values):
            if isinstance(key, int):
                args[key] = value
            else:
                kwargs = {**kwargs, key: value}
        return self.f(*args, **kwargs)

    def rebuild(self, grads: Sequence[Any]) -> list[Any]:
        """For each argument a tree like it, of the inputs' gradients; None becomes zeros."""
        if self.plain:
            return [*map(or_zeros, grads, self.inputs)]
        out = []
        for treedef, leaves, places in zip(self.treedefs, self.wholes, self.places):
            new = [np.zeros(np.shape(leaf)) if p is None else _gradient_of(self.inputs[p], grads[p]) for leaf, p in zip(leaves, places)]
            out.append(tree.built(treedef, new))
        return out


def _gradient_of(x: Any, g: Any) -> Any:
    """The gradient of `x`, zeros for None. That of a number is a number: on its way through arrays it has become an array without axes."""
    if g is None:
        return zeros_like(x)
    return g if g.shape or not isinstance(bare(g), np.ndarray) or isinstance(bare(x), np.ndarray) else g[()]


def zeros_like(x: Any) -> Any:
    """A plain zero array of the shape and dtype of `x`; a scalar where `x` is one."""
    return np.zeros(x.shape, x.dtype) if x.shape or isinstance(x, np.ndarray) else x.dtype.type(0)


def or_zeros(g: Any, x: Any) -> Any:
    """A cotangent or tangent of `x`: zeros where there is none."""
    return zeros_like(x) if g is None else g


def matched(what: str, which: str, given: Any, treedef: Any, likes: Sequence[Any]) -> list[Any]:
    """The leaves of a cotangent or tangent, checked against the values that they belong to."""
    leaves, got = tree.flatten(given)
    if got != treedef:
        wanted = "be an array" if treedef.alone else f"have {treedef!r}"
        remedy = f"Pass the {which} by itself" if treedef.alone else "Build it from the value: functrace.tree.map(np.ones_like, out)"
        raise errors.CotangentError(
            f"{what}: the {which} has the structure {got!r}, but must {wanted}, as the value it belongs to.\n  {remedy}."
        )
    checked = []
    for g, x in zip(map(unwrapped, leaves), likes):
        if not hasattr(g, "dtype"):
            g = np.asarray(g)[()]
        if g.shape != x.shape:
            raise errors.CotangentError(
                f"{what}: a {which} of shape {g.shape} was given for a value of shape {x.shape}.\n"
                f"  The {which} must have the value's shape: np.broadcast_to(g, {x.shape}) if every element has the same."
            )
        if g.dtype != x.dtype:
            if not np.can_cast(g.dtype, x.dtype, "same_kind"):
                raise errors.CotangentError(
                    f"{what}: a {which} of dtype {g.dtype} was given for a value of dtype {x.dtype}.\n"
                    f"  Cast it: g.astype({str(x.dtype)!r})."
                )
            g = g.astype(x.dtype)
        checked.append(g)
    return checked


def as_pair(what: str, out: Any) -> tuple[Any, Any]:
    """What a function returned that was said to return `(output, aux)`."""
    if isinstance(out, tuple) and len(out) == 2:
        return out
    raise errors.CallError(
        f"{what} with has_aux=True: the function must return (output, aux), but returned {errors.describe(out)}.\n"
        "  Return a second thing, or leave has_aux out."
    )
