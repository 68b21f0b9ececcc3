"""Replays agree with eager runs: over every declared op, and over random programs."""

import os

import numpy as np
import pytest

import functrace as ft
from functrace import tree
from functrace.compile import blocks, emit, fuse, merge, optimise, passes
from functrace.compile.jit import jit
from functrace.compile.small import NANOSECONDS
from functrace.ops.registry import TABLE
from tests.helpers import captured, names_of, of_numpy

# Of random programs; with many of them, the gradients of all samples of each op.
COUNT = int(os.environ.get("FUNCTRACE_RANDOM_PROGRAMS", "150"))


def agree(got, want, exact):
    got, want = tree.leaves(got), tree.leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert not exact or type(a) is type(b), (type(a), type(b))
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and (a.dtype == b.dtype or not exact)
        if exact or a.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def adds_elements(jitted):
    """Whether a program adds elements itself, or has BLAS do so, in an order that is not NumPy's, or LAPACK's."""
    paths = [path for variant in jitted._all() for path in variant.paths]
    if any(names_of(path.program).count("sum") > names_of(path.executable.program).count("sum") for path in paths):
        return True
    adding = {"matmul", "sum", *NANOSECONDS}
    steps = [(i, path.executable.few) for path in paths for i in path.executable.program.instructions]
    return any(i.primitive.name in adding and i.out in few for i, few in steps)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::functrace.errors.JitWarning")
@pytest.mark.parametrize("name", sorted(of_numpy(TABLE)))
def test_every_op_replays_as_it_runs(name):
    declared = TABLE[name]
    for sample in declared.samples[: 6 if COUNT < 1000 else None]:

        def f(*moving, args=None, sample=sample):
            full = list(args)
            for j, x in zip(sample.wrt, moving):
                full[j] = x
            return declared.function(*full, **sample.kwargs)

        for seed in (0, 1):
            args = sample.args(np.random.default_rng(seed))
            if seed == 0:
                fixed = args
                g = jit(lambda *m, f=f, fixed=fixed: f(*m, args=fixed))
            moving = [args[j] for j in sample.wrt]
            if not moving or not all(isinstance(x, (np.ndarray, np.generic, float)) for x in moving):
                continue
            recorded = g(*moving) if seed == 0 else jit(lambda *m, f=f, fixed=fixed: f(*m, args=fixed))(*moving)
            g(*moving)
            agree(g(*moving), recorded, not adds_elements(g))
            agree(recorded, f(*map(np.copy, moving), args=fixed), False)


# Random programs

UNARY = [
    np.sin,
    np.tanh,
    np.exp,
    np.negative,
    np.square,
    np.abs,
    np.sqrt,
    lambda x: np.log(np.abs(x) + 0.5),
    lambda x: x.astype(np.float32),
]
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.arctan2, lambda x, y: np.where(x > y, x, y * 2)]
MOVES = [
    lambda x: np.transpose(x),
    lambda x: np.reshape(x, -1),
    lambda x: x.reshape(x.shape[0], -1) if x.ndim > 1 else np.reshape(x, (-1, 1)),
    lambda x: x[1:] if x.ndim and x.shape[0] > 1 else x * 1,
    lambda x: x[..., ::-1] if x.ndim else x,
    lambda x: np.broadcast_to(x, (2, *x.shape)) if x.size < 200 else x,
    lambda x: np.concatenate([x, x]) if x.ndim and x.size < 200 else x,
]
REDUCTIONS = [
    lambda x: x.sum(axis=0) if x.ndim else x,
    lambda x: x.sum(axis=-1, keepdims=True) if x.ndim else x,
    lambda x: x.max(axis=-1) if x.ndim else x,
    lambda x: x.sum(),
    lambda x: x.min(axis=0, keepdims=True) if x.ndim else x,
]
NUMBERS = [2, 0.5, -1.0, 1, 0, np.float32(3), 3.0]


