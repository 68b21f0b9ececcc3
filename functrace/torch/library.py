"""`torch.library` and `torch.ops`: operations that packages define, with kernels, and a backward on `autograd.Function`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, get_args, get_origin

import numpy as np

from functrace import torch
from functrace.torch._contact import boundary
from functrace.torch._device import Absent
from functrace.torch._layout import Meta
from functrace.torch._missing import as_of, missing
from functrace.torch._modes import recording
from functrace.torch._tensor import Tensor
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.graph import increment_version

__all__ = ["Library", "custom_op", "define", "fallthrough_kernel", "impl", "infer_schema", "register_autograd", "register_fake"]
__getattr__ = missing("torch.library")

_TYPES = {"int": "SymInt", "dtype": "ScalarType", "device": "Device", "int | float | bool": "Scalar"}
_DEFAULT = "CompositeExplicitAutograd"
_KEYS = {"default": _DEFAULT, None: _DEFAULT, "cpu": "CPU", "meta": "Meta"}


def _kind(annotation: Any) -> str:
    """The type of an annotation as a schema writes it."""
    args = [t for t in get_args(annotation) if t is not type(None)]
    if get_origin(annotation) is not None and len(args) == 1:
        return _kind(args[0]) + ("?" if len(get_args(annotation)) > 1 else "[]")
    name = getattr(annotation, "__name__", "") if isinstance(annotation, type) else str(annotation)
    return _TYPES.get(name, name)


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str = "") -> str:
    """The schema of a function, by its annotations. Raises ValueError where one is missing."""
    signature, parts = inspect.signature(prototype_function, eval_str=True), []  # type: tuple[Any, list[str]]
    back = signature.return_annotation
    wrong = "No return type annotation was provided. Please add one." * (back is signature.empty)
    for k, (name, p) in enumerate(signature.parameters.items()):
        kind = _kind(p.annotation)
        if p.annotation is p.empty:
            wrong = f"Parameter {name} must have a type annotation."
        elif p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            wrong = "We do not support positional-only args, varargs, or varkwargs."
        elif kind.startswith("Tensor") and (mutates_args == "unknown" or name in mutates_args):
            kind = f"Tensor(a{k}!)" + kind[6:]
        parts += ["*"] if p.kind is p.KEYWORD_ONLY and "*" not in parts else []
        default = f'"{p.default}"' if isinstance(p.default, str) else str(p.default).removeprefix("torch.")
        parts.append(f"{kind} {name}" + ("" if p.default is p.empty else f"={default}"))
    if wrong:
        raise ValueError(f"infer_schema(func): {wrong} Got func with signature {signature})")
    several = back is None or get_origin(back) is tuple
    told = ", ".join(map(_kind, () if back is None else get_args(back) if several else (back,)))
    return f"{op_name}({', '.join(parts)}) -> " + (f"({told})" if several else told)


def _row(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


def _flat(args: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(t for x in args for t in (x if isinstance(x, list) and any(isinstance(y, Tensor) for y in x) else (x,)))


def _filled(like: Sequence[Any], flat: Iterable[Any]) -> tuple[Any, ...]:
    """Undoes `_flat`: the values, in lists where `like` has lists."""
    rest = iter(flat)
    return tuple(next(rest) if len(part := _flat((x,))) == 1 and part[0] is x else [next(rest) for _ in part] for x in like)


class OpOverload:
    """An operation: its schema, and its kernels by PyTorch's dispatch keys."""

    _rules: Any = None  # (backward, setup_context)
    _definition: Any = None  # of custom_op

    def __init__(self, space: str, schema: str) -> None:
        found = re.match(r"(\w+)(?:\.(\w+))?\(.*\)\s*->", schema)
        if found is None:
            raise RuntimeError(f"a schema is of the form name(Tensor x, int n=1) -> Tensor: {schema}")
        self._namespace, self._opname, self._overloadname = space, found[1], found[2] or "default"
        self._name = f"{space}::{found[1]}" + (f".{found[2]}" if found[2] else "")
        self._schema = f"{space}::" + re.sub(r"(\bfloat\S* \w+=-?\d+\.)0\b", r"\1", schema)
        self._written = re.findall(r"\(\w+!\)\S* (\w+)", schema)
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self._kernels: dict[str, Callable[..., Any]] = {}
        rules = {"forward": self._forward, "setup_context": self._setup, "backward": self._backward}
        name = f"GeneratedBackwardFor_{space}_{self._opname}_{self._overloadname}"
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
        call.out = out = call.kernel(*_filled(call.args, flat), **call.kwargs)
        return _flat(_row(out))

    def _setup(self, ctx: Any, inputs: Any, output: Any) -> None:
        ctx._call = call = inputs[-1]
        if self._rules and self._rules[1]:
            found = call.signature.bind(*_filled(call.args, inputs), **call.kwargs)
            found.apply_defaults()
            named = {"keyword_only_inputs": found.kwargs} if found.kwargs else {}
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
        tensors = [t for t in _flat((*args, *kwargs.values())) if isinstance(t, Tensor)]
        meta = any(isinstance(t._a, Meta) for t in tensors)
        kernel: Any = None
        for key in ("Meta",) if meta else ("AutogradCPU", "Autograd", "CPU", _DEFAULT, "CompositeImplicitAutograd"):
            kernel = kernel or self._kernels.get(key)
        if kernel is None:
            raise NotImplementedError(f"{self._name}: no kernel is registered for the {'Meta' if meta else 'CPU'} backend.")
        signature = inspect.signature(kernel)
        found = signature.bind(*args, **kwargs)
        for name in self._written:
            if found.arguments.get(name) is not None:
                increment_version(found.arguments[name])
        recorded = recording() and any(t._rg or not isinstance(t._a, (np.ndarray, Meta)) for t in tensors)
        if not recorded or (self._rules is None and self._definition is None):
            return kernel(*args, **kwargs)
        call = SimpleNamespace(args=found.args, kwargs=found.kwargs, kernel=kernel, signature=signature, out=None)
        if any(isinstance(t, Tensor) and t._rg for t in found.kwargs.values()):
            raise NotImplementedError(f"{self._name}: no gradients of tensors by name alone.")
        return _together(call, self._function.apply(*_flat(found.args), call))

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Set the kernel for some kinds of device, or, for None, for all; a decorator without `fn`."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        for kind in (device_types,) if device_types is None or isinstance(device_types, str) else device_types:
            self._kernels[_KEYS.get(kind, str(kind))] = fn
        return fn

    def register_fake(self, fn: Any = None, /) -> Any:
        """Set the kernel for tensors on "meta"; a decorator without `fn`."""
        return self.register_kernel("meta", fn)

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Set the backward, `backward(ctx, *grads)`, and `setup_context(ctx, inputs, output)`, which saves what it needs."""
        if self._written:
            told = f"{self._definition or self} with schema {self._schema}"
            raise RuntimeError(f"Cannot register autograd formula for non-functional operator {told}.")
        self._rules = backward, setup_context

    def register_vmap(self, func: Any = None) -> Any:
        """Set the batching rule: `func(info, in_dims, *args)` gives the result and its batch axes. A decorator without `func`."""

        def rule(info: Any, in_dims: Any, *flat: Any) -> Any:
            call = flat[-1]
            call.out, dims = func(info, _filled(call.args, in_dims), *_filled(call.args, flat), **call.kwargs)
            return _flat(_row(call.out)), dims

        self._function.vmap = staticmethod(rule)
        return self.register_vmap if func is None else func


def _together(call: Any, flat: tuple[Any, ...]) -> Any:
    found = _filled(_row(call.out), flat)
    return found if isinstance(call.out, tuple) else found[0]


class OpOverloadPacket:
    """The overloads of one name. Those of a function of PyTorch's, `own`, are the function itself, which tells arguments apart."""

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
        return (self._own or vars(self)[self.overloads()[0]])(*args, **kwargs)


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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "load_library":
            raise AttributeError(f"torch.ops.{name} is not in functrace.torch.")
        return self.__dict__.setdefault(name, _OpNamespace(f"torch.ops.{name}"))


