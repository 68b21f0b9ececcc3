"""Delayed sums of products: x1.T @ g1 + x2.T @ g2 + ... as one product of longer matrices.

A recurrent network uses one matrix at every step, so its cotangent is a sum of thin products, which BLAS computes at a fraction of its
speed. Those of many steps together are one large product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = 512  # rows that are held back, at most


class Products:
    """A cotangent, to which `add` adds products that are not computed at once."""

    __slots__ = ("gs", "own", "rows", "sum", "xs")
    __array_ufunc__ = None

    def __init__(self, total: Any) -> None:
        self.sum, self.own = total, False  # whether nobody else can see the array
        self.xs: list[Any] = []
        self.gs: list[Any] = []
        self.rows = 0

    def add(self, x: Any, g: Any) -> None:
        """Add x.T @ g."""
        self.xs.append(x)
        self.gs.append(g)
        self.rows += len(x)
        if self.rows >= ROWS:
            self.total()

    def total(self) -> Any:
        """The sum, as an array."""
        if self.xs:
            more = np.matmul(np.concatenate(self.xs).T, np.concatenate(self.gs))
            self.sum = np.add(self.sum, more, out=self.sum if self.own else more)
            self.own, self.xs, self.gs, self.rows = True, [], [], 0
        return self.sum

    def __add__(self, other: Any) -> Any:
        return self.total() + other

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.total(), dtype)
