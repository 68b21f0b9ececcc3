"""Random tensors, drawn from PyTorch's streams: `_random` has the numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import _dtypes, _random
from functrace.torch._apply import call
from functrace.torch._bind import underivable
from functrace.torch._checks import c_name, fits
from functrace.torch._contact import alike, same
from functrace.torch._create import creates, empty, empty_like, fills, keywords, makers, shape_of
from functrace.torch._dtypes import numpy_dtype
from functrace.torch._layout import like
from functrace.torch._limits import refuse
from functrace.torch._modes import no_grad, recording
from functrace.torch._nodes import Op
from functrace.torch._ops import public, zero
from functrace.torch._random import by_c
from functrace.torch._shape import COPY
from functrace.torch._tensor import Tensor, wrap
from functrace.torch._views import inplace, written_to


def _drawn(name: str, kind: str) -> tuple[Any, Any]:
    def draw(shape: tuple[int, ...], d: Any, generator: Any = None) -> Any:
        refuse(kind + "_", d)
        return _random.draw(kind, shape, d, generator)

    return makers(name, draw, "generator")


rand, rand_like = _drawn("rand", "uniform")
randn, _standard = _drawn("randn", "normal")


@functools.wraps(_standard)
def randn_like(input: Any, **options: Any) -> Any:
    if type(getattr(input, "_a", None)) is not np.ndarray or input._a.flags.c_contiguous:
        return _standard(input, **options)
    with no_grad():
        return empty_like(input, **options).normal_()


@fills
def randint(low: int = 0, high: Any = None, size: Any = None, *, generator: Any = None, dtype: Any = None) -> Any:
    """Integers from `low` (0) to `high - 1`."""
    high_alone = size is None or high is None
    if size is None:
        low, high, size = 0, low, high
        if isinstance(size, int):
            raise TypeError("randint(): argument 'size' (position 2) must be tuple of ints, not int")
    if high is None:
        low, high = 0, low
    low, high = (int(x) if isinstance(x, Tensor) else x for x in (low, high))
    if isinstance(low, float) or isinstance(high, float):
        name = "'low' (position 1)" if isinstance(low, float) else f"'high' (position {1 if high_alone else 2})"
        raise TypeError(f"randint(): argument {name} must be int, not float")
    shape = shape_of("randint", (size,))
    d = numpy_dtype(dtype, _dtypes.int64)
    if d.kind in "iu":
        info = np.iinfo(d)
        for n, what in ((low, "from"), (high - 1, "to - 1")):
            if not info.min <= n <= info.max:
                raise RuntimeError(f"{what} is out of bounds for {c_name(np.empty(0, d))}")
    values = _below(_source(generator), low, high, math.prod(shape)).reshape(shape)
    return values.astype(d)


def _below(source: _random.Generator, low: int, high: int, n: int) -> Any:
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return source.below(low, high, n)


@creates
def randint_like(
    input: Any, low: int = 0, high: int | None = None, *, generator: Any = None, dtype: Any = None, memory_format: Any = None
) -> Any:
    """Integers, in the shape and dtype of another tensor."""
    given = (0, low) if high is None else (low, high)
    return like(input._a, lambda shape: randint(*given, shape, generator=generator, dtype=dtype or input.dtype)._a)


@fills
def randperm(n: int, *, generator: Any = None, dtype: Any = None) -> Any:
    """The integers below n in random order."""
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    return _source(generator).permutation(n).astype(numpy_dtype(dtype, _dtypes.int64))


def _one(a: Any, name: str) -> Any:
    """What numbers are drawn by: a plain array, of one example at a time."""
    try:
        return alike(a, name)
    except NotImplementedError:
        raise RuntimeError(f'vmap: {name} draws by what differs between the examples: use randomness="different"') from None


def _given(node: str, arguments: int) -> Op:
    """Numbers drawn already, whose gradient in what they depend on is zero."""
    return Op(node, lambda *rest: rest[-1], [zero] * arguments, "Zero")


_BERNOULLI, _POISSON = _given("Bernoulli", 1), _given("Poisson", 1)
_NORMAL = {k: _given(f"NormalBackward{k}", n) for k, n in ((1, 1), (2, 1), (3, 2))}


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    **options: Any,
) -> Any:
    """Normal numbers of a mean and standard deviation, numbers or tensors."""
    if size is not None:
        made = empty(shape_of("normal", (size,)), dtype=dtype if out is None else out.dtype, **options)
        made = made.normal_(mean, std, generator=generator).requires_grad_(requires_grad)
        return made if out is None else written_to("normal", out, made)
    keywords("normal", options)
    first = mean if isinstance(mean, Tensor) else std
    refuse("normal_", first._a.dtype)
    if np.any(getattr(std, "_a", std) < 0):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    if isinstance(mean, Tensor) and isinstance(std, Tensor):
        fits(mean, std)
    shape = np.broadcast_shapes(np.shape(getattr(mean, "_a", mean)), np.shape(getattr(std, "_a", std)))
    with no_grad():
        made = (wrap(_random.draw("normal", shape, first._a.dtype, generator)) * std + mean).to(first.dtype)
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    result = call(_NORMAL[3 if len(given) == 2 else 1 if first is mean else 2], given, (made._a,))
    return result if out is None else written_to("normal", out, result)


def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Any:
    """1 with the probability that each element is (or p), else 0."""
    p = p.item() if isinstance(p, Tensor) else p
    made = empty(tuple(input.shape), dtype=input.dtype).bernoulli_(input if p is None else p, generator=generator)
    return call(_BERNOULLI, (input,), (made._a,))


def _source(generator: Any) -> _random.Generator:
    return generator or _random.default_generator


def _normal(x: Any, source: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    return _random.normal(x.size, x.dtype, source, mean, std, type(x) is not np.ndarray or x.flags.c_contiguous)


def _exponential(x: Any, source: Any, lambd: float = 1.0) -> Any:
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    return -by_c(math.log1p, -source.uniform(x.size, _F64)) / lambd


def _geometric(x: Any, source: Any, p: float) -> Any:
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    return np.ceil(by_c(math.log, source.uniform(x.size, _F64)) / math.log1p(-p))


def _bernoulli(x: Any, source: Any, p: Any = 0.5) -> Any:
    if isinstance(p, Tensor):
        chance = np.broadcast_to(_one(p._a, "bernoulli"), x.shape).ravel()
        if type(x) is np.ndarray and not x.flags.c_contiguous:
            chance = chance[np.argsort(like(x, lambda shape: np.arange(x.size).reshape(shape)).ravel())]
        kind = chance.dtype if chance.dtype.kind == "f" else np.dtype(np.float32)
    else:
        chance, kind = p, None
    if not np.all((chance >= 0) & (chance <= 1)):
        raise RuntimeError(
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please report an "
            "enhancement request to PyTorch.)"
            if np.ndim(chance)
            else f"bernoulli_ expects p to be in [0, 1], but got p={chance:g}"
        )
    return source.events(x.size, chance) if kind is None else source.uniform(x.size, kind) < chance


def _integers(x: Any, source: Any, low: Any = None, high: Any = ...) -> Any:
    digits = {2: 11, 4: 24, 8: 53}[x.dtype.itemsize] if x.dtype.kind == "f" else 0
    if low is not None:
        low, high = (0, low) if high is ... else (low, high)
        largest = 1 << digits if digits else 1 if x.dtype == np.bool_ else int(np.iinfo(x.dtype).max)
        return _below(source, low, largest + 1 if high is None else high, x.size)
    if digits:
        return (source.doublewords(x.size) if digits == 53 else source.words(x.size)) % np.uint64((1 << digits) + 1)
    if x.dtype == np.bool_:
        return source.words(x.size) & np.uint64(1)
    return (source.doublewords if x.dtype.itemsize == 8 else source.words)(x.size) % np.uint64(int(np.iinfo(x.dtype).max) + 1)


_F64 = np.dtype(np.float64)
FILLS: dict[str, Callable[..., Any]] = {
    "uniform_": lambda x, source, a=0.0, b=1.0: _random.uniform(x.size, x.dtype, source, a, b),
    "normal_": _normal,
    "bernoulli_": _bernoulli,
    "random_": _integers,
    "exponential_": _exponential,
    "geometric_": _geometric,
    "cauchy_": lambda x, source, median=0.0, sigma=1.0: median + sigma * by_c(math.tan, np.pi * (source.uniform(x.size, _F64) - 0.5)),
    "log_normal_": lambda x, source, mean=1.0, std=2.0: np.exp(source.normals(x.size) * std + mean),
}


def _laid(x: Any, drawn: Any) -> Any:
    """Numbers drawn for the elements of `x` as they lie in memory, in its shape and dtype."""
    return like(x, drawn.reshape).astype(x.dtype, copy=False)


@functools.cache
def _written(name: str, form: int) -> Op:
    return Op(f"{name.title().replace('_', '')}Backward{form}", COPY.fun, [zero, same], ("Zero", "Copy"))


def _filling(name: str, fill: Callable[..., Any]) -> None:
    renamed = {"from": "a" if name == "uniform_" else "low", "to": "b" if name == "uniform_" else "high"}

    def method(self: Any, *args: Any, generator: Any = None, **named: Any) -> Any:
        if self.is_meta:
            return self
        named = {renamed.get(k, k): v for k, v in named.items()}
        drawn = fill(self._a, _source(generator), *args, **named)
        form = {"random_": 2 - len(args) - len(named), "bernoulli_": 1 if any(isinstance(p, Tensor) for p in args) else 2}.get(name, 0)
        return inplace(_written(name, form), self, (wrap(_laid(self._a, drawn)),))

    method.__doc__ = "Overwrite with random numbers."
    public(method, name, torch=False)


for _name, _fill in FILLS.items():
    _filling(_name, _fill)
public(lambda self, *p, generator=None: bernoulli(self, *p, generator=generator), "bernoulli", torch=False)


def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """Indices drawn from each row with probabilities proportional to its elements."""
    p = input._a
    if p.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if p.dtype.kind != "f":
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype.scalar}")
    if not ((p >= 0) & (p < np.inf)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (p.sum(-1) > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > p.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if not replacement or num_samples == 1:
        ratio = p / _laid(p, _exponential(p, _source(generator)))
        return wrap(_dtypes.as_int64(np.argmax(ratio, -1, keepdims=True))) if num_samples == 1 else wrap(ratio).topk(num_samples)[1]
    rows = _one(p, "multinomial").reshape(-1, p.shape[-1])
    sums = np.cumsum(rows, axis=1, dtype=p.dtype)
    drawn = _source(generator).uniform(len(rows) * num_samples, _F64).reshape(len(rows), num_samples)
    found = [np.searchsorted(s / s[-1], u) for s, u in zip(sums, drawn)]
    return wrap(np.reshape(found, (*p.shape[:-1], num_samples)).astype(np.int64))


# numbers that are drawn until one is accepted


def _rejected(draw: Callable[..., float], source: Any, *parameters: Any) -> np.ndarray[Any, Any]:
    """One number for each element of the parameters, in order."""
    source = _source(source)
    rows = np.broadcast_arrays(*parameters)
    flat = zip(*(np.ravel(row).astype(np.float64).tolist() for row in rows))
    return np.reshape(np.array([draw(source, *row) for row in flat], np.float64), rows[0].shape)


def _share(source: Any) -> float:
    return float(source.uniform(1, _F64)[0])


_THIRD, _SQUEEZE = float(np.float32(1 / 3)), float(np.float32(0.0331))  # single precision there too


def _gamma_number(source: Any, shape: float) -> float:
    """G. Marsaglia and W. W. Tsang (2000), A simple method for generating gamma variables."""
    if not shape > 0:  # a NaN stays one
        return shape
    scale = 1.0
    if shape < 1:
        scale, shape = (1 - _share(source)) ** (1 / shape), shape + 1
    d = shape - _THIRD
    c = 1 / math.sqrt(9 * d)
    while True:
        x = float(source.normals(1)[0])
        y = 1 + c * x
        if y <= 0:
            continue
        v, u, xx = y * y * y, 1 - _share(source), x * x
        if u < 1 - _SQUEEZE * xx * xx or math.log(u) < xx / 2 + d * (1 - v + math.log(v)):
            return scale * d * v


def _poisson_number(source: Any, rate: float) -> float:
    """Products of uniform numbers for a small rate; W. Hörmann's transformed rejection (1993, PTRS) from 10 on."""
    if rate == 0:
        return 0.0
    if rate < 10:
        product, limit, k = _share(source), math.exp(-rate), 0
        while product > limit:
            product *= _share(source)
            k += 1
        return float(k)
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    log_alpha, fast = math.log(1.1239 + 1.1328 / (b - 3.4)), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = _share(source) - 0.5, _share(source)
        room = 0.5 - abs(u)
        k = math.floor((2 * a / room + b) * u + rate + 0.43)
        if room >= 0.07 and v <= fast:
            return float(k)
        if k < 0 or (room < 0.013 and v > room):
            continue
        if math.log(v) + log_alpha - math.log(a / room**2 + b) <= k * log_rate - rate - math.lgamma(k + 1):
            return float(k)


