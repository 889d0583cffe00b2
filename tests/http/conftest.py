"""Each test of the endpoint is run behind both fronts."""

from __future__ import annotations

import pytest


@pytest.fixture(params=("listener", "app"))
def front(request: pytest.FixtureRequest) -> str:
    return str(request.param)
