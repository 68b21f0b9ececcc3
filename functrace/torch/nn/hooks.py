"""Hooks of modules: what is called before and after `forward`, on the way back, and round saving and loading."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from functrace.torch._contact import replaced
from functrace.torch._dtypes import warn
from functrace.torch._engine import Handle
from functrace.torch._modes import recording
from functrace.torch._tensor import Tensor
from functrace.torch.autograd.function import Function

EVERYWHERE: dict[str, OrderedDict[int, Any]] = {}  # hooks on all modules
_WITH_KEYWORDS: set[int] = set()  # the handles of hooks that are called with the keywords too
_ALWAYS: set[int] = set()  # those of hooks that are called where `forward` fails too


def on_all_modules(kind: str) -> Callable[..., Handle]:
    """The function that registers hooks of a kind on all modules."""

    def register(hook: Callable[..., Any]) -> Handle:
        Hooked._hooks_by_kind = Hooked._hooks_by_kind or {}  # now every call looks for hooks
        return Handle(EVERYWHERE.setdefault(kind, OrderedDict()), hook)

    return register


register_module_forward_pre_hook, register_module_forward_hook = on_all_modules("pre"), on_all_modules("post")
register_module_full_backward_hook, register_module_full_backward_pre_hook = on_all_modules("backward"), on_all_modules("backward_pre")


_OUTPUTS_ONLY = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require gradients. See "
    "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more details."
)


class BackwardHookFunction(Function):
    """The identity: where a module's backward hooks see the gradients."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*(t for t in args if not t._rg))
        return args

    @staticmethod
    def backward(_ctx: Any, *grads: Any) -> Any:
        return grads


def _hook_point(tensors: list[Any]) -> Any:
    out = BackwardHookFunction.apply(*tensors)
    return out, next(t for t in out if t._rg).grad_fn


def _replaced(grads: tuple[Any, ...], new: Any, what: str) -> tuple[Any, ...]:
    """The gradients that a hook returned, if it did, else those that it was given."""
    if new is None:
        return grads
    found = tuple(new) if isinstance(new, (tuple, list)) else (new,)
    if len(found) != len(grads):
        raise RuntimeError(f"Backward {what}, got {len(found)}, but expected {len(grads)}")
    return found


