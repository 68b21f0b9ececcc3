"""The sweep: every declaration is checked in every mode. The first test to write and the last to weaken."""

import pytest

import functrace  # noqa: F401
from functrace.ops.registry import TABLE
from functrace.testing import verify

CHECKS: dict[str, int] = {}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_declaration(name):
    CHECKS[name] = verify(TABLE[name])
    assert CHECKS[name] > 0, f"{name} declares no sample, so nothing was checked"
