# SPDX-License-Identifier: Apache-2.0
"""What a shape of pod takes of memory is bounded; bytes are the same on every machine.

The bound has no reference beside it: what Python keeps of equal pods is taken off.
"""

from __future__ import annotations

import pytest

from benchmarks.shape_memory import shape_bytes

PODS, NODES = 2_000, 100
# Beyond the answers of its rows. Seen: 0.8, 2.7, 2.5 and 3.9 KB.
AT_MOST = {"labels": 2 << 10, "requests": 3 << 10, "nodeaffinity": 3 << 10, "selectors": 4 << 10}


@pytest.mark.parametrize(("case", "at_most"), AT_MOST.items())
def test_a_shape_takes_little_memory(case: str, at_most: int) -> None:
    assert shape_bytes(case, PODS, NODES) < at_most
