"""`jit`: what a function reads beside its arguments is noticed when it changes, or said."""

import array
import builtins
import collections
import contextlib
import contextvars
import copy
import dataclasses
import functools
import gc
import importlib
import itertools
import logging
import operator
import os
import pickle
import queue
import random
import shutil
import sys
import types
import weakref
from os import getenv

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors, jit, tree
from functrace.compile.bindings import Bindings, _is_users
from functrace.errors import JitWarning
from tests.helpers import alike

X = np.array([0.3, -0.7, 1.2])
V = np.array([0.5, -1.2, 2.0])


# Names, containers and arrays


class Layer:
    def __init__(self, scale):
        self.scale = scale
        self.parts = [scale]


def test_of_thousands_of_objects_each_is_noticed():
    floats, names = [1.0] * 3000, {f"k{k}": 1.0 for k in range(3000)}
    rows, layers = [[1.0] for _ in range(1500)], tuple(Layer(1.0) for _ in range(800))
    changes = {
        lambda: sum(floats): lambda: floats.__setitem__(2500, 3.0),
        lambda: sum(names.values()): lambda: names.__setitem__("k2500", 3.0),
        lambda: sum(row[0] for row in rows): lambda: rows[1].__setitem__(0, 3.0),
        lambda: sum(layer.scale * layer.parts[0] for layer in layers): lambda: setattr(layers[3], "scale", 3.0),
    }
    for read, change in changes.items():
        f = ft.jit(lambda x, read=read: x * read())
        before = f(1.0)
        assert f(1.0) == before == read()
        change()
        assert f(1.0) == before + 2 and f(1.0) == before + 2
        assert f.cache_info()["recorded"] == 2


def test_a_function_of_more_objects_than_can_be_looked_at_is_not_compiled():
    rows = [[1.0] for _ in range(9000)]
    f = ft.jit(lambda x: x * sum(row[0] for row in rows))
    with pytest.warns(JitWarning, match="more than 16384 objects"):
        assert f(1.0) == 9000
    rows[1][0] = 3.0
    assert f(1.0) == 9002 and ft.grad(f)(1.0) == 9002


def test_a_changed_global_closure_or_attribute_is_noticed():
    scale, box, holder = 2.0, {"a": X.copy()}, types.SimpleNamespace(w=np.ones(3))

    def g(x):
        return x * scale + box["a"] + holder.w

    h = jit(g)

    def check():
        np.testing.assert_array_equal(h(X), X * scale + box["a"] + holder.w)

    check()
    check()
    scale = 3.0
    check()
    box["a"] = X + 1
    check()
    box["a"][0] = 100.0
    check()
    holder.w = np.zeros(3)
    check()
    holder.w[1] = 7.0
    check()
    assert "scale has changed" in h.explain() and "the elements of box['a'] have changed" in h.explain()


class Quantity(np.ndarray):
    """An array that does not let its bytes be read."""

    def tobytes(self, order="C"):
        raise NotImplementedError


def test_an_array_that_hides_its_bytes_is_watched_too():
    held = np.ones(2).view(Quantity)
    h = jit(lambda x: x * float(held[0]))
    assert h(2.0) == h(2.0) == 2.0
    held[0] = 3.0
    assert h(2.0) == 6.0


def test_a_large_closed_over_array_is_locked_or_its_change_noticed():
    big = np.ones(50_000)
    view = big[:]
    h = jit(lambda x: (x * big).sum())
    assert h(2.0) == h(2.0) == 100_000.0
    with pytest.raises(ValueError, match="read-only"):
        big[0] = 5.0
    view[:] = 2.0
    assert h(2.0) == 200_000.0
    h.clear_cache()
    gc.collect()
    big[0] = 5.0


@pytest.mark.parametrize(
    "read",
    [
        lambda w: w[7, 11],
        lambda w: w.sum(),
        lambda w: w.T,
        lambda w: w[::2],
        lambda w: 1.0 if w[7, 11] > 0 else 0.0,
    ],
)
def test_a_large_array_is_locked_however_it_is_read(read):
    """One element of it tells what was read of it from what is read now: it is not among the few that are compared."""
    big = np.zeros((300, 300))
    view = big.reshape(-1)
    h = jit(lambda x: (x * read(big)).sum())
    assert h(2.0) == h(2.0) == 0.0
    with pytest.raises(ValueError, match="read-only"):
        big[7, 11] = 5.0
    view[:] = 2.0
    assert h(2.0) == 2 * np.sum(read(big))
    del h
    gc.collect()
    big[7, 11] = 5.0


