"""The optimisers: for each its options and how it changes one array. Arithmetic and its order are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from functrace.torch._missing import as_of
from functrace.torch._tensor import Tensor, wrap
from functrace.torch.optim.optimizer import Array, Optimizer, State, count, moment, number

_FLAGS: dict[str, Any] = {"maximize": False, "foreach": None, "capturable": False, "differentiable": False}
_BETAS = (0.9, 0.999)
_BLOCK = 1 << 16  # elements


def _toward(average: Array, x: Array, weight: float) -> None:
    """`lerp_`: by whichever form is exact at the nearer end."""
    if weight < 0.5:
        change = x - average
        change *= weight
        average += change
    else:
        average[...] = x - (x - average) * (1 - weight)


def _squares(average: Array, g: Array, beta: float) -> None:
    average *= beta
    change = g * g
    change *= 1 - beta
    average += change


def _in_blocks(*arrays: Array) -> Iterable[tuple[Array, ...]]:
    """Arrays of one shape; large ones a block after another, so that what is computed in between stays in the cache."""
    size = arrays[0].size
    if size <= _BLOCK or not all(a.flags.c_contiguous for a in arrays):
        return (arrays,)
    flat = [a.reshape(-1) for a in arrays]
    return [tuple([a[k : k + _BLOCK] for a in flat]) for k in range(0, size, _BLOCK)]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Sutskever et al. 2013)."""

    _default_options = {
        "lr": 1e-3, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False, "foreach": None,
        "differentiable": False, "fused": None,
    }  # fmt: skip
    _positional_options = ("lr", "momentum", "dampening", "weight_decay", "nesterov")
    _steps_by_adding = True

    def _check_options(self, o: dict[str, Any]) -> None:
        super()._check_options(o)
        if o["nesterov"] and (o["momentum"] <= 0 or o["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        momentum, rate = o["momentum"], number(o["lr"])
        first = momentum and s.get("momentum_buffer") is None
        if first:
            s["momentum_buffer"] = wrap(np.array(g))
        for part, change, *averages in _in_blocks(p, g, *[s["momentum_buffer"]._a] if momentum else ()):
            for average in averages:
                if not first:
                    average *= momentum
                    average += change if not o["dampening"] else (1 - o["dampening"]) * change
                change = change + momentum * average if o["nesterov"] else average
            part -= np.multiply(change, rate, dtype=change.dtype)


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014), and AMSGrad."""

    _default_options = {
        "lr": 1e-3, "betas": _BETAS, "eps": 1e-8, "weight_decay": 0, "amsgrad": False, **_FLAGS, "fused": None,
        "decoupled_weight_decay": False,
    }  # fmt: skip
    _positional_options = ("lr", "betas", "eps", "weight_decay", "amsgrad")

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        b1, b2 = o["betas"]
        k = count(s)
        averages = [moment(s, "exp_avg", p), moment(s, "exp_avg_sq", p)]
        if o["amsgrad"]:
            averages.append(moment(s, "max_exp_avg_sq", p))
        root, rate = math.sqrt(1 - b2**k), number(o["lr"]) / (1 - b1**k)
        for part, change, first, second, *largest in _in_blocks(p, g, *averages):
            _toward(first, change, 1 - b1)
            _squares(second, change, b2)
            if largest:
                second = np.maximum(largest[0], second, out=largest[0])
            below = np.sqrt(second, out=np.empty_like(second))
            below /= root
            below += o["eps"]
            np.divide(first, below, out=below)
            below *= rate
            part -= below


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017)."""

    _default_options = {**Adam._default_options, "weight_decay": 1e-2, "decoupled_weight_decay": True}


class RMSprop(Optimizer):
    """RMSprop (Hinton), and its centred version (Graves 2013)."""

    _default_options = {
        "lr": 1e-2, "momentum": 0, "alpha": 0.99, "eps": 1e-8, "centered": False, "weight_decay": 0, "capturable": False,
        "foreach": None, "maximize": False, "differentiable": False,
    }  # fmt: skip
    _positional_options = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered")

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        count(s)
        second = moment(s, "square_avg", p)
        buffer = moment(s, "momentum_buffer", p) if o["momentum"] > 0 else None
        mean = moment(s, "grad_avg", p) if o["centered"] else None
        _squares(second, g, o["alpha"])
        if mean is not None:
            _toward(mean, g, 1 - o["alpha"])
            second = second - mean * mean
        below = np.sqrt(second) + o["eps"]
        if buffer is not None:
            buffer *= o["momentum"]
            buffer += g / below
            p -= number(o["lr"]) * buffer
        else:
            p -= number(o["lr"]) * (g / below)


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011)."""

    _default_options = {
        "lr": 1e-2, "lr_decay": 0, "eps": 1e-10, "weight_decay": 0, "initial_accumulator_value": 0, "foreach": None, "maximize": False,
        "differentiable": False, "fused": None,
    }  # fmt: skip
    _positional_options = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")

    def _ready_state(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["step"] = wrap(np.zeros((), np.float32))
                start = group["initial_accumulator_value"]
                moment(self.state[p], "sum", p._a, start * (1 + 1j) if p.is_complex() else start)

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        k = count(s)
        total = moment(s, "sum", p, o["initial_accumulator_value"])
        total += g * g
        p -= number(o["lr"]) / (1 + (k - 1) * o["lr_decay"]) * (g / (np.sqrt(total) + o["eps"]))


class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012)."""

    _default_options = {
        "lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0, "maximize": False, "capturable": False, "foreach": None,
        "differentiable": False,
    }  # fmt: skip
    _positional_options = ("lr", "rho", "eps", "weight_decay")

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        count(s)
        squares, moved = moment(s, "square_avg", p), moment(s, "acc_delta", p)
        _squares(squares, g, o["rho"])
        change = np.sqrt(moved + o["eps"]) / np.sqrt(squares + o["eps"]) * g
        _squares(moved, change, o["rho"])
        p -= number(o["lr"]) * change


