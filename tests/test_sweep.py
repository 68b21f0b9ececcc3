"""The sweep: every declaration is checked in every mode. The first test to write and the last to weaken."""

import pytest

import functrace  # noqa: F401
from functrace.ops.registry import TABLE
from functrace.testing import verify
from tests.helpers import of_numpy

CHECKS: dict[str, int] = {}


@pytest.fixture(scope="module", autouse=True)
def total(request):
    yield
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\nThe sweep: {sum(CHECKS.values()):,} checks of {len(CHECKS)} declarations.")


@pytest.mark.parametrize("name", sorted(of_numpy(TABLE)))
def test_declaration(name):
    CHECKS[name] = verify(TABLE[name])
    assert CHECKS[name] > 0, f"{name} declares no sample, so nothing was checked"
