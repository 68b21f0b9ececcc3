"""The sweep: every declaration is checked in every mode. The first test to write and the last to weaken."""

import numpy as np
import pytest

import functrace  # noqa: F401
from functrace.ops.registry import TABLE
from functrace.testing import verify
from tests.helpers import of_numpy

CHECKS: dict[str, int] = {}
THEIRS = {}  # where an older NumPy's own dtype is wrong
if np.lib.NumpyVersion(np.__version__) < "2.3.0":  # of complex matrices complex, for some norms
    THEIRS["linalg.cond"] = lambda x, p=None: np.real(np.linalg.cond(x, p))


@pytest.fixture(scope="module", autouse=True)
def total(request):
    yield
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\nThe sweep: {sum(CHECKS.values()):,} checks of {len(CHECKS)} declarations.")


@pytest.mark.parametrize("name", sorted(of_numpy(TABLE)))
def test_declaration(name):
    CHECKS[name] = verify(TABLE[name]._replace(numpy=THEIRS.get(name, TABLE[name].numpy)))
    assert CHECKS[name] > 0, f"{name} declares no sample, so nothing was checked"