def _tail(k: float) -> float:
    """What Stirling's formula leaves of log k!."""
    return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + math.log(2 * math.pi) / 2)


def _binomial_number(source: Any, n: float, p: float) -> float:
    if n <= 0 or p <= 0:
        return 0.0
    if n != n or p != p:
        return math.nan
    if p >= 1:
        return n
    return n - _fewer(source, n, 1 - p) if p > 0.5 else _fewer(source, n, p)


def _fewer(source: Any, n: float, p: float) -> float:
    """Sums of geometric numbers where few are expected; else W. Hörmann's transformed rejection (1993, BTRS)."""
    if n * p < 10:
        total, k = 0.0, -1
        while total <= n:
            total += math.ceil(math.log(_share(source)) / math.log1p(-p))
            k += 1
        return float(k)
    spread = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a, c, fast = -0.0873 + 0.0248 * b + 0.01 * p, n * p + 0.5, 0.92 - 4.2 / b
    odds, alpha, m = p / (1 - p), (2.83 + 5.1 / b) * spread, math.floor((n + 1) * p)
    while True:
        u, v = _share(source) - 0.5, _share(source)
        room = 0.5 - abs(u)
        k = math.floor((2 * a / room + b) * u + c)
        if room >= 0.07 and v <= fast:
            return float(k)
        if not 0 <= k <= n:
            continue
        bound = (m + 0.5) * math.log((m + 1) / (odds * (n - m + 1))) + (n + 1) * math.log((n - m + 1) / (n - k + 1))
        bound += (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1)) + _tail(m) + _tail(n - m) - _tail(k) - _tail(n - k)
        if math.log(v * alpha / (a / room**2 + b)) <= bound:
            return float(k)


