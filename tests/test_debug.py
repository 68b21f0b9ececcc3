"""The debugger names the op and the line; it changes no result, and leaves nothing behind."""

import inspect
import json
import re
import sys
import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace import errors
from functrace.compile.jit import Jitted, jit
from functrace.core import tape
from functrace.core.batch import BatchTrace
from functrace.debug import checks, debug_infs, debug_nans, explain, profile
from functrace.debug.values import brief, full, several
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


def two_ways_to_the_nan(x):
    a = np.sqrt(x)  # here
    b = a * 0.0
    return np.sum(b + x)


def with_a_rule_by_hand(x):
    @ft.custom_vjp
    def scaled(v):
        return v * 2

    def bwd(_, g):
        return (np.log(-g),)  # here

    scaled.defvjp(lambda v: (v * 2, None), bwd)
    return np.sum(scaled(x))


def inside_a_rule_by_hand(x):
    @ft.custom_vjp
    def root(v):
        return np.sqrt(v)

    def fwd(v):
        return np.sqrt(v - 1), v  # here

    root.defvjp(fwd, lambda v, g: (g * v,))
    return np.sum(root(x))


def in_a_checkpoint(x):
    @ft.checkpoint
    def part(v):
        w = v - 1.5
        return np.sum(np.log(w))  # here

    return part(x)


def derivative_in_a_checkpoint(x):
    @ft.checkpoint
    def part(v):
        r = np.sqrt(v)  # here
        return np.sum(r * 0)

    return part(x)


def jit_of_vmap_of_grad(x):
    def one(v):
        r = v**0.5  # here
        return r * 0.0

    return np.sum(ft.jit(ft.vmap(ft.grad(one)))(x))


def forward_over_reverse(x):
    def one(v):
        return np.sum(v**1.5)  # here

    return np.sum(ft.hvp(one, (x,), (np.zeros(3),)))


def hessian(x):
    return np.sum(ft.hessian(lambda v: np.sum(v**1.5) * 0)(x))  # here


def in_a_thread(x):
    from concurrent.futures import ThreadPoolExecutor

    def loss(v):
        w = v - 1
        return np.sum(np.log(w))  # here

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ft.grad(loss), ft.value(x)).result()


def torch_forward(_):
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    y = torch.log(x)  # here
    y.sum().backward()


def torch_backward(_):
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    y = torch.sqrt(x)  # here
    (y * 0).sum().backward()


def torch_without_gradients(_):
    x = torch.tensor([1.0, 0.0])
    return x / x  # here


def torch_layer(_):
    layer = torch.nn.Linear(2, 2)
    x = torch.tensor([[1.0, float("inf")]])
    y = layer(x) - layer(x)  # here
    y.sum().backward()


def torch_norm(_):
    x = torch.zeros(3, requires_grad=True)
    n = (x * x).sum().sqrt()  # here
    n.backward()


def torch_func(_):
    def loss(v):
        return torch.log(v - 2).sum()  # here

    return torch.func.grad(loss)(torch.ones(3))


CASES = [
    (log_of_negative, "log made a NaN (1 of 3 elements, the first at [1])"), (zero_by_zero, "divide made a NaN"),
    (root_at_zero, "the reverse rule of sqrt made a NaN in the cotangent of argument 0"), (power_at_zero, "the reverse rule of power made a NaN"),
    (norm_by_hand, "the reverse rule of sqrt made a NaN"), (reciprocal_of_a_difference, "subtract made a NaN"),
    (constant_data, "a constant: float64[3] = [ 1., nan,  3.] - it has a NaN already"), (loss_is_nan_already, "subtract made a NaN"),
    (softmax_by_hand, "divide made a NaN"), (arctan2_at_the_origin, "arccos made a NaN"), (second_order, "made a NaN"),
    (in_a_batch, "log made a NaN"), (derivative_in_a_batch, "made a NaN"), (in_a_scan, "log made a NaN"),
    (reverse_in_a_scan, "the reverse rule of sqrt made a NaN"), (in_a_while_loop, "sqrt made a NaN"), (in_a_fori_loop, "log made a NaN"),
    (in_a_branch, "log made a NaN"), (under_jit, "arcsin made a NaN"), (derivative_under_jit, "sqrt"),
    (linear_algebra, "multiply made a NaN"), (two_ways_to_the_nan, "sqrt"), (with_a_rule_by_hand, "log made a NaN"),
    (inside_a_rule_by_hand, "sqrt made a NaN"), (in_a_checkpoint, "log made a NaN"), (derivative_in_a_checkpoint, "sqrt"),
    (jit_of_vmap_of_grad, "power"), (forward_over_reverse, "a NaN"), (hessian, "a NaN"), (in_a_thread, "log made a NaN"),
    (torch_forward, "log made a NaN"), (torch_backward, "SqrtBackward0 made a NaN"), (torch_without_gradients, "div made a NaN"),
    (torch_layer, "made a NaN"), (torch_norm, "a NaN"), (torch_func, "log made a NaN"),
]  # fmt: skip


