"""`torch.library` and `torch.ops`: operations that packages define, with a schema, kernels, and a backward on `autograd.Function`."""

from __future__ import annotations

import ast
import collections.abc
import enum
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType, SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np

from functrace import torch
from functrace.errors import boundary
from functrace.torch import _dtypes
from functrace.torch._device import Absent
from functrace.torch._meta import Meta
from functrace.torch._missing import as_of, in_place_of, missing
from functrace.torch._modes import recording
from functrace.torch._tensor import Tensor
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.graph import increment_version
from functrace.torch.types import Number

__all__ = ["Library", "custom_op", "define", "fallthrough_kernel", "impl", "infer_schema", "register_autograd", "register_fake"]
__getattr__ = missing("torch.library")

_TYPES: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", Number: "Scalar",
    _dtypes.dtype: "ScalarType", _dtypes.device: "Device",
}  # fmt: skip
_TAKEN: dict[str, Any] = {"Tensor": Tensor, "int": int, "SymInt": int, "float": (int, float), "bool": bool, "str": str}
_KEYS = {"default": "CompositeExplicitAutograd", None: "CompositeExplicitAutograd", "cpu": "CPU", "meta": "Meta"}
Tag = enum.Enum("Tag", "core inplace out pointwise pt2_compliant_tag flexible_layout needs_fixed_stride_order cudagraph_unsafe")


