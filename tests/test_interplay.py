"""At the borders: operands, containers and values of other people's classes, in the order in which they meet a transform."""

import copy
import dataclasses
import datetime
import enum
import pickle
from decimal import Decimal

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace import errors
from tests.helpers import here

X = np.array([1.0, 2.0])


class Length:
    """A number with a unit: operators of its own, on either side."""

    def __init__(self, metres):
        self.metres = metres

    def __rmul__(self, k):
        return Length(k * self.metres)

    def __radd__(self, other):  # the square, so that the sum's own rule would give another derivative
        return self.metres**2 + 2 * other

    def __rsub__(self, other):
        return np.float64(2.0) * other * other

    def __rpow__(self, other):
        return other**3

    __rtruediv__ = __rpow__


class Wave(Length):
    """One that says so of arrays too."""

    __array_ufunc__ = None


class Older(Length):
    """One that says so in NumPy's older way."""

    __array_priority__ = 1.0


OPERATORS = {
    "x * y": (lambda x, y: (x * y).metres, 3.0, 0.0),  # and the first and second derivative at 2
    "x + y": (lambda x, y: x + y, 2.0, 0.0),
    "x - y": (lambda x, y: x - y, 8.0, 4.0),
    "x ** y": (lambda x, y: x**y, 12.0, 12.0),
    "x / y": (lambda x, y: x / y, 12.0, 12.0),
}


# Operands that have operators of their own


@pytest.mark.parametrize("cls", [Length, Wave, Older])
@pytest.mark.parametrize("name", OPERATORS)
def test_python_asks_the_other_operand(cls, name):
    f, slope, curvature = OPERATORS[name]
    y = cls(3.0)
    for x in (2.0, np.float64(2.0)):
        value, gradient = ft.value_and_grad(f)(x, y)
        assert value == f(np.float64(x), y) and gradient == slope
        assert ft.jvp(lambda x: f(x, y), (x,), (1.0,))[1] == slope
        assert ft.grad(ft.grad(f))(x, y) == curvature
        assert ft.jit(lambda x: f(x, y))(x) == value
    assert np.array_equal(ft.vmap(lambda x: f(x, y))(np.array([2.0, 2.0])), [value, value])


@pytest.mark.parametrize("cls", [Wave, Older])
def test_of_arrays_it_is_asked_where_its_class_says_so(cls):
    assert ft.grad(lambda x: np.sum((x * cls(3.0)).metres))(X).tolist() == [3.0, 3.0]
    assert ft.grad(lambda x: np.sum(x - cls(3.0)))(X).tolist() == [4.0, 8.0]
    assert np.array_equal(ft.vmap(lambda x: (x * cls(3.0)).metres)(np.ones((2, 3))), np.full((2, 3), 3.0))


@pytest.mark.parametrize("y", [Length(3.0), Wave(3.0)])
def test_functions_do_not_ask_it(y):
    for multiply in (np.multiply, fnp.multiply):
        with pytest.raises(TypeError, match="__array_ufunc__"):
            ft.grad(lambda x: multiply(x, y))(2.0)


@pytest.mark.parametrize("y", [datetime.timedelta(seconds=1), Decimal("1.5"), {1.0}, (v for v in X)], ids=lambda y: type(y).__name__)
def test_what_knows_no_number_of_ours_is_a_type_error(y):
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*"):
        ft.grad(lambda x: x * y)(2.0)


def test_comparisons_with_other_numbers_are_pythons():
    assert ft.grad(lambda x: x * 2 if x > Decimal(1) else x)(3.0) == 2.0
    assert ft.grad(lambda x: x * 3 if x == 2 and x != Decimal(1) else x)(2.0) == 3.0


@pytest.mark.parametrize("y", [np.array([1.0, 2.0], object), [2**70, 1], np.array([2**70, 1])], ids=["array", "list", "large integers"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: np.sum(x * y),
        lambda x, y: np.sum(np.add(y, x)),
        lambda x, y: np.sum(np.concatenate([x, y])),
        lambda x, y: x @ np.asarray(y),
        lambda x, y: np.sum(np.where(x > 1, x, y)),
        lambda x, y: np.sum((x * y).astype(float)),
    ],
    ids=["product", "sum", "concatenate", "matmul", "where", "and back"],
)
def test_arrays_of_objects_are_refused(f, y):
    for run in (lambda g: ft.grad(g)(X), lambda g: ft.jvp(g, (X,), (X,))):
        with pytest.raises(errors.UnsupportedError, match=r"of objects meets a traced value") as info:
            run(lambda x: f(x, y))
        assert here(-1).partition(":")[0] in str(info.value)


@pytest.mark.parametrize("f", [lambda x: x.astype(object).sum(), lambda x: np.multiply(x, 2.0, dtype=object).sum()])
def test_a_traced_value_does_not_become_objects(f):
    with pytest.raises(errors.UnsupportedError, match="objects"):
        ft.grad(f)(X)


def test_a_date_is_a_constant():
    days = ft.vjp(lambda x: np.mean(x.astype("m8[D]")), np.array([1.0, 3.0]))[0]
    assert days == np.timedelta64(2, "D")


@pytest.mark.parametrize("f", [lambda x, pair: x.astype(pair), lambda x, pair: fnp.array([(x[0], x[1])], pair)])
def test_a_traced_value_does_not_become_a_record(f):
    with pytest.raises(errors.UnsupportedError, match="records"):
        ft.grad(lambda x: f(x, [("a", float), ("b", float)])["a"].sum())(X)