def test_a_view_of_a_large_array_is_locked_with_it():
    big = np.zeros((300, 300))
    rows = big[1::2]
    h = jit(lambda x: (x * x * rows).sum())
    _, pull = ft.vjp(h, 2.0)
    with pytest.raises(ValueError, match="read-only"):
        big[7, 11] = 5.0
    assert h(2.0) == pull(1.0)[0] == 0.0


@pytest.mark.parametrize("array", [np.array(["a" * 30_000] * 3), np.zeros(50_000, "datetime64[s]")])
def test_large_arrays_of_texts_and_dates_are_compared_too(array):
    h = jit(lambda x: x * len(array))
    assert h(2.0) == h(2.0) == 2.0 * len(array)


def test_an_array_that_only_c_code_and_a_view_hold():
    """What is held by one reference that no look at names finds, as by a cache: Python 3.14 counts references in another way."""

    @functools.lru_cache
    def table():
        return np.arange(4.0)

    for part in (slice(None), slice(1, 3)):
        h = jit(lambda x, part=part: (table()[part] * x).sum())
        for new in (1.0, 5.0):
            table()[:3] = new
            assert h(2.0) == 2 * table()[part].sum()


def test_arrays_made_and_written_inside_the_function():
    def g(x):
        buffer = np.zeros(3)
        a = x + buffer
        buffer[0] = 5.0
        b = fnp.zeros(3)
        b[1] = 2.0
        c = x * b
        b[2] = 3.0
        return a * buffer + c * b

    h = jit(g)
    for x in (X, X + 1, X):
        np.testing.assert_array_equal(h(x), g(x))
    assert h.cache_info()["recorded"] == 1


def test_random_numbers_are_not_frozen():
    rng = np.random.default_rng(0)
    h = jit(lambda x: x + rng.normal())
    with pytest.warns(JitWarning, match="random"):
        first = h(1.0)
    assert len({float(h(1.0)) for _ in range(3)} | {float(first)}) == 4
    draw = random.Random(0).random
    h = jit(lambda x: x + draw())
    with pytest.warns(JitWarning, match="random"):
        assert h(1.0) != h(1.0)
    old = np.random.RandomState(0)  # noqa: NPY002
    h = jit(lambda x: x + old.normal())
    with pytest.warns(JitWarning, match="random"):
        assert h(1.0) != h(1.0)
    g = jit(lambda x: x + np.random.normal())  # noqa: NPY002
    state = np.random.get_state()  # noqa: NPY002
    with pytest.warns(JitWarning, match="random"):
        g(1.0)
    np.random.set_state(state)  # noqa: NPY002


def test_a_write_to_an_outer_array_is_not_forgotten():
    log = np.zeros(2)

    def g(x):
        log[0] += 1
        return x * 2

    h = jit(g)
    with pytest.warns(JitWarning, match="writes to an array"):
        h(1.0)
    h(1.0)
    assert log[0] == 2


def test_a_rebound_name_is_flagged_as_a_side_effect():
    count = 0

    def g(x):
        nonlocal count
        count += 1
        return x * 2

    h = jit(g)
    h(1.0), h(2.0)
    assert count == 1 and "count" in h.explain()


@pytest.mark.parametrize("transform", [lambda f: f, ft.grad])
def test_a_traced_value_that_is_kept_is_kept_in_each_call(transform):
    class Normalised:
        def __init__(self):
            self.mean, self.seen, self.rows = np.zeros(3), {"last": None}, []

        def __call__(self, w, x):
            nonlocal total
            self.mean = 0.5 * self.mean + x
            self.seen["last"] = x * 2
            self.rows.append(x[0] + 1)
            total = total + x[1]
            return np.sum(w * self.mean)

    states = []
    for compiled in (False, True):
        total, model = 0.0, Normalised()
        f = jit(transform(model)) if compiled else transform(model)
        for k in range(3):
            with pytest.warns(JitWarning, match="keeps a traced value in .*mean") if compiled and not k else contextlib.nullcontext():
                out = f(X, X + k)
        states.append((out, model.mean, model.seen["last"], model.rows, total))
    for there, here in zip(*states):
        assert np.array_equal(there, here) and type(there) is type(here)


