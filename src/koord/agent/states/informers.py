# SPDX-License-Identifier: Apache-2.0
"""Parts of the snapshot that come from the API server: node, NodeSLO, NodeMetric's spec, pods."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any

from koord.agent.states.nodeslo import effective_metric_spec, effective_slo
from koord.agent.states.pods_source import pod_states
from koord.agent.states.seen import SeenPod
from koord.agent.states.snapshot import Part
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.api.sloconfig.rules import IN_FORCE, problems
from koord.base import log
from koord.base.supervision import Supervisor
from koord.kube.informer import Informer
from koord.kube.reflector import InformerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.agent.host.layout import Layout
    from koord.agent.states.store import StateStore
    from koord.kube.client import Client

# How long a watch that says nothing still counts as a confirmation of what is known.
CONFIRM_SECONDS = 10.0
_MOST_TOLD = 16  # problems of one NodeSLO
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
        layout: Layout | None = None,
        supervisor: Supervisor | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self._supervisor = supervised = supervisor or Supervisor("states")
        more: dict[str, Any] = {"supervisor": supervised, "metrics": metrics or InformerMetrics()}
        self._store = store
        self._layout = layout
        by_name = f"metadata.name={node_name}"
        self.node: Informer[Node] = Informer(client, Node, field_selector=by_name, **more)
        self.slo: Informer[NodeSLO] = Informer(client, NodeSLO, field_selector=by_name, **more)
        self.metric: Informer[NodeMetric] = Informer(
            client, NodeMetric, field_selector=by_name, **more
        )
        self._informers: list[Informer[Any]] = [self.node, self.slo, self.metric]
        self._follow(self.node, lambda node: store.put(Part.NODE, node))
        self._problems: list[str] = []
        self._follow(self.slo, self._put_slo)
        self._follow(
            self.metric,
            lambda metric: store.put(Part.METRIC_SPEC, effective_metric_spec(metric.spec)),
        )
        if layout is not None:
            selector = f"spec.nodeName={node_name}"
            self.pods: Informer[Pod] = Informer(
                client, Pod, field_selector=selector, project=SeenPod, **more
            )
            self._informers.append(self.pods)
            self._follow(self.pods, lambda _: self._put_pods())
            self.pods.on_change(deleted=lambda *_: self._put_pods())

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """All that is watched."""
        return self._informers

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
        self._store.put(Part.SLO, effective_slo(slo.spec))
        found = problems(slo.spec, f"NodeSLO {slo.metadata.name}", "spec", IN_FORCE)
        before, self._problems = self._problems, [str(each) for each in islice(found, _MOST_TOLD)]
        for text in self._problems:
            if text not in before:
                _LOG.warning("a value that cannot be", extra=log.fields(error=text))

    def _put_pods(self) -> None:
        assert self._layout is not None
        if self.pods.has_synced:
            pods = [pod for _, pod in self.pods.items()]
            before = self._store.snapshot().pods.value
            self._store.put(Part.PODS, pod_states(pods, self._layout, before))

    async def _confirm(self) -> None:
        """A live watch that is silent means that nothing changed."""
        await self.ready()
        while True:
            snapshot = self._store.snapshot()
            for informer, part, held in (
                (self.node, Part.NODE, snapshot.node.value),
                (self.slo, Part.SLO, snapshot.slo.value),
                (self.metric, Part.METRIC_SPEC, snapshot.metric_spec.value),
            ):
                if informer.connected and held is not None:
                    self._store.put(part, held)
            if self._layout is not None and self.pods.connected:
                self._put_pods()
            await asyncio.sleep(CONFIRM_SECONDS)
