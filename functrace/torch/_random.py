"""PyTorch's CPU random numbers: the same Mersenne twister, read in the same way, so that the same seed prints the same numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch._dtypes import CPU

_MASK64 = (1 << 64) - 1
_BLOCK = 16  # numbers that the normal transform of a large tensor takes at a time


class Generator:
    """A source of random numbers with its own state."""

    __module__ = "torch._C"

    def __init__(self, device: Any = "cpu") -> None:
        self.device = CPU
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from a seed. Returns itself."""
        seed = int(seed)
        if not -(1 << 63) <= seed <= _MASK64:
            raise RuntimeError("Overflow when unpacking long long")
        self._seed = seed & _MASK64
        self._bits = np.random.MT19937()
        self._bits._legacy_seeding(self._seed & 0xFFFFFFFF)
        self._normal: float | None = None  # the second of a pair of normal numbers, for the next draw
        return self

    def seed(self) -> int:
        """Start again from a seed that the system chooses, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        return self._seed

    def initial_seed(self) -> int:
        """The seed last set."""
        return self._seed

    def get_state(self) -> Any:
        """The state, as the elements of a uint8 tensor."""
        state = self._bits.state["state"]
        normal = math.nan if self._normal is None else self._normal
        parts = (
            np.array([self._seed], np.uint64),
            np.asarray(state["key"], np.uint32),
            np.array([state["pos"]], np.uint32),
            np.array([normal]),
        )
        return np.frombuffer(b"".join(p.tobytes() for p in parts), np.uint8).copy()

    def set_state(self, state: Any) -> Generator:
        """Go back to a state that `get_state` gave."""
        raw = np.asarray(state, np.uint8).tobytes()
        if len(raw) != 8 + 4 * 625 + 8:
            raise RuntimeError("Expected a state made by get_state() of functrace.torch: PyTorch's own layout is not read.")
        self.manual_seed(int(np.frombuffer(raw[:8], np.uint64)[0]))
        words = np.frombuffer(raw[8:-8], np.uint32)
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": words[:624], "pos": int(words[624])}}
        normal = float(np.frombuffer(raw[-8:], np.float64)[0])
        self._normal = None if math.isnan(normal) else normal
        return self

    def words(self, n: int) -> np.ndarray[Any, Any]:
        """`n` numbers of 32 bits, as uint64."""
        words: np.ndarray[Any, Any] = self._bits.random_raw(n) if n else np.empty(0, np.uint64)
        return words

    def doublewords(self, n: int) -> np.ndarray[Any, Any]:
        """`n` numbers of 64 bits, the high half drawn first."""
        pairs = self.words(2 * n).reshape(n, 2)
        whole: np.ndarray[Any, Any] = (pairs[:, 0] << np.uint64(32)) | pairs[:, 1]
        return whole

    def uniform(self, n: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """`n` numbers in [0, 1): of 53 random bits in float64, else of 24."""
        if dtype == np.float64:
            return (self.doublewords(n) & np.uint64((1 << 53) - 1)).astype(np.float64) * 2.0**-53
        return ((self.words(n) & np.uint64((1 << 24) - 1)).astype(np.float32) * np.float32(2.0**-24)).astype(dtype)

    def normal(self, n: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """`n` standard normal numbers: in pairs if few, by blocks of 16 if many."""
        if n < _BLOCK:
            out = []
            for _ in range(n):
                if self._normal is not None:
                    out.append(self._normal)
                    self._normal = None
                    continue
                u1, u2 = self.uniform(2, np.dtype(np.float64)).tolist()
                radius, angle = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
                self._normal = radius * math.sin(angle)
                out.append(radius * math.cos(angle))
            return np.array(out, np.float64).astype(dtype)
        u = self.uniform(n, dtype)
        whole = n // _BLOCK * _BLOCK
        u[:whole] = _blocks(u[:whole])
        if whole != n:
            u[-_BLOCK:] = _blocks(self.uniform(_BLOCK, dtype))
        return u

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


def _blocks(u: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Uniform numbers, 8 radii and 8 angles in each block of 16, to normal ones."""
    rows = u.reshape(-1, 2, _BLOCK // 2).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log(1.0 - rows[:, 0]))
    angle = 2.0 * np.pi * rows[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1).astype(u.dtype)


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


def draw(kind: str, shape: Sequence[int], dtype: np.dtype[Any], generator: Generator | None = None) -> np.ndarray[Any, Any]:
    """An array of `uniform` or `normal` numbers."""
    source = generator or default_generator
    n = math.prod(shape)
    if dtype.kind == "c":  # real and imaginary parts in turn; a complex normal has variance 1 in all
        parts = getattr(source, kind)(2 * n, np.empty(0, dtype).real.dtype).reshape(n, 2)
        a = parts[:, 0] + 1j * parts[:, 1]
        halved: np.ndarray[Any, Any] = (a / math.sqrt(2) if kind == "normal" else a).astype(dtype)
        return halved.reshape(shape)
    drawn: np.ndarray[Any, Any] = getattr(source, kind)(n, dtype)
    return drawn.reshape(shape)
