# SPDX-License-Identifier: Apache-2.0
"""The running pods of simulated machines; what follows from each is worked out when it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.simulator.nodes.agents.usage_model import PodLoad, pod_load
from koord.simulator.nodes.strategies.pod_rows import StrategyPod, strategy_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.pod import Pod
    from koord.kube.informers.informer import Informer
    from koord.simulator.nodes.demand import DemandModel


@dataclass(slots=True)
class _RunningPod:
    """A pod that runs, its devices, its load, and its row for strategies once that is asked for."""

    pod: Pod
    cards: str
    load: PodLoad
    strategy_pod: StrategyPod | None = None


class RunningPods:
    """Follows the running pods of some machines.

    Args:
        pods: the cache of all pods.
        rows: of the machines, by name.
        model: what pods use.
        seed: of the usage.
    """

    def __init__(
        self, pods: Informer[Pod], rows: Mapping[str, int], model: DemandModel, seed: int
    ) -> None:
        self._pods = pods
        self._rows = rows
        self._model = model
        self._seed = seed
        self._known: dict[str, _RunningPod] = {}
        self._order: list[_RunningPod] = []

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._known.pop(uid, None)

    def all(self) -> list[PodLoad]:
        """The loads of all running pods."""
        self._order = []
        for _key, pod in self._pods.items():  # noqa: PERF102
            row = self._rows.get(pod.spec.node_name)
            if row is not None and pod.status.phase == "Running":
                self._order.append(self._of(pod, row))
        return [each.load for each in self._order]

    def strategy_pods(self) -> list[StrategyPod]:
        """The same pods for strategies, in the same order, as of the last :meth:`all`."""
        found = []
        for each in self._order:
            if each.strategy_pod is None:
                each.strategy_pod = strategy_pod(each.pod)
            found.append(each.strategy_pod)
        return found

    def _of(self, pod: Pod, row: int) -> _RunningPod:
        known = self._known.get(pod.metadata.uid)
        if known is not None and known.pod is pod:
            return known
        cards = pod.metadata.annotations.get(keys.DEVICE_ALLOCATED, "")
        # What a pod uses does not change while it runs, but for its devices.
        load = known.load if known is not None and known.cards == cards else None
        made = _RunningPod(pod, cards, load or pod_load(pod, row, self._model, self._seed))
        self._known[pod.metadata.uid] = made
        return made
