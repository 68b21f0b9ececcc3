"""`torch.quasirandom`: Sobol's points, by the direction numbers of SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.torch._draws import randint
from functrace.torch._dtypes import get_default_dtype
from functrace.torch._random import Generator
from functrace.torch._tensor import wrap


class SobolEngine:
    """Sobol's points in the unit cube, which fill it more evenly than random ones; scrambled by random numbers of `seed`.

    Raises:
        ValueError: the dimension is not from 1 to 21201.
        ModuleNotFoundError: SciPy is not installed.

    >>> import functrace.torch as torch
    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT, MAXDIM = 30, 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        from functrace.scipy._shared import sobol_steps

        self.dimension, self.scramble, self.seed, self.num_generated = dimension, scramble, seed, 0
        steps = sobol_steps(dimension, self.MAXBIT)
        shift = np.zeros(dimension, np.int64)
        if scramble:
            shift, steps = self._scrambled(steps)
        self.shift, self.sobolstate = wrap(shift), wrap(steps)

    def _scrambled(self, steps: Any) -> Any:
        """A random shift, and the steps times a random triangular matrix of bits in each dimension."""
        n, source = self.MAXBIT, None if self.seed is None else Generator().manual_seed(self.seed)
        draw: Any = lambda *shape: randint(2, shape, generator=source)._a
        powers = 2 ** np.arange(n)
        shift = draw(self.dimension, n) @ powers
        rows = (np.tril(draw(self.dimension, n, n), -1) + np.eye(n, dtype=np.int64)) @ powers[::-1]
        out = np.zeros_like(steps)
        for k in range(n):
            bits = steps & rows[:, k, None]
            for half in (16, 8, 4, 2, 1):  # their parity
                bits ^= bits >> half
            out |= (bits & 1) << (n - 1 - k)
        return shift, out

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next n points, as a tensor of shape (n, dimension)."""
        if not 0 <= n <= 2**self.MAXBIT - self.num_generated:
            raise ValueError(f"SobolEngine.draw: of 2**{self.MAXBIT} points {self.num_generated} are drawn, got n={n}")
        gray = np.arange(self.num_generated, self.num_generated + n)
        gray ^= gray >> 1
        points = np.tile(self.shift._a, (n, 1))
        for k in range(int(gray.max(initial=0)).bit_length()):
            points ^= (gray >> k & 1)[:, None] * self.sobolstate._a[:, k]
        self.num_generated += n
        found = wrap(points / 2**self.MAXBIT).to(dtype or get_default_dtype())
        return found if out is None else out.resize_as_(found).copy_(found)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next 2**m points; with those before it must be a power of two."""
        n = self.num_generated + 2**m
        if n & (n - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been previously "
                f"generated, then: n={self.num_generated}+2**{m}={n}. If you still want to do this, please use 'SobolEngine.draw()' "
                "instead."
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin again with the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave n points out."""
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        given = [f"dimension={self.dimension}"] + ["scramble=True"] * bool(self.scramble)
        return f"SobolEngine({', '.join(given + [f'seed={self.seed}'] * (self.seed is not None))})"
