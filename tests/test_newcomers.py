"""What people meet in their first hour: values of other libraries, misspelt names, what is not installed, what the prompt shows."""

import linecache
import math
import operator
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import functrace as ft
from functrace import errors

ROOT = Path(__file__).resolve().parent.parent
X = np.array([3.0, 4.0])
MASKED = np.ma.masked_array([1.0, 2.0], [False, True])


class Counts(np.ndarray):
    """A subclass whose `*` is not an array's."""

    def __mul__(self, other):
        return np.ndarray.__add__(self, other)


class Units(np.ndarray):
    """A subclass whose ufuncs are not an array's."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        arrays = all(isinstance(x, (np.ndarray, int)) for x in inputs)
        return getattr(ufunc, method)(*map(np.asarray, inputs), **kwargs) * 1000 if arrays else NotImplemented


class Tables(np.ndarray):
    """A subclass whose functions are not an array's."""

    def __array_function__(self, function, types, args, kwargs):
        return function(*map(np.asarray, args), **kwargs) * 1000


OTHERS = {"masked": MASKED, **{cls.__name__: np.ones(2).view(cls) for cls in (Counts, Units, Tables)}}


@pytest.fixture(params=OTHERS)
def other(request):
    return OTHERS[request.param]


@pytest.mark.parametrize(
    "run",
    [
        lambda m: ft.grad(lambda x: x.sum())(m),
        lambda m: ft.grad(lambda x: (x * m).sum())(X),
        lambda m: ft.grad(lambda x: np.sum(np.multiply(m, x)))(X),
        lambda m: ft.vjp(lambda x: x * 2, m),
        lambda m: ft.jvp(lambda x: x * 2, (m,), (X,)),
        lambda m: ft.vmap(lambda x: x * 2)(m),
        lambda m: ft.vmap(lambda x: x * m)(np.ones((3, 2))),
        lambda m: ft.vmap(lambda x: np.sum(x * m))(np.ones((3, 2))),
        lambda m: ft.jit(lambda x: x * 2)(m),
    ],
)
def test_an_array_that_computes_otherwise_is_refused(run, other):
    with pytest.raises(errors.UnsupportedError, match=rf"a {type(other).__name__} .*operations are not an array's(?s:.)*np\.asarray"):
        run(other)


@pytest.mark.parametrize(
    "given",
    [
        lambda: ft.vjp(np.sin, X)[1](MASKED),
        lambda: ft.jvp(np.sin, (X,), (MASKED,)),
        lambda: ft.hvp(lambda x: (x**3).sum(), (X,), (MASKED,)),
        lambda: ft.scan(lambda c, x: (c + x, x), 0.0, MASKED),
        lambda: ft.fori_loop(0, 2, lambda i, x: x * 2, MASKED),
        lambda: ft.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, MASKED),
    ],
)
def test_one_as_cotangent_tangent_or_state_is_refused(given):
    with pytest.raises(ft.errors.UnsupportedError, match="MaskedArray"):
        given()


def test_a_jitted_function_of_one_runs_as_numpy_does():
    f = ft.jit(lambda x: (x * MASKED).sum())
    with pytest.warns(ft.errors.JitWarning, match="MaskedArray"):
        assert [f(X), f(X)] == [3.0, 3.0]


