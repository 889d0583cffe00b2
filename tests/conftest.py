"""What all tests share: property tests are derandomised, so that a run says the same as the last."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("mcpcore", derandomize=True, deadline=None)
settings.load_profile("mcpcore")
