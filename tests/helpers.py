"""Small tools of the tests; independent of the library's own."""

import functools
import inspect
import threading
from importlib import metadata

import numpy as np

import functrace as ft
import functrace.numpy as fnp
from functrace import tree
from functrace.compile.capture import capture
from functrace.ops.protocol import load_late

SCIPY = tuple(map(int, metadata.version("scipy").split(".")[:2]))
OLD = np.lib.NumpyVersion(np.__version__) < "2.1.0"  # its reshape has no copy=, its clip needs a bound


def differences(f, x, step=1e-5):
    """The gradient of a function of one float64 array that returns a float, by four-point central differences."""
    x = np.array(x, dtype=float)
    out = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[i] = step
        out[i] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * step)
    return out


def here(offset=0):
    """`file.py:line` of the caller's line, moved by `offset`."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno + offset}"


def in_threads(work, count):
    """Run `work(k)` for each k below `count`, all at the same time."""
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def of_numpy(table):
    """The declarations that are NumPy's: SciPy's join them when a test imports them."""
    load_late()
    return {name: declared for name, declared in table.items() if not name.startswith("scipy.")}


def alike(found, wanted):
    """Whether two trees have equal leaves: in type, dtype, shape, value and sign of zero."""
    found, wanted = tree.leaves(found), tree.leaves(wanted)
    assert [type(x) for x in found] == [type(x) for x in wanted]
    for x, y in zip(found, wanted):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_array_equal(x, y)
        for part in (np.real, np.imag) if x.dtype.kind == "c" else (np.positive,) if x.dtype.kind == "f" else ():
            kept = ~np.isnan(x)
            np.testing.assert_array_equal(np.signbit(part(x))[kept], np.signbit(part(y))[kept])


MODES = {
    "jit": lambda f, x: ft.jit(f)(x),
    "jit again": lambda f, x: [g := ft.jit(f), g(x), g(x)][2],
    "vjp": lambda f, x: ft.vjp(f, x)[0],
    "jvp": lambda f, x: ft.jvp(f, (x,), (x,))[0],
    "vmap": lambda f, x: tree.map(lambda y: y[1], ft.vmap(f)(np.stack([2 * x, x]))),
    "jit of vmap": lambda f, x: tree.map(lambda y: y[1], ft.jit(ft.vmap(f))(np.stack([2 * x, x]))),
}


def same_in(f, x, mode):
    """Whether `f` gives in a mode what it gives on plain arrays, to the bit."""
    for want, got in zip(tree.leaves(f(x)), tree.leaves(MODES[mode](f, x)), strict=True):
        want, got = np.asarray(want), np.asarray(got)
        assert want.dtype == got.dtype
        assert want.shape == got.shape
        assert want.tobytes() == got.tobytes(), (want, got)


class Python:
    """Control flow by Python, to be compared with functrace's."""

    @staticmethod
    def scan(f, init, xs):
        ys = []
        for x in xs:
            init, y = f(init, x)
            ys.append(y)
        return init, fnp.stack(ys)

    @staticmethod
    def while_loop(test, body, init):
        while test(init):
            init = body(init)
        return init

    @staticmethod
    def fori_loop(first, last, body, init):
        return functools.reduce(lambda c, i: body(i, c), range(first, last), init)

    @staticmethod
    def map(f, xs):
        return fnp.stack([f(x) for x in xs])

    @staticmethod
    def cond(test, yes, no, *args):
        return yes(*args) if test else no(*args)


def captured(function, *args):
    """The program of a function, as it was recorded."""
    return capture(lambda *xs: tree.leaves(function(*xs)), args, "a test").program


def names_of(program):
    """The primitives of a program."""
    return [i.primitive.name for i in program.instructions]
