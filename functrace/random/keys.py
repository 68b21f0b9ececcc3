"""Keys, and the bits that they stand for: Philox4x64-10, one call for a key or a batch of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace import edge, errors
from functrace.core.primitive import Primitive
from functrace.ops.create import lift
from functrace.ops.fast import raised
from functrace.ops.kinds import undeclared_constant
from functrace.places import user_line

Key = Any
Shape = int | Sequence[int] | None

NUMBERS, _SPLIT, _FOLD = range(3)
WORD = np.uint64
_MULTIPLIERS = WORD(0xD2E7470EE14C6C93), WORD(0xCA5A826395121157)
_WEYL = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], WORD)
_MANY = 32  # blocks for each of several keys, from which on NumPy's generator, set up for one after the other, is faster
_HALF, _LOW = WORD(32), WORD(0xFFFFFFFF)


def wide(a: Any, b: Any) -> tuple[Any, Any]:
    """The upper and the lower word of the product of two words; arrays, of which at least one is not 0-d."""
    a1, a0, b1, b0 = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF), a * b


def _philox(keys: Any, counters: Any) -> Any:
    """Philox4x64-10 of an array of keys (..., 2) and one of counters (..., 4), which broadcast."""
    x = [counters[..., k] for k in range(4)]
    for k in range(10):
        (h0, l0), (h1, l1) = wide(x[0], _MULTIPLIERS[0]), wide(x[2], _MULTIPLIERS[1])
        k0, k1 = (keys[..., i] + WORD(k) * _WEYL[i] for i in (0, 1))
        x = [h1 ^ x[1] ^ k0, l1, h0 ^ x[3] ^ k1, l0]
    return np.stack(x, axis=-1)


def _generate(keys: Any, shape: tuple[int, ...], turn: int, use: int) -> Any:
    """Words of this shape for each of the keys, an array (..., 2)."""
    count = math.prod(shape)
    if keys.ndim == 1:
        generator = np.random.Philox(key=keys, counter=np.array([0, 0, turn, use], WORD))
        return np.asarray(generator.random_raw(count), WORD).reshape(shape)
    blocks = -(-count // 4)
    if blocks > _MANY:
        each = [_generate(k, shape, turn, use) for k in keys.reshape(-1, 2)]
        return np.array(each, WORD).reshape(keys.shape[:-1] + shape)
    counters = np.zeros((blocks, 4), WORD)
    counters[:, 0] = np.arange(1, blocks + 1)  # NumPy's generator counts up before it draws
    counters[:, 2:] = turn, use
    with np.errstate(over="ignore"):
        out = _philox(keys[..., None, :], counters)
    return out.reshape(*keys.shape[:-1], 4 * blocks)[..., :count].reshape(keys.shape[:-1] + shape)


def _folded(keys: Any, data: Any) -> Any:
    counters = np.zeros((*np.shape(data), 1, 4), WORD)
    counters[..., 0, 0] = np.asarray(data).astype(WORD)
    counters[..., 0, 3] = _FOLD
    counters[..., 0, 0] += WORD(1)
    counters[..., 0, 1] += counters[..., 0, 0] == 0
    with np.errstate(over="ignore"):
        return _philox(keys[..., None, :], counters)[..., 0, :2]


def _below(keys: Any, span: Any, count: int) -> Any:
    """So many words from 0 to below `span`, each exactly as likely as the others; a span of 0 stands for 2**64."""
    first = _generate(keys, (count,), 0, NUMBERS)
    high, rest = wide(first, span)
    high = np.where(span == 0, first, high)
    least = (~span + WORD(1)) % np.maximum(span, WORD(1))  # what is below it comes once too often
    turn = 0
    while (rejected := rest < least).any():
        turn += 1
        again, more = wide(_generate(keys, (count,), turn, NUMBERS), span)
        high, rest = np.where(rejected, again, high), np.where(rejected, more, rest)
    return high


def _below_batch(size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    most = max(x.ndim - flag for x, flag in zip(args, flags)) + 1
    return below(*(raised(x, most) if flag and x.ndim < most else x for x, flag in zip(args, flags)), *params)


def _fold_batch(size: int, flags: Sequence[bool], args: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    keys, data = args
    most = max(keys.ndim - 1 + (not flags[0]), data.ndim + (not flags[1]))
    keys = raised(keys, most + 1) if flags[0] and keys.ndim < most + 1 else keys
    data = raised(data, most) if flags[1] and data.ndim < most else data
    return _fold(keys, data)


words = undeclared_constant("random_bits", _generate)
below: Any = Primitive("random_below", _below, arity=2, constant=True, batch=_below_batch).op
_fold: Any = Primitive("random_fold_in", _folded, arity=2, constant=True, batch=_fold_batch).op


def checked(what: str, key: Any) -> Any:
    """`key`, which must be one key."""
    if getattr(key, "shape", None) != (2,) or key.dtype != WORD:
        raise errors.InputTypeError(
            f"random.{what}: the first argument must be one key, an array uint64[2], got {errors.describe(key)}.\n"
            f"  At {user_line(3)}.\n"
            "  Make one with functrace.random.key(seed). For a batch of keys, map over them with functrace.vmap."
        )
    return key


def integers(what: str, which: str, x: Any) -> Any:
    """`x` as an array of integers, which it must hold."""
    x = lift(x)
    if x.dtype.kind not in "iu":
        raise errors.InputTypeError(f"random.{what}: {which} must be integer, got {errors.describe(x)}.\n  At {user_line(3)}.")
    return x


@edge.boundary
def key(seed: int) -> Key:
    """A key from a seed, a non-negative integer of any size: an array of two uint64.

    >>> from functrace import random
    >>> random.key(0).tolist()
    [15793235383387715774, 12390638538380655177]
    """
    try:
        seed = operator.index(seed)
    except TypeError:
        raise errors.InputTypeError(f"random.key: the seed must be an integer, got {errors.describe(seed)}.") from None
    if seed < 0:
        raise ValueError(f"random.key: the seed must not be negative, got {seed}.\n  At {user_line()}.")
    return np.random.SeedSequence(seed).generate_state(2, WORD)


@edge.boundary
def split(key: Key, num: Shape = 2) -> Any:
    """`num` new keys, independent of each other and of the old one, which should not be used again: an array of shape `(num, 2)`, or
    `(*num, 2)`.

    >>> from functrace import random
    >>> a, b = random.split(random.key(0))
    >>> random.uniform(a).round(3), random.uniform(b).round(3)
    (np.float64(0.878), np.float64(0.814))
    """
    return words(checked("split", key), (*as_tuple(num), 2), 0, _SPLIT)


@edge.boundary
def fold_in(key: Key, data: int) -> Key:
    """A new key from a key and the integer `data` (a step number, say), which may be traced; negative ones count modulo 2^64.

    >>> from functrace import random
    >>> [float(random.uniform(random.fold_in(random.key(0), step)).round(3)) for step in range(3)]
    [0.238, 0.794, 0.711]
    """
    number = integers("fold_in", "the data", WORD(data % 2**64) if isinstance(data, int) else data)
    if number.shape != ():
        raise errors.InputTypeError(
            f"random.fold_in: the data must be one integer, got {errors.describe(number)}.\n"
            "  For many, map over them: functrace.vmap(random.fold_in, in_axes=(None, 0))(key, data)."
        )
    return _fold(checked("fold_in", key), number)


@edge.boundary
def bits(key: Key, shape: Shape = ()) -> Any:
    """Random words, uint64. `shape` is an int or a tuple.

    >>> from functrace import random
    >>> random.bits(random.key(0), (2,))
    array([ 259491006799949737, 4754966410622352325], dtype=uint64)
    """
    return words(checked("bits", key), as_tuple(() if shape is None else shape), 0, NUMBERS)


def as_tuple(shape: Any, what: str = "random") -> tuple[int, ...]:
    """A shape given as a number or as a sequence."""
    try:
        lengths = tuple(map(operator.index, shape if np.iterable(shape) else (shape,)))
    except TypeError:
        raise errors.InputTypeError(
            f"{what}: a shape is an int or a sequence of ints, got {shape!r}.\n  Pass ints, as in (2, 3)."
        ) from None
    if min(lengths, default=0) < 0:
        raise ValueError(f"{what}: the lengths of a shape can't be negative, got {shape!r}.\n  At {user_line()}.")
    return lengths