def test_a_subclass_that_computes_as_an_array_is_one(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert ft.grad(lambda x: np.sum(x * mapped))(mapped).tolist() == X.tolist()
    assert ft.vmap(lambda x: x * mapped)(np.ones((2, 2))).tolist() == [X.tolist()] * 2


@pytest.mark.parametrize("transform", [lambda f: f, ft.jit, ft.vmap])
def test_fractions_are_numbers(transform):
    f = transform(lambda x: (Fraction(1, 3) * x + Fraction(1, 2)) * Fraction(6, 1))
    assert np.allclose(ft.jacobian(f)(X), 2 * np.eye(2), rtol=0, atol=1e-15)


@pytest.mark.parametrize("whole", [math.floor, math.ceil, math.trunc, int])
def test_whole_numbers_of_math_are_plain(whole):
    f = lambda x: (x - whole(x)) ** 2
    points = np.array([2.5, -3.25, 2.75, 1.0])
    slopes = [2 * (v - whole(v)) for v in points]
    for transform in (lambda g: g, ft.jit):
        assert [transform(f)(v) for v in points] == [f(v) for v in points]
        assert [transform(f)(float(v)) for v in points] == [f(float(v)) for v in points]
        assert [transform(ft.grad(f))(v) for v in points] == slopes
    assert ft.vmap(ft.grad(f))(points).tolist() == slopes
    assert ft.vmap(ft.grad(ft.grad(f)))(points).tolist() == [2.0] * 4


def test_c_code_that_goes_on_after_our_error_tells_it():
    def solver(f, a):  # as a solver written in C does: SciPy's brentq
        try:
            return float(f(a))
        except TypeError as error:
            raise SystemError("<built-in function isinstance> returned a result with an exception set") from error

    with pytest.raises(errors.ConversionError, match="can't become float"):
        ft.grad(lambda a: solver(lambda x: x * x, a))(2.0)


RELU = np.vectorize(lambda x: x if x > 0 else 0.0)
NAMES_OF_CLASSES = pytest.mark.skipif(sys.version_info < (3, 11), reason="before that Python's code objects don't say whose they are")
IN_PYTHONS_WORDS = pytest.mark.skipif(sys.version_info >= (3, 15), reason="from then on Python puts an error of its own in its place")


@pytest.mark.parametrize(
    ("run", "remedy"),
    [
        (lambda x: np.arange(0, x, 0.5), "np.linspace"),
        (lambda x: np.full(3, x), "functrace.numpy.full,"),
        (lambda x: np.fromiter([x, x], float), "np.stack"),
        (lambda x: np.broadcast(x, X).shape, "np.broadcast_shapes"),
        (lambda x: np.vectorize(abs)(x), "functrace.numpy.vectorize,"),
        pytest.param(lambda x: RELU(x), "Instead use functrace.numpy.vectorize.\n", marks=NAMES_OF_CLASSES),
        (lambda x: np.random.default_rng(0).normal(x), "rng.standard_normal"),
        (lambda x: np.random.default_rng(0).permutation(x * np.ones(3)), "x[rng.permutation(len(x))]"),
        pytest.param(lambda x: ft.vmap(lambda v: "%.3f" % v)(x * X), 'f"{x:.3f}"', marks=IN_PYTHONS_WORDS),  # noqa: UP031
        (lambda x: np.array([x, x]), "np.stack"),
        (lambda x: np.ones(2).dot([x, x]), "a @ np.stack(x)"),
        (lambda x: float(x), "np.sin, not math.sin"),
    ],
)
def test_a_conversion_is_answered_for_its_line(run, remedy):
    with pytest.raises(errors.ConversionError) as caught:
        ft.grad(run)(2.0)
    assert remedy in str(caught.value)
    assert f"{__file__}:{run.__code__.co_firstlineno}" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ft.vmap(lambda p, s: s)({"w": np.ones(3)}, np.ones(4)), ["argument 1 ('s'), which is float64[4]"]),
        (lambda: ft.vmap(lambda p, s: s)({"w": np.ones(3)}, s=np.ones(4)), ["argument 's'"]),
        (lambda: ft.vmap(lambda p, s: s)(np.ones(3), {"a": [np.ones(3), 2.0]}), ["argument 1 ('s')['a'][1]", "np.array(...)"]),
        (lambda: ft.vmap(abs, in_axes=("0",))(X), ["in_axes = ('0',)", "TreeDef((*,))"]),
        (lambda: ft.check_grads(np.sin, 1.0, modes=("reverse",)), ["modes=('reverse',)"]),
        (lambda: ft.check_grads(np.sin, 1.0, order=0), ["order=0"]),
        (lambda: ft.check_grads(np.sin, np.arange(2)), ["check_grads(sin)", "int64[2]"]),
        (lambda: ft.check_grads(lambda x: None, 1.0), ["the function returned None", "return statement"]),  # which passed
        (lambda: ft.check_grads(lambda x: "one", 1.0), ["the function returned a str"]),
        (lambda: ft.check_grads(lambda x: x * np.random.default_rng().random(), 1.0), ["two calls gave different results", "from a seed"]),
        (lambda: ft.while_loop(lambda c: "yes", lambda c: c, 0.0), ["one boolean, got str"]),
        (lambda: ft.fori_loop(0, 2.5, lambda i, c: c, 0.0), ["upper must be whole, got 2.5"]),
        (lambda: ft.linear_solve(np.eye(2), X), ["linear_solve: float64[2,2] stands where a function", "lambda x: A @ x"]),
        (lambda: ft.save(1.0, "file"), ["save: str stands where a tape", "functrace.trace(f)(x)"]),
        (lambda: ft.tree.unflatten(ft.tree.structure([1, 2]), [1]), ["TreeDef([*, *]) has 2 leaves, got 1"]),
        (lambda: ft.random.uniform(ft.random.key(0), (2.0,)), ["sequence of ints, got (2.0,)"]),
        (lambda: ft.grad(lambda x: x)(Fraction(1, 2)), ["Fraction", "Pass float(x)"]),
        (lambda: ft.vjp(lambda x: (x, x), X)[1](X, X), ["takes one cotangent", "given 2", "pullback((a, b))"]),
        (lambda: ft.vjp(np.sin, X)[1]((X,)), ["TreeDef((*,)), but must be an array", "Pass the cotangent by itself"]),
        (lambda: ft.vmap(lambda x: x[x > 0])(np.array([X, -X])), ["give an array of shape", "others an array of shape"]),
        (lambda: ft.grad(lambda x: ft.torch.as_tensor(x).sum())(X), ["returned a Tensor", "Return x.numpy()"]),
    ],
)
def test_a_mistake_is_named(call, words):
    with pytest.raises(errors.FunctraceError) as caught:
        call()
    for word in [*words, f"{__file__}:"]:
        assert word in str(caught.value)