ops = _Ops("torch.ops")


def _overload(op: Any) -> Any:
    """The operation, given it or its name. Raises RuntimeError if there is none."""
    if not isinstance(op, str):
        return getattr(op, "_opoverload", op)
    space, name = op.split("::")
    name, _, overload = name.partition(".")
    packet = vars(getattr(ops, space)).get(name)
    if packet is None or (overload or "default") not in vars(packet):
        raise RuntimeError(f"operator {op} does not exist")
    return vars(packet)[overload or "default"]


class Library:
    """Defines operations in a namespace, and sets their kernels."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operation by its schema. Returns its name."""
        op = OpOverload(self.ns, schema)
        packet = vars(getattr(ops, self.ns)).setdefault(op._opname, OpOverloadPacket(self.ns, op._opname))
        if op._overloadname in vars(packet):
            raise RuntimeError(f"Tried to register an operator ({op._schema}) with the same name and overload name multiple times.")
        vars(packet)[op._overloadname] = op
        return op._name.partition("::")[2]

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = True) -> None:
        """Set the kernel of an operation for a dispatch key."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if self.ns == "aten" or with_keyset:
            raise NotImplementedError(f"{self.ns}::{op_name}: PyTorch's own operations can't be replaced, and there are no keysets.")
        op = _overload(f"{self.ns}::{op_name}" if isinstance(op_name, str) and "::" not in op_name else op_name)
        if fn is not fallthrough_kernel:
            op._kernels[dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"] = fn


def fallthrough_kernel() -> None:
    """Stands for no kernel in `Library.impl`."""


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Define an operation: `define("mine::f", "(Tensor x) -> Tensor")`."""
    space, name = qualname.split("::")
    Library(space, "FRAGMENT").define(name + schema)


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Set the kernel of an operation for some kinds of device; a decorator without `func`."""

    def register(function: Any) -> Any:
        if isinstance(qualname, Library):
            qualname.impl(types, function, func or "")
            return function
        _overload(qualname).register_kernel(types, function)
        return None

    return register if func is None or isinstance(qualname, Library) else register(func)


class CustomOpDef:
    """What `custom_op` returns: a handle of the operation, with its methods."""

    def __init__(self, qualname: str, schema: str, fn: Callable[..., Any]) -> None:
        space, self._name = qualname.split("::")
        self._qualname, self._init_fn = qualname, fn
        self._opoverload = op = OpOverload(space, self._name + schema)
        op._definition = self
        packet = vars(getattr(ops, space))[self._name] = OpOverloadPacket(space, self._name)
        vars(packet)["default"] = op

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
    """Make an operation of an annotated function, and put it in `torch.ops`; a decorator without `fn`."""
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args, device_types=device_types, schema=schema)
    op = CustomOpDef(name, schema or infer_schema(fn, mutates_args=mutates_args), fn)
    op.register_kernel(device_types, fn)
    return op


def _of(method: str) -> Callable[..., Any]:
    def register(op: Any, /, *args: Any, lib: Any = None, allow_override: bool = True, **named: Any) -> Any:
        return getattr(_overload(op), method)(*args, **named)

    register.__doc__ = f"`{method}` of an operation, or of that of a name."
    return register


_NAMES = "register_fake", "register_autograd", "register_kernel", "register_vmap"
register_fake, register_autograd, register_kernel, register_vmap = map(_of, _NAMES)
impl_abstract = register_fake
as_of("torch._ops", OpOverload, OpOverloadPacket, _OpNamespace, _Ops)
as_of("torch._library.custom_ops", CustomOpDef)
as_of("torch.library", Library)
