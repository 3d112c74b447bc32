# SPDX-License-Identifier: Apache-2.0
"""What stories of the whole loop share."""

from __future__ import annotations

import pytest

from tests.agent.day.plant import PlantFiles


@pytest.fixture
def plain_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota keeps its period, as in the kernel."""
    monkeypatch.setattr("koord.agent.executor.startup.NativeCgroupFiles", PlantFiles)