def test_what_pandas_stores_is_answered_for_pandas():
    frame = pytest.importorskip("pandas").DataFrame({"a": X})
    with pytest.raises(errors.ConversionError, match=r"to_numpy\(\)"):
        ft.grad(lambda x: frame.__setitem__("b", x) or 0.0)(X)


def test_what_sympy_asks_for_is_answered_at_once():
    sympy = pytest.importorskip("sympy")  # it went through the elements of the elements
    with pytest.raises(errors.ConversionError, match=r"sympy\.lambdify"):
        ft.grad(lambda x: sympy.sin(x))(1.0)
    x = sympy.Symbol("x")
    assert ft.grad(sympy.lambdify(x, sympy.sin(x)))(0.0) == 1.0


def test_in_a_thread_of_pythons_own_a_conversion_has_one_place():
    import threading

    told = []

    def pickled(x):
        thread = threading.Thread(target=x.__reduce__)
        hook, threading.excepthook = threading.excepthook, lambda args: told.append(str(args.exc_value))
        try:
            thread.start(), thread.join()
        finally:
            threading.excepthook = hook
        return x

    ft.grad(pickled)(1.0)
    assert len(re.findall("^  At .*$", told[0], re.MULTILINE)) == 1, told


def test_an_int_is_checked_as_grad_takes_it():
    ft.check_grads(np.sin, 1)
    with pytest.raises(errors.CheckError):
        ft.check_grads(np.abs, 0)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no notes")
@pytest.mark.parametrize(
    ("fwd", "bwd", "call"),
    [(lambda x: (x, x), lambda g: (g,), "bwd(residuals, cotangent)"), (lambda: None, lambda r, g: (g,), "fwd(*args)")],
)
def test_an_error_in_a_rule_says_how_it_was_called(fwd, bwd, call):
    @ft.custom_vjp
    def f(x):
        return x

    f.defvjp(fwd, bwd)
    with pytest.raises(TypeError) as caught:
        ft.grad(f)(1.0)
    assert caught.value.__notes__ == [f"  In the rule of custom_vjp 'f', which is called as {call}."]


