"""`Optimizer`: groups of parameters with options, what is remembered of each parameter, and the step that subclasses fill in."""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._dtypes import warn
from functrace.torch._engine import Handle
from functrace.torch._leaves import forget
from functrace.torch._missing import REQUIRED, Pickled, init_from_options
from functrace.torch._modes import enable_grad, no_grad
from functrace.torch._tensor import Tensor, wrap

Array = Any
State = dict[str, Any]
_UNSUPPORTED = ("capturable", "differentiable")  # that they are True; `foreach` and `fused` only choose an implementation

ParamsT = Any  # of optimisers of other people, as is
required = object()  # in place of a default, in optimisers of other people
_EVERYWHERE: dict[str, OrderedDict[int, Any]] = {}  # hooks of all optimisers


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimiser."""
    return Handle(_EVERYWHERE.setdefault("before", OrderedDict()), hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(optimizer, args, kwargs)` after each step of any optimiser."""
    return Handle(_EVERYWHERE.setdefault("after", OrderedDict()), hook)


def number(x: Any) -> float:
    """An option that may be a 0-d tensor."""
    return float(x.item()) if isinstance(x, Tensor) else x


def real(a: Array) -> Array:
    """The array, of complex numbers a view of their two parts, which are steered apart."""
    return a if a.dtype.kind != "c" else a[..., None].view(a.real.dtype)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that calls the optimiser's hooks, and lets schedulers know of it; within another step, the step alone."""

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._within_step:
            return step(self, *args, **kwargs)
        args = (self, *args)  # as hooks get them
        for hook in self._step_hooks_of_kind("before"):
            new = hook(self, args, kwargs)
            if new is not None:
                if not isinstance(new, tuple) or len(new) != 2:
                    raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {new}.")
                args, kwargs = new
        self._within_step = self._opt_called = True
        try:
            loss = step(*args, **kwargs)
        finally:
            self._within_step = False
        for hook in self._step_hooks_of_kind("after"):
            hook(self, args, kwargs)
        return loss

    return hooked