def marked(f):
    """`file:line` of the line with the mark."""
    lines, first = inspect.getsourcelines(f)
    return f"{inspect.getsourcefile(f)}:{first + next(k for k, line in enumerate(lines) if '# here' in line)},"


@pytest.mark.parametrize(("f", "says"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_the_line_and_the_op_that_made_a_nan_are_named(f, says):
    with pytest.raises(NonFiniteError) as caught, debug_nans():
        f(X) if f.__name__.startswith("torch_") else ft.grad(f)(X)
    message = str(caught.value)
    assert says in message
    assert re.search(r"[^ ]*\.py:\d+,", message)[0] == marked(f), message
    assert len(message.splitlines()) <= 8
    assert isinstance(caught.value, FloatingPointError)


def test_there_are_twenty_planted_cases():
    kinds = {"torch_", "jit", "thread", "batch", "scan", "checkpoint", "rule", "second"}
    assert len(CASES) >= 20
    assert all(any(kind in f.__name__ for f, _ in CASES) for kind in kinds)


def test_infinities_have_their_own():
    def f(x):
        y = np.exp(x * 1000)  # here
        return np.sum(y)

    with debug_nans(), np.errstate(over="ignore"):
        assert np.isinf(ft.grad(f)(X)).any()
    with pytest.raises(NonFiniteError, match="exp made an infinity \\(2 of 3 elements") as caught, debug_infs():
        ft.grad(f)(X)
    assert marked(f) in str(caught.value)


@pytest.mark.parametrize("decorator", [debug_nans, debug_nans()])
def test_as_a_decorator(decorator):
    @decorator
    def slope(x):
        return ft.grad(lambda v: np.sum(np.log(v)))(x)

    assert slope(np.ones(2)).tolist() == [1.0, 1.0]
    for _ in range(2):
        with pytest.raises(NonFiniteError, match="^log made a NaN"):
            slope(-np.ones(2))
    assert slope(np.ones(2)).tolist() == [1.0, 1.0]


def test_of_a_batch_the_example_is_named():
    says = r"log made a NaN \(1 of 3 elements, the first at \[1\]\)\.\n  At .*, in a batch \(axis 0 is the example\)"
    with pytest.raises(NonFiniteError, match=says), debug_nans():
        ft.vmap(np.log)(np.array([1.0, -1.0, 2.0]))


def test_what_a_selection_throws_away_is_no_nan():
    with debug_nans():
        assert ft.grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0))(0.0) == 0


def test_the_forward_rule_is_watched_as_well():
    with pytest.raises(NonFiniteError, match="the forward rule of sqrt made an infinity in the tangent of the result"), debug_infs():
        ft.jvp(np.sqrt, (0.0,), (1.0,))


def state():
    return tape.record.__defaults__, BatchTrace.tracer, Jitted.__call__, ft.testing.__name__


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
    assert "y = tanh(z) = 0.   d/dz = 1." in text
    assert "# test_debug.py:" in text
    names = [step.op.name for step in found.forward]
    assert names == ["matmul", "tanh", "multiply"]
    assert [back.label for back in found.reverse] == [step.label for step in reversed(found.forward)]
    np.testing.assert_array_equal(found.gradient[0][1], ft.grad(f)(np.array([0.5, -0.25]), np.array([1.0, 2.0])))


def test_explain_breaks_lines_that_are_too_long_for_a_terminal():
    x = np.arange(4.0) / 3
    text = explain(lambda a, b: np.sum(a * b), x, x - 7).text()
    assert "\n      d/da = [-7.    , -6.6667, -6.3333, -6.    ]\n      d/db = [0.    , 0.3333, 0.6667, 1.    ]\n" in text
    assert "\n  %2 gets [1., 1., 1., 1.] :\n      a += [-7.    , -6.6667, -6.3333, -6.    ]\n" in text