@pytest.mark.parametrize(
    "call",
    [
        lambda: ft.sparse_jacobian(lambda x: x**2)(X),
        lambda: ft.sparse_hessian(lambda x: np.sum(x**2))(X),
        lambda: ft.optim.minimize(lambda x: np.sum(x**2), X),
    ],
)
def test_without_scipy_it_is_told_how_to_install_it(call, monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'functrace\[scipy\]'"):
        call()


def test_an_example_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None; sys.path.insert(0, 'examples'); import _picture"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "pip install 'functrace[examples]'"
    assert len(done.stderr.splitlines()) == 2


def test_what_courses_import_beside_pytorch_is_told_of():
    code = "import functrace.torch; functrace.torch.install()\ntry: import torchaudio\nexcept ImportError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "functrace.torch" in done.stdout and "scipy.io.wavfile" in done.stdout


@pytest.mark.parametrize(("module", "name"), [(ft, "valu_and_grad"), (ft.torch.nn, "Linaer")])
def test_a_misspelt_name_can_be_guessed(module, name):
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert (caught.value.name, caught.value.obj) == (name, module)


@pytest.mark.parametrize("name", " ".join(ft._INSTEAD).split())
def test_a_name_of_another_library_is_told_its_own(name):
    with pytest.raises(AttributeError, match=name) as caught:
        getattr(ft, name)
    for there in re.findall(r"functrace\.([a-z_.]+)", str(caught.value)):
        assert operator.attrgetter(there)(ft)


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (ft.optim, "linear_schedule", r"functrace\.optim\.linear"),
        (ft.optim, "huber_loss", r"functrace\.nn\.huber"),
        (ft.random, "PRNGKey", r"functrace\.random\.key"),
        (ft.scipy, "misc", r"functrace\.scipy\.special"),
        (ft.tree, "reduce", r"functrace\.tree\.leaves"),
        (ft.optim, "Adam", r"functrace\.optim\.adam$"),
        (ft.random, "randn", r"functrace\.random\.normal"),
        (ft.random, "shuffle", r"functrace\.random\.permutation"),
        (ft.tree, "zeros_like", r"functrace\.tree\.map"),
        (ft.nn, "layer_norm", "its formula"),
        (ft.tree, "map_with_path", r"functrace\.tree\.paths"),
        (ft.tree, "register_dataclass", r"static"),
        (ft.nn, "initializers", r"functrace\.nn\.he_normal"),
        (ft.nn, "cross_entropy", r"functrace\.nn\.softmax_cross_entropy"),
    ],
)
def test_a_name_of_another_library_is_told_its_own_in_modules_too(module, name, words):
    with pytest.raises(AttributeError, match=f"{name}.*{words}"):
        getattr(module, name)


def test_a_traced_value_in_a_function_of_tensors_is_told_the_way():
    with pytest.raises(TypeError, match=r"a traced value of functrace: pass torch\.as_tensor\(x\)"):
        ft.grad(ft.torch.sin)(1.0)
    assert ft.grad(lambda x: ft.torch.sin(ft.torch.as_tensor(x)).numpy())(0.0) == 1.0


@pytest.mark.parametrize(("module", "name", "near"), [(ft.torch, "zeroes", "torch.zeros"), (ft.torch.nn, "Linaer", "torch.nn.Linear")])
def test_a_misspelt_name_of_pytorch_is_told_the_nearest(module, name, near):
    with pytest.raises(AttributeError, match=rf"'{name}'.*or did you mean {near}\?$"):
        getattr(module, name)
    with pytest.raises(AttributeError, match=r"autograd\.Function$"):
        getattr(module, "quantize_per_tensor")


