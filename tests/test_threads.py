"""Large work in pieces on several threads."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace import pool, threads
from tests.helpers import in_threads


@pytest.fixture(params=[1, 2, 4])
def count(request):
    before = threads.set_count(request.param)
    yield request.param
    threads.set_count(before)


def test_every_piece_is_done_once(count):
    done = []
    threads.run(done.append, range(100))
    assert sorted(done) == list(range(100))


def test_an_exception_is_raised_and_the_rest_dropped(count):
    done = []

    def task(k):
        if k == 3:
            raise KeyError("three")
        done.append(k)

    with pytest.raises(KeyError, match="three"):
        threads.run(task, range(10000))
    assert len(done) < 10000
    threads.run(done.append, range(3))  # nothing is left behind


@pytest.mark.parametrize("of_caller", [True, False])
def test_an_error_of_either_thread_is_raised_and_ends_both(of_caller):
    caller, together, done = threading.get_ident(), threading.Barrier(2), []

    def task(k):
        if k < 2:
            together.wait(10)
            if (threading.get_ident() == caller) is of_caller:
                raise KeyError("mine")
            time.sleep(0.1)  # by then the other has raised
        done.append(k)

    before = threads.set_count(2)
    try:
        with pytest.raises(KeyError, match="mine"):
            threads.run(task, range(10))
    finally:
        threads.set_count(before)
    assert len(done) == 1


def test_an_index_error_of_the_task_is_raised(count):
    with pytest.raises(IndexError):
        threads.run(lambda k: [][k], range(8))


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="interrupts itself by a POSIX signal")
def test_an_interrupt_is_raised_when_nobody_works_any_more():
    """What a piece writes to is the caller's again after it: the buffers of a program, which its next call uses."""
    before, caller, begun, ended = threads.set_count(2), threading.get_ident(), threading.Event(), []

    def task(k):
        if threading.get_ident() == caller:
            begun.wait()
            return
        begun.set()
        time.sleep(0.05)  # the caller waits
        signal.pthread_kill(caller, signal.SIGINT)
        time.sleep(0.05)
        ended.append(k)

    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run(task, range(2))
        assert len(ended) == 1
    finally:
        threads.set_count(before)


def test_a_task_may_run_tasks(count):
    done = []
    threads.run(lambda k: threads.run(lambda j: done.append((k, j)), range(4)), range(4))
    assert sorted(done) == [(k, j) for k in range(4) for j in range(4)]


def test_it_runs_beside_itself(count):
    outs = [[] for _ in range(6)]
    in_threads(lambda k: threads.run(outs[k].append, range(200)), 6)
    assert all(sorted(out) == list(range(200)) for out in outs)


def test_nobody_goes_on_before_every_piece_is_done(monkeypatch):
    """A thread that looked while there was work, and comes too late for it, is not taken for one that is still at work."""
    caller, looks = threading.get_ident(), []
    begun, looked, late, done = threading.Event(), threading.Event(), threading.Event(), []

    class Pieces(threads.deque):
        def __bool__(self):
            looks.append(1)
            if len(looks) == 2:
                looked.set()
                late.wait()
                return True  # as it was
            return len(self) > 0

    def task(k):
        if threading.get_ident() == caller:
            begun.wait(), looked.wait()
            threading.Timer(0.1, late.set).start()  # once the caller has counted who is at work
        else:
            begun.set()
            late.wait(), time.sleep(0.1)
        done.append(k)

    monkeypatch.setattr(threads, "deque", Pieces)
    before = threads.set_count(3)
    try:
        threads.run(task, range(3))
    finally:
        threads.set_count(before)
    assert sorted(done) == [0, 1, 2]


def test_what_a_task_holds_is_free_when_all_is_done(monkeypatch):
    """A helper that never came is still in the queue: the buffers that the task wrote to must not wait for it."""
    monkeypatch.setattr(threads, "_count", 2)
    monkeypatch.setattr(threads, "_pool", lambda: queue)
    queue = threads._Pool()
    queue.started = 1  # as if its thread were busy
    buffer = np.zeros(4)
    before = sys.getrefcount(buffer)

    def part(k, buffer=buffer):
        buffer[k] = k

    threads.run(part, range(4))
    del part
    assert not queue.jobs.empty()
    assert buffer.tolist() == [0, 1, 2, 3]
    assert sys.getrefcount(buffer) == before


def test_numpys_error_state_holds_in_the_threads(count):
    together = threading.Barrier(count)  # each takes one

    def task(_):
        together.wait(10)
        np.divide(1.0, np.zeros(10))

    with warnings.catch_warnings(), np.errstate(divide="ignore"):
        warnings.simplefilter("error")
        threads.run(task, range(count))