def test_explain_names_leaves_and_skips_integers():
    found = explain(lambda p, n: p["a"] ** p["k"] * n, {"a": 2.0, "k": np.array(3), "z": 1.0}, 5)
    assert [name for name, _ in found.gradient] == ["p['a']", "p['z']", "n"]
    assert [float(g) for _, g in found.gradient] == [60.0, 0.0, 8.0]


def data(page):
    """What the page's script draws."""
    return json.loads(re.search(r"^const D = (.*);$", page, re.MULTILINE)[1].replace("<\\/", "</"))


@pytest.mark.parametrize("context", [ft.debug_nans, ft.debug_infs, ft.checks])
def test_a_context_that_is_not_entered_says_that_it_does_nothing(context):
    with pytest.warns(UserWarning, match=rf"{context.__name__}\(\) by itself does nothing: write `with functrace") as caught:
        context()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with context():
            pass
        assert context(np.sin)(0.0) == context()(np.sin)(0.0) == 0.0


def test_labels_and_options_are_passed_on():  # which no derivative of a loss asks for
    def loss(w, x, labels, mode, scale=None):
        picked = (x @ w)[np.arange(len(labels)), labels]
        return picked.mean() if mode == "mean" else picked.sum()

    args = np.ones((2, 3)), np.arange(4.0).reshape(2, 2), np.array([0, 2]), "mean", None
    assert [name for name, _ in ft.explain(loss, *args).gradient] == ["w", "x"]
    assert {row.name for row in ft.profile(loss)(*args).by_op()} == {"matmul", "getitem", "sum", "divide"}
    for run in (lambda: ft.explain(lambda n: n * 2, np.arange(3)), lambda: ft.explain(lambda n: n * 2, "a")):
        with pytest.raises((ft.errors.IntegerInputError, ft.errors.InputTypeError), match=r"explain\(<lambda>\): argument 0 \('n'\)"):
            run()


def test_explain_writes_a_page_with_all_numbers_and_lines(tmp_path):
    def f(x):
        y = np.exp(x) * (x < 9)
        return np.sum(y) + "</script>".count("x")

    found = explain(f, X)
    page = found.to_html()
    assert page.startswith("<!doctype html>")
    assert page.count("</script>") == 1
    assert not re.search(r"(src|href)=|https?:", page)  # one file
    drawn = data(page)
    assert [row["name"] for row in drawn["rows"]] == ["x", "%1", "", "y", "%3", "%4"]
    assert drawn["rows"][3]["call"] == "multiply(%1, [ True,  True,  True])"
    assert [drawn["rows"][back["row"]]["name"] for back in drawn["reverse"]] == ["%4", "%3", "y", "%1"]
    assert drawn["gradient"][0]["value"] == "[2.7183, 1.    , 7.3891]"
    block, line = drawn["rows"][3]["place"]
    source = drawn["blocks"][block]
    assert source["lines"][line - source["first"]].strip() == "y = np.exp(x) * (x < 9)"
    found.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page == found.html()
    with pytest.raises(ValueError, match=r"page.svg' does not end in .html; an explanation is saved as a page"):
        found.save(tmp_path / "page.svg")
    assert found._repr_html_().startswith("<iframe srcdoc=")


def test_explain_adds_up_what_several_uses_hand_on():
    def f(x):
        y = x * 2
        return y * y + y

    drawn = data(explain(f, 3.0).to_html())
    shares = [(h["name"], h["value"], h["total"]) for back in drawn["reverse"] for h in back["handed"]]
    assert shares == [("%2", "1.", "1."), ("y", "1.", "1."), ("y", "6.", "7."), ("y", "6.", "13."), ("x", "26.", "26.")]


def test_explain_sums_up_large_arrays_and_counts_what_is_not_finite():
    x = np.linspace(-1.0, 1.0, 100_000)
    x[7] = np.nan
    found = explain(lambda x: np.sum(np.tanh(x)), x)
    assert "x = float64[100000] in [-1, 1] and 1 nan" in str(found)
    assert len(found.to_html()) < 30_000
    assert [back.op.name for back in found.reverse] == ["sum", "tanh"]  # once, though the gradient is not finite


