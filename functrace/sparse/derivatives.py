"""`sparse_jacobian` and `sparse_hessian`: seeds that are sums of unit vectors, one for each colour, and what their products tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from functrace import edge, errors
from functrace.core.tracer import Tracer
from functrace.places import user_line
from functrace.sparse import coloring
from functrace.sparse.pattern import dependence
from functrace.transforms.arguments import Argnames, Argnums, Flat, name_of, or_zeros, resolve
from functrace.transforms.batching import vmap
from functrace.transforms.derivatives import AT_ONCE, Run, grad

P = ParamSpec("P")
_BATCH = 64  # products in one replay


class _Products:
    """A recorded function of one vector, all inputs in a row, to one vector: its products with matrices, column by column."""

    def __init__(self, what: str, flat: Flat) -> None:
        self.run = Run(f"{what}({name_of(flat.f)})", flat, False, AT_ONCE)
        self.inputs, self.outputs = flat.inputs, self.run.out
        for x in (*self.inputs, *self.outputs):
            if isinstance(x, Tracer):
                raise errors.ConversionError(
                    f"{self}: a traced value ({errors.describe(x)}) can't become part of a SciPy matrix: that would silently cut the "
                    f"derivative.\n  At {user_line(3)}.\n  Use functrace.jacobian or functrace.hvp inside of other transforms."
                )
            if x.dtype.kind == "c":
                raise errors.InputTypeError(
                    f"{self}: the arguments and results must be real, got {errors.describe(x)}.\n  At {user_line(3)}.\n"
                    "  Take real and imaginary parts as two arguments."
                )
        self.shape = sum(y.size for y in self.outputs), sum(x.size for x in self.inputs)
        floats = [y.dtype for y in self.outputs if y.dtype.kind == "f"]
        self.dtype: Any = np.result_type(*floats) if floats else np.dtype(float)

    def __str__(self) -> str:
        return self.run.name

    def forward(self, seeds: Any) -> Any:
        return self._each(self.run.push, seeds, self.inputs, self.outputs)

    def reverse(self, seeds: Any) -> Any:
        return self._each(self.run.pull, seeds, self.outputs, self.inputs)

    def _each(self, replay: Callable[..., Any], seeds: Any, givens: Sequence[Any], results: Sequence[Any]) -> Any:
        ends = np.cumsum([0, *(x.size for x in givens)])

        def one(*parts: Any) -> Any:
            return [or_zeros(t, y) for t, y in zip(replay(parts), results)]

        nothing = np.zeros((len(seeds), sum(y.size for y in results)), self.dtype)
        if not (givens and results):
            return nothing
        rows = [nothing[:0]]
        for start in range(0, len(seeds), _BATCH):
            batch = seeds[start : start + _BATCH]
            parts = [batch[:, a:b].astype(_float(x)).reshape(len(batch), *x.shape) for a, b, x in zip(ends, ends[1:], givens)]
            flat = [np.reshape(t, (len(batch), y.size)) for t, y in zip(vmap(one)(*parts), results)]
            rows.append(np.concatenate(flat, axis=1))
        return np.concatenate(rows)


def _float(x: Any) -> Any:
    return x.dtype if x.dtype.kind == "f" else np.dtype(float)


def _given(what: str, pattern: Any, shape: tuple[int, int]) -> Any:
    from scipy import sparse

    if not sparse.issparse(pattern) and np.ndim(pattern) != 2:
        raise errors.InputTypeError(
            f"{what}: the pattern must be a matrix, of SciPy or NumPy, got {errors.describe(pattern)}.\n  At {user_line(3)}.\n"
            "  Give one that is not 0 where the derivative may be other than 0, or leave it out to have it found."
        )
    found = sparse.csr_array(pattern)
    if found.shape != shape:
        raise ValueError(
            f"{what}: the pattern has the shape {found.shape}, but the matrix is of shape {shape}: a row for each number of the result, a "
            f"column for each of the argument.\n  At {user_line(3)}."
        )
    return _boolean(found)


def _boolean(matrix: Any) -> Any:
    """Where a matrix is not 0, sorted and without repetitions."""
    matrix = matrix.tocsr().astype(bool)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _seeds(colors: Any) -> Any:
    return (colors == np.arange(colors.max(initial=-1) + 1)[:, None]).astype(float)


def _check(what: _Products, matrix: Any, how: str) -> None:
    """One more product, with a random vector, which the matrix must reproduce."""
    v = np.random.default_rng(1).uniform(1, 2, what.shape[1])
    (want,) = what.forward(v[None])
    got, scale = matrix @ v, abs(matrix) @ v + abs(want)
    finite = np.isfinite(want) & np.isfinite(got)
    eps = max((np.finfo(_float(x)).eps for x in (*what.inputs, *what.outputs)), default=0.0)  # of the coarser dtype
    largest = max([float(np.max(abs(y), where=np.isfinite(y), initial=0.0)) for y in what.outputs], default=0.0)
    noise = eps ** (3 / 4) * np.max(scale, where=finite, initial=0.0) + 64 * eps * largest  # of what is zero but for rounding
    wrong = finite & (abs(got - want) > eps ** (2 / 3) * scale + noise)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise errors.CheckError(
            f"{what}: the pattern {how} misses elements that are not zero: row {row} times a vector is {want[row]:.6g}, with its elements "
            f"alone {got[row]:.6g} ({np.count_nonzero(wrong)} of {len(wrong)} rows are wrong).\n  At {user_line(3)}.\n"
            "  Leave pattern= out to have it found, or take one that holds at every argument: functrace.sparse.jacobian_pattern "
            "and hessian_pattern show what is found at one."
        )


class _Colored:
    """The colouring of the last pattern, for the next call, whose pattern is likely the same."""

    def __init__(self, paint: Callable[[Any], Any]) -> None:
        self.paint = paint
        self.last: tuple[Any, Any] | None = None

    def __call__(self, pattern: Any) -> Any:
        last = self.last
        if last is not None:
            old, colors = last
            if old.shape == pattern.shape and np.array_equal(old.indptr, pattern.indptr) and np.array_equal(old.indices, pattern.indices):
                return colors
        colors = self.paint(pattern)
        self.last = pattern, colors
        return colors


def _both_ways(pattern: Any) -> tuple[str, Any]:
    """Colours of the columns, or of the rows if those are fewer: reverse replays cost more than forward ones."""
    across = coloring.columns(pattern)
    fewest = np.diff(pattern.tocsc().indptr).max(initial=0)  # colours that the rows need at least
    if across.max(initial=-1) + 1 <= fewest:
        return "columns", across
    down = coloring.columns(pattern.T)
    return ("rows", down) if down.max(initial=-1) < across.max(initial=-1) else ("columns", across)


def _symmetric(pattern: Any) -> Any:
    star, plain = coloring.star(pattern), coloring.columns(pattern)
    return star if star.max(initial=-1) < plain.max(initial=-1) else plain


def _filled(products: _Products, pattern: Any, values: Any, found: bool) -> Any:
    """The matrix of these values, checked; whether its pattern was `found` or given."""
    from scipy import sparse

    matrix = sparse.csr_array((values.astype(products.dtype), pattern.indices, pattern.indptr), shape=pattern.shape)
    _check(products, matrix, "that was found" if found else "that was given")
    return matrix


@edge.transform
def sparse_jacobian(f: Callable[P, Any], pattern: Any = None, argnums: Argnums = None, *, argnames: Argnames = None) -> Callable[P, Any]:
    """The Jacobian of `f` as a `scipy.sparse.csr_array`, by as many products as its pattern needs colours, and one more to check it.

    Columns that share no row are found together, by one forward product with the sum of their unit vectors (Curtis, Powell & Reid
    1974); or rows that share no column, by one reverse product, where those are fewer.

    Args:
        f: a function of pytrees of real arrays, returning one.
        pattern: where the Jacobian can be other than zero, at every argument that will come: a SciPy matrix or an array of the
            Jacobian's shape. Without it, it is found at each call, by a walk along the tape that costs some array operations for
            each operation of `f` and no product; it is that of the branches taken there, and may hold more than is needed.
        argnums, argnames: what to differentiate, as in `grad`; the columns of several arguments stand side by side.

    Returns:
        A function with `f`'s arguments. Its result has a row for each number of the output and a column for each of the argument,
        in the order of `ravel_pytree`; integers in a container are left out. It stores all elements of the pattern.

    Raises:
        CheckError: the pattern misses an element.
        ConversionError: called under another transform, which a SciPy matrix can't be part of.

    >>> import functrace as ft, numpy as np
    >>> def f(x):
    ...     return x[1:-1] * (x[2:] - 2 * x[1:-1] + x[:-2])
    >>> J = ft.sparse_jacobian(f)(np.arange(5.0) ** 2)
    >>> J.nnz, J.toarray()[0]
    (9, array([1., 0., 1., 0., 0.]))
    >>> np.array_equal(J.toarray(), ft.jacobian(f)(np.arange(5.0) ** 2))
    True
    """
    colored = _Colored(_both_ways)

    @edge.wraps(f, "sparse_jacobian")
    def jacobian_function(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        keys, _ = resolve("sparse_jacobian", f, args, kwargs, argnums, argnames)
        products = _Products("sparse_jacobian", Flat("sparse_jacobian", f, args, kwargs, keys))
        found = _boolean(dependence(products.run.tape)) if pattern is None else _given(str(products), pattern, products.shape)
        side, colors = colored(found)
        rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
        if side == "columns":
            values = products.forward(_seeds(colors))[colors[found.indices], rows]
        else:
            values = products.reverse(_seeds(colors))[colors[rows], found.indices]
        return _filled(products, found, values, pattern is None)

    jacobian_function.__qualname__ = f"sparse_jacobian({name_of(f)})"
    return jacobian_function


def _gradient(what: str, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Argnums, argnames: Argnames) -> _Products:
    keys, _ = resolve(what, f, args, kwargs, argnums, argnames)
    flat = Flat(what, f, args, kwargs, keys)
    call: Any = lambda *inputs: flat.call(inputs)
    call.__name__ = name_of(f)
    numbers = range(len(flat.inputs))
    first = grad(call, tuple(numbers))
    return _Products(what, Flat(what, first, flat.inputs, {}, numbers))


@edge.transform
def sparse_hessian(f: Callable[P, Any], pattern: Any = None, argnums: Argnums = None, *, argnames: Argnames = None) -> Callable[P, Any]:
    """The Hessian of `f`, whose output is one real number, as a `scipy.sparse.csr_array`: see `sparse_jacobian`.

    Its symmetry spares products: a star colouring, where every path of four has three colours, lets each element be read off the
    product of one of its two colours (Coleman & Moré 1984; Gebremedhin, Manne & Pothen 2005). A matrix with one full row and column
    beside its diagonal takes two.

    >>> import functrace as ft, numpy as np
    >>> def energy(x):
    ...     return np.sum((x[1:] - x[:-1]) ** 2)
    >>> ft.sparse_hessian(energy)(np.zeros(4)).toarray()
    array([[ 2., -2.,  0.,  0.],
           [-2.,  4., -2.,  0.],
           [ 0., -2.,  4., -2.],
           [ 0.,  0., -2.,  2.]])
    """
    colored = _Colored(_symmetric)

    @edge.wraps(f, "sparse_hessian")
    def hessian_function(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        products = _gradient("sparse_hessian", f, args, kwargs, argnums, argnames)
        found = dependence(products.run.tape) if pattern is None else _given(str(products), pattern, products.shape)
        found = _boolean(found + found.T)
        colors = colored(found)
        seeds = _seeds(colors)
        rows, columns = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr)), found.indices
        shared = (found.astype(np.int32) @ seeds.T.astype(np.int32))[rows, colors[columns]] > 1
        got = products.forward(seeds)
        values = np.where(shared, got[colors[rows], columns], got[colors[columns], rows])
        return _filled(products, found, values, pattern is None)

    hessian_function.__qualname__ = f"sparse_hessian({name_of(f)})"
    return hessian_function


@edge.boundary
def jacobian_pattern(f: Callable[..., Any], argnums: Argnums = None, *, argnames: Argnames = None) -> Callable[..., Any]:
    """Where the Jacobian of `f` can be other than zero, as a boolean `csr_array`, for the branches taken at the arguments given.

    `argnums` or `argnames` says with respect to what: for these, and for errors, see `sparse_jacobian`.

    >>> import functrace as ft, numpy as np
    >>> ft.sparse.jacobian_pattern(lambda x: x[1:] * x[0])(np.ones(4)).toarray().astype(int)
    array([[1, 1, 0, 0],
           [1, 0, 1, 0],
           [1, 0, 0, 1]])
    """

    @edge.wraps(f, "jacobian_pattern")
    def pattern_function(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        keys, _ = resolve("jacobian_pattern", f, args, kwargs, argnums, argnames)
        return _boolean(dependence(_Products("jacobian_pattern", Flat("jacobian_pattern", f, args, kwargs, keys)).run.tape))

    return pattern_function


@edge.boundary
def hessian_pattern(f: Callable[..., Any], argnums: Argnums = None, *, argnames: Argnames = None) -> Callable[..., Any]:
    """Where the Hessian of `f` can be other than zero: see `jacobian_pattern`.

    >>> import functrace as ft, numpy as np
    >>> ft.sparse.hessian_pattern(lambda x: x[0] * x[1] + x[2])(np.ones(3)).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 0]])
    """

    @edge.wraps(f, "hessian_pattern")
    def pattern_function(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = dependence(_gradient("hessian_pattern", f, args, kwargs, argnums, argnames).run.tape)
        return _boolean(found + found.T)

    return pattern_function