@pytest.mark.parametrize("had", [0, 1])
def test_where_no_thread_can_be_started_the_caller_does_the_work(monkeypatch, had):
    """As in a browser, and when Python is about to end."""
    real, started = threading.Thread.start, []

    def start(self):
        if len(started) == had:
            raise RuntimeError("can't start new thread")
        started.append(self)
        real(self)

    monkeypatch.setattr(threads, "_pool", lambda pool=threads._Pool(): pool)
    monkeypatch.setattr(threads, "_count", 4)
    monkeypatch.setattr(threading.Thread, "start", start)
    done = []
    threads.run(done.append, range(100))
    assert sorted(done) == list(range(100)) and len(started) == had


def test_a_count_below_one_is_refused():
    with pytest.raises(ValueError, match="n is 0"):
        threads.set_count(0)


def test_the_environment_turns_it_off():
    code = "import functrace.threads as t, threading; t.run(print, 'ab'); print(t.count(), threading.active_count())"
    env = {**os.environ, "FUNCTRACE_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60).stdout.split() == [
        "a",
        "b",
        "1",
        "1",
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_it_works_in_a_child_process():
    code = (
        "import os, functrace.threads as t; t.set_count(3); t.run(len, ['a'] * 9); pid = os.fork()\n"
        "if not pid:\n    out = []; t.run(out.append, range(9)); os._exit(0 if sorted(out) == list(range(9)) else 1)\n"
        "print(os.waitpid(pid, 0)[1])"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60).stdout.strip() == "0"


@pytest.mark.parametrize("shape", [(600_000,), (3, 200_000), (200_000, 3), (800, 1, 900)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_are_the_same_on_any_number_of_threads(shape, dtype, rng):
    x = rng.uniform(0.5, 2.0, shape).astype(dtype)
    row = rng.uniform(0.5, 2.0, shape[-1:]).astype(dtype)

    def gradient():
        return ft.grad(lambda x, row: (np.tanh(x * row) * np.exp(-x) / row).sum(), (0, 1))(x, row)

    before = threads.set_count(1)
    try:
        one = gradient()
        threads.set_count(2)
        two = gradient()
    finally:
        threads.set_count(before)
        pool.clear()
    for a, b in zip(one, two):
        np.testing.assert_array_equal(a, b)


def test_transforms_torch_and_programs_are_shared_by_threads(rng):
    """Eight threads use one jitted gradient, one pullback and one module, and record functions of their own, all at the same time."""
    xs, w = rng.normal(size=(6, 3, 4)), rng.normal(size=(4, 2))
    large = rng.normal(size=(600, 500))
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()

    def branch(x):
        return np.sum(x * x) if x.sum() > 0 else -np.sum(x)

    def elementwise(x):
        return np.sum(np.tanh(x) * np.exp(-x * x))

    def of_module(x):
        return torch.autograd.grad(net(torch.tensor(x)).square().sum(), list(net.parameters()))[0].numpy()

    pull = ft.vjp(lambda w: np.where(w > 0, np.sqrt(abs(w)), w * w), w)[1]
    compiled, blocks = ft.jit(ft.grad(branch)), ft.jit(ft.grad(elementwise))
    tasks = [
        lambda k: compiled(xs[k]),
        lambda k: blocks(large),
        lambda k: pull(np.full(w.shape, float(k)))[0],
        lambda k: of_module(xs[k]),
        lambda k: ft.jit(ft.grad(lambda x: np.sum(np.sin(x) * k)))(xs[k]),
        lambda k: ft.vmap(branch)(xs),
        lambda k: ft.hessian(lambda w: np.sum(np.tanh(xs[k] @ w)))(w),
    ]
    plain = [ft.grad(branch), lambda _: ft.grad(elementwise)(large), None, of_module, lambda _: None, None, None]
    want = [[f(xs[k]) if f else task(k) for k in range(6)] for f, task in zip(plain, tasks)]
    want[4] = [np.cos(x) * k for k, x in enumerate(xs)]
    outs = [[] for _ in range(8)]

    def work(seed):
        order = np.random.default_rng(seed).permutation(np.repeat(range(len(tasks) * 6), 3))
        outs[seed] = [(n, tasks[n // 6](n % 6)) for n in order.tolist()]

    in_threads(work, 8)
    for out in outs:
        assert len(out) == 3 * 6 * len(tasks)
        for n, got in out:
            np.testing.assert_allclose(got, want[n // 6][n % 6], rtol=1e-9, atol=1e-12)