class Adamax(Optimizer):
    """Adam with the maximum norm (Kingma and Ba 2014)."""

    _default_options = {
        "lr": 2e-3, "betas": _BETAS, "eps": 1e-8, "weight_decay": 0, "foreach": None, "maximize": False, "differentiable": False,
        "capturable": False,
    }  # fmt: skip
    _positional_options = ("lr", "betas", "eps", "weight_decay")

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        b1, b2 = o["betas"]
        k = count(s)
        first, largest = moment(s, "exp_avg", p), moment(s, "exp_inf", p)
        _toward(first, g, 1 - b1)
        largest *= b2
        np.maximum(largest, np.abs(g) + o["eps"], out=largest)
        p -= number(o["lr"]) / (1 - b1**k) * (first / largest)


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016)."""

    _default_options = {
        "lr": 2e-3, "betas": _BETAS, "eps": 1e-8, "weight_decay": 0, "momentum_decay": 4e-3, "decoupled_weight_decay": False,
        "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
    }  # fmt: skip
    _positional_options = ("lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay")

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        b1, b2 = o["betas"]
        k = count(s)
        if "mu_product" not in s:
            s["mu_product"] = wrap(np.ones((), np.float32))
        first, second = moment(s, "exp_avg", p), moment(s, "exp_avg_sq", p)
        mu, after = (b1 * (1.0 - 0.5 * 0.96 ** (j * o["momentum_decay"])) for j in (k, k + 1))
        s["mu_product"]._a *= mu
        product = float(s["mu_product"]._a)
        _toward(first, g, 1 - b1)
        _squares(second, g, b2)
        below = np.sqrt(second / (1 - b2**k)) + o["eps"]
        lr = number(o["lr"])
        p -= lr * (1 - mu) / (1 - product) * (g / below)
        p -= lr * after / (1 - product * after) * (first / below)


class RAdam(Optimizer):
    """Rectified Adam (Liu et al. 2019)."""

    _default_options = {
        "lr": 1e-3, "betas": _BETAS, "eps": 1e-8, "weight_decay": 0, "maximize": False, "foreach": None, "capturable": False,
        "decoupled_weight_decay": False, "differentiable": False,
    }  # fmt: skip
    _positional_options = ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay")

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        b1, b2 = o["betas"]
        k = count(s)
        first, second = moment(s, "exp_avg", p), moment(s, "exp_avg_sq", p)
        _toward(first, g, 1 - b1)
        _squares(second, g, b2)
        correction = 1 - b2**k
        longest = 2 / (1 - b2) - 1
        length = longest - 2 * k * b2**k / correction
        change = first / (1 - b1**k) * number(o["lr"])
        if length > 5.0:
            rectified = math.sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length))
            change = change * (math.sqrt(correction) / (np.sqrt(second) + o["eps"])) * rectified
        p -= change


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

    _default_options = {
        "lr": 1e-2, "lambd": 1e-4, "alpha": 0.75, "t0": 1e6, "weight_decay": 0, "foreach": None, "maximize": False,
        "differentiable": False, "capturable": False,
    }  # fmt: skip
    _positional_options = ("lr", "lambd", "alpha", "t0", "weight_decay")

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        lr = number(o["lr"])
        if not s:
            count(s)
            s["step"]._a[...] = 0
            s["eta"], s["mu"] = wrap(np.array(lr, np.float32)), wrap(np.ones((), np.float32))
        k, average = count(s), moment(s, "ax", p)
        eta, mu = float(s["eta"]._a), float(s["mu"]._a)
        p *= 1 - o["lambd"] * eta
        p -= eta * g
        if mu == 1:
            average[...] = p
        else:
            average += (p - average) * mu
        s["eta"]._a[...] = np.float32(lr / (1 + o["lambd"] * lr * k) ** o["alpha"])
        s["mu"]._a[...] = np.float32(1 / max(1, k - o["t0"]))


def _sign(x: Array) -> Array:
    """The sign, of NaN 0, as PyTorch has it."""
    return np.nan_to_num(np.sign(x))


class Rprop(Optimizer):
    """Resilient backpropagation (Riedmiller and Braun 1993)."""

    _default_options = {
        "lr": 1e-2, "etas": (0.5, 1.2), "step_sizes": (1e-6, 50), "foreach": None, "maximize": False, "differentiable": False,
        "capturable": False,
    }  # fmt: skip
    _positional_options = ("lr", "etas", "step_sizes")

    def _decayed_gradient(self, o: dict[str, Any], p: Array, g: Array) -> Array:
        return g  # though a group may say how much another optimiser should

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        count(s)
        before, size = moment(s, "prev", p), moment(s, "step_size", p, number(o["lr"]))
        less, more = o["etas"]
        way = _sign(g * before)
        size *= np.where(way > 0, more, np.where(way < 0, less, 1)).astype(p.dtype)
        np.clip(size, *o["step_sizes"], out=size)
        g = np.where(way < 0, 0, g).astype(p.dtype)
        p -= _sign(g) * size
        before[...] = g


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern 2018): of a matrix of mean squares, the means over rows and columns are remembered."""

    _default_options = {
        "lr": 1e-2, "beta2_decay": -0.8, "eps": (None, 1e-3), "d": 1.0, "weight_decay": 0.0, "foreach": None, "maximize": False,
    }  # fmt: skip
    _positional_options = ("lr", "beta2_decay", "eps", "d", "weight_decay")

    def _check_options(self, o: dict[str, Any]) -> None:
        if isinstance(o["lr"], Tensor) and o["lr"].numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        least = {"Learning rate": (number(o["lr"]), 0), "epsilon1": (o["eps"][0] or 0, 0), "epsilon2": (o["eps"][1], 0)}
        least |= {"Clipping threshold d": (o["d"], 1), "weight_decay": (o["weight_decay"], 0)}
        if o["beta2_decay"] > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {o['beta2_decay']}")
        for what, (x, low) in least.items():
            if not x >= low:
                raise ValueError(f"{what} should be >= {low} but is: {x}")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if any(p.is_complex() for p in self.param_groups[-1]["params"]):
            raise RuntimeError("Adafactor does not support complex parameters")

    def _decayed_gradient(self, o: dict[str, Any], p: Array, g: Array) -> Array:
        return g  # after the size of the step is known, which depends on that of the parameter

    def _update_one(self, o: dict[str, Any], p: Array, g: Array, s: State) -> None:
        k = count(s)
        weight = k ** o["beta2_decay"]
        low = np.finfo(p.dtype).eps if o["eps"][0] is None else o["eps"][0]
        size = max(o["eps"][1], _root_mean_square(p)) * min(number(o["lr"]), 1 / math.sqrt(k))
        if o["weight_decay"]:
            p *= 1 - number(o["lr"]) * o["weight_decay"]
        if p.ndim > 1:
            means = []
            for name, axis in (("row_var", -1), ("col_var", -2)):
                s.setdefault(name, wrap(np.zeros_like(np.sum(p, axis, keepdims=True))))
                means.append(s[name]._a)
                _toward(means[-1], np.sum(g * g, axis, keepdims=True) / g.shape[axis], weight)
            rows, columns = means
            squares = np.matmul(rows, columns) / np.maximum(np.mean(rows, -2, keepdims=True), low)
        else:
            squares = moment(s, "variance", p)
            _toward(squares, g * g, weight)
        step = g / np.sqrt(np.maximum(squares, p.dtype.type(low * low)))
        p -= size / max(1.0, _root_mean_square(step) / o["d"]) * step


def _root_mean_square(x: Array) -> float:
    return float(np.sqrt(np.sum(x * x))) / math.sqrt(x.size)


for _name, _class in list(globals().items()):
    if isinstance(_class, type) and issubclass(_class, Optimizer):
        as_of("torch.optim" if _class is Adafactor else f"torch.optim.{_name.lower()}", _class)
