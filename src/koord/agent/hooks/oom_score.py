# SPDX-License-Identifier: Apache-2.0
"""OOMScoreAdj: the order in which the kernel kills, by container.

Rule: docs/reference/hooks.md#oomscoreadj.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.hooks.context import pod_of
from koord.agent.hooks.hook import Answer, ContainerContext
from koord.agent.hooks.quiet import QuietHook
from koord.api.protocol.agent import oom_score_adj

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions


class OOMScoreAdj(QuietHook):
    """The hook."""

    name = "OOMScoreAdj"
    gate = "OOMScoreAdj"

    def __init__(self, options: HookOptions) -> None:
        """Needs no options."""

    def container(self, context: ContainerContext) -> Answer | None:
        """The container's own score, or the pod's; the sandbox keeps its own.

        Raises:
            KoordError: an annotation is malformed, or out of range.
        """
        if not context.name:
            return None
        score = oom_score_adj(pod_of(context.pod), context.name)
        if score is None:
            return None
        return Answer(oom_score_adj=score, reason="annotation of the pod")
