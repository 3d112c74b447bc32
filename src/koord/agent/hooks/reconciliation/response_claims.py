# SPDX-License-Identifier: Apache-2.0
"""What an answer of a hook claims of the executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.claim import SYSTEM_BASES, Claim, Layer
from koord.agent.executor.target import (
    CPUS,
    OOM_SCORE_ADJ,
    QUOTA,
    RESCTRL_GROUP,
    RESCTRL_MEMBERS,
    RESCTRL_SCHEMATA,
)
from koord.kernels.cgroup import CATALOGUE

if TYPE_CHECKING:
    from koord.agent.hooks.hook import HookResponse


def claims_of(answer: HookResponse, directory: str, *, container: bool) -> list[Claim]:
    """Claims on one directory.

    Args:
        answer: what a hook wants there.
        directory: the cgroup, relative; empty while it is not known, which claims nothing.
        container: whether it is a container's or sandbox's: its threads join the resctrl group,
            while a pod's answer makes the group.
    """
    if not directory:
        return []
    reason = answer.reason
    claims: list[Claim] = []
    for resource, value in answer.values.items():
        if resource == RESCTRL_SCHEMATA or (resource == CPUS and not value):
            continue  # No CPUs at all says that the container has none of its own.
        row = CATALOGUE.get(resource)
        system = row is not None and row.base in SYSTEM_BASES
        claims.append(Claim(resource, "" if system else directory, value, reason))
    if answer.quota_ratio is not None and QUOTA in answer.values:
        claims.append(Claim(QUOTA, directory, answer.quota_ratio, reason, Layer.SCALE))
    if answer.oom_score_adj is not None:
        claims.append(Claim(OOM_SCORE_ADJ, directory, answer.oom_score_adj, reason))
    return claims + _resctrl(answer, directory, container)


def _resctrl(answer: HookResponse, directory: str, container: bool) -> list[Claim]:
    group, reason = answer.resctrl_group, answer.reason
    if group is None:
        return []
    if container:
        return [Claim(RESCTRL_MEMBERS, group, directory, reason)]
    lines = str(answer.values.get(RESCTRL_SCHEMATA, "")).splitlines()
    schemata = [Claim(RESCTRL_SCHEMATA, group, line, reason) for line in lines]
    return [Claim(RESCTRL_GROUP, group, 1, reason), *schemata]
