"""The debugger names the op and the line; it changes no result, and leaves nothing behind."""

import inspect
import sys

import numpy as np
import pytest

import functrace as ft
from functrace import errors
from functrace.compile.jit import jit
from functrace.core import tape
from functrace.core.batch import BatchTrace
from functrace.debug import checks, debug_infs, debug_nans, explain, profile
from functrace.errors import NonFiniteError, RuleError
from functrace.ops.kinds import general
from functrace.testing import check_grads
from functrace.transforms.control import cond, fori_loop, scan, while_loop

X = np.array([1.0, 0.0, 2.0])


# Each case has one line that makes the NaN, marked; `says` is what the error must contain beside that line.


def log_of_negative(x):
    y = x - 1
    return np.sum(np.log(y))  # here


def zero_by_zero(x):
    return np.sum((x - x) / (x - x))  # here


def root_at_zero(x):
    y = np.sqrt(x)  # here
    return np.sum(y * 0)


def power_at_zero(x):
    y = x**0.5  # here
    return np.sum(y * 0.0)


def norm_by_hand(x):
    y = x[1] * x[1]
    z = np.sqrt(y + 0.0)  # here
    return z * 0 + np.sum(x)


def reciprocal_of_a_difference(x):
    y = 1 / (x[1] - x[1])
    return np.sum(y - y)  # here


def constant_data(x):
    data = np.array([1.0, np.nan, 3.0])
    return np.sum(x * data)  # here


def loss_is_nan_already(x):
    total = np.sum(x) * 1e308 * 10
    loss = total - total  # here
    return loss * 2


def softmax_by_hand(x):
    e = np.exp(x * 1000)
    p = e / np.sum(e)  # here
    return np.sum(p)


def arctan2_at_the_origin(x):
    return np.arccos(x[0] + x[2])  # here


def second_order(x):
    inner = ft.grad(lambda v: np.sum(v**1.5 * 2))(x)  # here
    return np.sum(inner) * 0


def in_a_batch(x):
    def one(v):
        w = v - 0.5
        return np.log(w)  # here

    return np.sum(ft.vmap(one)(x))


def derivative_in_a_batch(x):
    def one(v):
        return np.sqrt(v) * 0  # here

    return np.sum(ft.vmap(ft.grad(one))(x))


def in_a_scan(x):
    def step(c, z):
        d = c - z
        return np.log(d), None  # here

    return scan(step, np.sum(x), x)[0]


def reverse_in_a_scan(x):
    def step(c, z):
        r = np.sqrt(z)  # here
        return c + r * 0, None

    return scan(step, np.sum(x), x)[0]


def in_a_while_loop(x):
    def body(c):
        return np.sqrt(c - 5)  # here

    return while_loop(lambda c: c > 0, body, np.sum(x) + 3)


def in_a_fori_loop(x):
    return fori_loop(0, 4, lambda i, c: np.log(c), np.sum(x))  # here


def in_a_branch(x):
    return cond(x[0] > 0, lambda v: np.sum(np.log(-v - 1)), np.sum, x)  # here


def under_jit(x):
    @jit
    def inner(v):
        w = v * 2
        return np.sum(np.arcsin(w))  # here

    return inner(x)


def derivative_under_jit(x):
    def loss(v):
        r = np.sqrt(v)  # here
        return np.sum(r) * 0

    return np.sum(jit(ft.grad(loss))(x))


def linear_algebra(x):
    m = np.outer(x, x) * np.inf  # here
    return np.sum(np.linalg.slogdet(m)[1])


CASES = [
    (log_of_negative, "log made a NaN (1 of 3 elements, the first at [1])"), (zero_by_zero, "divide made a NaN"),
    (root_at_zero, "the reverse rule of sqrt made a NaN in the cotangent of argument 0"), (power_at_zero, "the reverse rule of power made a NaN"),
    (norm_by_hand, "the reverse rule of sqrt made a NaN"), (reciprocal_of_a_difference, "subtract made a NaN"),
    (constant_data, "a constant: float64[3] = [ 1., nan,  3.] - it has a NaN already"), (loss_is_nan_already, "subtract made a NaN"),
    (softmax_by_hand, "divide made a NaN"), (arctan2_at_the_origin, "arccos made a NaN"), (second_order, "made a NaN"),
    (in_a_batch, "log made a NaN"), (derivative_in_a_batch, "made a NaN"), (in_a_scan, "log made a NaN"),
    (reverse_in_a_scan, "the reverse rule of sqrt made a NaN"), (in_a_while_loop, "sqrt made a NaN"), (in_a_fori_loop, "log made a NaN"),
    (in_a_branch, "log made a NaN"), (under_jit, "arcsin made a NaN"), (derivative_under_jit, "sqrt"),
    (linear_algebra, "multiply made a NaN"),
]  # fmt: skip


