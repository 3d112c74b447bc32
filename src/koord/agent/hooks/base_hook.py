# SPDX-License-Identifier: Apache-2.0
"""A hook that has nothing to say: what others are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage, PodContext
from koord.agent.states.snapshot import Snapshot, SnapshotPart

if TYPE_CHECKING:
    from koord.api.kinds.slo_strategies import HostApplication
    from koord.kernels.cgroup_path import KubeQos


class BaseHook:
    """Answers None to everything; see :class:`koord.agent.hooks.hook.Hook`."""

    name = ""
    gate = ""
    stages: frozenset[HookStage] = frozenset()
    follows = SnapshotPart(0)

    def learn(self, snapshot: Snapshot) -> bool:
        """Has no rule."""
        return False

    def pod(self, context: PodContext) -> HookResponse | None:
        """Nothing."""
        return None

    def container(self, context: ContainerContext) -> HookResponse | None:
        """Nothing."""
        return None

    def kube_qos(self, qos: KubeQos) -> HookResponse | None:
        """Nothing."""
        return None

    def host_application(self, application: HostApplication) -> HookResponse | None:
        """Nothing."""
        return None