def gamma_numbers(shape: Any) -> np.ndarray[Any, Any]:
    """Gamma numbers of rate 1, in float64."""
    return _rejected(_gamma_number, None, shape)


def poisson(input: Any, generator: Any = None) -> Any:
    """Poisson numbers of the rates that each element is."""
    rate = _one(input._a, "poisson")
    if not (rate >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return call(_POISSON, (input,), (_rejected(_poisson_number, generator, rate).astype(rate.dtype),))


def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """How many of `count` trials succeed, each with the probability `prob`."""
    if count._a.dtype.kind != "f":
        raise ValueError(f"binomial only supports floating-point dtypes for count, got: {count.dtype.scalar}")
    if count._a.dtype != prob._a.dtype:
        raise RuntimeError(f"Found dtype {prob.dtype.scalar} but expected {count.dtype.scalar}")
    drawn = wrap(_rejected(_binomial_number, generator, *(_one(t._a, "binomial") for t in (count, prob))).astype(count._a.dtype))
    if not (recording() and (count._rg or prob._rg)):
        return drawn
    return call(underivable("binomial"), (drawn, count, prob))


for _name in "poisson binomial bernoulli multinomial normal rand rand_like randint randint_like randn randn_like randperm".split():
    public(globals()[_name], _name, method=_name == "multinomial")
