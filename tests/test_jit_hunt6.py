"""Programs that once gave another result than NumPy: names looked up late, writes in bodies and rules, exported constants, empty batches."""

from __future__ import annotations

import contextvars
import io
import sys
import types
import weakref

import numpy as np
import pytest

import functrace as ft
from functrace import tree
from functrace.compile.jit import JitWarning
from functrace.transforms.control import switch

X = np.array([0.3, -0.7, 1.2])
MODES = {
    "jit": lambda f, x: ft.jit(f)(x),
    "jit again": lambda f, x: [g := ft.jit(f), g(x), g(x)][2],
    "vjp": lambda f, x: ft.vjp(f, x)[0],
    "jvp": lambda f, x: ft.jvp(f, (x,), (x,))[0],
    "vmap": lambda f, x: tree.map(lambda y: y[1], ft.vmap(f)(np.stack([2 * x, x]))),
    "jit of vmap": lambda f, x: tree.map(lambda y: y[1], ft.jit(ft.vmap(f))(np.stack([2 * x, x]))),
}


def agrees(f, x, mode):
    """Whether `f` gives in a mode what it gives on plain arrays, to the bit."""
    for want, got in zip(tree.leaves(f(x)), tree.leaves(MODES[mode](f, x)), strict=True):
        want, got = np.asarray(want), np.asarray(got)
        assert want.dtype == got.dtype
        assert want.shape == got.shape
        assert want.tobytes() == got.tobytes(), (want, got)


# What a jitted function reads


class Slotted:
    __slots__ = ("a", "b")


class Above:
    w = 1.0


class Below(Above):
    pass


class Meta(type):
    rate = 1.0


class WithMeta(metaclass=Meta):
    pass


class Doubling(list):
    def __getitem__(self, k):
        return 2.0 * list.__getitem__(self, k)


class Plain:
    def scale(self, x):
        return x


class Double:
    def scale(self, x):
        return x * 2


def helper(x):
    return x


def other(x):
    return x + 100


FOUND = 2.0
CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


@case
def a_slot_filled_later():
    s = Slotted()
    s.a = 2.0
    return lambda x: x * s.a + (s.b if hasattr(s, "b") else 0.0), lambda: setattr(s, "b", 5.0)


@case
def an_attribute_that_hides_an_inherited_one():
    return lambda x: x * Below.w, lambda: setattr(Below, "w", 3.0)


@case
def an_attribute_of_a_metaclass():
    return lambda x: x * WithMeta.rate, lambda: setattr(Meta, "rate", 3.0)


@case
def a_list_with_items_of_its_own():
    items = Doubling([1.0])
    return lambda x: x * items[0], lambda: list.__setitem__(items, 0, 5.0)


@case
def another_class():
    thing = Plain()
    return lambda x: thing.scale(x), lambda: setattr(thing, "__class__", Double)


@case
def another_dict_of_attributes():
    thing = types.SimpleNamespace(w=1.0)
    thing = Plain()
    thing.w = 1.0
    return lambda x: x * thing.w, lambda: setattr(thing, "__dict__", {"w": 4.0})


@case
def other_code():
    def f(x):
        return helper(x) * 2

    return f, lambda: setattr(helper, "__code__", other.__code__)


@case
def the_order_of_a_dict():
    d = {"a": 1.0, "b": 2.0}
    return lambda x: x * next(iter(d.values())), lambda: d.update(a=d.pop("a"))


@case
def a_mapping_proxy():
    d = {"a": 1.0}
    view = types.MappingProxyType(d)
    return lambda x: x * view["a"], lambda: d.update(a=3.0)


@case
def a_weak_reference():
    thing = Plain()
    thing.w = 1.0
    ref = weakref.ref(thing)
    return lambda x: x * ref().w, lambda: setattr(thing, "w", 3.0)


@case
def a_context_variable():
    variable = contextvars.ContextVar("scale", default=1.0)
    return lambda x: x * variable.get(), lambda: variable.set(3.0)


