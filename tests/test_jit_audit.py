"""`jit` on programs as users write them: what they read, what they are given, what they hand out, and the control flow in them."""

import collections
import dataclasses
import functools
import io
import itertools
import random
import threading
import time
import types
import warnings

import numpy as np
import pytest

import functrace as ft
from functrace.compile.export import to_python

V = np.array([0.5, -1.2, 2.0])


def agree(found, wanted):
    found, wanted = ft.tree.leaves(found), ft.tree.leaves(wanted)
    assert [type(x) for x in found] == [type(x) for x in wanted]
    for x, y in zip(found, wanted):
        assert getattr(x, "dtype", None) == getattr(y, "dtype", None)
        np.testing.assert_array_equal(x, y)


# Arithmetic

SMALL = np.array([1, 2, 250], np.uint8)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sum(-y),
        lambda x, y: x + -y,
        lambda x, y: -x * -y,
        lambda x, y: -y * V,
        lambda x, y: -y / -x,
        lambda x, y: -y / V,
    ],
)
def test_the_negative_of_a_small_integer_wraps_round(f):
    jitted = ft.jit(f)
    for _ in range(2):
        agree(jitted(np.arange(1, 4), SMALL), f(np.arange(1, 4), SMALL))


NUMBERS = {
    "shifts": (lambda n: (1 << n, n >> 1, n & 3, n | 8, n ^ 5, ~n), [(3,), (5,), (70,)]),
    "round": (lambda x: (round(x), round(x, 2), divmod(x, 2), divmod(7, x)), [(2.675,), (2.6751,), (3.5,)]),
    "signs": (lambda x: (np.negative(np.negative(x)), V.astype(np.float32) + -np.negative(x)), [(3.0,), (4.0,)]),
    "large": (lambda n: n * n + 1, [(10**30,), (3,)]),
    "names": (lambda p, i: p[f"w{i}"] * 2, [({"w1": 1.0, "w2": 5.0}, 1), ({"w1": 1.0, "w2": 5.0}, 2), ({"w1": 3.0, "w2": 5.0}, 1)]),
    "text": (lambda i: f"layer {i:03d} of {i}", [(1,), (2,), (1,)]),
    "a place": (lambda x: {"0": x, "1": 3 * x, "2": -x}[str(np.argmax(x))], [(V,), (-V[::-1],), (V[::-1],)]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_python_numbers_are_what_they_are_in_python(name):
    f, calls = NUMBERS[name]
    jitted = ft.jit(f)
    for args in calls:
        agree(jitted(*args), f(*args))


def test_text_with_a_traced_value_in_it_is_not_frozen():
    jitted = ft.jit(lambda x: (x * 2, f"loss {np.sum(x):.2f}"))
    with pytest.warns(UserWarning, match="returns the text 'loss 1.30'"):
        assert jitted(V)[1] == "loss 1.30"
    assert jitted(2 * V)[1] == "loss 2.60"


# What a function reads beside its arguments

SCALE = 2.0


class Config:
    rate = 0.1


class Model:
    gain = 2.0

    def __init__(self):
        self.bias = 1.0

    def __call__(self, x):
        return x * SCALE

    def shifted(self, x):
        return x * self.gain + self.bias

    @property
    def scale(self):
        return SCALE

    @staticmethod
    def scaled(x):
        return x * SCALE


class Slots:
    __slots__ = ("array", "number")

    def __init__(self):
        self.number, self.array = 1.0, np.ones(3)


@dataclasses.dataclass(slots=True)
class Options:
    rate: float = 1.0


def set_scale(value):
    global SCALE
    SCALE = value


def readers():
    """Name: a function of one array, and what changes its results."""
    model, slots, options = Model(), Slots(), Options()
    bag, queue, module = {1.0, 2.0}, collections.deque([1.0, 2.0]), types.ModuleType("theirs")
    module.rate, module.array = 2.0, np.ones(3)
    table = {"f": functools.partial(lambda s, x: x * SCALE * s, 2.0)}
    weights = np.ones(3)
    bound = functools.partial(lambda w, x: w * x, weights)

    def default(x, w=1.0):
        return x * w

    return {
        "class attribute": (lambda x: x * Config.rate, lambda: setattr(Config, "rate", Config.rate + 1)),
        "object attribute": (model.shifted, lambda: setattr(model, "bias", 5.0)),
        "attribute of its class": (lambda x: model.shifted(x), lambda: setattr(Model, "gain", Model.gain + 1)),
        "attribute that hides another": (model.shifted, lambda: setattr(model, "gain", 9.0)),
        "slot": (lambda x: x * slots.number, lambda: setattr(slots, "number", 5.0)),
        "array in a slot": (lambda x: x * slots.array, lambda: slots.array.__setitem__(0, 9.0)),
        "dataclass with slots": (lambda x: x * options.rate, lambda: setattr(options, "rate", 5.0)),
        "set": (lambda x: x * sum(bag), lambda: bag.add(9.0)),
        "deque": (lambda x: x * sum(queue), lambda: queue.append(9.0)),
        "module": (lambda x: x * module.rate, lambda: setattr(module, "rate", 5.0)),
        "array of a module": (lambda x: x * module.array, lambda: module.array.__setitem__(0, 9.0)),
        "default": (default, lambda: setattr(default, "__defaults__", (3.0,))),
        "partial": (bound, lambda: weights.__setitem__(0, 9.0)),
        "global of an operator": (lambda x: model(x), lambda: set_scale(SCALE + 1)),
        "global of a callable object": (Model(), lambda: set_scale(SCALE + 1)),
        "global of a property": (lambda x: x * model.scale, lambda: set_scale(SCALE + 1)),
        "global of a static method": (lambda x: Model.scaled(x), lambda: set_scale(SCALE + 1)),
        "global of a function in a table": (lambda x: table["f"](x), lambda: set_scale(SCALE + 1)),
    }


@pytest.mark.parametrize("name", readers())
def test_what_a_function_reads_is_noticed_wherever_it_is(name):
    f, change = readers()[name]
    jitted = ft.jit(f)
    for _ in range(2):
        agree(jitted(V), f(V))
    before = f(V)
    change()
    assert not np.array_equal(before, f(V))
    for _ in range(2):
        agree(jitted(V), f(V))
    assert jitted.cache_info()["recorded"] == 2  # and not more often


def test_what_a_function_keeps_for_itself_is_noticed_too():
    class Lazy:
        @functools.cached_property
        def gain(self):
            return 3.0

    lazy, seen = Lazy(), []

    def f(x):
        seen.append(1)
        return x * lazy.gain

    jitted = ft.jit(f)
    for args in (V, V[:2], V, V[:2], V):
        agree(jitted(args), 3.0 * args)
    assert jitted.cache_info()["recorded"] == 2  # its own notes do not count as a change
    lazy.__dict__["gain"] = 5.0
    agree(jitted(V), 5.0 * V)


def test_an_unrelated_attribute_is_not_looked_at():
    model = Model()
    jitted = ft.jit(lambda x: model.shifted(x))
    jitted(V)
    Model.unrelated = 1
    jitted(V)
    del Model.unrelated
    assert jitted.cache_info()["recorded"] == 1


@pytest.mark.parametrize("draw", [random.random, random.Random(0).random, itertools.count().__next__, iter(range(100)).__next__])
def test_what_python_draws_is_not_frozen(draw):
    source = draw.__self__
    jitted = ft.jit(lambda x: x + (source.random() if hasattr(source, "random") else next(source)))
    with pytest.warns(UserWarning, match="draws random numbers|can't be seen"):
        first = jitted(0.0)
    assert jitted(0.0) != first


# Arguments and results


@pytest.mark.parametrize("calls", [[(2,), (2.0,), (True,)], [2, 2.0, True], [0.0, -0.0]])
def test_static_arguments_that_are_equal_but_not_alike(calls):
    def f(x, p):
        return (x / p, x**p) if not isinstance(p, tuple) else x ** p[0]

    jitted = ft.jit(f, static_argnums=1)
    with np.errstate(divide="ignore"):
        for p in [*calls, *calls]:
            agree(jitted(np.arange(1, 4), p), f(np.arange(1, 4), p))


def test_what_runs_without_being_compiled_keeps_its_hands_off_the_arguments():
    def f(x, rows):
        rows[1] += 1.0
        return x, rows[: int(x[0])]

    jitted = ft.jit(f, max_paths=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(1, 4):
            x, rows = np.array([float(k)]), np.zeros(4)
            same, part = jitted(x, rows)
            assert not rows.any() and not np.shares_memory(same, x) and not np.shares_memory(part, rows)
            np.testing.assert_array_equal(part, [0.0, 1.0, 0.0, 0.0][:k])
    assert jitted.cache_info()["eager"] > 0


def test_an_error_in_a_replay_leaves_the_arguments_as_they_were():
    def f(x):
        x[0, 0] += 1.0
        return np.linalg.inv(x)

    jitted = ft.jit(f)
    jitted(np.eye(2))
    x = np.array([[-1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(np.linalg.LinAlgError):
        jitted(x)
    assert x[0, 0] == -1.0


def test_threads_that_record_the_same_path_leave_one():
    def f(x):
        time.sleep(0.01)
        return x * 2 if x[0] > 0 else -x

    jitted, wrong = ft.jit(f), []

    def work(k):
        x = np.array([(-1.0) ** k, k])
        if not np.array_equal(jitted(x), f(x)):
            wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and jitted.cache_info()["paths"] == 2 and jitted.cache_info()["eager"] == 0


def test_a_class_as_an_argument():
    jitted = ft.jit(lambda x, t: x.astype(t))
    for t in (np.float32, np.int64, np.float32):
        agree(jitted(V, t), V.astype(t))


# Programs outside of functrace

LOOKS = {
    "item": (lambda x: x * x[0].item(), (V + 2,), (V + 3,)),
    "tolist": (lambda x: x * x.tolist()[0], (V + 2,), (V + 3,)),
    "value": (lambda x: x * ft.value(x)[0], (V + 2,), (V + 3,)),
    "complex": (lambda x: x * complex(x[0]).real, (V + 2,), (V + 3,)),
    "float": (lambda x: x * float(x[0]), (V + 2,), (V + 3,)),
    "mask": (lambda x: x[x > 0], (V,), (-V,)),
    "text": (lambda x, i: x * {"1": 2.0, "2": 3.0}[str(i)], (V, 1), (V, 2)),
    "round": (lambda x, y: x * round(y), (V, 2.2), (V, 3.3)),
}


@pytest.mark.parametrize("name", LOOKS)
def test_the_source_and_the_file_check_what_python_looked_at(name):
    f, args, others = LOOKS[name]
    jitted = ft.jit(f)
    wanted = jitted(*args)
    (program,) = jitted.programs()
    namespace, file = {}, io.BytesIO()
    exec(to_python(program), namespace)
    ft.save(file, program)
    file.seek(0)
    loaded = ft.load(file)
    agree(namespace["f"](*args), wanted)
    agree(loaded(*args), [wanted])
    with pytest.raises(AssertionError, match="another branch"):
        namespace["f"](*others)
    with pytest.raises(Exception, match="guard 0 found"):
        loaded(*others)


def test_programs_of_python_numbers_are_written_and_saved():
    def f(x, n):
        return x + n, x**n, -x, abs(x), n << 1, n | 4, n & 1, n ^ 3, ~n, round(x, 1), x * complex(-0.0, np.inf), x * np.float32(-np.inf)

    with np.errstate(invalid="ignore"):
        jitted = ft.jit(f)
        jitted(3.5, 2)
        (program,) = jitted.programs()
        namespace, file = {}, io.BytesIO()
        exec(to_python(program), namespace)
        ft.save(file, program)
        file.seek(0)
        agree(namespace["f"](4.25, 5), f(4.25, 5))
        agree(ft.load(file)(4.25, 5), f(4.25, 5))


# Control flow


def written(x, k):
    y = x * 0.9
    y[0] = x[1] + k
    y[1:] *= y[0]
    return y


FLOW = {
    "while": lambda x: ft.while_loop(lambda s: s[1] < 5, lambda s: (s[0] - 0.1 * np.sin(s[0]) * s[0], s[1] + 1), (x, 0)),
    "while that shares work with its test": lambda x: ft.while_loop(lambda v: np.sum(v**2) < 50, lambda v: v * 1.5 + np.sum(v**2), x),
    "while that does not begin": lambda x: ft.while_loop(lambda v: np.sum(v**2) < 0, lambda v: v * 1.5, x),
    "while that swaps": lambda x: ft.while_loop(lambda s: s[2] < 3, lambda s: (s[1], s[0], s[2] + 1), (x, x * 2, 0)),
    "while that closes over": lambda x: ft.while_loop(lambda v: v[0] < 9 + x[2], lambda v: np.abs(np.outer(V, V) @ v) + x**2 + 1, x),
    "while that writes": lambda x: ft.while_loop(lambda s: s[1] < 3, lambda s: (written(s[0], s[1]), s[1] + 1), (x, 0)),
    "while in while": lambda x: ft.while_loop(
        lambda v: v[0] < 40, lambda v: ft.while_loop(lambda u: np.sum(u) < 9, lambda u: u + 1, v) * 1.5, np.abs(x)
    ),
    "fori over a traced count": lambda x: ft.fori_loop(0, (x[2] * 2).astype(int), lambda i, v: v * 0.9 + i, x),
    "cond": lambda x: ft.cond(x[0] > 0, lambda v: (np.sin(v) * v, v), lambda v: (v + 1, v[::-1]), x),
    "cond in scan": lambda x: ft.scan(lambda c, z: (ft.cond(z > 0, np.sin, np.cos, c * z), c), 1.0, x),
    "switch": lambda x: ft.switch(np.sum(x > 0), [np.sin, np.cos, lambda v: v @ v * v], x),
}


@pytest.mark.parametrize("name", FLOW)
@pytest.mark.parametrize("what", ["itself", "vmap", "grad"])
def test_control_flow_is_compiled_and_right(name, what):
    f = FLOW[name]
    if what == "grad":
        f = ft.grad(lambda x: sum(np.sum(np.sin(y)) for y in ft.tree.leaves(FLOW[name](x)) if y.dtype.kind == "f"))
    xs = [V, V * 0.7 + 0.1, -V + 0.5, V]
    if what == "vmap":
        f, xs = ft.vmap(f), [np.stack(xs), np.stack(xs[::-1])]
    jitted = ft.jit(f)
    results = [(jitted(x), x) for x in xs]
    for found, x in results:  # after all calls: none may have been written to
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(f(x))):
            np.testing.assert_allclose(a, b, rtol=1e-12)
            assert not np.shares_memory(a, x)
    assert jitted.cache_info()["eager"] == 0


def test_a_loop_is_one_flat_program():
    jitted = ft.jit(FLOW["while"])
    jitted(V)
    (text,) = {line for line in jitted.show().splitlines() if "break" in line}
    assert text.startswith("# while_loop:") and "if not" in text
    squares = ft.jit(FLOW["while that shares work with its test"])
    squares(V)
    assert squares.show().count("square(") == 1  # the test's and the body's are one


@pytest.mark.parametrize(
    "scanned", [lambda c, xs: ft.scan(lambda c, x: (c + x, c * x), c, xs), lambda c, xs: ft.map(lambda x: x * 2.0, xs)]
)
def test_a_python_number_takes_the_dtype_that_it_meets(scanned):
    xs = np.ones(3, np.float32)
    jitted = ft.jit(scanned)
    for _ in range(3):
        agree(jitted(0.0, xs), scanned(0.0, xs))


def test_a_python_number_that_branches_are_given():
    def f(x):
        return ft.cond(x > 0, lambda a, b: a * b, lambda a, b: a, x, 2.0)

    agree(ft.jit(f)(np.float32(2)), f(np.float32(2)))
    assert ft.vmap(f)(np.array([1, -1], np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ft.scan(lambda c, _: (c, c), 1.0, length=2.5), ft.errors.ControlFlowError, "length must be whole"),
        (lambda: ft.scan(lambda c, _: (c, c), 1.0, length=-1), ft.errors.ControlFlowError, "length must be whole and not negative"),
        (lambda: ft.fori_loop(0, 2.5, lambda i, c: c, 1.0), ft.errors.ControlFlowError, "upper must be whole, got 2.5"),
        (lambda: ft.map(np.sin, V, batch_size=0), ft.errors.ControlFlowError, "batch_size must be positive"),
        (lambda: ft.while_loop(lambda v: v < 3, lambda v: v, V), ft.errors.ControlFlowError, "one boolean, got bool.3"),
        (lambda: ft.cond("a", np.sin, np.cos, 1.0), ft.errors.ControlFlowError, "one boolean, got str"),
        (lambda: ft.switch(True, [np.sin, np.cos], 1.0), ft.errors.ControlFlowError, "one integer"),
        (lambda: ft.vmap(np.sin, out_axes=3)(V), ft.errors.BatchError, "out_axes asks for axis 3 of a result that is float64.3"),
        (lambda: ft.vmap(np.sin, in_axes=0.5)(V), ft.errors.BatchError, "in_axes = 0.5 does not fit"),
        (lambda: ft.vmap(lambda i: V[i])(np.array([[0, 1]])), ft.errors.ConversionError, "functrace.numpy.take"),
        (lambda: ft.custom_vjp(lambda x: x, nondiff_argnums=(2,)), ft.errors.CustomRuleError, "names argument 2, but the call has 1"),
    ],
)
def test_mistakes_are_named(call, error, text):
    with pytest.raises(error, match=text):
        made = call()
        made.defvjp(lambda x: (x, None), lambda _, g: (g,))
        made(1.0)
