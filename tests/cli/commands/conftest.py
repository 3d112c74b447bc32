# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.embedded import start_embedded
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An API server without any definition."""
    if request.param == "embedded":
        with start_embedded(tmp_path, controllers=False) as embedded:
            yield embedded.kubeconfig
        return
    need("etcd", "kube-apiserver")
    with RealControlPlane(tmp_path) as plane:
        yield plane.kubeconfig