def random_program(seed, reduces):
    """A function of two arrays, and what it is made of: a list of steps (op, operands)."""
    rng = np.random.default_rng(seed)
    choices = [UNARY, BINARY, MOVES] + [REDUCTIONS] * reduces
    steps = []
    for k in range(int(rng.integers(3, 16))):
        ops = choices[rng.choice(len(choices), p=[0.3, 0.45, 0.25] if not reduces else [0.25, 0.4, 0.2, 0.15])]
        steps.append((ops, int(rng.integers(len(ops))), *(int(v) for v in rng.integers(0, 2 + k, 2)), int(rng.integers(3 * len(NUMBERS)))))

    def program(x, y):
        values = [x, y]
        for ops, which, i, j, n in steps:
            a, b = values[i], values[j] if n >= len(NUMBERS) else NUMBERS[n]
            if ops is BINARY:
                try:
                    shape = np.broadcast_shapes(a.shape, np.shape(b))
                except ValueError:
                    b = 2.0
                    shape = a.shape
                values.append(ops[which](a, b) if np.prod(shape) < 2000 else ops[which](a, 0.5))
            else:
                values.append(ops[which](a))
        return values[2:]

    return program


@pytest.fixture(params=[False, True])
def small_blocks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(blocks, "BLOCK", 64)
        monkeypatch.setattr(fuse, "LONG", 32)
        monkeypatch.setattr(fuse, "LARGE", 4)
    return request.param


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", range(5))
def test_random_programs_replay_as_they_run(part, small_blocks):
    fused = 0
    for seed in range(part, COUNT, 5):
        reduces = seed % 2
        program = random_program(seed, reduces)
        rng = np.random.default_rng(seed)
        shape = [(6,), (4, 3), (9, 2), (2, 3, 4), (30, 3)][seed % 5]
        x, y = rng.normal(size=shape), rng.normal(size=shape[-1:])
        g = jit(program)
        want = program(x, y)
        for got in (g(x, y), g(x, y)):
            for a, b in zip(got, want):
                assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
                if reduces:
                    np.testing.assert_allclose(a, b, rtol=1e-4 if a.dtype == np.float32 else 1e-10, atol=1e-5, err_msg=str(seed))
                else:
                    np.testing.assert_array_equal(a, b, err_msg=str(seed))
        fused += g.show().count("def block")
    assert fused > 20 or not small_blocks


