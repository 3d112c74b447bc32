# SPDX-License-Identifier: Apache-2.0
"""Parts of the snapshot that come from the API server: node, NodeSLO, NodeMetric's spec, pods."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any

from koord.agent.states.effective_specs import effective_metric_spec, effective_slo
from koord.agent.states.pod_poller import LeftOutPods, pod_states
from koord.agent.states.snapshot import SnapshotPart
from koord.agent.states.trimmed_pods import AgentPod
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.api.sloconfig.rules import IN_FORCE, problems
from koord.base import log
from koord.base.supervision import Supervisor
from koord.kube.informers.informer import Informer
from koord.kube.informers.reflector import InformerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.agent.host.cgroup_layout import CgroupLayout
    from koord.agent.states.state_store import StateStore
    from koord.kube.client import Client

# How long a watch that says nothing still counts as a confirmation of what is known.
CONFIRM_SECONDS = 10.0
# How long a change of a pod waits for others.
TOGETHER_SECONDS = 0.1
_MOST_LOGGED = 16  # problems of one NodeSLO
_LOG = log.get("agent.states")


class ClusterStates:
    """Watches this node's objects and nothing else.

    Args:
        client: the way to the API server.
        node_name: this node.
        store: where the parts go.
        layout: of cgroups; given, pods come from the API server and not from the kubelet.
        supervisor: keeps the watches going.
        metrics: of the watches.
    """

    def __init__(
        self,
        client: Client,
        node_name: str,
        store: StateStore,
        layout: CgroupLayout | None = None,
        supervisor: Supervisor | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self._supervisor = supervised = supervisor or Supervisor("states")
        more: dict[str, Any] = {"supervisor": supervised, "metrics": metrics or InformerMetrics()}
        # One object has none to share parts with: no tables are kept to look for them.
        alone = {"field_selector": f"metadata.name={node_name}", "share": False, **more}
        self._store = store
        self._layout = layout
        self.node: Informer[Node] = Informer(client, Node, **alone)
        self.slo: Informer[NodeSLO] = Informer(client, NodeSLO, **alone)
        self.metric: Informer[NodeMetric] = Informer(client, NodeMetric, **alone)
        self._informers: list[Informer[Any]] = [self.node, self.slo, self.metric]
        self._follow(self.node, lambda node: store.put(SnapshotPart.NODE, node))
        self._problems: list[str] = []
        self._left_out = LeftOutPods()
        self._follow(self.slo, self._put_slo)
        self._follow(
            self.metric,
            lambda metric: store.put(SnapshotPart.METRIC_SPEC, effective_metric_spec(metric.spec)),
        )
        if layout is not None:
            selector = f"spec.nodeName={node_name}"
            self.pods: Informer[Pod] = Informer(
                client, Pod, field_selector=selector, project=AgentPod, **more
            )
            self._informers.append(self.pods)
            self._timer: asyncio.TimerHandle | None = None
            self._follow(self.pods, lambda _: self._put_pods_soon())
            self.pods.on_change(deleted=lambda *_: self._put_pods_soon())

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """All that is watched."""
        return self._informers

    def gone(self) -> frozenset[SnapshotPart]:
        """Parts whose object was there and is not any more; what it said last stays in force."""
        held = self._store.snapshot()
        followed = (
            (self.node, SnapshotPart.NODE, held.node.value),
            (self.slo, SnapshotPart.SLO, held.slo.value),
            (self.metric, SnapshotPart.METRIC_SPEC, held.metric_spec.value),
        )
        return frozenset(
            part for informer, part, value in followed
            if value is not None and informer.has_synced and not informer.items()
        )  # fmt: skip

    async def ready(self) -> None:
        """Waits until everything was listed once; a NodeSLO or NodeMetric may not exist."""
        for informer in self._informers:
            await informer.synced()

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name=f"informer of {informer.name}")
            name = "ages of watched parts"
            tasks.create_task(self._supervisor.keep(name, self._confirm), name=name)

    def _follow(self, informer: Informer[Any], put: Callable[[Any], None]) -> None:
        def gone(last: Any, _: bool) -> None:
            told = log.fields(object=f"{informer.name} {last.metadata.name}")
            _LOG.warning("gone from the cluster; what it said last stays in force", extra=told)

        deleted = gone if informer in (self.node, self.slo) else None
        informer.on_change(added=put, updated=lambda _, new: put(new), deleted=deleted)

    def _put_slo(self, slo: NodeSLO) -> None:
        """Takes a NodeSLO into force; what its values cannot be is said when it changes."""
        self._store.put(SnapshotPart.SLO, effective_slo(slo.spec))
        found = problems(slo.spec, f"NodeSLO {slo.metadata.name}", "spec", IN_FORCE)
        before, self._problems = self._problems, [str(each) for each in islice(found, _MOST_LOGGED)]
        for text in self._problems:
            if text not in before:
                _LOG.warning("a value that cannot be", extra=log.fields(error=text))

    def _put_pods_soon(self) -> None:
        """Many pods that change at once are put together: each time all of them are looked at."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(TOGETHER_SECONDS, self._put_pods_now)

    def _put_pods_now(self) -> None:
        self._timer = None
        with self._supervisor.round("pods"):
            self._put_pods()

    def _put_pods(self) -> None:
        assert self._layout is not None
        if self.pods.has_synced:
            pods = [pod for _, pod in self.pods.items()]
            before = self._store.unchecked_pods
            states = pod_states(pods, self._layout, before, self._left_out)
            self._store.put(SnapshotPart.PODS, states)

    async def _confirm(self) -> None:
        """A live watch that is silent means that nothing changed."""
        await self.ready()
        while True:
            snapshot = self._store.snapshot()
            for informer, part, held in (
                (self.node, SnapshotPart.NODE, snapshot.node.value),
                (self.slo, SnapshotPart.SLO, snapshot.slo.value),
                (self.metric, SnapshotPart.METRIC_SPEC, snapshot.metric_spec.value),
            ):
                if informer.connected and held is not None:
                    self._store.put(part, held)
            if self._layout is not None and self.pods.connected:
                self._put_pods()
            await asyncio.sleep(CONFIRM_SECONDS)