def test_another_name_like_the_one_that_is_set_is_still_looked_at():
    def counting():
        scale = 0

        def count(x):
            nonlocal scale
            scale += 1
            return x

        return count

    count, scale = counting(), 2.0
    h = jit(lambda x: count(x) * scale)
    h(1.0)
    scale = 3.0
    assert h(1.0) == 3.0


class Counter:
    number = 0


def counters():
    counter, numbers, more, table, number = Counter(), [0], [0], {"number": 0}, 0
    counter.number = 0

    def closed():
        nonlocal number
        number += 1

    def of_class():
        Counter.number += 1

    def of_object():
        counter.number += 1

    def of_list():
        numbers[0] += 1

    def of_dict():
        table["number"] += 1

    def called():
        called.times += 1

    called.times = 0
    return {
        "class attribute": of_class,
        "object attribute": of_object,
        "item of a list": of_list,
        "length of a list": lambda: more.append(0),
        "item of a dict": of_dict,
        "closure": closed,
        "attribute of a function": called,
    }


@pytest.mark.parametrize("name", counters())
def test_what_a_function_counts_is_no_reason_to_record_another_signature_again(name):
    count = counters()[name]
    h = jit(lambda x: (count(), x * 2)[1])
    for x in (V, V[:2], V, V[:2], V):
        alike(h(x), x * 2)
    assert h.cache_info()["recorded"] == 2


class Clock:
    ticks = 0

    def __init__(self, times=0):
        self.times, self.table, self.seen, self.log, self.recent = times, {"times": times}, {}, [], collections.deque(maxlen=2)
        self.queue, self.user_list, self.row = queue.Queue(), collections.UserList(), array.array("d", [0.0])
        self.context = contextvars.ContextVar("context", default=0)


def attribute(clock):
    clock.times += 1
    return clock.times


def default_of_the_class(clock):
    clock.ticks += 1
    return clock.ticks


def item(clock):
    clock.table["times"] += 1
    return clock.table["times"]


def new_item(clock):
    clock.seen["times"] = clock.seen.get("times", 0) + 1
    return clock.seen["times"]


def by_name(clock):
    setattr(clock, "times", getattr(clock, "times") + 1)  # noqa: B009, B010
    return 2 if clock.times > 3 else 1


def new_name(clock):
    if not hasattr(clock, "later"):
        clock.later = 0
    clock.later += 1
    return clock.later


def length(clock):
    clock.log.append(0)
    return len(clock.log)


def newest(clock):
    clock.log.append(1.0 + len(clock.log))
    return clock.log[-1]


def taken(clock):
    clock.log = clock.log or [5.0, 4.0, 3.0, 2.0, 1.0]
    return clock.log.pop()


def pair(clock):
    a, b = clock.log.pop() if clock.log else (1.0, 1.0)
    clock.log.append((b, a + b))
    return a


def sum_of_the_last(clock):
    clock.recent.append(len(clock.recent) + 1)
    return sum(clock.recent)


def any_item(clock):
    for key in ("times", "more"):
        clock.table[key] = clock.table.get(key, 0) + 1
    return sum(clock.table.values())


def under_any_key(clock):
    for key in ("times", "more"):
        clock.table.setdefault(key, 0)
        clock.table[key] += 1
    return clock.table[key]


def inner_list(clock):
    clock.seen.setdefault("log", []).append(1)
    return len(clock.seen["log"])


def default(clock, log=[]):  # noqa: B006
    log.append(clock)
    return log.count(clock)


def of_itself(clock):
    of_itself.times = {} if not hasattr(of_itself, "times") else of_itself.times
    of_itself.times[clock] = of_itself.times.get(clock, 0) + 1
    return of_itself.times[clock]


def in_a_queue(clock):
    for times in range(9) if clock.queue.empty() else ():
        clock.queue.put(times + 1.0)
    return clock.queue.get()


def in_a_list_of_pythons(clock):
    clock.user_list.append(clock)
    return len(clock.user_list)


def in_a_row_of_numbers(clock):
    clock.row[0] += 1
    return clock.row[0]


def in_a_context(clock):
    clock.context.set(clock.context.get() + 1)
    return clock.context.get()