@case
def an_array_of_objects():
    objects = np.array([1.0, 2.0], dtype=object)
    return lambda x: x * float(objects[0]), lambda: objects.__setitem__(0, 4.0)


@case
def the_shape_of_an_array():
    a = np.arange(6.0)
    w = [a]
    return lambda x: np.sum(w[0], axis=0) * x[0], lambda: w.__setitem__(0, a.reshape(2, 3))


@case
def a_global_by_its_text():
    return lambda x: x * globals()["FOUND"], lambda: globals().__setitem__("FOUND", 3.0)


@case
def a_global_that_is_not_there_yet():
    def f(x):
        try:
            return x * NOT_YET  # noqa: F821
        except NameError:
            return x

    return f, lambda: globals().__setitem__("NOT_YET", 3.0)


@case
def a_variable_that_is_not_there_yet():
    def f(x):
        try:
            return x * later
        except NameError:
            return x

    def bind():
        nonlocal later
        later = 3.0

    if FOUND < 0:
        later = 1.0
    return f, bind


@case
def a_rule_of_a_custom_function():
    @ft.custom_vjp
    def c(x):
        return x * 1.0

    c.defvjp(lambda x: (x, None), lambda _, g: (g,))
    return ft.grad(lambda x: c(x).sum()), lambda: c.defvjp(lambda x: (x, None), lambda _, g: (g * 7,))


@pytest.mark.parametrize("name", CASES)
def test_what_a_jitted_function_reads_is_noticed_when_it_changes(name, monkeypatch):
    for owner in (Below, Meta):
        monkeypatch.setattr(owner, "w" if owner is Below else "rate", 1.0, raising=False)
    monkeypatch.delattr(Below, "w", raising=False)
    f, change = CASES[name]()
    code = helper.__code__
    jitted = ft.jit(f)
    try:
        before = f(X)
        assert np.array_equal(jitted(X), before)
        assert np.array_equal(jitted(X), before)
        change()
        after = f(X)
        assert not np.array_equal(after, before)
        assert np.array_equal(jitted(X), after)
    finally:
        helper.__code__ = code
        globals().pop("NOT_YET", None)
        globals()["FOUND"] = 2.0
        if "w" in vars(Below):
            del Below.w