def marked(f):
    """`file:line` of the line with the mark."""
    lines, first = inspect.getsourcelines(f)
    return f"{inspect.getsourcefile(f)}:{first + next(k for k, line in enumerate(lines) if '# here' in line)},"


@pytest.mark.parametrize(("f", "says"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_the_line_and_the_op_that_made_a_nan_are_named(f, says):
    with pytest.raises(NonFiniteError) as caught, debug_nans():
        ft.grad(f)(X)
    assert says in str(caught.value)
    assert marked(f) in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 12
    assert isinstance(caught.value, FloatingPointError)


def torch_forward(torch):
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    y = torch.log(x)  # here
    y.sum().backward()


def torch_backward(torch):
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    y = torch.sqrt(x)  # here
    (y * 0).sum().backward()


def torch_without_gradients(torch):
    x = torch.tensor([1.0, 0.0])
    return x / x  # here


@pytest.mark.parametrize("f", [torch_forward, torch_backward, torch_without_gradients], ids=lambda f: f.__name__)
def test_tensors_are_watched_too(f):
    torch = pytest.importorskip("functrace.torch")
    with pytest.raises(NonFiniteError) as caught, debug_nans():
        f(torch)
    assert marked(f) in str(caught.value)


def test_infinities_have_their_own():
    def f(x):
        y = np.exp(x * 1000)  # here
        return np.sum(y)

    with debug_nans(), np.errstate(over="ignore"):
        assert np.isinf(ft.grad(f)(X)).any()
    with pytest.raises(NonFiniteError, match="exp made an infinity \\(2 of 3 elements") as caught, debug_infs():
        ft.grad(f)(X)
    assert marked(f) in str(caught.value)


def test_as_a_decorator():
    @debug_nans()
    def slope(x):
        return ft.grad(lambda v: np.sum(np.log(v)))(x)

    assert slope(np.ones(2)).tolist() == [1.0, 1.0]
    for _ in range(2):
        with pytest.raises(NonFiniteError, match="^log made a NaN"):
            slope(-np.ones(2))
    assert slope(np.ones(2)).tolist() == [1.0, 1.0]


def test_what_a_selection_throws_away_is_no_nan():
    with debug_nans():
        assert ft.grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0))(0.0) == 0


def test_the_forward_rule_is_watched_as_well():
    with pytest.raises(NonFiniteError, match="the forward rule of sqrt made an infinity in the tangent of the result"), debug_infs():
        ft.jvp(np.sqrt, (0.0,), (1.0,))


def state():
    return tape.record.__defaults__, BatchTrace.tracer, jit.__globals__["Jitted"].__call__, ft.testing.__name__


