"""`functrace.optim`: against the papers' formulas written out, against PyTorch's optimisers, and under every transform."""

import functools
import subprocess
import sys

import numpy as np
import pytest

import functrace as ft
from functrace import errors, optim
from tests.helpers import differences, here

A = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])


def loss(w):
    return 0.5 * w @ A @ w - w.sum()


def run(optimizer, w, steps=6, f=loss):
    state = optimizer.init(w)
    gradient = ft.grad(f)
    for _ in range(steps):
        updates, state = optimizer.update(gradient(w), state, w)
        w = optim.apply_updates(w, updates)
    return w


def by_formula(step, w, steps=6):
    """`step(t, g, w, memory)` gives the new w; `memory` starts as zeros."""
    memory = {"m": np.zeros(3), "v": np.zeros(3)}
    for t in range(1, steps + 1):
        w = step(t, A @ w - 1, w, memory)
    return w


def _sgd(t, g, w, s):
    return w - 0.05 * g


def _momentum(t, g, w, s):
    s["m"] = 0.9 * s["m"] + g
    return w - 0.05 * s["m"]


def _nesterov(t, g, w, s):
    s["m"] = 0.9 * s["m"] + g
    return w - 0.05 * (g + 0.9 * s["m"])


def _adam(t, g, w, s, decay=0.0):
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.99 * s["v"] + 0.01 * g**2
    return w - 0.05 * (s["m"] / (1 - 0.9**t) / (np.sqrt(s["v"] / (1 - 0.99**t)) + 1e-8) + decay * w)


def _lion(t, g, w, s):
    c = 0.9 * s["m"] + 0.1 * g
    s["m"] = 0.99 * s["m"] + 0.01 * g
    return w - 0.05 * (np.sign(c) + 0.2 * w)


def _rmsprop(t, g, w, s):
    s["v"] = 0.9 * s["v"] + 0.1 * g**2
    return w - 0.05 * g / (np.sqrt(s["v"]) + 1e-8)


def _rmsprop_centered(t, g, w, s):
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.9 * s["v"] + 0.1 * g**2
    return w - 0.05 * g / (np.sqrt(s["v"] - s["m"] ** 2) + 1e-8)


def _adagrad(t, g, w, s):
    s["v"] = s["v"] + g**2
    return w - 0.05 * g / (np.sqrt(s["v"]) + 1e-10)


FORMULAS = {
    "sgd": (lambda lr: optim.sgd(lr), _sgd),
    "momentum": (lambda lr: optim.momentum(lr), _momentum),
    "nesterov": (lambda lr: optim.sgd(lr, 0.9, nesterov=True), _nesterov),
    "adam": (lambda lr: optim.adam(lr, b2=0.99), _adam),
    "adamw": (lambda lr: optim.adamw(lr, b2=0.99, weight_decay=0.2), functools.partial(_adam, decay=0.2)),
    "lion": (lambda lr: optim.lion(lr, weight_decay=0.2), _lion),
    "rmsprop": (lambda lr: optim.rmsprop(lr), _rmsprop),
    "rmsprop, centered": (lambda lr: optim.rmsprop(lr, centered=True), _rmsprop_centered),
    "adagrad": (lambda lr: optim.adagrad(lr), _adagrad),
}
MAKERS = pytest.mark.parametrize("make", [make for make, _ in FORMULAS.values()], ids=FORMULAS)
START = np.array([1.1, -2.0, 0.6])  # no gradient is 0 here, at which the step of Adam and its like has a kink


@pytest.mark.parametrize("name", FORMULAS)
def test_the_formula_of_the_paper(name):
    make, step = FORMULAS[name]
    np.testing.assert_allclose(run(make(0.05), START), by_formula(step, START), rtol=1e-12)


