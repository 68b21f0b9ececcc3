"""PyTorch's CPU random numbers: the same Mersenne twister, read in the same way, so that the same seed prints the same numbers."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._checks import c_name
from functrace.torch._tensor import wrap

_MASK64 = (1 << 64) - 1
_STATE = np.dtype(  # PyTorch's layout
    [("seed", "u8"), ("left", "i4"), ("seeded", "i4"), ("next", "u8"), ("state", "624u8"), ("unused", "f8"), ("normal", "f8"),
     ("rho", "f8"), ("valid", "i8"), ("single", "f8")]
)  # fmt: skip
_WORDS = 624  # that the twister makes at a time
_LOW21, _LOW24, _LOW53, _HALF = (*(np.uint64((1 << k) - 1) for k in (21, 24, 53)), np.uint64(32))
_BLOCK = 16  # numbers that the normal transform of a large tensor takes at a time
_AT_ONCE = 1 << 15  # numbers of which the arrays in between stay in the cache
_REFUSED = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap or "
    "perform the randomness operation out of vmap"
)
no_draws: ContextVar[bool] = ContextVar("functrace.torch.no_draws", default=False)  # whether to draw is an error


class Generator:
    """A source of random numbers with its own state."""

    __module__ = "torch._C"

    def __init__(self, device: Any = "cpu") -> None:
        _dtypes.usable(device)
        self.device = _dtypes.CPU
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from a seed. Returns itself."""
        seed = int(seed)
        if not -(1 << 63) <= seed <= _MASK64:
            raise ValueError("Overflow when unpacking long long")
        self._seed = seed & _MASK64
        self.__dict__.pop("_bits", None)
        self._taken = 0  # words so far; of those that were made with the last of them, `_made`, the first `_taken % _WORDS` are taken
        self._normal: float | None = None  # the second of a pair of normal numbers, for the next draw
        self._ahead: tuple[int, Any] = 0, np.empty(0, np.float32)  # after how many words there are normal numbers already, and these
        return self

    @functools.cached_property
    def _bits(self) -> Any:
        bits = np.random.MT19937()  # NumPy's module of random numbers is imported when the first is drawn
        bits._legacy_seeding(self._seed & 0xFFFFFFFF)
        return bits

    def seed(self) -> int:
        """Start again from a seed that the system chooses, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        return self._seed

    def initial_seed(self) -> int:
        """The seed last set."""
        return self._seed

    def get_state(self) -> Any:
        """The state, a uint8 tensor."""
        state, place = self._bits.state["state"], (self._taken - 1) % _WORDS + 1 if self._taken else 0
        raw = np.array(
            (self._seed, _WORDS + 1 - (place or _WORDS), 1, place, state["key"], 0, self._normal or 0, 0, self._normal is not None, 0),
            _STATE,
        )
        return wrap(np.frombuffer(raw.tobytes(), np.uint8).copy())

    def set_state(self, state: Any) -> Generator:
        """Go back to a state that `get_state` gave."""
        a = np.asarray(state)
        if a.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if a.size != _STATE.itemsize:
            raise RuntimeError("RNG state is wrong size")
        raw = np.frombuffer(a.tobytes(), _STATE)[0]
        self.manual_seed(int(raw["seed"]))
        place = _WORDS + 1 - int(raw["left"])
        self._taken = 0 if place == _WORDS and raw["next"] == 0 else place
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": raw["state"].astype(np.uint32), "pos": place}}
        self._made = np.concatenate((np.zeros(place, np.uint64), self._bits.random_raw(_WORDS - place)))
        self._normal = float(raw["normal"]) if raw["valid"] else None
        return self

    def words(self, n: int) -> np.ndarray[Any, Any]:
        """`n` numbers of 32 bits, as uint64. Raises within `vmap`, unless it was told what to do with them."""
        if no_draws.get():
            raise RuntimeError(_REFUSED)
        with _lock:
            place = self._taken % _WORDS
            self._taken += n
            if 0 < place <= _WORDS - n:
                return self._made[place : place + n]
            parts = [self._made[place:]] if place else []
            n -= _WORDS - place if place else 0
            parts.append(self._bits.random_raw(n - n % _WORDS))
            if n % _WORDS:
                self._made = self._bits.random_raw(_WORDS)
                parts.append(self._made[: n % _WORDS])
            return np.concatenate(parts)

    def doublewords(self, n: int) -> np.ndarray[Any, Any]:
        """`n` numbers of 64 bits, the high half drawn first."""
        pairs = self.words(2 * n).reshape(n, 2)
        whole: np.ndarray[Any, Any] = (pairs[:, 0] << _HALF) | pairs[:, 1]
        return whole

    def uniform(self, n: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """`n` numbers in [0, 1): of 53 random bits in float64, else float32 of 24."""
        if dtype.itemsize == 8:
            return (self.doublewords(n) & _LOW53).astype(np.float64) * 2.0**-53
        numbers: np.ndarray[Any, Any] = _of_24_bits(self.words(n))
        return numbers

    def events(self, n: int, chance: float) -> np.ndarray[Any, Any]:
        """Whether each of `n` uniform numbers in float64 is below `chance`: nearly always its first 21 bits tell."""
        high, low = divmod(math.ceil(chance * 2.0**53), 1 << 32)
        out = np.empty(n, np.bool_)
        with _lock:
            for k in range(0, n, _AT_ONCE):
                found = out[k : k + _AT_ONCE]
                pairs = self.words(2 * found.size).reshape(-1, 2)
                first = pairs[:, 0] & _LOW21
                np.less(first, high, out=found)
                for j in np.flatnonzero(first == high).tolist():
                    found[j] = pairs[j, 1] < low
        return out

    def normal(self, n: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """`n` standard normal numbers: in pairs if few, by blocks of 16 if many. Those for float16 are float32."""
        if n < _BLOCK:
            return self.normals(n).astype(_inner(dtype))
        whole, short = n // _BLOCK * _BLOCK, dtype == np.float16
        if whole == n:
            return self._whole_blocks(n) if dtype == np.float32 else _blocks(self.uniform(n, dtype))
        u = self.uniform((whole if short else n) + _BLOCK, dtype)  # the last block is of numbers of its own
        z = _blocks(np.concatenate((u[:whole], u[-_BLOCK:])))
        return np.concatenate((z[: n - _BLOCK], z[whole:]))

    def _whole_blocks(self, n: int) -> np.ndarray[Any, Any]:
        """`n` normal numbers in float32. Where their blocks are in step with those before, what words there are become some at once."""
        with _lock:
            first, words = self._taken, self.words(n)
            start, ahead = self._ahead
            place = first % _WORDS
            if (first - start) % _BLOCK or not 0 < place <= _WORDS - n:
                self._ahead = first, ahead[:0]
                return _blocks(_of_24_bits(words))
            if first + n > start + ahead.size:
                rest = self._made[place : _WORDS - (_WORDS - place) % _BLOCK]
                self._ahead = start, ahead = first, _blocks(_of_24_bits(rest))
            out: np.ndarray[Any, Any] = ahead[first - start : first - start + n].copy()
            return out

    def normals(self, n: int) -> np.ndarray[Any, Any]:
        """`n` standard normal numbers in float64, drawn in pairs."""
        out: list[float] = []
        self.words(0)  # before what is left of the last pair is taken
        if n and self._normal is not None:
            out, self._normal = [self._normal], None
        numbers = iter(self.uniform((n - len(out) + 1) // 2 * 2, np.dtype(np.float64)).tolist())
        for u1, u2 in zip(numbers, numbers):
            radius, angle = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
            out += radius * math.cos(angle), radius * math.sin(angle)
        if len(out) > n:
            self._normal = out.pop()
        return np.array(out, np.float64)

    def below(self, low: int, high: int, n: int) -> np.ndarray[Any, Any]:
        """`n` integers from `low` to `high - 1`."""
        span = high - low
        draws = self.doublewords(n) if span >= 1 << 28 else self.words(n)
        return (draws % np.uint64(span)).astype(np.int64) + low

    def permutation(self, n: int) -> np.ndarray[Any, Any]:
        """The integers below `n`, shuffled."""
        out = list(range(n))
        for i, word in enumerate(self.words(max(0, n - 1)).tolist()):
            j = i + word % (n - i)
            out[i], out[j] = out[j], out[i]
        return np.array(out, np.int64)


_lock = threading.RLock()


def _of_24_bits(words: Any) -> Any:
    return (words & _LOW24).astype(_F32) * _F32(2.0**-24)


def by_c(function: Callable[[float], float], x: Any) -> Any:
    """A function of the C library of each number: on some CPUs NumPy's own differ from it in the last bit."""
    return np.fromiter(map(function, x.ravel().tolist()), _F64, x.size).reshape(x.shape)


