"""`Module`: a function with parameters, buffers and modules of its own."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from functrace.torch import _dtypes, _info
from functrace.torch._contact import trim
from functrace.torch._create import empty_like
from functrace.torch._dtypes import warn
from functrace.torch._leaves import forget
from functrace.torch._missing import Pickled, no_methods
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import type_name
from functrace.torch.nn.hooks import Hooked
from functrace.torch.nn.parameter import Buffer, Parameter

if TYPE_CHECKING:
    from typing_extensions import Self


class _IncompatibleKeys(namedtuple("IncompatibleKeys", "missing_keys unexpected_keys")):
    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


_IncompatibleKeys.__name__ = "_IncompatibleKeys"
_KINDS = {"parameter": "_parameters", "buffer": "_buffers", "module": "_modules"}


def _what(x: Any) -> str:
    return x.type() if isinstance(x, Tensor) else type(x).__name__


class Module(Pickled, Hooked):
    """The base of all modules. A subclass sets its parts in `__init__` and computes in `forward`.

    >>> import functrace.torch as torch
    >>> class Shift(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.by = torch.nn.Parameter(torch.ones(2))
    ...
    ...     def forward(self, x):
    ...         return x + self.by
    >>> Shift()(torch.zeros(2))
    tensor([1., 1.], grad_fn=<AddBackward0>)
    """

    __module__ = "torch.nn.modules.module"
    _found_in = "functrace.torch.nn"
    _version = 1
    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            got = (
                f"got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"takes 1 positional argument but {len(args) + 1} were given"
            )
            raise TypeError(f"{type(self).__name__}.__init__() {got}")
        self.__dict__.update(training=True, _parameters={}, _buffers={}, _non_persistent_buffers_set=set(), _modules={})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        no_methods(cls)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call computes: to be defined by subclasses."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._hooks_by_kind is None:
                return self.forward(*args, **kwargs)
            return self._call_hooked(args, kwargs)
        except Exception as error:
            trim(error)
            raise

    def __getattr__(self, name: str) -> Any:
        """A parameter, a buffer or a submodule."""
        parts = self.__dict__
        for kind in _KINDS.values():
            if kind in parts and name in parts[kind]:
                return parts[kind][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        parts = self.__dict__
        given = "parameter" if isinstance(value, Parameter) else "module" if isinstance(value, Module) else None
        if given is None and isinstance(value, Buffer):
            given = "buffer"
        if given is not None:
            if "_parameters" not in parts:
                what = "parameters" if given == "parameter" else given
                raise AttributeError(f"cannot assign {what} before Module.__init__() call")
            if name not in parts[_KINDS[given]]:
                self._forget_part(name)
            if given == "parameter":
                self.register_parameter(name, value)
            elif given == "buffer":
                self.register_buffer(name, value, value.persistent)
            else:
                parts["_modules"][name] = value
            return
        for kind, where in _KINDS.items():
            if name in parts.get(where, ()):
                if value is not None and not (kind == "buffer" and isinstance(value, Tensor)):
                    wanted = f"torch.nn.{kind.title()}" + ", torch.Tensor" * (kind == "buffer")
                    kind = "child module" if kind == "module" else kind
                    raise TypeError(f"cannot assign '{_what(value)}' as {kind} '{name}' ({wanted} or None expected)")
                parts[where][name] = value
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if not self._forget_part(name):
            object.__delattr__(self, name)

    def _forget_part(self, name: str) -> bool:
        found = False
        for where in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__[where].pop(name, self) is not self or found
        self._non_persistent_buffers_set.discard(name)
        return found or self.__dict__.pop(name, self) is not self

    def __dir__(self) -> list[str]:
        return sorted(k for k in {*super().__dir__(), *self._parameters, *self._buffers, *self._modules} if not k[0].isdigit())

    def _check_part_name(self, kind: str, name: Any) -> None:
        if _KINDS[kind] not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if hasattr(self, name) and name not in self.__dict__[_KINDS[kind]]:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, which can then be reached as an attribute."""
        self._check_part_name("parameter", name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{_what(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but not a parameter; saved if `persistent`."""
        self._check_part_name("buffer", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)")
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module, which can then be reached as an attribute."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type_name(module)} is not a Module subclass")
        self._check_part_name("module", name)
        self._modules[name] = module

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """The module that a dotted name means."""
        found = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(f"{type(found).__name__} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def _part_named(self, target: str, what: str, where: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        if name not in owner.__dict__[where]:
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(owner, name)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter that a dotted name means."""
        return self._part_named(target, "an nn.Parameter", "_parameters")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Any:
        """The buffer that a dotted name means."""
        return self._part_named(target, "a buffer", "_buffers")

    # walks
    def named_modules(self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Itself and all modules below, with their dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def _named_members(
        self, get_members_fn: Callable[[Module], Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        for path, module in self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]:
            for name, x in get_members_fn(module):
                if x is not None and x not in seen:
                    if remove_duplicate:
                        seen.add(x)
                    yield f"{path}.{name}" if path else name, x

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their dotted names."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters."""
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, m in self.named_children():
            yield m

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Itself and all modules below."""
        for _, m in self.named_modules(remove_duplicate=remove_duplicate):
            yield m

    # changes to the whole
    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module below, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """`train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or write zeros there."""
        forget(self.parameters(), set_to_none)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the module runs as it is, as `torch.compile(module)` does."""

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        for module in self.children() if recurse else ():
            module._apply(fn)
        for t in self._parameters.values():
            if t is not None:
                t._a = fn(wrap(t.__dict__["_a"]))._a  # `t._a` of a lazy module's would raise
                if t._grad is not None:
                    t._grad = fn(t._grad.detach())
        for name, t in self._buffers.items():
            if t is not None:
                self._buffers[name] = fn(t)
        return self

    def to(self, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Self:
        """Convert floating-point parameters and buffers, in place, to a dtype, and those of images to a memory format; or leave of all only
        shapes, on the device "meta".
        """
        device, dtype, *_, memory_format = _dtypes.parse_to(*args, device=device, dtype=dtype, memory_format=memory_format)
        if dtype is not None and dtype.category < _dtypes.FLOAT:
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(t: Any) -> Any:
            form = memory_format if t._a.ndim == 4 else None
            return t.to(dtype=dtype if t._a.dtype.kind in "fc" else None, device=device, memory_format=form)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Give all parameters and buffers memory of their own, with whatever is in it."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def float(self) -> Self:
        """Floating-point parameters and buffers as float32."""
        return self._to_floats(_dtypes.float32)

    def double(self) -> Self:
        """Floating-point parameters and buffers as float64."""
        return self._to_floats(_dtypes.float64)

    def half(self) -> Self:
        """Floating-point parameters and buffers as float16."""
        return self._to_floats(_dtypes.NAMES["float16"])

    def bfloat16(self) -> Self:
        """Raises NotImplementedError: NumPy has no such type."""
        return self._to_floats(_info.bfloat16)

    def _to_floats(self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t._a.dtype.kind == "f" else t)

    def type(self, dst_type: Any) -> Self:
        """All parameters and buffers cast."""
        return self._apply(lambda t: t.type(dst_type))

    def share_memory(self) -> Self:
        """Itself: there is one process."""
        return self

    def cpu(self) -> Self:
        """Itself. Raises NotImplementedError on "meta"."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Raises: there is no other device than the CPU."""
        return self._apply(lambda t: t.cuda(device))

    # state
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, t in itertools.chain(self._parameters.items(), self._buffers.items()):
            if t is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = t if keep_vars else t.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[f"{prefix}_extra_state"] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """What else to save: to be defined by subclasses."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers by dotted name, on the same memory."""
        if args:
            given: tuple[Any, ...] = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook, _ in self._hooks_of_kind("state_pre"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, _ in self._hooks_of_kind("state"):
            destination = hook(self, destination, prefix, local) or destination
        return destination

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any, unexpected_keys: Any, error_msgs: Any
    ) -> None:
        for hook, _ in self._hooks_of_kind("load_pre"):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = {
            k: t for k, t in {**self._parameters, **self._buffers}.items() if t is not None and k not in self._non_persistent_buffers_set
        }
        for name, t in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            if error := _load_part(self, name, t, key, state_dict[key], bool(local_metadata.get("assign_to_params_buffers"))):
                error_msgs.append(error)
        extra = f"{prefix}_extra_state"
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        for key in state_dict if strict else ():
            rest = key.removeprefix(prefix)
            if key.startswith(prefix) and key != extra:
                first, *more = rest.split(".", 1)
                if first not in (self._modules if more else own):
                    unexpected_keys.append(key)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy saved parameters and buffers into this module. With `strict` raises RuntimeError unless the names are the same."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", {})

        def load(module: Module, state: Any, prefix: str) -> None:
            local = {**metadata.get(prefix[:-1], {}), **({"assign_to_params_buffers": True} if assign else {})}
            module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in state.items() if k.startswith(below)}, below)
            for hook, _ in module._hooks_of_kind("load"):
                hook(module, _IncompatibleKeys(missing, unexpected))

        load(self, OrderedDict(state_dict), "")
        if strict:
            for keys, what in ((missing, "Missing"), (unexpected, "Unexpected")):
                if keys:
                    names = ", ".join(f'"{k}"' for k in keys)
                    errors.insert(0 if what == "Missing" else bool(missing), f"{what} key(s) in state_dict: {names}. ")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)

    # printing
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What to print between the parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._modules.items()]
        if not lines and "\n" not in extra:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join([*(extra.split("\n") if extra else []), *lines]) + "\n)"


def _load_part(module: Module, name: str, t: Any, key: str, x: Any, assign: bool) -> str:
    """Take a parameter or buffer from a saved one, or say why it can't be."""
    if not isinstance(x, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint but received {type(x)}'
        )
    if hasattr(t, "materialize") and hasattr(x, "materialize"):
        return ""  # both are still to be made
    if x._a.shape != t._a.shape and not (t._a.ndim == 0 and x._a.shape == (1,)):
        return f"size mismatch for {key}: copying a param with shape {x.shape} from checkpoint, the shape in current model is {t.shape}."
    if assign:
        setattr(module, name, Parameter(x, t._rg) if isinstance(t, Parameter) and not isinstance(x, Parameter) else x)
    elif t.is_meta and not x.is_meta:
        warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, which is a "
            "no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their corresponding key in the "
            "module instead of copying them in place?)"
        )
    else:
        t._a[...] = x._a.reshape(t._a.shape)
        t._ver[0] += 1
    return ""