TORCH = {
    "SGD": (dict(), optim.sgd(0.05)),
    "SGD momentum": (dict(momentum=0.9), optim.momentum(0.05)),
    "SGD nesterov": (dict(momentum=0.8, nesterov=True), optim.sgd(0.05, 0.8, True)),
    "Adam": (dict(betas=(0.8, 0.95), eps=1e-3), optim.adam(0.05, 0.8, 0.95, 1e-3)),
    "AdamW": (dict(weight_decay=0.3), optim.adamw(0.05, weight_decay=0.3)),
    "RMSprop": (dict(alpha=0.8, eps=1e-3), optim.rmsprop(0.05, 0.8, 1e-3)),
    "RMSprop centered": (dict(alpha=0.8, centered=True, momentum=0.5), optim.rmsprop(0.05, 0.8, centered=True, momentum=0.5)),
    "Adagrad": (dict(initial_accumulator_value=0.1), optim.adagrad(0.05, 0.1)),
}


def _torch_steps(torch, name, options):
    w = torch.tensor(START.tolist(), dtype=torch.float64, requires_grad=True)
    a = torch.tensor(A.tolist(), dtype=torch.float64)
    optimizer = getattr(torch.optim, name.split()[0])([w], lr=0.05, **options)
    for _ in range(6):
        optimizer.zero_grad()
        (0.5 * w @ a @ w - w.sum()).backward()
        optimizer.step()
    return w.detach().numpy()


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("library", ["functrace.torch", "torch"])
def test_pytorchs_optimisers_take_the_same_steps(library, name):
    if library == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is an oracle, not needed otherwise")
    else:
        import functrace.torch as torch
    options, ours = TORCH[name]
    np.testing.assert_allclose(run(ours, START), _torch_steps(torch, name, options), rtol=1e-10)


@MAKERS
def test_a_step_is_the_same_under_jit_and_scan(make):
    optimizer = make(0.05)

    def step(w, state):
        updates, state = optimizer.update(ft.grad(loss)(w), state, w)
        return optim.apply_updates(w, updates), state

    fast = ft.jit(step, no_retrace=True)  # raises if the growing count, or anything else, is part of the program
    w, state = START, optimizer.init(START)
    for _ in range(6):
        w, state = fast(w, state)
    np.testing.assert_allclose(w, run(optimizer, START), rtol=1e-12)
    (w, _), _ = ft.scan(lambda carry, _: (step(*carry), None), (START, ft.tree.map(np.asarray, optimizer.init(START))), None, length=6)
    np.testing.assert_allclose(w, run(optimizer, START), rtol=1e-12)


@MAKERS
def test_vmap_trains_an_ensemble(make):
    optimizer = make(0.05)
    starts = np.stack([START, 2 * START, -START])
    w, state = starts, ft.vmap(optimizer.init)(starts)
    for _ in range(6):
        updates, state = ft.vmap(lambda w, s: optimizer.update(ft.grad(loss)(w), s, w))(w, state)
        w = optim.apply_updates(w, updates)
    np.testing.assert_allclose(w, np.stack([run(optimizer, start) for start in starts]), rtol=1e-12)


@MAKERS
def test_the_derivative_through_the_optimiser(make):
    trained = lambda lr: loss(run(make(lr), START, 4))
    got = ft.grad(trained)(0.03)
    assert abs(got) > 1e-3
    np.testing.assert_allclose(got, differences(trained, 0.03), rtol=1e-6)
    np.testing.assert_allclose(ft.grad(lambda w: loss(run(make(0.03), w, 4)))(START),
                               differences(lambda w: loss(run(make(0.03), w, 4)), START), rtol=1e-5, atol=1e-8)  # fmt: skip


def test_the_derivative_of_every_hyperparameter():
    def trained(h):
        return loss(run(optim.adamw(0.1, h[0], h[1], h[2], h[3]), START, 4))

    h = np.array([0.9, 0.99, 0.01, 0.1])
    np.testing.assert_allclose(ft.grad(trained)(h), differences(trained, h), rtol=1e-6)


def test_a_gradient_of_zero_gives_no_nan():
    for make in (optim.adam, optim.rmsprop, optim.adagrad, lambda lr: optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(lr))):
        w = np.zeros(2)
        trained = lambda w: run(make(0.1), w, 3, lambda w: (w**2).sum()).sum()
        assert np.isfinite(ft.grad(trained)(w)).all()
        assert np.array_equal(run(make(0.1), w, 3, lambda w: (w**2).sum()), w)


