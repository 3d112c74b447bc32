# SPDX-License-Identifier: Apache-2.0
"""Shares of GPUs that admission takes and refuses."""

from __future__ import annotations

import pytest

from koord.api.protocol.admission import gpu_problems
from koord.kernels.quantity import Quantity

MEMORY, RATIO = "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio"
REFUSED = f"Pod n/a: requests: {{}}, expected one of {MEMORY} and {RATIO}"


@pytest.mark.parametrize(
    ("asked", "refusals"),
    [
        ({MEMORY: "1Gi"}, []),
        ({MEMORY: "0", RATIO: "50"}, []),
        ({MEMORY: "1Gi", RATIO: "0"}, []),
        ({MEMORY: "0"}, [REFUSED.format("got None")]),
        ({MEMORY: "0", RATIO: "0"}, [REFUSED.format("got None")]),
        ({MEMORY: "1Gi", RATIO: "50"}, [REFUSED.format(f"got '{MEMORY} and {RATIO}'")]),
    ],
)
def test_a_share_asks_for_memory_in_one_way_and_0_is_none(
    asked: dict[str, str], refusals: list[str]
) -> None:
    amounts = {name: Quantity.parse(text) for name, text in asked.items()}
    amounts["koordinator.sh/gpu.shared"] = Quantity.parse("1")
    assert [str(found) for found in gpu_problems(amounts, "Pod n/a", "requests")] == refusals