def _blocks(u: Any) -> np.ndarray[Any, Any]:
    """Uniform numbers, 8 radii and 8 angles in each block of 16, to normal ones."""
    out: np.ndarray[Any, Any] = np.empty_like(u)
    exact = u.dtype != np.float32
    for k in range(0, u.size, _AT_ONCE):
        rows = u[k : k + _AT_ONCE].reshape(-1, 2, _BLOCK // 2)
        radius, angle = rows.swapaxes(0, 1).astype(_F64 if exact else _F32, "C").reshape(2, -1)
        radius = by_c(math.log, 1 - radius) if exact else _log(1 - radius)
        radius *= -2
        angle *= radius.dtype.type(2 * np.pi)
        turned = np.stack((by_c(math.cos, angle), by_c(math.sin, angle))) if exact else _cosine_and_sine(angle)
        turned *= np.sqrt(radius, out=radius)
        out[k : k + _AT_ONCE].reshape(rows.shape)[...] = turned.reshape(2, *rows.shape[::2]).swapaxes(0, 1)
    return out


# In float32 PyTorch uses the polynomials of the Cephes library, with each product and sum rounded once.

_F32, _F64 = np.float32, np.float64


def _rounded(*numbers: Any) -> Any:
    return np.array(numbers, _F32).astype(_F64)


_LOG = _rounded(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
        -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
_COSINE_AND_SINE = _rounded(
    [[2.443315711809948e-5], [-1.9515295891e-4]],
    [[-1.388731625493765e-3], [8.3321608736e-3]],
    [[4.166664568298827e-2], [-1.6666654611e-1]],
)
_QUARTER = _rounded(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # pi / 4


_ROOT = np.array(math.sqrt(0.5), _F32).view(np.int32)[()]


def _polynomial(coefficients: Any, x: Any) -> tuple[Any, Any]:
    """By Horner's rule, of float64 numbers: in float32 each step is rounded once, for float64 holds the product. The result in both."""
    y = coefficients[0] * x
    y += coefficients[1]
    rounded = np.empty(y.shape, _F32)
    for c in coefficients[2:]:
        rounded[...] = y
        y[...] = rounded
        y *= x
        y += c
    rounded[...] = y
    return y, rounded


def _log(x: Any) -> Any:
    bits = x.view(np.int32) - _ROOT
    e = (bits >> 23).astype(_F32)
    bits &= (1 << 23) - 1
    bits += _ROOT
    x = bits.view(_F32)  # from the root of 1/2 to that of 2
    x -= 1
    z = x * x
    wide, y = _polynomial(_LOG, x.astype(_F64))
    y *= x
    wide[...] = y
    wide *= z
    wide += e * _F32(-2.12194440e-4)
    y[...] = wide
    z *= _F32(0.5)  # exact, as is the last product
    y -= z
    y += x
    e *= _F32(0.693359375)
    y += e
    return y


def _cosine_and_sine(x: Any) -> Any:
    octant = (x * _F32(4 / math.pi)).astype(np.int32)
    octant += 1
    octant &= ~1
    wide, rest, x = octant.astype(_F64), x.astype(_F64), x.copy()
    for part in _QUARTER:
        rest += wide * part
        x[...] = rest
        rest[...] = x
    z = x * x
    wide[...] = z
    precise, both = _polynomial(_COSINE_AND_SINE, wide)
    both *= z
    precise[...] = both
    precise *= np.stack((wide, rest))
    z *= _F32(0.5)
    precise += np.stack((-z, x))
    both[...] = precise
    both[0] += 1
    cosine, sine = both.view(np.int32)
    turned = cosine ^ sine
    turned &= -(octant >> 1 & 1)  # where they change places
    cosine ^= turned
    sine ^= turned
    cosine ^= ((octant + 2) & 4) << 29  # the sign
    sine ^= (octant & 4) << 29
    return both


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Start the default generator again from a seed."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator from a seed that the system chooses."""
    return default_generator.seed()


def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


def _inner(dtype: np.dtype[Any]) -> Any:
    """The type in which PyTorch computes: half numbers are rounded last."""
    return _F32 if dtype == np.float16 else dtype.type


def scaled(x: np.ndarray[Any, Any], scale: float, shift: float, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """`x * scale + shift` rounded once, as PyTorch's compiler has it: in float64 by Dekker's exact product."""
    if scale == 1 and shift == 0:
        return x.astype(dtype, copy=False)
    if dtype != np.float64:
        one = _inner(dtype)
        return (x.astype(np.float64) * float(one(scale)) + float(one(shift))).astype(one).astype(dtype, copy=False)
    if scale == 1 or shift == 0:  # rounded once as it is
        return x * scale + shift
    product = x * scale
    high, top = (v - (v - a) for a in (x, scale) for v in [a * 134217729.0])
    error = high * top - product + high * (scale - top) + (x - high) * top + (x - high) * (scale - top)
    total = product + shift
    back = total - product
    out: np.ndarray[Any, Any] = total + (product - (total - back) + (shift - back) + error)
    return out


def draw(kind: str, shape: Sequence[int], dtype: np.dtype[Any], generator: Generator | None = None) -> np.ndarray[Any, Any]:
    """An array of `uniform` or `normal` numbers."""
    return (uniform if kind == "uniform" else normal)(math.prod(shape), dtype, generator or default_generator).reshape(shape)


def _parts(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a complex number's parts, which are drawn in turn."""
    return np.empty(0, dtype).real.dtype


def normal(
    n: int, dtype: np.dtype[Any], source: Generator, mean: float = 0.0, std: float = 1.0, dense: bool = True
) -> np.ndarray[Any, Any]:
    """`n` normal numbers of a mean and standard deviation, for an array that is `dense` in row-major order, or not."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if dtype.kind == "c":  # of that variance in all
        return normal(2 * n, _parts(dtype), source, mean, std / math.sqrt(2), dense).view(dtype)
    if n < _BLOCK or not dense:
        return scaled(source.normals(n), std, mean, np.dtype(np.float64)).astype(_inner(dtype)).astype(dtype)
    return scaled(source.normal(n, dtype), std, mean, dtype)


def uniform(n: int, dtype: np.dtype[Any], source: Generator, low: float = 0.0, high: float = 1.0) -> np.ndarray[Any, Any]:
    """`n` numbers in [low, high)."""
    if dtype.kind == "c":
        return uniform(2 * n, _parts(dtype), source, low, high).view(dtype)
    if low == 0 and high == 1 and dtype != np.float16:
        return source.uniform(n, dtype)
    most = float(np.finfo(dtype).max)
    if not (abs(low) <= most and abs(high) <= most):
        raise RuntimeError(f"{'to' if abs(low) <= most else 'from'} is out of bounds for {c_name(np.empty(0, dtype))}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    one = _inner(dtype)
    out = scaled(source.uniform(n, dtype), float(one(high) - one(low)), low, dtype)
    out[out == dtype.type(high)] = low  # rounded up
    return out


def get_rng_state() -> Any:
    """The state of the default generator, a uint8 tensor in PyTorch's layout."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go back to a state of the default generator."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **_options: Any) -> Iterator[None]:
    """Restore the default generator on leaving."""
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