@pytest.mark.parametrize("f", [np.arctan2, lambda x, y: np.power(np.abs(x), y)])
def test_blocks_keep_the_last_bit_of_what_is_read_backwards(f, small_blocks):
    """NumPy's last bit of some ufuncs depends on the sign of the stride that it goes along."""
    for seed in range(20):
        x, y = np.random.default_rng(seed).normal(size=(4, 3)), np.random.default_rng(-seed - 1 & 0xFF).normal(size=3)

        def program(x, y):
            z = f(np.exp(y), (y - x)[..., ::-1])
            return z, np.tanh(z) + x

        jitted = jit(program)
        for got in (jitted(x, y), jitted(x, y)):
            agree(got, program(x, y), True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("small_blocks")
def test_gradients_of_random_programs_replay_as_they_run():
    for seed in range(COUNT // 5):
        program = random_program(seed, 1)
        x, y = np.random.default_rng(seed).normal(size=(4, 3)), np.random.default_rng(seed + 1).normal(size=3)
        f = ft.grad(lambda x, y, program=program: sum((v * v).sum() for v in program(x, y)[-3:]), (0, 1))
        g = jit(f)
        want = f(x, y)
        if not all(np.isfinite(w).all() for w in want):
            continue
        for got in (g(x, y), g(x, y)):
            for a, b in zip(got, want):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * (1 + np.abs(b).max()), err_msg=str(seed))


# Each pass by itself


X, Y = np.random.default_rng(0).normal(size=(4, 3)), np.random.default_rng(1).normal(size=3)
EXAMPLES = [
    lambda x, y: ((-x) * y + -(-x), x * 1 - 0.0 + y / 1),
    lambda x, y: (np.sin(x) + np.sin(x), x.reshape(3, 4).reshape(-1).reshape(4, 3).T.T),
    lambda x, y: (x * np.broadcast_to(y, (4, 3)), np.broadcast_to(x.sum(), (4, 3)) * x),
    lambda x, y: (ft.grad(lambda x: np.logaddexp(x, y).sum())(x), np.einsum("ij,j->i", x, y)),
    lambda x, y: (np.sum(-x, axis=0), (x * 2.0).astype(np.float32) * 0.5, ft.stop_gradient(x) * 1.0),
]


@pytest.mark.parametrize("one", optimise.PASSES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("function", EXAMPLES)
def test_each_pass_keeps_every_bit(one, function):
    program = captured(function, X, Y)
    for before, after in zip(program(X, Y), one(program)(X, Y)):
        agree(after, before, True)


IN_PLACE = [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.arctan2]


@pytest.mark.parametrize("seed", range(8))
def test_blocks_that_write_to_what_they_read_last(seed, small_blocks):
    rng = np.random.default_rng(seed)
    x, w = rng.integers(-3, 4, (40, 5)).astype(float), rng.integers(-2, 3, (5, 5)).astype(float)
    steps = [
        (rng.choice(IN_PLACE), rng.integers(100), rng.integers(100), rng.integers(100), rng.integers(5)) for _ in range(rng.integers(2, 12))
    ]
    used = [*(rng.random(len(steps) - 1) < 0.4), True]

    def f(x, w):
        values = [x @ w, (x + 1) @ w]  # in buffers, that the elementwise part may take over
        for ufunc, i, j, k, way in steps:
            a, b, c = (values[n % len(values)] for n in (i, j, k))
            values.append(
                [
                    lambda: ufunc(a, b),
                    lambda: np.where(c > 0, a, b),
                    lambda: ufunc(a, b[:, :1]),
                    lambda: np.sin(a),
                    lambda: ufunc(b[:1, :1], a),
                ][way]()
            )
        return [np.cumsum(v, axis=1) for v, use in zip(values[2:], used) if use]

    g = ft.jit(f)
    for scale in (1.0, 0.5, -1.0):
        for a, b in zip(g(x * scale, w), f(x * scale, w), strict=True):
            agree(a, b, True)


@pytest.mark.parametrize("shape", [(2, 90), (1, 2, 90), (3, 8, 8)])
def test_blocks_take_operands_of_one_element(shape, small_blocks):
    x, one = np.random.default_rng(1).normal(size=shape), np.full((1,) * len(shape), 0.3)
    for f in (
        lambda x: np.sin(x - np.mean(x, keepdims=True)) + one,
        lambda x: np.where(x > np.max(x * 0.5, keepdims=True), x * one, one) * 2,
        np.nanstd,
        ft.grad(np.nanvar),
    ):
        g = ft.jit(f)
        for scale in (1.0, -2.0, 0.5):
            np.testing.assert_allclose(g(scale * x), f(scale * x), rtol=1e-13)


def test_a_block_writes_to_the_buffer_of_an_argument_that_ends_there():
    x, w = np.ones((30_000, 4)), np.eye(4)
    g = ft.jit(lambda x, w: np.cumsum(np.tanh(x @ w + 1), 0))
    g(x, w)
    assert "B0" in g.show() and "B1" not in g.show()
    for x in (x, x[:3]):
        g = ft.jit(lambda x: np.exp(np.tanh(x)))  # in the array that is returned, or of small ones in a buffer
        g(x)
        assert "= scratch" not in g.show() and ("B0" in g.show()) == (len(x) == 3) and "B1" not in g.show()


def test_a_block_leaves_what_other_blocks_read_whole():
    x, w, a = np.linspace(-1, 1, 300), np.linspace(0, 1, 90_000).reshape(300, 300), np.ones((300, 300))

    def f(x, w, a):
        y = x @ w
        return np.sin(a + y), np.cumsum(y * 2)

    g = ft.jit(f)
    for x in (x, -x):
        agree(g(x, w, a), f(x, w, a), True)


def test_what_a_group_makes_by_broadcasting_is_no_array_of_others():
    x, w = np.random.default_rng(0).normal(size=(2, 150, 2))

    def attraction(x):
        d = x[:, None] - x[None]
        r = np.sqrt((d**2).sum(-1) + 1)
        return np.sum((d / r[..., None] ** 3).sum(1) * w)

    def shown(x):
        y = np.broadcast_to(np.reshape(np.sin(x), (150, 1, 2)), (150, 150, 2))
        return [y, np.cumsum(np.exp(y), 0), np.reshape(y, (150, 300)) * 2]

    gradient = ft.grad(ft.jit(attraction))
    g = ft.jit(shown)
    for x in (x, -0.5 * x):
        agree(gradient(x), ft.grad(attraction)(x), False)
        agree(g(x), shown(x), False)


def test_dead_removes_what_nothing_needs():
    program = captured(lambda x: (np.sin(x), np.cos(x))[1], X)
    assert names_of(program) == ["sin", "cos"] and names_of(passes.dead(program)) == ["cos"]


def test_common_computes_once():
    program = captured(lambda x: np.sin(x)[0:2] * np.sin(x)[0:2] + x.sum(axis=0), X)
    assert names_of(passes.common(program)) == ["sin", "getitem", "multiply", "sum", "add"]
    program = passes.common(captured(lambda x: (np.mean(x, 0) * (x / 4), x / 4, x / 4.0, x * 0.0, x * -0.0), X))
    assert names_of(program) == ["sum", "divide", "divide", "multiply", "divide", "multiply", "multiply"]  # 4 is not 4.0, nor 0.0 -0.0


def test_algebra_drops_neutral_operations_but_not_those_that_change_a_bit():
    kept = lambda f, *xs: names_of(passes.dead(passes.algebra(captured(f, *xs))))  # noqa: E731
    assert kept(lambda x: -(-(1 * x * 1)) / 1 - 0, X) == []
    assert kept(lambda x: x + 0.0, X) == ["add"]  # -0.0 + 0.0 is 0.0
    assert kept(lambda x: x * np.ones(()), X.astype(np.float32)) == ["multiply"]  # it is float64
    assert kept(lambda x, y: x + -(y * 2), X, Y) == ["multiply", "subtract"]
    assert kept(lambda x, y: x - (-x) * y, X, Y) == ["multiply", "add"]
    assert kept(lambda x: abs(-x) + abs(0 - x), X) == ["absolute", "absolute", "add"] and kept(lambda x: abs(1 - x), X)[0] == "subtract"
    assert kept(np.conjugate, X) == [] and kept(np.conjugate, X * 1j) == ["conjugate"]


def test_beside_a_finite_number_logaddexp_has_no_ties_of_infinities():
    slope = ft.grad(lambda x: np.logaddexp(0.0, x).sum())
    names = names_of(optimise.optimise(captured(ft.grad(lambda x: slope(x).sum()), X)))
    assert names.count("exp") == 1 and not {"isinf", "where"}.intersection(names)


def test_moves_merges_views():
    assert names_of(passes.dead(passes.moves(captured(lambda x: x.reshape(-1).reshape(2, 6).T.T, X)))) == ["reshape"]


def test_sink_leaves_broadcasting_to_the_ufunc():
    program = passes.dead(passes.sink(captured(lambda x, y: x * np.broadcast_to(y, (4, 3)), X, Y)))
    assert names_of(program) == ["multiply"]


def test_expand_opens_contractions():
    program = passes.expand(captured(lambda x, y: np.einsum("ij,ik->jk", x, x), X, Y))
    assert "contraction" not in names_of(program) and "matmul" in names_of(program)
    for spread in (np.var, np.std):
        program = optimise.optimise(captured(ft.grad(lambda x: np.sum(spread(x, axis=1))), X))  # noqa: B023
        assert not {"var", "std", "conjugate"}.intersection(names_of(program))
    assert names_of(program).count("sum") <= 5 and names_of(optimise.optimise(captured(np.var, X * 1j))) == ["var"]


def test_fusion_keeps_the_order_of_guards_and_dependences():
    def function(x):
        y = np.sin(x) * 2
        z = np.cos(x) if y.sum() > 0 else np.exp(x)
        return z * y + z.sum()

    x = np.linspace(0, 1, 40_000)
    steps = fuse.fuse(optimise.optimise(captured(function, x)))
    seen = {0}
    for step in steps:
        for i in step.instructions if isinstance(step, fuse.Group) else [step]:
            assert all(a < 0 or a in seen for a in i.args)
            seen.add(i.out)
    assert sum(isinstance(s, fuse.Group) for s in steps) == 2


def test_a_program_is_printed():
    text = str(captured(lambda x: np.sin(x) * 2 if x[0, 0] < 100 else x, X))
    assert "guard bool(%2) is True" in text and "%3 : float64[4,3] = sin(" in text


def test_merged_writes_the_parts_of_one_array_at_once():
    def function(x):
        return (np.tanh(x[:, :1]) * x[:, 1:2] + x[:, 2:] ** 2).sum()

    program = captured(ft.grad(function), X)
    after = passes.dead(merge.merged(passes.dead(passes.common(program))))
    assert names_of(program).count("placed") == 3 and names_of(after).count("sum_of_parts") == 1
    np.testing.assert_allclose(after(X)[0], program(X)[0], rtol=1e-14)


def test_merged_adds_to_zeros_where_a_part_was_not_written_before():
    program = captured(ft.grad(lambda x: (x[1:] ** 2).sum() + (x[::-1] ** 3).sum() + (x[:2, 1] ** 2).sum()), X)
    after = optimise.optimise(program)
    assert names_of(after).count("sum_of_parts") == 1
    for _ in range(3):
        np.full((4, 3), 1e3)  # what an array that is not filled might find
        np.testing.assert_allclose(after(X)[0], program(X)[0], rtol=1e-14)


def steps_of(rows):
    """The gradient of six steps with one matrix, each of `rows` rows, and its arguments."""

    def function(w, xs):
        h = np.ones((rows, 3))
        for x in xs:
            h = np.tanh(h @ w + x)
        return h.sum()

    args = np.random.default_rng(0).normal(size=(3, 3)), np.random.default_rng(1).normal(size=(6, rows, 3))
    return captured(ft.grad(function), *args), args


def test_merged_does_sums_of_products_as_one_product():
    program, args = steps_of(5)
    after = optimise.optimise(program)
    assert names_of(after).count("sum_of_products") == 1
    np.testing.assert_allclose(after(*args)[0], program(*args)[0], rtol=1e-12)


def test_merged_leaves_products_of_large_matrices_alone_whose_copies_would_cost_more_than_their_calls():
    program, args = steps_of(400)
    after = optimise.optimise(program)
    assert names_of(after).count("sum_of_products") == 0 and names_of(after).count("matmul") == names_of(program).count("matmul")
    np.testing.assert_allclose(after(*args)[0], program(*args)[0], rtol=1e-12)


def test_merged_leaves_products_alone_whose_axes_are_swapped_otherwise():
    program = captured(
        lambda x, y: np.swapaxes(x, 1, 2) @ y + np.swapaxes(x, 0, 2) @ y + y[0, 0], np.ones((2, 2, 2)) * X[0, 0], np.eye(2) * 3
    )
    args = np.arange(8.0).reshape(2, 2, 2), np.array([[1.0, -2.0], [3.0, 5.0]])
    np.testing.assert_array_equal(optimise.optimise(program)(*args)[0], program(*args)[0])


def test_a_chain_of_any_length_takes_few_buffers():
    def chain(x):
        y = x
        for _ in range(20):
            y = np.cos(y) * x
        return y.sum()

    assert len(emit.Executable(captured(chain, np.ones(1000))).plan.buffers) <= 2


def test_constants_of_two_axes_in_a_loop_over_elements():
    shift = np.arange(2 * 140_000.0).reshape(2, -1)
    jitted = jit(lambda x: np.sin(x) * shift + shift[:, :1])
    x = np.cos(shift)
    for _ in range(2):
        np.testing.assert_array_equal(jitted(x), np.sin(x) * shift + shift[:, :1])


def test_regroup_multiplies_small_factors_first_where_only_a_sum_reads_them():
    weights = np.array([0.5, 0.0, -3.0])
    program = captured(lambda x, y: (x * y * weights).sum(axis=0), X, Y)
    after = passes.regroup(program)
    assert [after.kinds[i.out].shape for i in passes.dead(after).instructions if i.primitive.name == "multiply"] == [(3,), (4, 3)]
    np.testing.assert_allclose(after(X, Y)[0], program(X, Y)[0], rtol=1e-14)
    elementwise = captured(lambda x, y: x * y * weights, X, Y)
    assert names_of(passes.regroup(elementwise)) == names_of(elementwise)


@pytest.mark.parametrize("x", [np.array([1.0, -1.0]), np.zeros((2, 0))], ids=["cancelling", "empty"])
def test_a_sum_of_negatives_that_is_zero_is_not_negative(x):
    jitted = jit(lambda x: np.copysign(1.0, np.sum(-x, axis=-1)))
    jitted(x)
    assert np.all(jitted(x) == 1.0)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_products_of_extremes_are_not_regrouped(factor):
    x, y = np.full((4, 3), 1 / factor), np.full(3, factor)
    for f in (lambda x, y: (x * y * y).sum(), lambda x, y: (x * y * np.full(3, factor)).sum()):
        jitted = ft.jit(f)
        jitted(x, y)
        np.testing.assert_allclose(jitted(x, y), 12 * factor, rtol=1e-14)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::functrace.errors.JitWarning")
@pytest.mark.parametrize("name", sorted(n for n, d in of_numpy(TABLE).items() if not d.constant))
def test_the_gradient_of_every_op_replays_as_it_runs(name):
    declared = TABLE[name]
    for sample in declared.samples[: 3 if COUNT < 1000 else None]:
        fixed = sample.args(np.random.default_rng(0))
        again = sample.args(np.random.default_rng(1))
        inexact = [j for j in sample.wrt if isinstance(fixed[j], (np.ndarray, np.float64)) and np.asarray(fixed[j]).dtype == float]
        if not inexact:
            continue

        def loss(*moving, fixed=fixed, inexact=inexact, sample=sample):
            full = list(fixed)
            for j, x in zip(inexact, moving):
                full[j] = x
            out = ft.tree.leaves(declared.function(*full, **sample.kwargs))
            return sum(np.sum(np.real(v * np.conj(v))) for v in out if getattr(v, "dtype", np.dtype(int)).kind in "fc")

        eager = ft.grad(loss, tuple(range(len(inexact))))
        compiled = jit(eager)
        for args in (fixed, fixed, again):
            moving = [args[j] for j in inexact]
            if [np.shape(x) for x in moving] != [np.shape(fixed[j]) for j in inexact]:
                continue
            for a, b in zip(compiled(*moving), eager(*moving)):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("special", [[], [0.0, -0.0, 0.0, -0.0], [np.nan, -np.nan, 1.0]], ids=["finite", "zeros", "nan"])
def test_a_sort_whose_order_nobody_asks_for_finds_none(special):
    rng = np.random.default_rng(0)
    x = np.array([rng.permutation([*rng.normal(size=40), *special]) for _ in range(3)])
    program = captured(lambda x: (np.sort(x, axis=1), np.sort(x.T, axis=0)[0], np.sort(x[:, :0])), x)
    after = optimise.optimise(program)
    assert names_of(after).count("sorted") == 3 and not {"argsort", "take_along"}.intersection(names_of(after))
    for a, b in zip(after(x), program(x)):
        agree(a, b, True)
        assert a.tobytes() == b.tobytes()
    kept = optimise.optimise(captured(ft.grad(lambda x: np.sum(np.sort(x, axis=1) ** 3)), np.abs(x)))
    assert "argsort" in names_of(kept) and "sorted" not in names_of(kept)