# Numbers and containers of classes of one's own


class Metres(float):
    pass


class Phase(complex):
    pass


class Half(float, enum.Enum):
    HALF = 0.5


@pytest.mark.parametrize("x", [Metres(3.0), Half.HALF], ids=["float", "enum"])
def test_numbers_of_a_subclass_count_as_numbers(x):
    assert ft.grad(lambda x: x**2)(x) == 2 * float(x)
    assert ft.grad(lambda p: p["x"] ** 2)({"x": x}) == {"x": 2 * float(x)}
    assert ft.jvp(lambda p: p["x"] ** 2, ({"x": x},), ({"x": 1.0},))[1] == 2 * float(x)
    assert ft.grad(lambda p: np.abs(p["z"]) ** 2)({"z": Phase(3.0)}) == {"z": 6.0}


@dataclasses.dataclass
class Angle:
    """Given in degrees, kept in radians: made again from its field it would be another."""

    angle: float

    def __post_init__(self):
        self.angle = np.deg2rad(self.angle)
        self.turns = 0


@dataclasses.dataclass
class Scaled:
    a: float
    factor: dataclasses.InitVar[float]
    b: float = dataclasses.field(init=False)

    def __post_init__(self, factor):
        self.b = self.a * factor


def test_dataclasses_are_made_again_with_the_fields_that_they_had():
    f = lambda p: np.sin(p.angle) + p.turns
    p = Angle(60.0)
    value, gradient = ft.value_and_grad(f)(p)
    assert value == f(p) and gradient.angle == np.cos(p.angle)
    assert ft.jit(f)(p) == f(p) and ft.tree.map(lambda x: x, p) == p
    assert ft.vmap(f)(ft.tree.map(np.atleast_1d, p)) == [f(p)]


def test_dataclasses_whose_init_takes_more_than_fields():
    p = Scaled(2.0, 3.0)
    gradient = ft.grad(lambda p: p.a * p.b)(p)
    assert (gradient.a, gradient.b) == (6.0, 2.0)
    assert ft.tree.map(lambda x: x + 1, p) == dataclasses.replace(ft.tree.map(lambda x: x, p), a=3.0, factor=7 / 3)


@dataclasses.dataclass
class Fitted:
    """Its `__init__` takes something else than its fields, under one of their names."""

    mean: np.ndarray
    size: int = dataclasses.field(default=0, metadata={"static": True})

    def __init__(self, x, mean=None):
        if np.ndim(mean):
            raise ValueError("mean is a number")
        self.mean, self.size = x - (np.mean(x) if mean is None else mean), len(x)


def test_an_init_of_ones_own_is_not_called_again():
    p = Fitted(np.arange(3.0))
    f = lambda p: np.sum(p.mean**2) * p.size
    assert ft.jit(f)(p) == f(p) == 6.0
    gradient = ft.grad(f)(p)
    np.testing.assert_array_equal(gradient.mean, 6 * p.mean)
    assert gradient.size == 3


class Settings(dict):
    """A dict with its keys as attributes, whose missing names are KeyErrors."""

    __getattr__ = dict.__getitem__


class Lookup:
    def __init__(self, **values):
        vars(self)["values"] = values

    def __getattr__(self, name):
        return vars(self)["values"][name]


@pytest.mark.parametrize("cls", [Settings, Lookup])
def test_objects_that_answer_for_any_name(cls):
    settings = cls(scale=3.0)
    f = lambda x, settings: settings.scale * x * x
    assert ft.grad(f)(2.0, settings) == 12.0
    assert ft.jit(f)(2.0, settings) == 12.0
    assert ft.grad(ft.checkpoint(f))(2.0, settings) == 12.0
    assert np.array_equal(ft.vmap(f, in_axes=(0, None))(X, settings), 3 * X**2)
    with pytest.raises(errors.InputTypeError, match=f"a {cls.__name__}, which is not an array or a number"):
        ft.grad(f, 1)(2.0, settings)
    assert ft.debug.explain(f, 2.0, settings).gradient == [("x", 12.0)]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(
    "make", [lambda: np.ma.array([1.0, 2.0], mask=[False, True]), lambda: np.matrix([[1.0, 2.0]])], ids=["masked", "matrix"]
)
def test_check_grads_refuses_what_grad_refuses(make):
    for run in (lambda f, x: ft.grad(f)(x), ft.check_grads):
        with pytest.raises(errors.UnsupportedError, match="can't be traced"):
            run(lambda x: (x * 2.0).sum(), make())


# Traced values on their way out


def test_a_traced_value_is_not_pickled():
    for run in (lambda f: ft.grad(f)(2.0), lambda f: ft.vmap(f)(X)):
        with pytest.raises(errors.ConversionError, match=r"can't become a pickle(?s:.)*functrace\.value") as info:
            run(lambda x: pickle.dumps({"x": x}))
        assert here(-1) in str(info.value)
    assert ft.grad(lambda x: copy.copy(x) * copy.deepcopy({"x": x})["x"])(3.0) == 6.0


def test_a_traced_value_is_not_plotted_and_the_remedy_says_how():
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is no dependency")
    axes = figure.Figure().add_subplot()
    with pytest.raises(errors.ConversionError, match=r"Instead plot the plain value"):
        ft.grad(lambda x: (axes.plot(x), x.sum())[1])(X)
    assert ft.grad(lambda x: (axes.plot(ft.value(x)), x.sum())[1])(X).tolist() == [1.0, 1.0]
