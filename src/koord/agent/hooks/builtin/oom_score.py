# SPDX-License-Identifier: Apache-2.0
"""OOMScoreAdj: the order in which the kernel kills, by container.

Rule: docs/reference/hooks.md#oomscoreadj.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage
from koord.agent.hooks.pod_contexts import read_once
from koord.api.protocol.agent import oom_scores

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions


class OOMScoreAdj(BaseHook):
    """Answers ``oom_score_adj`` of containers whose pod has the annotation."""

    name = "OOMScoreAdj"
    gate = "OOMScoreAdj"
    # What starts later inherits the score from what the runtime starts first.
    stages = frozenset({HookStage.PRE_CREATE_CONTAINER})

    def __init__(self, options: HookOptions) -> None:
        """Needs no options."""

    def container(self, context: ContainerContext) -> HookResponse | None:
        """The container's own score, or the pod's; the sandbox keeps its own.

        Raises:
            KoordError: an annotation is malformed, or out of range.
        """
        if not context.name:
            return None
        score = read_once(context.pod, oom_scores).of(context.name)
        if score is None:
            return None
        return HookResponse(oom_score_adj=score, reason="annotation of the pod")
