# ruff: noqa: NPY002 (the global random state is what is looked at)
"""What all tests share: seeded random numbers, and a check that no test leaves global state behind."""

import gc
import os
import sys
import threading
import zlib
from importlib import metadata

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: a process for each core, whose threads would wait for one another

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("functrace", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("FUNCTRACE_HYPOTHESIS", "functrace"))

# functrace.scipy is held against SciPy 1.16 and later: earlier versions have other names, other results at the edges, and stricter
# arguments (which is why it is not tested on Python 3.10, where SciPy ends with 1.15).
if tuple(map(int, metadata.version("scipy").split(".")[:2])) < (1, 16):
    collect_ignore_glob = ["test_scipy_*.py"]

# Not measured under coverage, which doubles their time: they run at length what others run, and add half a percent to what is measured.
UNMEASURED = set(
    "test_examples test_jit_programs test_memory test_nesting test_random_programs test_scipy_tails test_sweep "
    "test_each_distribution_passes_the_sweep_in_density_and_cdf".split()
)


def pytest_collection_modifyitems(items):
    for item in items:
        if not UNMEASURED.isdisjoint((item.path.stem, item.name)):
            item.add_marker("no_cover")


def pytest_collection_finish():
    """Modules and collected tests live to the end: the garbage collector, which many tests call, need not look through them each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def rng(request):
    """A generator seeded by the test's name: every run draws the same numbers, every test other ones."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="session")
def stats():
    """Imported late: `test_sweep` collects what NumPy has."""
    from functrace.scipy import stats

    return stats


@pytest.fixture
def random_state():
    """For what draws from NumPy's global generator: some of SciPy, as its norm estimates, in `logm` and powers of matrices."""
    state = np.random.get_state()
    yield
    np.random.set_state(state)


def _random_state():
    kind, keys, position, has_gauss, gauss = np.random.get_state()
    return kind, keys.tobytes(), position, has_gauss, gauss


def _state():
    return {
        "np.geterr()": np.geterr(),
        "np.get_printoptions()": np.get_printoptions(),
        "sys.getrecursionlimit()": sys.getrecursionlimit(),
        "np.random's global state": _random_state(),
        "sys.settrace": type(sys.gettrace()),  # coverage sets another of its own after a test that is not measured
    }


@pytest.fixture(autouse=True)
def no_global_state_leaks():
    before, threads = _state(), threading.enumerate()
    yield
    after = _state()
    changed = [name for name in before if before[name] != after[name]]
    for thread in threading.enumerate():
        if thread not in threads and not thread.name.startswith("functrace-"):
            thread.join(1.0)  # one that has done its work may not have ended
            changed += [f"the threads: {thread.name} goes on"] * thread.is_alive()
    if changed:
        np.seterr(**before["np.geterr()"])
        sys.setrecursionlimit(before["sys.getrecursionlimit()"])
    assert not changed, f"the test changed {', '.join(changed)}"
