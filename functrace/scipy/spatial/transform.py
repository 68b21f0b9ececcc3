"""SciPy's `spatial.transform`: rotations, differentiable in what they are made of and in what they turn.

>>> import functrace as ft, numpy as np
>>> from functrace.scipy.spatial.transform import Rotation
>>> ft.jacobian(lambda angle: Rotation.from_euler("z", angle).apply([1.0, 0.0, 0.0]))(0.0)
array([0., 1., 0.])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.spatial.transform as _scipy

from functrace import errors, tree
from functrace.ops.create import lift
from functrace.ops.registry import holds_tracer
from functrace.scipy._shared import by_name, late, root

__all__ = ["Rotation"]
_NAMES = "xyz"


def _half_sine(s: Any) -> tuple[Any, Any]:
    """sin(a / 2) / a and cos(a / 2) for the square s of an angle a; right at 0 to every order that one takes."""
    small = s < 1e-2
    x, a = np.where(small, s, 0.0) / 4, np.sqrt(np.where(small, 1.0, s))
    sine = 0.5 - x / 12 * (1 - x / 20 * (1 - x / 42 * (1 - x / 72)))
    cosine = 1 - x / 2 * (1 - x / 12 * (1 - x / 30 * (1 - x / 56)))
    return np.where(small, sine, np.sin(a / 2) / a), np.where(small, cosine, np.cos(a / 2))


def _angle_rate(w: Any, s: Any) -> Any:
    """The angle over the sine of its half, of which s is the square and w >= 0 the cosine."""
    small = s < 1e-3
    x, n = np.where(small, s, 0.0), np.sqrt(np.where(small, 1.0, s))
    return np.where(small, 2 + x / 3 + x * x * (3 / 20 + x * (5 / 56 + x * 35 / 576)), 2 * np.arctan2(n, w) / n)


# The product of quaternions (x, y, z, w), and the matrix of q v q*, as tables of what the products of two elements add to.
_PRODUCT, _CONJUGATE = np.zeros((4, 4, 4)), np.array([-1.0, -1.0, -1.0, 1.0])
for _i in range(3):
    _j, _k = (_i + 1) % 3, (_i + 2) % 3
    _PRODUCT[_i, _j, _k] = _PRODUCT[_i, 3, _i] = _PRODUCT[3, _i, _i] = 1
    _PRODUCT[_j, _i, _k] = _PRODUCT[_i, _i, 3] = -1
_PRODUCT[3, 3, 3] = 1
_MATRIX = np.einsum("ilm,mjk,j->ijkl", _PRODUCT, _PRODUCT, _CONJUGATE)[..., :3, :3]


def _table(p: Any, q: Any, table: Any) -> Any:
    products = p[..., :, None] * q[..., None, :]
    return np.reshape(np.reshape(products, (*products.shape[:-2], 16)) @ np.reshape(table, (16, -1)), products.shape[:-2] + table.shape[2:])


def _lower(seq: str, fewest: int = 1) -> str:
    lower = seq.lower()
    known = set(lower) <= set(_NAMES) and seq in (lower, seq.upper()) and not any(2 * k in lower for k in _NAMES)
    if not known or not fewest <= len(seq) <= 3:
        raise ValueError(f"Expected {fewest} to 3 axes from 'xyz' or from 'XYZ', none twice in a row, got {seq!r}")
    return lower


def _norm2(v: Any) -> Any:
    return np.sum(v * v, axis=-1, keepdims=True)


def _ours(x: Any) -> Any:
    return Rotation(x.as_quat()) if isinstance(x, _scipy.Rotation) else tuple(map(_ours, x)) if isinstance(x, tuple) else x


def _theirs(x: Any) -> Any:
    return _scipy.Rotation(x.as_quat()) if isinstance(x, Rotation) else x


def _plainly(name: str, found: Any) -> Any:
    """A method of SciPy's that takes our rotations, plain ones, and gives ours."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if holds_tracer([*args, *kwargs.values()]):
            raise errors.UnsupportedError(f"Rotation.{name} has no derivative rule in functrace.\n  Use from_matrix, from_rotvec or apply.")
        return _ours(found(*map(_theirs, args), **{k: _theirs(v) for k, v in kwargs.items()}))

    return call if callable(found) else found