CLOCKS = [attribute, default_of_the_class, item, new_item, by_name, new_name, length, newest, taken, pair, sum_of_the_last, any_item]
CLOCKS += [under_any_key, inner_list, default, of_itself, in_a_queue, in_a_list_of_pythons, in_a_row_of_numbers, in_a_context]


@pytest.mark.parametrize("tick", CLOCKS)
@pytest.mark.parametrize("transform", [lambda f: f, ft.grad])
def test_a_counter_that_is_set_and_used_is_counted_and_told(tick, transform):
    def step(clock):
        return transform(lambda p, g: p * g / (1 - 0.5 ** tick(clock)))

    plain, jitted = step(Clock()), jit(step(Clock()))
    with pytest.warns(JitWarning, match="it reads .*, and sets it each time"):
        found = [jitted(1.0, 2.0) for _ in range(5)]
    assert found == [plain(1.0, 2.0) for _ in range(5)] and jitted.cache_info()["eager"] > 0


def test_what_is_only_put_somewhere_is_no_reason_to_run_uncompiled():
    class Logger:
        def __init__(self):
            self.log, self.tables, self.seen, self.sums = [], {"log": []}, set(), {}

        def __call__(self, x, k):
            self.log.append("called")
            self.log.extend(["twice"])
            self.tables["log"].append(1)
            self.tables[k] = [2]
            self.tables[k].append(3)
            self.seen.add(len(x))
            self.sums.update(k=k)
            return x * 2

    jitted = jit(Logger())
    for _ in range(3):
        alike(jitted(V, "kind"), V * 2)
    assert jitted.cache_info()["recorded"] == 1


def test_a_table_of_what_was_made_settles():
    made = {}

    def f(x):
        if x.shape not in made:
            made[x.shape] = np.arange(float(x.size))
        return x * made[x.shape]

    jitted = jit(f)
    for x in (V, V[:2], V, V[:2], V, V[:2]):
        alike(jitted(x), x * np.arange(float(x.size)))
    assert jitted.cache_info()["eager"] == 0 and jitted.cache_info()["recorded"] <= 5


def test_what_is_made_once_is_recorded_once_more():
    class Table:
        rows = None

        def __init__(self):
            self.kept = {}

        def __call__(self, x):
            if self.rows is None:
                self.rows = np.arange(3.0)
            if "gain" not in self.kept:
                self.kept["gain"] = 2.0
            return x * self.rows * self.kept["gain"]

    table = Table()
    jitted = jit(table)
    for _ in range(4):
        alike(jitted(V[:3]), V[:3] * np.arange(3.0) * 2)
    assert jitted.cache_info() == {"signatures": 1, "paths": 1, "hits": 2, "recorded": 2, "eager": 0}
    table.rows = np.ones(3)
    alike(jitted(V[:3]), V[:3] * 2)


# Wherever it is


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

    def by_gain(self, x):
        return x * self.gain


class Sized(np.ndarray):
    gain: float


