"""Einstein's summation. Where a sum has a letter for each axis, its gradients are such sums too; else `functrace.vjp` finds them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._checks import check_of, wrong
from functrace.torch._contact import in_floats, planned
from functrace.torch._layout import in_order
from functrace.torch._nodes import Op
from functrace.torch._ops import public
from functrace.torch._shape import alike
from functrace.torch._tensor import Tensor

_MANY = 1 << 12  # elements from which on it pays to plan a sum's order of products


@check_of("einsum")
def _fits(equation: str, *operands: Any) -> None:
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    _check(equation, *[x._a.shape for x in operands])


@functools.lru_cache(1 << 8)
def _check(equation: str, *shapes: tuple[int, ...]) -> None:
    left, arrow, right = equation.replace(" ", "").partition("->")
    for place, letter in enumerate(equation.replace("->", ",,", 1)):
        if not (letter.isascii() and letter.isalpha()) and letter not in " ,.":
            wrong(f"einsum(): invalid subscript given at index {place} in the equation string, subscripts must be in [a-zA-Z]")
    terms = left.split(",")
    if len(shapes) != len(terms):
        wrong(f"einsum(): {'fewer' if len(shapes) < len(terms) else 'more'} operands were provided than specified in the equation")
    sizes: dict[str, int] = {}
    for k, (term, shape) in enumerate(zip(terms, shapes)):
        if "." in term.replace("...", "", 1):
            why = "for which an ellipsis was already found" if "..." in term else "that is not part of any ellipsis"
            wrong(f"einsum(): found '.' for operand {k} {why}")
        letters = term.replace("...", "")
        if "..." not in term and len(letters) != len(shape):
            wrong(
                f"einsum(): the number of subscripts in the equation ({len(letters)}) does not match the number of dimensions "
                f"({len(shape)}) for operand {k} and no ellipsis was given"
            )
        before = term.partition("...")[0]
        own: dict[str, int] = {}
        for letter, n in [*zip(before, shape), *zip(letters[len(before) :][::-1], shape[::-1])]:
            if own.setdefault(letter, n) != n:
                wrong(f"einsum(): subscript {letter} is repeated for operand {k} but the sizes don't match, {n} != {own[letter]}")
        for letter, n in own.items():
            if sizes.get(letter, 1) != n and 1 not in (n, sizes.get(letter, 1)):
                wrong(
                    f"einsum(): subscript {letter} has size {n} for operand {k} which does not broadcast with previously seen size "
                    f"{sizes[letter]}"
                )
            sizes[letter] = max(n, sizes.get(letter, 1))
    named = right.replace("...", "", 1) if arrow else ""
    if "." in named:
        why = "for which an ellipsis (...) was already found" if "..." in right else "that is not part of any ellipsis (...)"
        wrong(f"einsum(): found '.' for output {why}")
    for letter in named:
        if letter not in sizes:
            wrong(f"einsum(): output subscript {letter} does not appear in the equation for any input operand")
        if named.count(letter) > 1:
            wrong(f"einsum(): output subscript {letter} appears more than once in the output")


@public
def einsum(equation: Any, *operands: Any) -> Any:
    """Einstein's summation: of subscripts, or of operands each with a list of numbers and such a list for the result."""
    if isinstance(equation, Tensor):
        return einsum(*_lettered((equation, *operands)))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    plain = _transposed(equation, *[x._a.shape for x in operands])
    return call(_row(len(operands) if plain else 0), alike(operands), (equation,))


@in_floats
def _summed(*given: Any) -> Any:
    """NumPy's sum, of large arrays by matrix products; and over the axes of "...", where the result does not have them."""
    *arrays, equation = given
    left, arrow, right = equation.replace(" ", "").partition("->")
    total = planned if len(arrays) > 1 and max([a.size for a in arrays]) > _MANY else np.einsum
    if not arrow or "..." in right or "..." not in left:
        return total(equation, *arrays)
    whole = total(f"{left}->...{right}", *arrays)
    return np.sum(whole, axis=tuple(range(whole.ndim - len(right))))


@functools.lru_cache(1 << 8)
def _transposed(equation: str, *shapes: tuple[int, ...]) -> tuple[str, ...]:
    """The sums, of the result's gradient and the other operands, that are the operands' gradients; none where these are no plain sums."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    found = []
    sizes: dict[str, int] = {}
    for k, (term, shape) in enumerate(zip(terms, shapes)):
        others = [right, *terms[:k], *terms[k + 1 :]]
        if len({*term}) < len(term) or not {*term} <= {*"".join(others)} or any(sizes.setdefault(a, n) != n for a, n in zip(term, shape)):
            return ()
        found.append(f"{','.join(others)}->{term}")
    return tuple(found) if arrow and "." not in equation else ()


@functools.cache
def _row(n: int) -> Op:
    """The row of n operands; 0: of any number, without rules."""

    def rule(k: int) -> Callable[..., Any]:
        def pull(g: Any, _r: Any, *given: Any) -> Any:
            *arrays, equation = given
            return _summed(g, *arrays[:k], *arrays[k + 1 :], _transposed(equation, *[a.shape for a in arrays])[k])

        return pull

    return Op("View", _summed, [rule(k) for k in range(n)] or None, lies=in_order)


def _lettered(given: tuple[Any, ...]) -> tuple[Any, ...]:
    def letters(numbers: Any) -> str:
        return "".join("..." if k is Ellipsis else chr(ord("A") + k if k < 26 else ord("a") + k - 26) for k in numbers)

    pairs, last = divmod(len(given), 2)
    left = ",".join(letters(given[2 * k + 1]) for k in range(pairs))
    return (left + (f"->{letters(given[-1])}" if last else ""), *(given[2 * k] for k in range(pairs)))