def test_a_steady_gradient_has_a_variance_of_zero():
    opt = optim.rmsprop(0.1, centered=True)
    state = opt.init(1.0)
    for _ in range(400):  # rounding takes the average square below the squared average
        update, state = opt.update(3.7, state)
    assert np.isfinite(update)


def test_at_a_gradient_of_zero_an_update_has_the_slope_of_one_divided_by_eps():
    adam = optim.adam(0.1, eps=0.5)
    start = adam.init(np.ones(2))
    slopes = ft.jacobian(lambda g: adam.update(g, start)[0])(np.array([0.0, 3.0]))
    assert slopes[0, 0] == pytest.approx(-0.1 / 0.5)
    assert slopes[1, 1] == pytest.approx(-0.1 * 0.5 / 3.5**2)  # of g / (|g| + eps)
    rooted = optim.scale_by_adam(eps=0.5, eps_root=16.0)
    assert rooted.update(3.0, rooted.init(0.0))[0] == pytest.approx(3 / 5.5)


def test_a_nan_stays_to_be_seen():
    for make in (optim.sgd, optim.adam, optim.rmsprop, optim.adagrad, optim.lion):
        opt = make(0.1)
        params = np.ones(2)
        updates, _ = ft.jit(opt.update)(np.array([np.nan, 1.0]), opt.init(params), params)
        assert np.isnan(updates[0]) and np.isfinite(updates[1])


@MAKERS
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("rate", [0.05, np.float64(0.05), optim.cosine_decay(0.05, 10)], ids=["float", "float64", "schedule"])
def test_the_dtype_stays(make, dtype, rate):
    params = {"w": START.astype(dtype), "s": dtype(1.0)}
    optimizer = optim.chain(optim.clip_by_global_norm(np.float64(10.0)), make(rate))
    state = optimizer.init(params)
    for kind in (dtype, dtype, np.float64, np.int64):  # gradients may be of another
        updates, new = optimizer.update(ft.tree.map(lambda x, kind=kind: x.astype(kind), params), state, params)
        assert [x.dtype for x in ft.tree.leaves(new)] == [x.dtype for x in ft.tree.leaves(state)]
        params, state = optim.apply_updates(params, updates), new
        assert all(x.dtype == dtype for x in ft.tree.leaves((params, updates) if kind is dtype else params))
    assert isinstance(params["s"], dtype)


@MAKERS
def test_trees_with_nones_empty_parts_numbers_and_integers(make):
    params = {"a": [None, ()], "b": 1.0, "c": (np.zeros((0, 2)), np.ones((2, 1))), "k": np.array([1, 2]), "d": {}}
    grads = ft.grad(lambda p: p["b"] ** 2 + np.sum(p["c"][1]) * p["k"][1])(params)
    optimizer = make(0.05)
    updates, state = optimizer.update(grads, optimizer.init(params), params)
    new = optim.apply_updates(params, updates)
    assert ft.tree.structure(new) == ft.tree.structure(params)
    assert np.array_equal(new["k"], [1, 2]) and new["k"].dtype == params["k"].dtype
    assert new["b"] < 1.0 and (new["c"][1] < 1).all() and new["c"][0].shape == (0, 2)
    updates, state = optimizer.update(None, optimizer.init(None), None)
    assert optim.apply_updates(None, updates) is None


def test_the_state_is_a_tree_that_can_be_saved_and_made_again():
    optimizer = optim.adamw(optim.linear(0.1, 0.0, 5))
    state = optimizer.init(START)
    leaves, treedef = ft.tree.flatten(state)
    assert isinstance(state[0], tuple) and state[0]._fields == ("count", "mu", "nu")
    _, state = optimizer.update(START, ft.tree.unflatten(treedef, [np.array(x) for x in leaves]), START)
    assert state[0].count == 1 and state[2].count == 1