def test_a_name_that_is_refused_is_not_told_another():  # Python adds "Did you mean" where it knows the object
    with pytest.raises(AttributeError, match="a traced value has no ctypes") as caught:
        ft.grad(lambda x: x.ctypes)(X)
    assert (caught.value.name, caught.value.obj) == ("ctypes", None)


def loss(x):
    return x


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (ft.jit(loss), "<jit(loss)>"),
        (ft.jit(ft.grad(loss)), "<jit(grad(loss))>"),
        (ft.custom_vjp(loss), "<custom_vjp(loss)>"),
        (ft.custom_jvp(loss), "<custom_jvp(loss)>"),
        (ft.tree.structure(((1.0,), [2.0])), "TreeDef(((*,), [*]))"),
    ],
)
def test_the_prompt_shows(made, shown):
    assert repr(made) == shown


def test_a_traced_batch_shows_that_it_is_one_under_another_transform():
    shown = []
    ft.vmap(ft.grad(lambda x: (shown.append(repr(x)), x * x)[1]))(X)
    assert shown == ["Traced(batch of 2: [3. 4.], float64[])"]


@pytest.mark.parametrize("transform", [ft.grad, lambda f: ft.jit(ft.grad(f)), lambda f: lambda x: ft.vmap(ft.grad(f))(x[None])[0]])
def test_what_may_be_a_parameter_object_or_an_array_is_differentiated(transform):
    def f(p):
        return np.sum(getattr(p, "value", p) ** 2)

    np.testing.assert_allclose(transform(f)(np.array([1.0, 2.0])), [2.0, 4.0])


def test_completion_beside_scipy_which_brings_in_ours():
    pytest.importorskip("scipy")
    code = "import scipy.stats, functrace; print('grad' in dir(functrace))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_completion_offers_what_is_for_users():
    assert not [n for n in dir(ft) if n.startswith("_") and n[:2] != "__"] and {"nn", "grad", "jit"} <= {*dir(ft)}
    assert {"core", "ops", "locks", "references", "transforms", "threads"}.isdisjoint(dir(ft))
    profile = ft.profile(np.sin)(np.ones(3))
    offered = [n for x in (ft.nn, ft.testing, ft.jit(np.sin), profile) for n in dir(x) if not n.startswith("_")]
    assert {"relu", "check_grads", "explain", "by_op"} <= {*offered}
    assert {"another", "derived", "rule", "node", "applied"}.isdisjoint(offered)
    offered = [n for x in (ft.tree, ft.optimize, ft.errors) for n in dir(x) if n[:2] != "__"]
    assert {"map", "implicit_root", "CheckError", "JitWarning"} <= {*offered}
    assert {"built", "called", "exact", "implicit", "solution", "trim", "np", "Any"}.isdisjoint(offered)


def test_functools_name_for_forgetting_programs_works():
    double = ft.jit(lambda x: x * 2)
    double(1.0), double.cache_clear()
    assert double.cache_info()["paths"] == 0


def test_places_in_a_notebook_are_called_as_the_notebook_calls_them(monkeypatch):
    file, text = "/tmp/ipykernel_7/123.py", "def f(x):\n    return np.sin(x)\n"
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(True), file))
    called = SimpleNamespace(format_code_name=lambda name: ("Cell", "In[3]") if name == file else None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(compile=called)))
    names = {"np": np}
    exec(compile(text, file, "exec"), names)
    f = names["f"]
    tape = ft.trace(f)(1.0)
    assert str(tape).splitlines()[1].endswith("# Cell In[3]:2, in f")
    assert "# Cell In[3]:2, in f: return np.sin(x)" in tape.to_python()
    assert "Cell In[3]" in str(ft.explain(f, 1.0)) and "tmp" not in tape.draw().svg
    assert "Cell In[3], f" in ft.explain(f, 1.0).html()
    with pytest.raises(errors.ConversionError, match=r"At .*test_newcomers.py:\d+, in "):
        ft.grad(lambda x: float(x))(1.0)
