"""Functions that go to other processes, and calls that are interrupted: pickling, cloudpickle, Ctrl-C, programs in files."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.locks import Lock

cloudpickle = pytest.importorskip("cloudpickle")
X = np.array([0.5, 2.0])


@ft.jit
def compiled(x):
    return np.sum(x**3)


@ft.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1, 1),))


@pytest.mark.parametrize("function", [compiled, clipped])
def test_a_function_with_a_name_is_pickled_and_copied_by_it(function):
    for again in (pickle.loads(pickle.dumps(function)), cloudpickle.loads(cloudpickle.dumps(function)), copy.deepcopy(function)):
        assert again is function


def doubled(power):
    @ft.custom_jvp
    def raised(x):
        return x**power

    raised.defjvp(lambda xs, ts: (raised(*xs), 2 * ts[0]))
    return raised


@pytest.mark.parametrize(
    "make",
    [
        lambda: ft.jit(lambda x: np.sum(x**3)),
        lambda: ft.jit(ft.grad(compiled)),
        lambda: ft.jit(lambda x, n=3: x**n, static_argnames="n", max_paths=2),
        lambda: ft.jacfwd(doubled(3)),
        lambda: ft.vmap(doubled(2)),
        lambda: ft.grad(lambda x: np.sum(5 * clipped(x))),
    ],
)
def test_cloudpickle_sends_functions_without_a_name(make):
    f = make()
    expected = f(X)
    again = cloudpickle.loads(cloudpickle.dumps(f))
    assert again is not f
    assert np.array_equal(again(X), expected)
    assert np.array_equal(again(X), expected)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(f)


def test_recordings_that_were_interrupted_do_not_count():
    interrupt = True

    def f(x):
        if interrupt:
            raise KeyboardInterrupt
        return x * 2

    j = ft.jit(f)
    for _ in range(300):
        with pytest.raises(KeyboardInterrupt):
            j(X)
    interrupt = False
    assert np.array_equal(j(X), 2 * X) and np.array_equal(j(X), 2 * X)
    assert (j.cache_info()["hits"], j.cache_info()["eager"]) == (1, 0)


def test_a_lock_that_was_interrupted_is_dropped_in_silence():
    Lock.__new__(Lock)  # what is left of it before it is counted; an error in __del__ would be a warning


@pytest.mark.parametrize("name", ["program", "program.npz", "program.tape"])
def test_a_program_is_loaded_from_the_path_that_it_was_saved_to(tmp_path, name):
    ft.save(tmp_path / name, ft.trace(np.sin)(1.0))
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert ft.load(str(tmp_path / name))(0.5) == [np.sin(0.5)]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
def test_a_dtype_of_tensors_is_copied_and_pickled_by_its_name(kind):
    assert copy.deepcopy(kind) is kind is pickle.loads(pickle.dumps(kind))


def test_a_number_of_threads_that_is_none_is_refused():
    environment = {**os.environ, "FUNCTRACE_THREADS": "two"}
    done = subprocess.run([sys.executable, "-c", "import functrace"], env=environment, capture_output=True, text=True, check=False)
    assert "FUNCTRACE_THREADS is 'two'; it must be a number of threads" in done.stderr


def test_a_profile_can_be_copied_and_pickled():
    profile = ft.profile(ft.grad(compiled.fun))(X)
    for again in (copy.deepcopy(profile), copy.copy(profile), pickle.loads(pickle.dumps(profile))):
        assert str(again) == str(profile)