def test_a_module_that_is_imported_in_the_function(tmp_path, monkeypatch):
    (tmp_path / "late_scale.py").write_text("z = 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def f(x):
        import late_scale

        return x * late_scale.z

    jitted = ft.jit(f)
    assert np.array_equal(jitted(X), X * 2)
    sys.modules["late_scale"].z = 3.0
    assert np.array_equal(jitted(X), X * 3)
    del sys.modules["late_scale"]


def test_a_global_with_the_name_of_an_attribute_is_not_looked_at():
    thing = Plain()
    thing.FOUND = 2.0
    jitted = ft.jit(lambda x: x * thing.FOUND)
    try:
        for k in range(5):
            globals()["FOUND"] = float(k)
            jitted(X)
    finally:
        globals()["FOUND"] = 2.0
    assert jitted.cache_info()["recorded"] == 1


@pytest.mark.parametrize("text", [np.str_, str])
def test_a_text_is_a_text_in_a_jitted_function(text):
    f = ft.jit(lambda x, how: x * 2 if isinstance(how, str) and how == "double" else x)
    assert np.array_equal(f(X, text("double")), X * 2)
    assert np.array_equal(f(X, text("same")), X)


def test_the_text_of_a_traced_text_is_a_guard():
    f = ft.jit(lambda x, labels: x * {"a": 1.0, "b": 2.0}[str(labels[0])])
    assert np.array_equal(f(X, np.array(["a"])), X)
    assert np.array_equal(f(X, np.array(["b"])), X * 2)


@pytest.mark.parametrize("integer", [int, np.int64, np.uint8])
@pytest.mark.parametrize("f", [lambda n: [1, 2] * n, lambda n: n * [1, 2], lambda n: (1,) * n])
def test_a_sequence_times_a_traced_integer_is_repeated(f, integer):
    jitted = ft.jit(f)
    for k in (2, 3, 2):
        assert tree.leaves(jitted(integer(k))) == list(f(k))


def test_a_list_times_a_batched_integer_is_repeated():
    assert np.array_equal(ft.vmap(lambda n: len([0.0] * n) * 1.0)(np.array([1, 2, 3])), [1.0, 2.0, 3.0])


def test_a_function_that_returns_a_function_is_right_the_first_time():
    with pytest.warns(JitWarning, match="it returns a function"):
        f = ft.jit(lambda x: (x * 2, lambda t: t * x))
        assert np.array_equal(f(X)[1](X), X * X)


# Writes


def writes_to_the_carry(kind, weak, looks):
    def f(x):
        y = x * 1.0
        start = (y, 0 if weak else np.int64(0))

        def write(c, k):
            if not looks or c[0][0] > -9:
                c[0][k] = c[0].sum()
            return c[0], c[1] + 1

        def step(c, q):
            new = write(c, 1)
            new[0][0] *= q
            return new, new[0]

        loops = {
            "scan": lambda: ft.scan(step, start, x[:2]),
            "unrolled": lambda: ft.scan(step, start, x[:2], unroll=True),
            "no steps": lambda: ft.scan(step, start, x[:0]),
            "fori": lambda: ft.fori_loop(0, 3, lambda i, c: write(c, i), start),
            "while": lambda: ft.while_loop(lambda c: c[1] < 2, lambda c: write(c, c[1]), start),
            "while not": lambda: ft.while_loop(lambda c: c[1] < 0, lambda c: write(c, 0), start),
        }
        return loops[kind](), y

    return f


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("weak", [True, False])
@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("kind", ["scan", "unrolled", "no steps", "fori", "while", "while not"])
def test_a_body_that_writes_to_its_carry_leaves_the_initial_one_alone(kind, looks, weak, mode):
    agrees(writes_to_the_carry(kind, weak, looks), X, mode)


def first(a):
    a[0] = 7.0
    return a * 1.0


def second(a):
    a[1] = a[0] * 8.0
    return a * 1.0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_branch_that_writes_to_its_operand(sign, mode):
    def by_cond(x):
        y = x * sign
        view = y[:2]
        return ft.cond(y[0] > 0, first, second, y), y, view

    def by_switch(x):
        y = x * sign
        return switch(np.argmax(y), [first, second, lambda a: a], y), y * 2

    agrees(by_cond, X, mode)
    agrees(by_switch, X, mode)


def test_the_derivative_of_a_branch_that_writes_to_its_operand():
    def f(x):
        y = x * 2.0
        return (ft.cond(x[0] > 0, first, second, y) * y).sum()

    for x in (X, -X):
        assert np.allclose(ft.jit(ft.grad(f))(x), ft.grad(f)(x))
    batch = np.stack([X, -X])
    assert np.allclose(ft.vmap(ft.grad(f))(batch), [ft.grad(f)(x) for x in batch])


def write_and_sum(y):
    y[0] = 5.0
    return (y * y).sum()


@pytest.mark.parametrize("mode", MODES)
def test_what_a_jitted_function_writes_to_is_none_of_the_callers(mode):
    jitted = ft.jit(write_and_sum)

    def f(x):
        y = x * 1.0
        return jitted(y), y

    agrees(f, X, mode)


@pytest.mark.parametrize("transform", [lambda f: ft.grad(f), lambda f: ft.jit(f), lambda f: ft.grad(ft.grad(f)), lambda f: ft.jacfwd(f)])
def test_a_checkpointed_function_must_not_write_to_what_the_tape_keeps(transform):
    def f(x):
        y = np.exp(x * X)
        return ft.checkpoint(write_and_sum)(y) + y.sum()

    with pytest.raises((ValueError, ft.errors.CustomRuleError), match="read-only|writes to its argument"):
        transform(f)(1.5)


@pytest.mark.parametrize("order", [lambda c, x: c(x) + x, lambda c, x: x + c(x)])
def test_a_rule_must_not_write_to_a_cotangent_that_others_get_too(order):
    @ft.custom_vjp
    def double(x):
        return x * 2

    def bwd(_, g):
        g *= 2
        return (g,)

    double.defvjp(lambda x: (x * 2, None), bwd)
    with pytest.raises(ValueError, match="read-only"):
        ft.grad(lambda x: order(double, x).sum())(X)


def test_what_a_custom_function_passes_on_is_the_callers_own():
    @ft.custom_vjp
    def same(x):
        return x

    same.defvjp(lambda x: (x, None), lambda _, g: (g,))
    for out in (ft.vjp(same, X)[0], ft.jit(same)(X), ft.grad(lambda x: same(x).sum())(X), ft.vmap(same)(X), ft.checkpoint(same)(X.copy())):
        assert out.flags.writeable


# Writing into traced arrays


def copied(x):
    y = x * 1.0
    np.copyto(y, np.array([-0.0, 2.0, -0.0]))
    return y


def with_leading_axes(x):
    y = x * 1.0
    y[1:] = x[None, None, :2]
    np.copyto(y[:1], x[None, 2:])
    return y


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", [copied, with_leading_axes])
def test_copies_are_exact_and_lose_axes_of_length_one(f, mode):
    agrees(f, X, mode)


def real_part(z):
    z = z.copy()
    z.real[...] = 3.0
    return z


def imaginary_part(z):
    z = z.copy()
    z.imag[1:] = -0.0
    return z


@pytest.mark.parametrize("mode", ["jit", "jit again", "vjp", "vmap", "jit of vmap"])
@pytest.mark.parametrize("f", [real_part, imaginary_part, np.nan_to_num])
@pytest.mark.parametrize("dtype", [complex, np.complex64])
def test_a_part_of_a_complex_array_leaves_the_other_alone(dtype, f, mode):
    with np.errstate(invalid="ignore"):
        agrees(f, np.array([complex(1, np.inf), complex(1, -0.0), complex(-0.0, np.nan)], dtype), mode)
        ft.check_grads(f, np.array([1 + 2j, -1 + 0.5j, 2 - 1j]))


# Programs elsewhere


def test_a_tape_keeps_the_numbers_of_its_run():
    w = X.copy()
    tape = ft.trace(lambda x: (x * w, w))(X)
    w[0] = 100.0
    file = io.BytesIO()
    ft.save(file, tape)
    file.seek(0)
    names = {}
    exec(tape.to_python(), names)
    for outputs in (ft.load(file)(X), names["f"](X)):
        assert np.array_equal(outputs[0], X * X)
        assert np.array_equal(outputs[1], X)


def test_results_of_a_loaded_program_are_the_callers():
    file = io.BytesIO()
    ft.save(file, ft.trace(lambda x: (np.arange(3), x * 2))(1.5))
    file.seek(0)
    program = ft.load(file)
    program(1.5)[0][:] = 0
    assert np.array_equal(program(1.5)[0], np.arange(3))


def test_a_loaded_program_takes_numbers():
    file = io.BytesIO()
    ft.save(file, ft.trace(lambda x: np.reshape(x, (1,)) * 2)(1.5))
    file.seek(0)
    assert np.array_equal(ft.load(file)(2.5)[0], [5.0])


def test_empty_arrays_in_source_keep_their_shape():
    names = {}
    exec(ft.trace(lambda x: (x, np.ones((0, 3), bool)))(X).to_python(), names)
    assert names["f"](X)[1].shape == (0, 3)


# Empty batches


@pytest.mark.parametrize(
    "f",
    [
        np.argmax,
        lambda x: x[np.argmin(x)],
        lambda x: np.searchsorted(np.arange(3.0), x),
        lambda x: np.partition(x, 1),
        lambda x: ft.cond(x.sum() > 0, np.sin, np.cos, x),
    ],
)
def test_an_empty_batch_gives_empty_results(f):
    one, out = np.asarray(f(np.zeros(3))), ft.vmap(f)(np.zeros((0, 3)))
    assert out.shape == (0, *one.shape)
    assert out.dtype == one.dtype