class FunctionSchema:
    """What `name(Tensor x, int n=1) -> Tensor` says: Python's signature, the types, and which arguments are written to."""

    def __init__(self, space: str, text: str) -> None:
        found = re.match(r"(\w+)(?:\.(\w+))?\((.*)\)\s*->\s*(.*)$", text)
        if found is None:
            raise RuntimeError(f"a schema is of the form name(Tensor x, int n=1) -> Tensor: {text}")
        self.opname, overload, inside, self.back = found.groups()
        self.name, self.overload_name = f"{space}::{self.opname}", overload or ""
        self.text = f"{space}::" + re.sub(r"(\bfloat\S* \w+=-?\d+\.)0\b", r"\1", text)
        self.kinds, self.written = {}, []  # type: tuple[dict[str, str], list[str]]
        rows: list[inspect.Parameter] = []
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        for part in re.findall(r"(?:\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|[^,])+", inside):  # at commas, but for those in brackets and quotes
            row = re.match(r"\s*(\w+)(\(\w+(!?)[^)]*\))?(\S*) (\w+)(?:\s*=\s*(.*))?$", part)
            if row is None and part.strip() == "*":
                kind = inspect.Parameter.KEYWORD_ONLY
            elif row is None or row[1] not in (*_TYPES.values(), *_TAKEN, "Layout", "MemoryFormat", "Generator", "complex", "Any"):
                raise RuntimeError(
                    f"\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar:\n{text}"
                )
            else:
                rows.append(inspect.Parameter(row[5], kind, default=_default(row[6])))
                self.kinds[row[5]] = row[1] + row[4]
                self.written += [row[5]] * bool(row[3])
        self.signature = inspect.Signature(rows)
        self.named = {p.name for p in rows if p.kind is p.KEYWORD_ONLY}

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments, numbers and lists turned into what the schema says, but for the last that are as kernels have them by default."""
        try:
            found = self.signature.bind(*args, **kwargs)
            for k, name in enumerate(found.arguments):
                found.arguments[name] = _cast((f"for argument '{name}'", f"Position: {k}"), self.kinds[name], found.arguments[name])
        except TypeError as error:
            raise RuntimeError(f"{self.name}() {error}. Declaration: {self}") from None
        for name in reversed([*found.arguments]):
            x, p = found.arguments[name], self.signature.parameters[name]
            if not isinstance(x, Tensor) and type(x) is type(p.default) and x == p.default:
                del found.arguments[name]
            elif p.kind is not p.KEYWORD_ONLY:
                break
        return found


def _default(text: str | None) -> Any:
    try:
        return inspect.Parameter.empty if text is None else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _dtypes.NAMES.get(text, text)  # type: ignore[arg-type]


def _cast(place: tuple[str, str], kind: str, x: Any) -> Any:
    if kind.endswith("?"):
        return None if x is None else _cast(place, kind[:-1], x)
    if kind.endswith("]") and (isinstance(x, (list, tuple)) or kind[-2] != "["):
        inner, _, size = kind[:-1].rpartition("[")
        return [_cast(place, inner, y) for y in (x if isinstance(x, (list, tuple)) else [x] * int(size))]
    x = x.item() if isinstance(x, Tensor) and kind in ("int", "SymInt", "float", "Scalar") else x
    if not isinstance(x, _TAKEN.get(kind, () if kind.endswith("]") else object)):
        told = kind.replace("SymInt", "int")
        raise TypeError(f"Expected a value of type '{told}' {place[0]} but instead found type '{type(x).__name__}'.\n{place[1]}")
    return float(x) if kind == "float" else _dtypes.device(x) if kind == "Device" else x


def _kind(annotation: Any) -> str:
    """What a schema calls what an annotation means; "" if it has no word for it."""
    if annotation in _TYPES:
        return _TYPES[annotation]
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType) and type(None) in args:
        inner, mark = _kind(functools.reduce(operator.or_, [t for t in args if t is not type(None)])), "?"
    else:
        inner, mark = _kind(args[0]) if origin in (list, collections.abc.Sequence) else "", "[]"
    return inner and inner + mark


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str = "", tags: Any = ()) -> str:
    """The schema that the annotations of a function are. Raises ValueError for what a schema can't say."""
    signature = inspect.signature(prototype_function, eval_str=True)
    parts, written, wrong = [], [], ""  # type: tuple[list[str], list[str], str]

    for k, (name, p) in enumerate(signature.parameters.items()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            wrong = "We do not support positional-only args, varargs, or varkwargs."
        elif p.annotation is p.empty:
            wrong = f"Parameter {name} must have a type annotation."
        elif not (kind := _kind(p.annotation)):
            wrong = f"Parameter {name} has unsupported type {p.annotation}. The valid types are: {', '.join(_TYPES.values())}."
        else:
            if kind.startswith("Tensor") and (mutates_args == "unknown" or name in mutates_args):
                written.append(f"Tensor(a{k}!)")
                kind = written[-1] + kind[6:]
            parts += ["*"] if p.kind is p.KEYWORD_ONLY and "*" not in parts else []
            default = f'"{p.default}"' if isinstance(p.default, (str, _dtypes.device)) else str(p.default).removeprefix("torch.")
            parts.append(f"{kind} {name}" + ("" if p.default is p.empty else f"={default}"))
    if unseen := set() if mutates_args == "unknown" else set(mutates_args) - signature.parameters.keys():
        wrong = f"{unseen} in mutates_args were not found in the custom op's signature."
    back = signature.return_annotation
    several = back is None or get_origin(back) is tuple
    kinds = [_kind(t) for t in (() if back is None else get_args(back) if several else (back,))]
    if "" in kinds and not wrong:
        wrong = (
            "No return type annotation was provided. Please add one." if back is signature.empty else f"Return has unsupported type {back}."
        )
    if wrong:
        raise ValueError(f"infer_schema(func): {wrong} Got func with signature {signature})")
    told = ", ".join(written if {Tag.inplace, Tag.out} & {*_listed(tags)} else kinds)
    return f"{op_name}({', '.join(parts)}) -> " + (f"({told})" if several else told)


def _listed(x: Any) -> Any:
    return () if x is None else (x,) if isinstance(x, (str, Tag)) else x


def _flat(args: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(t for x in args for t in (x if isinstance(x, list) and any(isinstance(y, Tensor) for y in x) else (x,)))


def _filled(like: Sequence[Any], flat: Iterable[Any]) -> tuple[Any, ...]:
    """What `_flat(like)` has the places of, with lists where that has them."""
    rest = iter(flat)
    return tuple(next(rest) if len(part := _flat((x,))) == 1 and part[0] is x else [next(rest) for _ in part] for x in like)


class OpOverload:
    """One operation: a schema, and what computes it. Kernels go by the names of PyTorch's dispatch keys."""

    _rules: Any = None  # (backward, setup_context)
    _definition: Any = None  # of custom_op

    def __init__(self, space: str, schema: FunctionSchema) -> None:
        self._schema, self._overloadname = schema, schema.overload_name or "default"
        self._name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self._namespace, self._opname = space, schema.opname
        self.__name__ = f"{schema.opname}.{self._overloadname}"
        self._kernels: dict[str, Callable[..., Any]] = {}
        rules = {"forward": self._forward, "setup_context": self._setup, "backward": self._backward}
        name = f"GeneratedBackwardFor_{space}_{schema.opname}_{self._overloadname}"
        self._function: Any = type(name, (Function,), {k: staticmethod(f) for k, f in rules.items()})

    def name(self) -> str:
        """With its namespace."""
        return self._name

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._namespace}.{self._opname}', overload='{self._overloadname}')>"

    # The last of the flat arguments of a Function says how they go together again, and has those by name: call.args, call.kwargs, call.out.
    def _forward(self, *flat: Any) -> Any:
        call = flat[-1]
        call.out = out = self._run(_filled(call.args, flat), call.kwargs)
        return _flat(_row(out))

    def _setup(self, ctx: Any, inputs: Any, output: Any) -> None:
        ctx._call = call = inputs[-1]
        if self._rules and self._rules[1]:
            found = self._schema.signature.bind(*_filled(call.args, inputs), **call.kwargs)
            found.apply_defaults()
            named = {"keyword_only_inputs": found.kwargs} if self._schema.named else {}
            self._rules[1](ctx=ctx, inputs=found.args, output=_together(call, output), **named)

    def _backward(self, ctx: Any, *grads: Any) -> Any:
        if not self._rules:
            raise RuntimeError(
                f"Trying to backward through {self} but no autograd formula was registered. Please use register_autograd to add one."
            )
        needed, call = ctx.needs_input_grad, ctx._call
        ctx.needs_input_grad = _filled(call.args, needed)
        try:
            ds = self._rules[0](ctx, *_filled(_row(call.out), grads))
        finally:
            ctx.needs_input_grad = needed
        rows = [(x, _flat((x,)), d) for x, d in zip(call.args, _row(ds))]
        return (*(g for x, part, d in rows for g in ((d,) if part[:1] == (x,) else d or [None] * len(part))), None)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self._schema.bound(args, kwargs)
        for name in self._schema.written:
            if found.arguments.get(name) is not None:
                increment_version(found.arguments[name])
        needed = [t._rg or not isinstance(t._a, (np.ndarray, Meta)) for t in _flat(found.args) if isinstance(t, Tensor)]
        if not any(needed) or not recording() or (self._rules is None and self._definition is None):
            return self._run(found.args, found.kwargs)
        call = SimpleNamespace(args=found.args, kwargs=found.kwargs, out=None)
        return _together(call, self._function.apply(*_flat(found.args), call))

    def _run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        meta = any(isinstance(x, Tensor) and isinstance(x._a, Meta) for x in _flat((*args, *kwargs.values())))
        for key in ("Meta",) if meta else ("AutogradCPU", "Autograd", "CPU", *_KEYS.values(), "CompositeImplicitAutograd"):
            if key in self._kernels:
                return self._kernels[key](*args, **kwargs)
        raise NotImplementedError(f"{self._name}: no kernel is registered for the {'Meta' if meta else 'CPU'} backend.")

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Say what computes it on some kinds of device, all for None; a decorator without `fn`."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        for kind in _listed(device_types) or (None,):
            self._kernels[_KEYS.get(kind, str(kind))] = fn
        return fn

    def register_fake(self, fn: Any = None, /) -> Any:
        """Say what computes its result of tensors on "meta"; a decorator without `fn`."""
        return self.register_fake if fn is None else self._kernels.update(Meta=fn) or fn

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Say how it is differentiated: `backward(ctx, *grads)`, and `setup_context(ctx, inputs, output)`, which saves what that needs."""
        if self._schema.written:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self._definition or self} with schema {self._schema}."
            )
        self._rules = backward, setup_context

    def register_vmap(self, func: Any = None) -> Any:
        """Say how a batch is computed: `func(info, in_dims, *args)` gives the result and its batch axes. A decorator without `func`."""

        def rule(info: Any, in_dims: Any, *flat: Any) -> Any:
            call = flat[-1]
            call.out, dims = func(info, _filled(call.args, in_dims), *_filled(call.args, flat), **call.kwargs)
            return _flat(_row(call.out)), dims

        self._function.vmap = staticmethod(rule)
        return self.register_vmap if func is None else func


def _row(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


def _together(call: Any, flat: tuple[Any, ...]) -> Any:
    found = _filled(_row(call.out), flat)
    return found if isinstance(call.out, tuple) else found[0]


class OpOverloadPacket:
    """The overloads of one name; of a function of PyTorch's own, `own`, all are the function, which looks at the arguments itself."""

    def __init__(self, space: str, opname: str, own: Any = None) -> None:
        self.__name__, self._space, self._own = opname, space, own

    def __str__(self) -> str:
        return f"{self._space}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __getattr__(self, name: str) -> Any:
        if name[:1] == "_" or self._own is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        return self._own

    def overloads(self) -> list[str]:
        """Their names."""
        return [name for name, x in vars(self).items() if isinstance(x, OpOverload)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ops = self.overloads()
        for name in ops[:-1]:
            try:
                vars(self)[name]._schema.bound(args, kwargs)
            except RuntimeError:
                continue
            return vars(self)[name](*args, **kwargs)
        return (self._own or vars(self)[ops[-1]])(*args, **kwargs)


class _OpNamespace(ModuleType):
    """The operations of one namespace."""

    __file__ = "torch.ops"

    def __getattr__(self, name: str) -> Any:
        space = self.__name__.rpartition(".")[2]
        if space == "aten" and name[:2] != "__":  # of those that are not here packages take the names
            found = [f for place in (torch, torch.nn.functional, Tensor) if callable(f := getattr(place, name, None))]
            return self.__dict__.setdefault(name, OpOverloadPacket(space, name, (*found, Absent(f"ops.aten.{name}"))[0]))
        raise AttributeError(f"'_OpNamespace' '{space}' object has no attribute '{name}'")


class _Ops(ModuleType):
    """`torch.ops`: namespaces are there when they are asked for."""

    __file__ = "_ops.py"
    loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "load_library":
            raise AttributeError(f"torch.ops.{name} is not {in_place_of(name)}.")
        return self.__dict__.setdefault(name, _OpNamespace(f"torch.ops.{name}"))


ops = _Ops("torch.ops")


def _overload(op: Any) -> OpOverload:
    """The operation of a name, or of what has one. Raises RuntimeError if there is none."""
    if isinstance(op, (OpOverload, CustomOpDef)):
        return op if isinstance(op, OpOverload) else op._opoverload
    space, name = _parted(op)
    name, _, overload = name.partition(".")
    packet = vars(getattr(ops, space)).get(name)
    found = vars(packet).get(overload or "default") if packet else None
    if found is None:
        raise RuntimeError(f"operator {op} does not exist")
    return found  # type: ignore[no-any-return]


def _parted(qualname: str) -> list[str]:
    if qualname.count("::") != 1:
        raise ValueError(f'Expected `qualname` to be of the form "namespace::name", but got {qualname}.')
    return qualname.split("::")


class Library:
    """Defines operations in a namespace, and says what computes them."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operation by its schema. Returns its name."""
        op = OpOverload(self.ns, FunctionSchema(self.ns, schema))
        packet = vars(getattr(ops, self.ns)).setdefault(op._opname, OpOverloadPacket(self.ns, op._opname))
        if op._overloadname in vars(packet):
            raise RuntimeError(f"Tried to register an operator ({op._schema}) with the same name and overload name multiple times.")
        vars(packet)[op._overloadname] = op
        return op._name.partition("::")[2]

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = True) -> None:
        """Say what computes an operation, for a dispatch key of PyTorch's."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if self.ns == "aten" or with_keyset:
            raise NotImplementedError(f"{self.ns}::{op_name}: PyTorch's own operations can't be replaced, and there are no keysets.")
        op = _overload(op_name if isinstance(op_name, OpOverload) or "::" in op_name else f"{self.ns}::{op_name}")
        if fn is not fallthrough_kernel:
            op._kernels[dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"] = fn


def fallthrough_kernel() -> None:
    """Stands for no kernel in `Library.impl`."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Define an operation: `define("mine::f", "(Tensor x) -> Tensor")`."""
    space, name = _parted(qualname)
    Library(space, "FRAGMENT").define(name + schema)


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Say what computes an operation on some kinds of device; a decorator without `func`."""

    def register(function: Any) -> Any:
        if isinstance(qualname, Library):
            qualname.impl(types, function, func or "")
            return function
        for kind in _listed(types):
            Library(_parted(qualname)[0], "FRAGMENT").impl(qualname, function, _KEYS.get(kind, kind))
        return None

    return register if func is None or isinstance(qualname, Library) else register(func)


class CustomOpDef:
    """What `custom_op` makes of a function: the operation, which has its methods."""

    def __init__(self, qualname: str, schema: str, fn: Callable[..., Any]) -> None:
        self._namespace, self._name = qualname.split("::")
        self._qualname, self._init_fn = qualname, fn
        self._opoverload = op = OpOverload(self._namespace, FunctionSchema(self._namespace, self._name + schema))
        op._definition = self
        if any(op._schema.kinds[name].startswith("Tensor") for name in op._schema.named - {*op._schema.written}):
            raise NotImplementedError(
                f"custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: {self._name}{schema}"
            )
        packet = vars(getattr(ops, self._namespace))[self._name] = OpOverloadPacket(self._namespace, self._name)
        vars(packet)[op._overloadname] = op

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("register_"):
            raise AttributeError(name)
        return getattr(self._opoverload, name)


def custom_op(
    name: str, fn: Any = None, /, *, mutates_args: Any, device_types: Any = None, schema: str | None = None, tags: Any = None
) -> Any:
    """Make an operation of a function with annotations, which is then in `torch.ops` too; a decorator without `fn`."""

    def made(function: Callable[..., Any]) -> CustomOpDef:
        op = CustomOpDef(name, schema or infer_schema(function, mutates_args=mutates_args, tags=tags), function)
        op.register_kernel(device_types, function)
        return op

    return made if fn is None else made(fn)


def _of(method: str) -> Callable[..., Any]:
    def register(op: Any, /, *args: Any, lib: Any = None, allow_override: bool = True, **named: Any) -> Any:
        if not isinstance(op, (str, OpOverload, CustomOpDef)):
            raise ValueError(f"{method}({op}): got unexpected type for op: {type(op)}")
        return getattr(_overload(op), method)(*args, **named)

    register.__doc__ = f"`{method}` of an operation, or of that of a name."
    return register


register_fake, register_autograd, register_kernel, register_vmap = map(
    _of, ("register_fake", "register_autograd", "register_kernel", "register_vmap")
)
impl_abstract = register_fake
as_of("torch._ops", OpOverload, OpOverloadPacket, _OpNamespace, _Ops)
as_of("torch._library.custom_ops", CustomOpDef)
as_of("torch.library", Library)