def test_update_writes_to_nothing_it_was_given():
    optimizer = optim.adam(0.1)
    grads = START.copy()
    state = optimizer.init(START)
    _, later = optimizer.update(grads, state, START)
    assert np.array_equal(grads, START) and state[0].count == 0 and not state[0].mu.any()
    assert not np.shares_memory(later[0].mu, grads)


def test_global_norm_does_not_overflow_in_narrow_types():
    assert optim.global_norm(np.full(2, 3e4, np.float16)) == pytest.approx(3e4 * 2**0.5, rel=1e-3)
    clipped, _ = optim.clip_by_global_norm(1.0).update(np.full(2, 1e30, np.float32), ())
    np.testing.assert_allclose(clipped, 0.5**0.5, rtol=1e-6)
    assert optim.global_norm({}) == 0.0
    assert np.array_equal(optim.clip_by_global_norm(1.0).update(np.zeros(2), ())[0], [0.0, 0.0])
    assert np.array_equal(optim.clip_by_global_norm(9.0).update(np.ones(2), ())[0], [1.0, 1.0])


def test_masks_say_what_is_decayed():
    params, grads = {"w": np.ones(2), "b": 1.0}, {"w": np.zeros(2), "b": 0.0}
    for mask in ({"w": True, "b": False}, lambda p: ft.tree.map(lambda x: np.ndim(x) > 0, p)):
        optimizer = optim.adamw(1.0, weight_decay=0.5, mask=mask)
        updates, _ = optimizer.update(grads, optimizer.init(params), params)
        assert np.array_equal(updates["w"], [-0.5, -0.5]) and updates["b"] == 0.0


def test_decay_is_decoupled():
    """Loshchilov & Hutter: with no gradient the weights shrink by exactly lr * decay; through the averages it would be lr."""
    optimizer = optim.adamw(0.1, weight_decay=0.01)
    updates, _ = optimizer.update(np.zeros(1), optimizer.init(np.ones(1)), np.ones(1))
    np.testing.assert_allclose(updates, -0.001, rtol=1e-12)


