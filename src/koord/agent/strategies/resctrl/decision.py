# SPDX-License-Identifier: Apache-2.0
"""Which resctrl group a pod is in, in columns.

Rule: docs/reference/strategies.md#resctrl-classes. What groups get is decided by
``koord.kernels.resctrl.plan``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUPS = ("LSR", "LS", "BE")
NO_GROUP = -1
CLASSES = ("LSE", "LSR", "LS", "BE", "SYSTEM", "")
"""QoS classes by their code in a column."""
_GROUP_OF = np.array([0, 0, 1, 2, NO_GROUP, NO_GROUP], np.int64)


def groups(
    qos: NDArray[np.int64],
    active: NDArray[np.bool_],
    own: NDArray[np.bool_],
    enabled: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The place in :data:`GROUPS` of each pod; :data:`NO_GROUP` for none.

    Args:
        qos: code of the class, with its default, a pod a row.
        active: whether the pod is pending or running.
        own: whether its annotation gives it a group of its own.
        enabled: whether each group of :data:`GROUPS` is switched on for the pod's node; of shape
            (pods, groups).
    """
    group = _GROUP_OF[qos]
    some = (group != NO_GROUP) & active & ~own
    rows = np.arange(len(qos))
    return np.where(some & enabled[rows, np.maximum(group, 0)], group, NO_GROUP)
