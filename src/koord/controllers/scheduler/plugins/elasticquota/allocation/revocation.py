# SPDX-License-Identifier: Apache-2.0
"""Which pods of a group go so that its use comes below its runtime quota.

Rule: docs/reference/quota-scheduling.md#revocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.controllers.cluster.pods import PodInfo


class RevocablePod(NamedTuple):
    """A pod that holds part of a group's use.

    Attributes:
        pod: which.
        amounts: what of.
        preemptible: whether it may be taken.
    """

    pod: PodInfo
    amounts: Mapping[str, int]
    preemptible: bool = True


def exceeds(used: Mapping[str, int], limit: Mapping[str, int]) -> bool:
    """Whether use is over a limit in a resource that both name."""
    return any(used[name] > limit[name] for name in used if name in limit)


def importance(pod: PodInfo) -> tuple[int, float, str]:
    """Sorts pods: who is of a higher priority, started earlier, has the lesser name comes first."""
    start = pod.pod.status.start_time
    return -pod.priority, start.timestamp() if start else float("inf"), pod.key


def revoked(
    used: Mapping[str, int], limit: Mapping[str, int], pods: Sequence[RevocablePod]
) -> list[PodInfo]:
    """The pods that go so that use comes below the limit, or as near to it as it can.

    From the least important on pods are taken until the rest fits. Then, from the most important
    on, those are given back that fit beside the rest.

    Args:
        used: of the group with all below it.
        limit: its runtime.
        pods: those charged to the group itself that hold a node.

    Returns:
        The most important first, unless all that may be taken are not enough: then the least.
    """
    rest = dict(used)
    taken: list[RevocablePod] = []
    for held in sorted(pods, key=lambda held: importance(held.pod), reverse=True):
        if not exceeds(rest, limit):
            break
        if held.preemptible:
            _add(rest, held.amounts, -1)
            taken.append(held)
    if exceeds(rest, limit):
        return [held.pod for held in taken]
    going = []
    for held in reversed(taken):
        _add(rest, held.amounts, 1)
        if exceeds(rest, limit):
            _add(rest, held.amounts, -1)
            going.append(held.pod)
    return going


def _add(amounts: dict[str, int], part: Mapping[str, int], sign: int) -> None:
    for name, amount in part.items():
        amounts[name] = amounts.get(name, 0) + sign * amount