class Pair(collections.namedtuple("Pair", "first second")):
    gain: float


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
    order = collections.OrderedDict(a=1.0, b=2.0)
    bag, queue, module = {1.0, 2.0}, collections.deque([1.0, 2.0]), types.ModuleType("theirs")
    rates = {"a": 1.0}
    keys, values, items, lookup = rates.keys(), rates.values(), rates.items(), rates.get
    module.rate, module.array = 2.0, np.ones(3)
    table = {"f": functools.partial(lambda s, x: x * SCALE * s, 2.0)}

    class Patched(Model):
        def __call__(self, x):
            return x * self.bias

    patched = Patched()
    texts, sized = np.array(["a" * 40], np.dtypes.StringDType()), np.ones(3).view(Sized)
    sized.gain, pair, key = 2.0, Pair(1.0, 2.0), Model()
    pair.gain = 2.0
    by_key, suffix, theirs = {key: 1.0}, "".join(["ga", "in"]), sys.modules[__name__]
    weights, polynomial, series = np.ones(3), np.poly1d([1.0, 2.0]), np.polynomial.Polynomial([1.0, 2.0])
    bound = functools.partial(lambda w, x: w * x, weights)

    def default(x, w=1.0):
        return x * w

    def remembering(x):
        return x * remembering.scale

    remembering.scale = 2.0

    return {
        "class attribute": (lambda x: x * Config.rate, lambda: setattr(Config, "rate", Config.rate + 1)),
        "object attribute": (model.shifted, lambda: setattr(model, "bias", 5.0)),
        "attribute of its class": (lambda x: model.shifted(x), lambda: setattr(Model, "gain", Model.gain + 1)),
        "attribute that hides another": (model.shifted, lambda: setattr(model, "gain", 9.0)),
        "slot": (lambda x: x * slots.number, lambda: setattr(slots, "number", 5.0)),
        "array in a slot": (lambda x: x * slots.array, lambda: slots.array.__setitem__(0, 9.0)),
        "dataclass with slots": (lambda x: x * options.rate, lambda: setattr(options, "rate", 5.0)),
        "set": (lambda x: x * sum(bag), lambda: bag.add(9.0)),
        "order": (lambda x: x * next(iter(order.values())), lambda: order.move_to_end("a")),
        "deque": (lambda x: x * sum(queue), lambda: queue.append(9.0)),
        "keys": (lambda x: x * len(keys), lambda: rates.update(b=9.0)),
        "values": (lambda x: x * sum(values), lambda: rates.update(a=9.0)),
        "items": (lambda x: x * sum(v for _, v in items), lambda: rates.update(a=9.0)),
        "method of a dict": (lambda x: x * lookup("a"), lambda: rates.update(a=9.0)),
        "module": (lambda x: x * module.rate, lambda: setattr(module, "rate", 5.0)),
        "array of a module": (lambda x: x * module.array, lambda: module.array.__setitem__(0, 9.0)),
        "array of texts of any length": (lambda x: x * len(texts[0]), lambda: texts.__setitem__(0, "b" * 50)),
        "attribute of an array": (lambda x: x * sized.gain, lambda: setattr(sized, "gain", 5.0)),
        "attribute of a named tuple": (lambda x: x * pair.gain, lambda: setattr(pair, "gain", 5.0)),
        "attribute of a key": (lambda x: x * sum(k.bias for k in by_key), lambda: setattr(key, "bias", 5.0)),
        "class attribute by a text": (lambda x: x * getattr(model, suffix), lambda: setattr(Model, "gain", Model.gain + 1)),
        "method by a text": (lambda x: getattr(key, "by_" + suffix)(x), lambda: setattr(Model, "by_gain", lambda _, x: x - Model.gain)),
        "number of a module by a text": (lambda x: x * getattr(theirs, "SCALE"[: len(suffix) + 1]), lambda: set_scale(SCALE + 1)),
        "builtin of one's own": (lambda x: x * A_BUILTIN, lambda: setattr(builtins, "A_BUILTIN", 5.0)),  # noqa: F821
        "default": (default, lambda: setattr(default, "__defaults__", (3.0,))),
        "polynomial": (lambda x: x * polynomial(2.0), lambda: polynomial.__setitem__(0, 9.0)),
        "attribute of an object of NumPy's": (lambda x: x * series.coef[0], lambda: setattr(series, "coef", np.array([9.0]))),
        "attribute of a function": (lambda x: remembering(x), lambda: setattr(remembering, "scale", 5.0)),
        "partial": (bound, lambda: weights.__setitem__(0, 9.0)),
        "global of an operator": (lambda x: model(x), lambda: set_scale(SCALE + 1)),
        "global of a callable object": (Model(), lambda: set_scale(SCALE + 1)),
        "operator put in the place of another": (lambda x: patched(x), lambda: setattr(Patched, "__call__", lambda _, x: x - 1)),
        "global in a text": (lambda x: x * eval("SCALE * 2"), lambda: set_scale(SCALE + 1)),  # noqa: S307
        "global of a property": (lambda x: x * model.scale, lambda: set_scale(SCALE + 1)),
        "global of a static method": (lambda x: Model.scaled(x), lambda: set_scale(SCALE + 1)),
        "global of a function in a table": (lambda x: table["f"](x), lambda: set_scale(SCALE + 1)),
    }


@pytest.mark.parametrize("name", readers())
def test_what_a_function_reads_is_noticed_wherever_it_is(name, monkeypatch):
    monkeypatch.setattr(builtins, "A_BUILTIN", 2.0, raising=False)
    monkeypatch.setattr(Model, "by_gain", Model.by_gain)
    f, change = readers()[name]
    jitted = ft.jit(f)
    for _ in range(2):
        alike(jitted(V), f(V))
    before = f(V)
    change()
    assert not np.array_equal(before, f(V))
    for _ in range(2):
        alike(jitted(V), f(V))
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
        alike(jitted(args), 3.0 * args)
    assert jitted.cache_info()["recorded"] == 2  # its own notes do not count as a change
    lazy.__dict__["gain"] = 5.0
    alike(jitted(V), 5.0 * V)


