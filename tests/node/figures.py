# SPDX-License-Identifier: Apache-2.0
"""Figures of a scene that a test asks for."""

from __future__ import annotations

from typing import Any

from tests.ci import missing
from tests.node.enter import MissingNodeError, hierarchies, run_inside
from tests.node.packages import MissingPackageError, find
from tests.real.fixtures import need


def figures(scene: str, seconds: float = 300, **order: Any) -> Any:
    """What a scene gives; skips where no node can be made, fails in CI.

    Args:
        scene: the module, whose ``main`` ends with :func:`tests.node.inside.write_figures`.
        seconds: then it is killed.
        order: what it is told.
    """
    need("containerd", "containerd-shim-runc-v2", "ctr")
    try:
        find("runc")
        hierarchies()
    except (MissingPackageError, MissingNodeError) as error:
        missing(error)
    result = run_inside(scene, order, seconds)
    assert "figures" in result, result["failure"]
    print(result["figures"])
    return result["figures"]