def _unwrapped(x: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    """The items of a tuple, or the one thing that it is, and a function that puts it together again."""
    return (list(x), tuple) if isinstance(x, tuple) else ([x], lambda items: items[0])


def _without_module(hook: Callable[..., Any], _module: Any, *args: Any) -> Any:
    """A hook that is not given the module: partial, as that is copied and pickled with what it belongs to."""
    return hook(*args)


class Hooked:
    """What `Module` does with hooks."""

    _hooks_by_kind: Any = None  # kind of hook: functions by the numbers of their handles
    forward: Callable[..., Any]

    def _hooks_of_kind(self, kind: str) -> list[Any]:
        """The hooks of a kind, first those of all modules; each with whether it is given keywords."""
        own = (self._hooks_by_kind or {}).get(kind, {})
        return [(hook, False) for hook in EVERYWHERE.get(kind, {}).values()] + [(hook, k in _WITH_KEYWORDS) for k, hook in own.items()]

    def _own_hooks_of_kind(self, kind: str) -> OrderedDict[int, Any]:
        found: OrderedDict[int, Any] = self.__dict__.setdefault("_hooks_by_kind", {}).setdefault(kind, OrderedDict())
        return found

    def _add_module_hook(self, kind: str, hook: Callable[..., Any], prepend: bool = False, with_keywords: bool = False) -> Handle:
        full = kind == "backward"
        if kind in ("backward", "backward_last") and self.__dict__.setdefault("_is_full_backward_hook", full) is not full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
            )
        handle = Handle(self._own_hooks_of_kind(kind), hook, prepend)
        if with_keywords:
            _WITH_KEYWORDS.add(handle.id)
        return handle

    _forward_hooks = property(lambda self: self._own_hooks_of_kind("post"))
    _forward_pre_hooks = property(lambda self: self._own_hooks_of_kind("pre"))
    _backward_hooks = property(lambda self: self._own_hooks_of_kind("backward"))
    _backward_pre_hooks = property(lambda self: self._own_hooks_of_kind("backward_pre"))

    def register_forward_pre_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Call `hook(module, args)` before `forward`; what it returns replaces the arguments."""
        return self._add_module_hook("pre", hook, prepend, with_kwargs)

    def register_forward_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False) -> Handle:
        """Call `hook(module, args, output)` after `forward`; what it returns replaces the output."""
        handle = self._add_module_hook("post", hook, prepend, with_kwargs)
        if always_call:
            _ALWAYS.add(handle.id)
        return handle

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_output)` before the gradients of the module's inputs are computed; what it returns replaces it."""
        return self._add_module_hook("backward_pre", hook, prepend)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_input, grad_output)` after the gradients of the inputs are computed; what it returns replaces them."""
        return self._add_module_hook("backward", hook, prepend)

    def register_backward_hook(self, hook: Any) -> Handle:
        """Call `hook(module, grad_input, grad_output)` of the last operation in the module; `register_full_backward_hook` is better."""
        return self._add_module_hook("backward_last", hook)

    def register_state_dict_pre_hook(self, hook: Any) -> Handle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict`."""
        return self._add_module_hook("state_pre", hook)

    def register_state_dict_post_hook(self, hook: Any) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`."""
        return self._add_module_hook("state", hook)

    def register_load_state_dict_pre_hook(self, hook: Any) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)` before loading."""
        return self._add_module_hook("load_pre", hook)

    def register_load_state_dict_post_hook(self, hook: Any) -> Handle:
        """Call `hook(module, incompatible_keys)` after loading."""
        return self._add_module_hook("load", hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def _register_load_state_dict_pre_hook(self, hook: Any, with_module: bool = False) -> Handle:
        return self._add_module_hook("load_pre", hook if with_module else functools.partial(_without_module, hook))

    def _call_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        done: list[Any] = []
        try:
            return self._call_with_hooks(args, kwargs, done)
        except Exception:
            for k, hook in (self._hooks_by_kind or {}).get("post", {}).items():
                if k in _ALWAYS and hook not in done:
                    hook(self, args, *(kwargs,) * (k in _WITH_KEYWORDS), None)
            raise

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], done: list[Any]) -> Any:
        for hook, keywords in self._hooks_of_kind("pre"):
            new = hook(self, args, kwargs) if keywords else hook(self, args)
            if new is not None and keywords:
                if not isinstance(new, tuple) or len(new) != 2:
                    raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {new}.")
                args, kwargs = new
            elif new is not None:
                args = new if isinstance(new, tuple) else (new,)
        watched = bool(self._hooks_of_kind("backward") or self._hooks_of_kind("backward_pre")) and recording()
        seen: dict[str, Any] = {}
        if watched:
            args = self._watch_inputs(args, seen)
        out = self.forward(*args, **kwargs)
        for hook, keywords in self._hooks_of_kind("post"):
            done.append(hook)
            new = hook(self, args, kwargs, out) if keywords else hook(self, args, out)
            if new is not None:
                out = new
        if "backward_last" in (self._hooks_by_kind or {}):
            self._watch_last(out)
        return self._watch_outputs(out, seen) if watched else out

    def _watch_inputs(self, args: tuple[Any, ...], seen: dict[str, Any]) -> tuple[Any, ...]:
        which = [k for k, x in enumerate(args) if isinstance(x, Tensor)]
        seen["inputs"] = count = len(args)  # `after` must not hold the tensors: they lead to the node that holds it
        if not any(args[k]._rg for k in which):
            return args
        tensors, node = _hook_point([args[k] for k in which])
        seen["watched"] = True

        def after(grads: Any, _outs: Any) -> Any:
            if "grad_output" not in seen:  # the gradient did not come through the module's outputs
                return None
            given = self._run_backward(tuple(replaced([None] * count, which, grads)), seen["grad_output"])
            return tuple(given[k] for k in which)

        node.register_hook(after)
        return tuple(replaced(args, which, tensors))

    def _run_backward(self, grad_input: Any, grad_output: Any) -> Any:
        for hook, _ in self._hooks_of_kind("backward"):
            grad_input = _replaced(grad_input, hook(self, grad_input, grad_output), "hook returned an invalid number of grad_input")
        return grad_input

    def _watch_last(self, out: Any) -> None:
        while not isinstance(out, Tensor):
            out = next(iter(out.values())) if isinstance(out, dict) else out[0]
        node = out.grad_fn
        if node is not None:
            for hook, _ in self._hooks_of_kind("backward_last"):
                node.register_hook(functools.partial(hook, self))

    def _watch_outputs(self, out: Any, seen: dict[str, Any]) -> Any:
        if not isinstance(out, (Tensor, tuple)):
            warn("For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received " + str(type(out)))
        items, put = _unwrapped(out)
        count = len(items)
        which = [k for k, x in enumerate(items) if isinstance(x, Tensor)]
        if not any(items[k]._rg for k in which):
            return out
        tensors, node = _hook_point([items[k] for k in which])

        def after(_grads: Any, grads: Any) -> Any:
            row = tuple(replaced([None] * count, which, grads))
            for hook, _ in self._hooks_of_kind("backward_pre"):
                row = _replaced(row, hook(self, row), "pre hook returned an invalid number of grad_output")
            seen["grad_output"] = row
            if "watched" not in seen:
                if self._hooks_of_kind("backward"):
                    warn(_OUTPUTS_ONLY)
                self._run_backward((None,) * seen["inputs"], row)
            return tuple(row[k] for k in which)

        node.register_hook(after)
        return put(replaced(items, which, tensors))
