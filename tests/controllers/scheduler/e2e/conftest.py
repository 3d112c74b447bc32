# SPDX-License-Identifier: Apache-2.0
"""Servers for end-to-end tests: the embedded one and a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.conftest import BOTH, Server, running_server


@pytest.fixture(params=BOTH)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A fresh server on which nothing else runs."""
    with running_server(request.param, False, tmp_path) as running:
        yield running