SCHEDULES = {
    "constant": (optim.constant(0.1), lambda k: 0.1),
    "linear": (optim.linear(1.0, 0.2, 8, 2), lambda k: np.interp(k, [2, 10], [1.0, 0.2])),
    "exponential_decay": (optim.exponential_decay(1.0, 4, 0.5, 2), lambda k: 0.5 ** (max(k - 2, 0) / 4)),
    "staircase": (optim.exponential_decay(1.0, 4, 0.5, staircase=True, end_value=0.2), lambda k: max(0.5 ** (k // 4), 0.2)),
    "growing": (optim.exponential_decay(1.0, 4, 2.0, end_value=3.0), lambda k: min(2.0 ** (k / 4), 3.0)),
    "cosine_decay": (optim.cosine_decay(2.0, 10, 0.1), lambda k: 2 * (0.9 * (1 + np.cos(np.pi * min(k, 10) / 10)) / 2 + 0.1)),
    "cosine_decay, exponent": (optim.cosine_decay(1.0, 10, exponent=2), lambda k: ((1 + np.cos(np.pi * min(k, 10) / 10)) / 2) ** 2),
    "warmup_cosine": (
        optim.warmup_cosine(0.1, 1.0, 4, 12, 0.05),
        lambda k: 0.1 + 0.9 * k / 4 if k < 4 else 0.05 + 0.95 * (1 + np.cos(np.pi * min((k - 4) / 8, 1))) / 2,
    ),
    "no warmup": (optim.warmup_cosine(0.1, 1.0, 0, 8), lambda k: (1 + np.cos(np.pi * min(k / 8, 1))) / 2),
    "piecewise_constant": (
        optim.piecewise_constant(1.0, {6: 0.1, 3: 0.5}),
        lambda k: 1.0 if k < 3 else 0.5 if k < 6 else 0.05,
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    schedule, want = SCHEDULES[name]
    expected = [want(k) for k in range(15)]
    counts = np.arange(15)
    np.testing.assert_allclose([schedule(k) for k in range(15)], expected, rtol=1e-12, atol=1e-15)
    fast = ft.jit(lambda k: schedule(k) + 0.0, no_retrace=True)
    np.testing.assert_allclose([fast(k) for k in counts], expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(ft.vmap(lambda k: schedule(k) + 0.0 * k)(counts), expected, rtol=1e-12, atol=1e-15)


def test_the_schedule_starts_at_zero_and_its_values_can_be_learned():
    optimizer = optim.sgd(optim.piecewise_constant(0.1, {1: 0.5}))
    updates, state = optimizer.update(1.0, optimizer.init(0.0))
    assert updates == -0.1 and optimizer.update(1.0, state)[0] == -0.05
    trained = lambda peak: loss(run(optim.adam(optim.warmup_cosine(0.0, peak, 2, 6)), START))
    np.testing.assert_allclose(ft.grad(trained)(0.05), differences(trained, 0.05), rtol=1e-6)


@pytest.mark.parametrize(
    "make", [lambda: optim.linear(1.0, 0.0, 0), lambda: optim.cosine_decay(1.0, -1), lambda: optim.warmup_cosine(0.0, 1.0, 5, 5)]
)
def test_a_schedule_of_no_steps_is_refused(make):
    with pytest.raises(ValueError, match="must be positive, got"):
        make()


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (optim.constant, {"value": 1.0}),
        (optim.linear, {"init_value": 1.0, "end_value": 0.0, "transition_steps": 4, "transition_begin": 1}),
        (optim.exponential_decay, {"init_value": 1.0, "transition_steps": 4, "decay_rate": 0.5, "end_value": 0.1}),
        (optim.cosine_decay, {"init_value": 1.0, "decay_steps": 4, "alpha": 0.1, "exponent": 1.0}),
        (optim.warmup_cosine, {"init_value": 0.0, "peak_value": 1.0, "warmup_steps": 2, "decay_steps": 4, "end_value": 0.1}),
    ],
)
def test_what_schedules_are_made_of_are_numbers(make, given):
    assert np.ndim(make(**given)(3)) == 0
    for name in given:
        for wrong in ("1", np.ones(2), 1j):
            with pytest.raises(errors.InputTypeError, match=f"{make.__name__}: {name} must be a number, got"):
                make(**{**given, name: wrong})


def test_momentum_is_any_number():
    plain = lambda decay: run(optim.sgd(0.05, decay), START)
    np.testing.assert_array_equal(plain(0.0), plain(None))
    decays = np.array([0.0, 0.9, 1.0])
    by_trace = np.stack([run(optim.chain(optim.trace(decay), optim.scale(-0.05)), START) for decay in decays])
    np.testing.assert_allclose([plain(decay) for decay in decays.tolist()], by_trace)
    np.testing.assert_allclose(ft.vmap(plain)(decays), by_trace)
    cost = lambda decay: loss(plain(decay))
    np.testing.assert_allclose(ft.grad(cost)(0.0), differences(cost, 0.0), rtol=1e-6)


def test_mistakes_are_named():
    optimizer = optim.adam(0.1)
    state = optimizer.init({"w": START})
    with pytest.raises(errors.TreeError, match=r"adam: the updates have the structure.*the state.*(?s:.)*trees like the parameters"):
        optimizer.update(START, state)
    with pytest.raises(errors.TreeError, match=r"adam: at \['w'\] the updates have shape \(2,\), the state \(3,\)") as info:
        optimizer.update({"w": START[:2]}, state)
    assert here(-1) in str(info.value)
    with pytest.raises(errors.TreeError, match=r"apply_updates: at the only leaf the parameters have shape \(3,\), the updates \(\)"):
        optim.apply_updates(START, 1.0)
    with pytest.raises(errors.TreeError, match="update needs the parameters"):
        optim.adamw(0.1).update(START, optim.adamw(0.1).init(START))
    with pytest.raises(errors.TreeError, match="not that of this optimiser, a chain of 2"):
        optimizer.update({"w": START}, ())
    with pytest.raises(errors.TreeError, match=r"needs the AdamState of its own init, and was given EmptyState(?s:.)*state, params\)"):
        optimizer.update({"w": START}, optim.sgd(0.1).init({"w": START}))
    with pytest.raises(errors.TreeError, match="the mask"):
        optim.add_decayed_weights(0.1, {"v": True}).update(START, (), START)
    with pytest.raises(errors.InputTypeError, match="real and imaginary parts"):
        optimizer.init(np.array([1j]))
    with pytest.raises(errors.InputTypeError, match="hold a str"):
        optimizer.init({"name": "layer"})


# SciPy's minimisers


def rosenbrock(p):
    x = np.concatenate([np.reshape(p["a"], 1), p["rest"][0]])
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize(
    "method", ["L-BFGS-B", "BFGS", "CG", "Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "TNC", "SLSQP", "Nelder-Mead"]
)
def test_minimize_finds_the_valley(method):
    seen = []
    start = {"a": -1.2, "rest": [np.array([1.0, 0.8])]}
    result = optim.minimize(
        rosenbrock,
        start,
        method=method,
        callback=lambda p: seen.append(rosenbrock(p)),
        options={"maxfun" if method == "TNC" else "maxiter": 2000},
    )
    assert result.success, result.message
    assert result.fun < 1e-5 and seen[-1] < seen[0]
    np.testing.assert_allclose([result.x["a"], *result.x["rest"][0]], 1.0, atol=5e-3)
    assert ft.tree.structure(result.x) == ft.tree.structure(start) and result.nit == result.scipy.nit
    if method != "Nelder-Mead":
        assert ft.tree.structure(result.grad) == ft.tree.structure(start)


def test_minimize_passes_on_arguments_and_keeps_dtypes():
    cost = lambda p, y, scale: scale * np.sum((p["w"] - y) ** 2)
    result = optim.lbfgs(cost, {"w": np.zeros(2, np.float32)}, np.array([1.0, 2.0]), scale=3.0)
    assert result.x["w"].dtype == np.float32
    np.testing.assert_allclose(result.x["w"], [1.0, 2.0], atol=1e-5)
    assert not optim.lbfgs(rosenbrock, {"a": -1.2, "rest": [np.ones(2)]}, maxiter=2).success
    rough, exact = (optim.lbfgs(rosenbrock, {"a": -1.2, "rest": [np.ones(2)]}, tol=tol) for tol in (1.0, 1e-12))
    assert rough.success and rough.nit < exact.nit and rough.fun > exact.fun


def test_minimize_within_bounds():
    cost = lambda p: np.sum((p["w"] - 2.0) ** 2) + p["b"] ** 2
    start = {"w": np.zeros(2), "b": -1.0}
    np.testing.assert_allclose(optim.lbfgs(cost, start, bounds=(None, 1.0)).x["w"], [1.0, 1.0])
    result = optim.lbfgs(cost, start, bounds=({"w": np.array([-9.0, 3.0]), "b": -2.0}, {"w": np.inf, "b": -0.5}))
    np.testing.assert_allclose([*result.x["w"], result.x["b"]], [2.0, 3.0, -0.5], atol=1e-6)
    with pytest.raises(errors.TreeError, match="a bound has the structure"):
        optim.lbfgs(cost, start, bounds=([0.0], None))


def test_minimize_is_not_differentiated_silently():
    with pytest.raises(errors.ConversionError, match=r"minimize\(<lambda>\): an argument is traced(?s:.)*implicit_root"):
        ft.grad(lambda a: optim.minimize(lambda x, a: (x - a) ** 2, 0.0, a).x)(1.0)
    with pytest.raises(errors.ConversionError):
        ft.grad(lambda a: optim.minimize(lambda x: (x - a) ** 2, 0.0).x)(1.0)
    with pytest.raises(errors.IntegerInputError):
        optim.minimize(lambda x: x.sum(), np.arange(3))


def test_scipy_is_imported_late():
    code = "import sys, functrace as ft; ft.optim.adam(0.1).init(1.0); print(any(m.split('.')[0] == 'scipy' for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"