class _Class(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or not hasattr(_scipy.Rotation, name):
            raise AttributeError(f"type object 'Rotation' has no attribute {name!r}")
        return _plainly(name, getattr(_scipy.Rotation, name))


class Rotation(metaclass=_Class):
    """`scipy.spatial.transform.Rotation`, one or an array of them: from and to quaternions, matrices, rotation vectors and Euler angles.

    A pytree, so that transforms may take and return it. Derivatives in a matrix are those of the nearest rotation; in a quaternion those
    of the normalised one. At the angle pi, where rotation vectors jump, and in gimbal lock there are none.

    >>> import functrace as ft, numpy as np
    >>> turn = lambda v: (Rotation.from_rotvec(v) * Rotation.from_euler("xy", [0.1, 0.2])).as_matrix()[2, 0]
    >>> ft.grad(turn)(np.array([0.1, 0.2, 0.3])).round(4)
    array([ 0.1711, -0.9058,  0.0668])
    """

    def __init__(self, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False) -> None:
        q = lift(quat) * 1.0
        if q.ndim == 0 or q.shape[-1] != 4:
            raise ValueError(f"Expected `quat` to have shape (4,) or (N, 4), got {q.shape}.")
        q = np.roll(q, -1, axis=-1) if scalar_first else q
        size = np.linalg.norm(q, axis=-1, keepdims=True)
        if not np.all(size > 0):
            raise ValueError("Found zero norm quaternions in `quat`.")
        self._quat: Any = q / size if normalize else q

    @classmethod
    def from_quat(cls, quat: Any, *, scalar_first: bool = False) -> Rotation:
        """Of (x, y, z, w), or with `scalar_first` (w, x, y, z)."""
        return cls(quat, scalar_first=scalar_first)

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Of vectors along the axis, as long as the angle."""
        v = np.radians(lift(rotvec)) if degrees else lift(rotvec) * 1.0
        sine, cosine = _half_sine(_norm2(v))
        return cls(np.concatenate([v * sine, cosine], axis=-1), False)

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """Of rotation matrices: Markley 2008, "Unit quaternion from rotation matrix"."""
        m = lift(matrix) * 1.0
        excess = np.swapaxes(m, -1, -2) @ m - np.eye(3)
        if not np.all(np.abs(excess) < 1e-4) or not np.all(np.linalg.det(m) > 0):
            raise ValueError("Rotation.from_matrix: this is no rotation; u @ vt of its singular value decomposition is the nearest.")
        for _ in range(2):  # Newton's method for the polar factor: Higham 2008, "Functions of matrices", 8.3
            m = m @ (1.5 * np.eye(3) - 0.5 * np.swapaxes(m, -1, -2) @ m)
        xx, yy, zz = (m[..., k, k] for k in range(3))
        x, y, z = (m[..., i, j] - m[..., j, i] for i, j in ((2, 1), (0, 2), (1, 0)))
        xy, xz, yz = (m[..., i, j] + m[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2)))
        columns = (1 + xx - yy - zz, xy, xz, x), (xy, 1 - xx + yy - zz, yz, y), (xz, yz, 1 - xx - yy + zz, z), (x, y, z, 1 + xx + yy + zz)
        products = np.stack([np.stack(c, axis=-1) for c in columns], axis=-2)  # 4 q q.T, of which any row that is not zero will do
        best = np.argmax(np.stack([xx, yy, zz, xx + yy + zz], axis=-1), axis=-1)[..., None, None]
        return cls(np.take_along_axis(products, best, axis=-2)[..., 0, :])

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Of angles about up to three axes: "xyz" those of the room, "XYZ" those that turn with it."""
        lower, given = _lower(seq), np.radians(lift(angles)) if degrees else lift(angles) * 1.0
        given = given[None] if given.ndim == 0 else given
        if given.shape[-1] != len(seq):
            raise ValueError(f"Rotation.from_euler: {len(seq)} axes, but angles of the shape {given.shape}")
        sines, cosines, eye = np.sin(given / 2), np.cos(given / 2), np.eye(4)
        parts = ((sines[..., k, None], cosines[..., k, None], eye[_NAMES.index(axis)]) for k, axis in enumerate(lower))
        turns = [cls(sine * unit + cosine * eye[3], False) for sine, cosine, unit in parts]
        for turn in turns[1:]:
            turns[0] = turn * turns[0] if seq == lower else turns[0] * turn
        return turns[0]

    @classmethod
    def identity(cls, num: Any = None) -> Rotation:
        """No rotation."""
        return cls(np.broadcast_to([0.0, 0.0, 0.0, 1.0], (4,) if num is None else (num, 4)))

    @classmethod
    def random(cls, *args: Any, **kwargs: Any) -> Rotation:
        """Rotations that are constant."""
        return cls(_scipy.Rotation.random(*args, **kwargs).as_quat())

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not an array."""
        return bool(self._quat.ndim == 1)

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        """Unit quaternions (x, y, z, w), `canonical` with w >= 0."""
        q = self._canonical() if canonical else self._quat
        return np.roll(q, 1, axis=-1) if scalar_first else q

    def _canonical(self) -> Any:
        q = self._quat
        x, y, z, w = (q[..., k, None] for k in range(4))
        return np.where((w < 0) | (w == 0) & ((x < 0) | (x == 0) & ((y < 0) | (y == 0) & (z < 0))), -q, q)

    def as_matrix(self) -> Any:
        """Matrices, of the shape (..., 3, 3)."""
        return _table(self._quat, self._quat, _MATRIX)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Rotation vectors, no longer than pi."""
        q = self._canonical()
        v = q[..., :3] * _angle_rate(q[..., 3:], _norm2(q[..., :3]))
        return np.degrees(v) if degrees else v

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles about three axes: Bernardes and Viollet 2022, "Quaternion to Euler angles conversion"."""
        if not holds_tracer([self._quat]):
            return _scipy.Rotation(self._quat).as_euler(seq, degrees)
        inner, (i, j, k) = seq != seq.lower(), (_NAMES.index(axis) for axis in _lower(seq, 3))
        i, k = (k, i) if inner else (i, k)
        same = i == k
        k = 3 - i - j if same else k
        x, y, z, w = (self._quat[..., n] for n in (i, j, k, 3))
        z = z * ((i - j) * (j - k) * (k - i) // 2)
        a, b, c, d = (w, x, y, z) if same else (w - y, x + z, y + w, z - x)
        near, far = np.hypot(a, b), np.hypot(c, d)
        if np.any((near < 1e-7) | (far < 1e-7)):
            raise ArithmeticError("Rotation.as_euler: in gimbal lock only a sum of two angles is known, and has no derivative.")
        total, gap = np.arctan2(b, a), np.arctan2(d, c)
        first, third = total - gap, (total + gap) * (1 if same else (i - j) * (j - k) * (k - i) // 2)
        middle = 2 * np.arctan2(far, near) - (0.0 if same else np.pi / 2)
        out = np.stack([third, middle, first] if inner else [first, middle, third], axis=-1)
        out = out - 2 * np.pi * np.round(out / (2 * np.pi))
        return np.degrees(out) if degrees else out

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The rotated vectors."""
        m = (self.inv() if inverse else self).as_matrix()
        return (m @ (lift(vectors) * 1.0)[..., None])[..., 0]

    def inv(self) -> Rotation:
        """The inverse."""
        return Rotation(self._quat * _CONJUGATE, False)

    def magnitude(self) -> Any:
        """The angle, from 0 to pi; its derivative is 0 at both."""
        return 2 * np.arctan2(root(_norm2(self._quat[..., :3]))[..., 0], np.abs(self._quat[..., 3]))

    def __mul__(self, other: Any) -> Rotation:
        return Rotation(_table(self._quat, other.as_quat(), _PRODUCT))

    def __rmul__(self, other: Any) -> Rotation:
        return Rotation(_table(other.as_quat(), self._quat, _PRODUCT))

    def __pow__(self, n: Any) -> Rotation:
        return Rotation.from_rotvec(n * self.as_rotvec())

    @classmethod
    def concatenate(cls, rotations: Any) -> Rotation:
        """Several rotations, single ones or arrays of them, as one array."""
        return cls(np.concatenate([np.atleast_2d(r.as_quat()) for r in ([rotations] if isinstance(rotations, cls) else rotations)]))

    def __getitem__(self, item: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self._quat[item], False)

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return int(self._quat.shape[0])

    def __repr__(self) -> str:
        return f"Rotation.from_quat({self._quat!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(_scipy.Rotation, name):
            raise AttributeError(f"'Rotation' object has no attribute {name!r}")
        if not holds_tracer([self._quat]):
            return _plainly(name, getattr(_theirs(self), name))
        raise errors.UnsupportedError(
            f"Rotation.{name} has no derivative rule in functrace.\n"
            "  For SciPy's own: scipy.spatial.transform.Rotation.from_quat(functrace.value(r.as_quat()))."
        )


def _made(_aux: Any, children: Any) -> Rotation:
    out = object.__new__(Rotation)
    (out._quat,) = children
    return out


tree.register(Rotation, lambda r: ((r._quat,), None), _made)


REFUSED = by_name({"between r0 and r1 it is r0 * (r0.inv() * r1) ** t": "Slerp", "not covered yet": "RotationSpline RigidTransform"})
__getattr__, __dir__ = late(_scipy, REFUSED)
