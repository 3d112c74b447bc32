# SPDX-License-Identifier: Apache-2.0
"""Why a pod may not be moved, for machines and for people."""

from __future__ import annotations

from typing import NamedTuple


class MoveRefusal(NamedTuple):
    """What keeps a pod.

    Attributes:
        reason: one word in CamelCase; where a gate may leave the check out, the gate's name.
        message: one line.
    """

    reason: str
    message: str