VALUES = [  # in a few characters, and in full
    (np.array([1.5, 2.0]), "[1.5, 2. ]", ""),
    (np.arange(6), "[0, 1, 2, 3, 4, 5]", ""),
    (np.ones((1, 2)), "[[1., 1.]]", "[[1., 1.]]"),
    (np.arange(7), "int64[7] in [0, 6]", "[0, 1, 2, 3, 4, 5, 6]"),
    (
        np.array([np.nan, np.inf, -np.inf, 1, 1, 1, 2]),
        "float64[7] in [1, 2] and 1 nan, 2 inf",
        "[ nan,  inf, -inf,   1.,   1.,   1.,   2.]",
    ),
    (np.full(49, 3.0), "float64[49], all 3", ""),
    (np.full(49, np.inf), "float64[49] with 49 inf", ""),
    (np.full(49, 1j), "complex128[49]", ""),
    (np.full(49, complex(np.nan)), "complex128[49] with 49 nan", ""),
    (np.arange(49) > 3, "bool[49]", ""),
    (np.repeat([0.0, 1.0], [32, 96]), "float64[128] in [0, 1]", f"mean 0.75, standard deviation 0.433\n0 ▃{' ' * 30}█ 1"),
    (1 + np.arange(128) // 64 * 2.0**-49, "float64[128] in [1, 1]", f"mean 1, standard deviation 8.882e-16\n1 █{' ' * 30}█ 1"),
    (np.zeros((0, 3)), "[]", "[]"),
    (None, "NoneType", ""),
]


@pytest.mark.parametrize(("x", "short", "whole"), VALUES)
def test_how_values_are_told(x, short, whole):
    assert (brief(x), full(x)) == (short, whole)
    assert several((x, None)) == f"{short}, -" if x is not None else several(x) == short


def test_explain_names_values_as_the_program_does():
    def f(x):
        for _ in range(3):
            x = np.sin(x)
        return x

    assert [step.label for step in explain(f, 1.0).forward] == ["x_1", "x_2", "x_3"]


def test_explain_tells_the_parameters_that_say_something():
    found = explain(lambda x: np.sum(np.max(x, axis=0, keepdims=True).reshape(2, 1)), np.ones((3, 2)))
    assert [step.call for step in found.forward] == ["max(x, 0, True)", "reshape(%1, (2, 1))", "sum(%2)"]


def test_explain_tells_what_a_rule_for_all_arguments_hands_to_each():
    text = explain(ft.checkpoint(lambda a, b: a * b), 2.0, 3.0).text(lines=False)
    assert "gets 1. : a += 3., b += 2." in text


def test_explain_of_a_constant_has_no_steps():
    found = explain(lambda x: 3.0, 1.0)
    assert found.forward == found.reverse == []
    assert found.gradient == [("x", 0.0)]
    assert "The gradient" in found.to_html()


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


def test_profile_adds_up_to_the_time_that_passed():
    x = np.ones((300, 300))

    def f(x):
        return np.sum(np.tanh(x @ x) ** 2)

    for g in (ft.grad(f), lambda x: ft.hvp(f, (x,), (x,)), ft.grad(lambda x: np.sum(ft.grad(f)(x) ** 2))):
        found = profile(g)(x)
        inside = found.total("forward") + found.total("reverse")
        assert 0 < inside <= found.seconds  # nothing is counted twice, however deep traces are nested
        assert sum(row.forward + row.reverse for row in found.by_op()) == pytest.approx(inside)
        assert sum(row.forward + row.reverse for row in found.by_line()) == pytest.approx(inside)


def test_profile_of_a_plain_function_runs_its_derivative_too():
    found = profile(lambda x: np.sum(np.exp(x)))(np.ones(100))
    assert found.result == pytest.approx(100 * np.e)
    assert found.total("reverse") > 0


def test_profile_of_what_is_not_traced_says_so():
    found = profile(lambda n: n + 1)(3)
    assert found.result == 4 and str(found).startswith("Nothing was traced: ")
    assert found._repr_html_() == f"<p>{found}</p>"


def test_profile_sees_batches():
    found = profile(ft.vmap(lambda x: np.sum(np.tanh(x) * x)))(np.ones((10, 1000)))
    assert sorted(row.name for row in found.by_op()) == ["multiply", "sum", "tanh"]
    assert next(row for row in found.by_op() if row.name == "tanh").bytes == 80_000
    np.testing.assert_allclose(found.result, 1000 * np.tanh(1.0))


def test_profile_shows_what_jit_fused():
    f = ft.jit(ft.grad(lambda x: np.sum(np.exp(x) * np.tanh(x) + x)))
    x = np.ones(100_000)
    plain = f(x)
    found = profile(f)(x)
    np.testing.assert_allclose(found.result, plain)
    (program,) = found.programs
    assert any({"exp", "tanh"} <= set(block.ops) for block in program.blocks)
    assert sum(block.seconds for block in program.blocks) > 0
    assert (
        next(b for b in program.blocks if "tanh" in b.ops).bytes == x.nbytes + 8
    )  # the gradient, and the sum by which it is seen to be finite
    assert "loop of" in str(found)
    np.testing.assert_array_equal(f(x), plain)  # and runs as before
    assert profile(ft.grad(lambda x: np.sum(f(x))))(x).programs == []  # under another transform it is not a program of its own


def test_profile_gathers_the_small_blocks_of_a_long_program():
    f = ft.jit(lambda x, w: sum(np.sum(np.sort(x[k : k + 2])) for k in range(20)) + np.sum(w @ w))
    found = profile(f)(np.ones(30), np.ones((200, 200)))
    (program,) = found.programs
    assert len(program.blocks) > 20
    last = str(found).splitlines()[-1]
    count, others = last.split()[-2:]
    assert others == "others" and 1 < int(count) < len(program.blocks)


def test_profile_is_a_table_in_a_notebook():
    found = profile(ft.grad(lambda x: np.sum(x * x)))(np.ones(10))
    page = found._repr_html_()
    assert page.count("<table ") == 2
    assert "&lt;lambda&gt;" in page
    assert str(profile(lambda x: x)(np.arange(3))).startswith("Nothing was traced")


def test_threads_that_are_started_inside_are_watched_and_others_are_not():
    import threading

    caught = []

    def run():
        try:
            ft.grad(lambda x: np.log(x))(-1.0)
        except NonFiniteError as error:
            caught.append(error)

    outside, go = threading.Thread(target=lambda: (go.wait(5), run())), threading.Event()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outside.start()
        with debug_nans():
            inside = threading.Thread(target=run)
            inside.start()
            inside.join()
            go.set()
            outside.join()
    assert len(caught) == 1


def test_a_context_can_be_entered_again():
    context = debug_nans()
    for _ in range(2):
        with context, pytest.raises(NonFiniteError):
            ft.grad(np.log)(-1.0)
    assert np.isnan(ft.grad(lambda x: x * np.nan)(1.0))


def test_a_context_inside_a_call_sees_no_leak_in_what_that_call_still_needs():
    def f(x):
        with checks():
            y = np.sin(x) * x
        return y * 2

    with checks():
        assert ft.grad(f)(0.0) == 0.0
        assert ft.vmap(f)(np.zeros(2)).tolist() == [0.0, 0.0]


def test_checks_find_a_rule_of_the_wrong_dtype():
    wrong = general("wrong_dtype", lambda x: x.sum(), lambda g, _ans, x: np.array(["a"] * 3))
    with pytest.raises(RuleError, match="which is float64"), checks():
        ft.grad(wrong)(X)


def test_checks_find_a_leak_from_a_batch():
    kept = []
    with pytest.raises(errors.LeakedTracerError, match="1 traced value outlives"), checks():
        ft.vmap(lambda x: kept.append(x) or x * 2)(X)


def test_what_a_new_tensor_has_before_it_is_set_is_no_nan() -> None:
    with ft.debug_nans():
        for n in range(1, 60):
            used = np.full(n, np.nan, np.float32)
            del used  # of whose memory the next is made
            assert torch.empty(n).shape == torch.empty_like(torch.zeros(n)).shape == (n,)


@pytest.mark.parametrize(
    "transform", [ft.grad, ft.value_and_grad, lambda f: lambda x: ft.jvp(f, (x,), (1.0,))], ids=["grad", "value_and_grad", "jvp"]
)
def test_a_watch_that_begins_too_late_says_so(transform):
    def f(x):
        with ft.debug_nans():
            return 0 * np.log(x)

    with pytest.raises(ft.errors.CallError, match=r"debug_nans begins inside \w+\(f\)(?s:.)*Put it around the call"):
        transform(f)(0.0)
    with pytest.raises(ft.errors.CallError, match="begins inside"):
        transform(ft.checks()(lambda x: x))(0.0)
    with pytest.raises(FloatingPointError, match="multiply made a NaN"), ft.debug_nans():
        transform(f)(0.0)