@pytest.mark.parametrize("watch", [debug_nans, debug_infs, checks])
def test_watching_changes_no_result_and_leaves_nothing_behind(watch):
    before = state()

    def f(w, x):
        c, y = scan(lambda c, z: (np.tanh(w @ c + z), c), x[0], x)
        return np.sum(np.linalg.svd(w)[1]) + np.sum(y[:, 1] ** 2) * np.sum(c)

    w, x = np.random.default_rng(0).normal(size=(3, 3)), np.random.default_rng(1).normal(size=(4, 3))
    plain = ft.grad(f, (0, 1))(w, x), ft.hvp(f, (w, x), (w, x)), ft.vmap(ft.grad(f), (0, None))(np.stack([w, 2 * w]), x)
    with watch(), watch():
        seen = ft.grad(f, (0, 1))(w, x), ft.hvp(f, (w, x), (w, x)), ft.vmap(ft.grad(f), (0, None))(np.stack([w, 2 * w]), x)
    for a, b in zip(ft.tree.leaves(plain), ft.tree.leaves(seen)):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert state() == before
    with pytest.raises(ZeroDivisionError), watch():
        ft.grad(lambda x: x / (1 // 0))(1.0)
    assert state() == before


def test_checks_find_a_rule_of_the_wrong_shape():
    wrong = general("wrong_shape", lambda x: x.sum(), lambda g, _ans, _x: np.ones(7) * g)
    with (
        pytest.raises(RuleError, match=r"the reverse rule of wrong_shape gave float64\[7\] for argument 0, which is float64\[3\]"),
        checks(),
    ):
        ft.grad(wrong)(X)


def test_checks_find_an_array_that_was_changed():
    result = np.zeros(3)

    def reused(x):
        result[:] = x * 2
        return result

    careless = general("careless", reused, lambda g, ans, _x: 2 * g + 0 * ans)

    def f(x):
        y = careless(x)  # here
        result[:] = -1
        return np.sum(y)

    with pytest.raises(errors.MutatedError, match="that careless used or made was changed") as caught, checks():
        ft.grad(f)(X)
    assert marked(f) in str(caught.value)


def test_checks_find_a_leak_and_where_it_was_made():
    kept = []

    def f(x):
        y = np.sin(x)  # here
        kept.append(y)
        return np.sum(y)

    with pytest.raises(errors.LeakedTracerError) as caught, checks():
        ft.grad(f)(X)
    assert marked(f) in str(caught.value)
    kept.clear()
    with checks():
        ft.grad(lambda x: np.sum(np.sin(x)))(X)
        ft.hessian(lambda x: np.sum(np.sin(x) ** 3))(X)
        check_grads(lambda x: np.sum(np.tanh(x)), X)


def test_explain_tells_the_derivative_op_by_op():
    def f(w, x):
        z = w @ x
        y = np.tanh(z)
        return y * y

    found = explain(f, np.array([0.5, -0.25]), np.array([1.0, 2.0]))
    text = str(found)
    assert "w = [ 0.5 , -0.25]" in text
    assert "tanh(%2) = 0.   d/d%2 = 1." in text
    assert f"# {__file__}:" in text
    names = [step.op.name for step in found.forward]
    assert names == ["matmul", "tanh", "multiply"]
    assert [back.label for back in found.reverse] == [step.label for step in reversed(found.forward)]
    np.testing.assert_array_equal(found.gradient[0][1], ft.grad(f)(np.array([0.5, -0.25]), np.array([1.0, 2.0])))


def test_explain_names_leaves_and_skips_integers():
    found = explain(lambda p, n: p["a"] ** p["k"] * n, {"a": 2.0, "k": np.array(3), "z": 1.0}, 5)
    assert [name for name, _ in found.gradient] == ["p['a']", "p['z']", "n"]
    assert [float(g) for _, g in found.gradient] == [60.0, 0.0, 8.0]


def test_explain_writes_a_page():
    found = explain(lambda x: np.sum(np.exp(x) * (x < 9)), X)
    page = found.to_html()
    assert page.startswith("<!doctype html>")
    assert "&lt;" in page
    assert page.count("<tr id=r") == 4
    assert "</script>" in page
    assert page == found._repr_html_()


def test_profile_counts_ops_lines_and_both_directions():
    def f(x):
        for _ in range(3):
            x = np.sin(x)  # here
        return np.sum(x @ x)

    found = profile(ft.grad(f))(np.ones((50, 50)))
    np.testing.assert_allclose(found.result, ft.grad(f)(np.ones((50, 50))))
    rows = {row.name: row for row in found.by_op()}
    assert rows["sin"].calls == 3
    assert rows["sin"].bytes >= 3 * 50 * 50 * 8
    assert min(rows[k].forward for k in ("sin", "matmul", "sum")) > 0
    assert rows["matmul"].reverse > 0
    assert next(row for row in found.by_line() if row.name.startswith(marked(f))).calls == 3
    assert "sin" in str(found)


def test_debugging_does_not_import_the_layer_above():
    import subprocess

    code = "import functrace.debug as d, sys\nwith d.debug_nans(): pass\nprint('functrace.torch' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False False", done.stderr