def test_what_a_jitted_function_keeps_of_its_calls_is_not_looked_at():
    inner = ft.jit(lambda x: x * SCALE)
    outer = ft.jit(lambda x: inner(x) + 1.0)
    for x in (V, V[:2], V):
        alike(outer(V), V * SCALE + 1.0)
        inner(x)
    assert outer.cache_info()["recorded"] == 1


def test_an_unrelated_attribute_is_not_looked_at():
    model = Model()
    jitted = ft.jit(lambda x: model.shifted(x))
    jitted(V)
    Model.unrelated = 1
    jitted(V)
    del Model.unrelated
    assert jitted.cache_info()["recorded"] == 1


def test_a_function_that_logs_is_compiled(tmp_path):
    log = logging.getLogger("tests.jit")
    with open(tmp_path / "log", "w") as file:
        log.addHandler(handler := logging.StreamHandler(file))
        jitted = ft.jit(lambda x: log.debug("called") or file.write("called") * x)
        assert [jitted(1.0), jitted(2.0)] == [6.0, 12.0]
        log.removeHandler(handler)
    assert jitted.cache_info()["hits"] == 1


class Ticks:
    count = 0.0

    def __next__(self):
        self.count += 1
        return self.count


DRAWS = [
    *(random.random, random.Random(0).random, np.random.default_rng(0).random),
    *(itertools.count().__next__, iter(range(100)).__next__, Ticks().__next__),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_what_python_draws_is_not_frozen(draw):
    source = draw.__self__
    jitted = ft.jit(lambda x: x + (source.random() if hasattr(source, "random") else next(source)))
    with pytest.warns(UserWarning, match="draws random numbers|can't be seen"):
        first = jitted(0.0)
    assert jitted(0.0) != first


@pytest.mark.filterwarnings("ignore::functrace.errors.JitWarning")
def test_what_is_drawn_is_of_one_run_under_a_derivative():
    ticks = Ticks()
    of = ft.value_and_grad(ft.jit(lambda x: x * next(ticks)))
    assert [of(1.0) for _ in range(3)] == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


def test_a_function_as_an_argument_closes_over_a_traced_value():
    apply = ft.jit(lambda x, f: f(x))
    for y in (3.0, 5.0):
        assert ft.grad(lambda y: apply(y, lambda v: v * y))(y) == 2 * y


@pytest.mark.parametrize(
    "draw",
    [
        np.random.default_rng(0).random,  # Cython's functions have a metaclass whose module is a descriptor
        functools.partial(np.random.PCG64(0).random_raw, 2),
        lambda spawn=np.random.SeedSequence(0).spawn: spawn(1)[0].generate_state(2),
    ],
)
def test_what_numpy_draws_is_not_frozen(draw):
    jitted = ft.jit(lambda x: x + draw().sum() if isinstance(draw(), np.ndarray) else x + draw())
    with pytest.warns(UserWarning, match="draws random numbers"):
        first = jitted(0.0)
    assert jitted(0.0) != first


# However it changes


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
def a_global_of_a_constructor():
    class Made:
        def __init__(self):
            self.w = FOUND

    return lambda x: x * Made().w, lambda: globals().__setitem__("FOUND", 3.0)


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


@pytest.mark.parametrize("read", [lambda: os.environ["A_SCALE"], lambda: os.getenv("A_SCALE"), lambda: getenv("A_SCALE")])
def test_an_environment_variable_is_noticed_to_change(read, monkeypatch):
    jitted = jit(lambda x: x * float(read()))
    for scale in (1.0, 2.0, 2.0, 3.0):
        monkeypatch.setenv("A_SCALE", str(scale))
        alike(jitted(X), X * scale)
    assert jitted.cache_info()["recorded"] == 3


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


def test_an_attribute_with_the_name_of_a_global_is_not_looked_at(tmp_path, monkeypatch):
    (tmp_path / "a_model.py").write_text("def loss(x):\n    return x * 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    a_model = importlib.import_module("a_model")
    jitted = ft.jit(lambda x: a_model.loss(x) * FOUND)
    for k in range(3):
        a_model.FOUND = float(k)
        assert np.array_equal(jitted(X), X * 4)
    assert jitted.cache_info()["recorded"] == 1
    monkeypatch.setattr(a_model, "loss", lambda x: x * 3.0)
    assert np.array_equal(jitted(X), X * 6)
    del sys.modules["a_model"]


@pytest.mark.parametrize("text", [np.str_, str])
def test_a_text_is_a_text_in_a_jitted_function(text):
    f = ft.jit(lambda x, how: x * 2 if isinstance(how, str) and how == "double" else x)
    assert np.array_equal(f(X, text("double")), X * 2)
    assert np.array_equal(f(X, text("same")), X)


def test_a_number_in_the_name_of_a_result():
    f = lambda x, scales: [{f"by {s}": x * s} for s in scales]
    h = jit(f)
    with pytest.warns(JitWarning, match="returns the key 'by 0.5'"):
        h(X, [0.5])
    for scales in ([0.5], [1.5], [2.5]):
        assert repr(h(X, scales)) == repr(f(X, scales))
    logged = []
    h = jit(lambda x, scale: (logged.append(f"{scale:.0f} {scale}"), {"w2": x * scale})[1])  # with no name of it
    alike([h(X, s)["w2"] for s in (2.0, 3.0)], [X * 2, X * 3])
    assert logged == ["2 2.0"]


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
    assert np.array_equal(ft.vmap(lambda n: len("ab" * n) * 1.0)(np.array([1, 2, 3])), [2.0, 4.0, 6.0])


def test_a_function_that_returns_a_function_is_right_the_first_time():
    with pytest.warns(JitWarning, match="it returns a function"):
        f = ft.jit(lambda x: (x * 2, lambda t: t * x))
        assert np.array_equal(f(X)[1](X), X * X)


def test_scipys_own_names_are_not_looked_at_before_each_call():
    special = pytest.importorskip("functrace.scipy.special")
    logsumexp = special.logsumexp
    found = Bindings(lambda x: logsumexp(x * 2)).bindings
    assert len(found) < 20 and {"logsumexp"} <= {b.name for b in found}


class Fit:
    """A model that is trained, and keeps accounts of it."""

    def __init__(self):
        self.w, self.decay, self.rate, self.steps, self.history = np.zeros(3), 0.1, 0.5, 0, []

    @property
    def penalty(self):
        return self.decay * 2

    def __getattr__(self, name):
        if name == "scale":
            return self.decay + 1
        raise AttributeError(name)

    def loss(self, w, x):
        return np.sum((w - x) ** 2) + self.penalty * np.sum(w**2) * self.scale

    def train(self, count):
        step = jit(ft.value_and_grad(self.loss))
        for _ in range(count):
            value, slope = step(self.w, X)
            self.w = self.w - self.rate * slope
            self.w *= 1.0
            self.rate *= 0.9
            self.steps += 1
            self.history.append(value)
            self.best = value
        return step


def test_what_an_object_keeps_of_its_training_is_no_reason_to_record_again():
    model = Fit()
    step = model.train(30)
    assert step.cache_info() == {"signatures": 1, "paths": 1, "hits": 29, "recorded": 1, "eager": 0}
    model.decay = 0.7
    alike(step(V, X)[0], model.loss(V, X))
    model.scale = 9.0  # that __getattr__ gave until now
    alike(step(V, X)[0], model.loss(V, X))


def matched(m):
    match m:
        case object(w=w):
            return w


class Box:
    def __init__(self, w=1.0):
        self.w = w


class Stranger(Box, collections.UserList):
    def __init__(self):
        self.w, self.data = 1.0, [2.0]

    def part(self):
        return self.data[0]


look, by_name, doubled, partly = getattr, operator.attrgetter("w"), copy.copy, functools.partial(getattr)
WORD, TEXT = "".join(["", "w"]), "{0.w}"
WAYS = {
    "an attribute": lambda m: m.w,
    "getattr": lambda m: getattr(m, WORD),
    "getattr by another name": lambda m: look(m, WORD),
    "a partial getattr": lambda m: partly(m, WORD),
    "attrgetter": lambda m: by_name(m),
    "vars": lambda m: vars(m)[WORD],
    "the dict": lambda m: m.__dict__[WORD],
    "object's own": lambda m: object.__getattribute__(m, WORD),
    "a copy": lambda m: copy.copy(m).w,
    "a copy by another name": lambda m: vars(doubled(m))[WORD],
    "a text": lambda m: float(TEXT.format(m)),
    "a pattern": matched,
    "pickled": lambda m: pickle.loads(pickle.dumps(m)).w,
    "a call of its class": lambda m: type(m)(m.w).w,
}


@pytest.mark.parametrize("cls", [Box, Stranger])
@pytest.mark.parametrize("name", WAYS)
def test_an_attribute_is_noticed_to_change_however_it_is_read(name, cls):
    if cls is Stranger and name == "a call of its class":
        pytest.skip("it takes no arguments")
    model, way = cls(), WAYS[name]
    jitted = jit(lambda x: x * way(model))
    for w in (1.0, 2.0, 2.0, 3.0):
        model.w = w
        alike(jitted(X), X * w)
    model.unread = 1
    alike(jitted(X), X * 3.0)


def test_what_a_library_holds_behind_a_function_leaves_room_for_the_programs_own(monkeypatch):
    monkeypatch.setattr(copy, "dispatch_table", {type(f"C{k}", (), {}): functools.partial(int, k) for k in range(3000)})
    model = Box()
    jitted = jit(lambda x: x * vars(doubled(model))[WORD])
    for w in (1.0, 2.0):
        model.w = w
        alike(jitted(X), X * w)


def test_an_attribute_that_a_library_reads_is_noticed_to_change(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "a_library.py").write_text("def part(model):\n    return model.w\n")
    monkeypatch.syspath_prepend(folder)
    library = importlib.import_module("a_library")
    model = Box()
    jitted = jit(lambda x: x * library.part(model))
    for w in (1.0, 2.0, 2.0, 3.0):
        model.w = w
        alike(jitted(X), X * w)


LIBRARY = "held = [[k] for k in range(20000)]\nrate = 1.0\n\n\ndef scaled(x):\n    return float(x)\n"


@pytest.fixture(params=["a folder", "an archive"])
def a_target(request, tmp_path, monkeypatch):
    """What `pip install --target` makes, or an archive of it, with a module of the program's own in it."""
    named = {"brought": LIBRARY, "mine": LIBRARY}
    files = {f"{name}/__init__.py": text for name, text in named.items()}
    files["brought-1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n"
    files["brought-1.0.dist-info/RECORD"] = "brought/__init__.py,sha256=0,1\nbrought-1.0.dist-info/RECORD,,\n"
    folder = tmp_path / "our-packages"  # the name says nothing
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if request.param == "an archive":
        folder = shutil.make_archive(folder, "zip", folder)
    monkeypatch.syspath_prepend(str(folder))
    yield [importlib.import_module(name) for name in named]
    for name in named:
        del sys.modules[name]
    _is_users.cache_clear()


def test_what_was_installed_to_a_folder_of_any_name_is_told_from_the_program_beside_it(a_target):
    library, mine = a_target
    for module, own in ((library, False), (mine, True)):
        with pytest.warns(JitWarning, match="more than 16384 objects") if own else contextlib.nullcontext():
            jit(lambda x, m=module: x * len(m.held))(X)
        with pytest.raises(errors.ConversionError, match="become float") as caught:
            ft.grad(module.scaled)(1.0)
        assert ("install('brought')" in str(caught.value)) != own
    jitted = jit(lambda x: x * mine.rate)
    for mine.rate in (1.0, 2.0):
        alike(jitted(X), X * mine.rate)


def test_what_is_read_is_told_by_the_names_that_the_user_gave():
    class Scale:
        def __init__(self):
            self.by = 2.0

        def __call__(self, x):
            return x * self.by

        def twice(self, x):
            return 2 * x * self.by

    for make, told in (
        (lambda s: ft.jit(s.twice), "twice: self.by has changed"),
        (lambda s: ft.jit(ft.grad(s)), "Scale: Scale.by has changed"),
        (lambda s: ft.jit(lambda x, f=s.twice: f(x)), "<lambda>.__defaults__[0].by has changed"),
    ):
        scale = Scale()
        f = make(scale)
        f(1.0)
        scale.by = 3.0
        f(1.0)
        assert told in f.explain()