class Optimizer(Pickled):
    """The base of all optimisers. A subclass states its options in `_default_options`, and `_update_one` for one parameter.

    >>> import functrace.torch as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """

    __module__ = "torch.optim.optimizer"
    _found_in = "functrace.torch.optim"
    _default_options: dict[str, Any] = {}
    _positional_options: tuple[str, ...] = ()
    _steps_by_adding = False  # whether PyTorch's changes a parameter by its `add_`
    _opt_called = _within_step = _has_scheduler = False

    def __init__(self, params: Any, defaults: dict[str, Any] | None = None) -> None:
        self.defaults = defaults or {}
        self.state: Any = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._step_hooks: dict[str, OrderedDict[int, Any]] = {}
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got " + params.type())
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(dict(group))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]
        if (own := cls.__dict__.get("_default_options")) is not None:
            ordered = {k: own[k] for k in (*cls._positional_options, *own)}
            init_from_options(cls, {"params": REQUIRED, **ordered}, Optimizer._take_options, own.keys() - {*cls._positional_options})

    def _take_options(self, given: dict[str, Any]) -> None:
        options = {k: given[k] for k in self._default_options}
        self._check_options(options)
        Optimizer.__init__(self, given["params"], options)
        self._ready_state()

    def _check_options(self, o: dict[str, Any]) -> None:
        """Refuse options that are out of range, or that are not honoured here."""
        for name in _UNSUPPORTED:
            if o.get(name):
                raise NotImplementedError(f"{type(self).__name__}: {name}=True is not in functrace.torch: leave it False.")
        if o.get("fused") and o.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        if len({isinstance(beta, Tensor) for beta in o.get("betas", ())}) > 1:
            raise ValueError("betas must be either both floats or both Tensors")
        for name in "lr momentum eps weight_decay alpha rho lr_decay momentum_decay initial_accumulator_value".split():
            if name in o and not number(o[name]) >= 0:
                what = {"lr": "learning rate", "eps": "epsilon value"}.get(name, f"{name} value")
                raise ValueError(f"Invalid {what}: {o[name]}")
        if not 0 <= number(o.get("rho", 0)) <= 1:
            raise ValueError(f"Invalid rho value: {o['rho']}")
        low, high = o.get("etas", (0.5, 2))
        if not 0 < low < 1 < high:
            raise ValueError(f"Invalid eta values: {low}, {high}")
        for k, beta in enumerate(o.get("betas", ())):
            if not 0.0 <= number(beta) < 1.0:
                raise ValueError(f"Invalid beta parameter at index {k}: {beta}")

    def _ready_state(self) -> None:
        """What is left to do when the groups are known."""

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for k, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {k}"] if k else [f"Parameter Group {k}"]
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _step_hooks={})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, with options of their own where the group has them."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change between "
                "runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        named = [isinstance(p, tuple) for p in params]
        if any(named) and not all(named):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        given = any(named)
        if self.param_groups and given != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if given else 'without'} names to the optimizer"
            )
        if given:
            param_group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        param_group["params"] = params
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf and not p.retains_grad:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, value in self.defaults.items():
            param_group.setdefault(name, value)
        if len(set(params)) != len(params):
            warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause an error")
        if not {p for group in self.param_groups for p in group["params"]}.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or write zeros there."""
        forget((p for group in self.param_groups for p in group["params"]), set_to_none)

    @_with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change each parameter that has a gradient. `closure` computes the loss, and the gradients, first."""
        if type(self)._update_one is Optimizer._update_one:
            raise NotImplementedError
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                g = p._grad
                if g is not None:
                    a, change, s = real(p._a), real(g._a), self.state[p]
                    parts = s if a is p._a else {k: wrap(real(x._a)) if isinstance(x, Tensor) else x for k, x in s.items()}
                    change = self._decayed_gradient(group, a, -change if group.get("maximize") else change)
                    by_class = self._steps_by_adding and type(p)._kept  # the class may have an `add_` of its own
                    moved = np.zeros_like(a) if by_class else a
                    self._update_one(group, moved, change, parts)
                    if by_class:
                        with no_grad():
                            p.add_(wrap(moved.view(p._a.dtype).reshape(p._a.shape)))
                    for k in [k for k in parts if k not in s]:  # what is remembered of complex numbers is complex
                        x = parts[k]._a
                        s[k] = parts[k] if x.ndim < a.ndim else wrap(x.view(p._a.dtype)[..., 0])
                    p._ver[0] += 1
        return loss

    def _decayed_gradient(self, o: dict[str, Any], p: Array, g: Array) -> Array:
        """The gradient with weight decay; decoupled, the parameter shrinks instead."""
        if not o.get("weight_decay"):
            return g
        if o.get("decoupled_weight_decay"):
            p *= 1 - number(o["lr"]) * o["weight_decay"]
            return g
        return g + o["weight_decay"] * p

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        """Change an array by a gradient, decay of weights included; `s` is what is remembered of it."""
        raise NotImplementedError

    def _step_hooks_of_kind(self, kind: str) -> list[Callable[..., Any]]:
        """The hooks of a kind, first those of all optimisers."""
        own = self.__dict__.get("_step_hooks", {})  # a wrapper around another optimiser need not call `__init__`
        return [*_EVERYWHERE.get(kind, {}).values(), *own.get(kind, {}).values()]

    def _add_step_hook(self, kind: str, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        return Handle(self._step_hooks.setdefault(kind, OrderedDict()), hook, prepend)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before each step; what it returns replaces args and kwargs."""
        return self._add_step_hook("before", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._add_step_hook("after", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` before `state_dict`."""
        return self._add_step_hook("state_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; what it returns replaces that."""
        return self._add_step_hook("state", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` before loading; what it returns is loaded in its place."""
        return self._add_step_hook("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` after loading."""
        return self._add_step_hook("load", hook, prepend)

    def state_dict(self) -> dict[str, Any]:
        """The state of each parameter, by number, and the groups' options."""
        for hook in self._step_hooks_of_kind("state_pre"):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[id(p)] for p in group["params"]]})
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items() if v}
        found = {"state": state, "param_groups": groups}
        for hook in self._step_hooks_of_kind("state"):
            found = hook(self, found) or found
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave. Raises ValueError unless the groups are of the same sizes."""
        state_dict = state_dict.copy()
        for hook in self._step_hooks_of_kind("load_pre"):
            state_dict = hook(self, state_dict) or state_dict
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        params = {k: p for a, b in zip(saved, self.param_groups) for k, p in zip(a["params"], b["params"])}

        def fitted(key: str, x: Any, p: Any) -> Any:
            if isinstance(x, Tensor):
                return wrap(x._a.astype(p._a.dtype if key != "step" and p._a.dtype.kind == "f" else x._a.dtype))
            return {k: fitted(k, v, p) for k, v in x.items()} if isinstance(x, dict) else copy.deepcopy(x)

        self.state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            p = params.get(key)
            self.state[key if p is None else p] = copy.deepcopy(value) if p is None else fitted("", value, p)
        for old, new in zip(self.param_groups, saved):
            old.update({k: copy.deepcopy(v) for k, v in new.items() if k != "params"})
        for hook in self._step_hooks_of_kind("load"):
            hook(self)


def moment(s: State, name: str, like: Array, fill: float = 0.0) -> Array:
    """An array that is remembered of a parameter, made when first asked for."""
    if name not in s:
        s[name] = wrap(np.full_like(like, fill))
    return s[name]._a


def count(s: State) -> float:
    """One more step: how many there were."""
    if "step" not in s:
        s["step"] = wrap(np.zeros((), np.float32))
    s["step"]._a += 1
    return float(s["step"]._a)
