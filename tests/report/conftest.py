"""Made-up results as fixtures."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import attribution_rows, prediction_rows


@pytest.fixture
def attribution() -> list[dict[str, Any]]:
    return attribution_rows()


@pytest.fixture
def predictions() -> list[dict[str, Any]]:
    return prediction_rows()
