# SPDX-License-Identifier: Apache-2.0
"""A cluster as a list of objects, from files or an API server: what a plan is worked out from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.meta import Object
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import PodGroup
from koord.api.kinds.storage import PersistentVolumeClaim
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.base.errors import KoordError
from koord.controllers.cluster import transforms
from koord.controllers.descheduler.config.load import selects_node
from koord.controllers.descheduler.snapshot import ClusterSnapshot, is_ready
from koord.controllers.scheduler.config.defaults import DEFAULT_SCHEDULER_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controllers.descheduler.config.load import DeschedulerConfiguration

KindT = TypeVar("KindT", bound=Object)
_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True)
class SnapshotObjects:
    """Objects of one moment, each once, by kind, namespace and name, however they came.

    Attributes:
        objects: of all kinds.
    """

    objects: tuple[Object, ...]

    @classmethod
    def of(cls, objects: Iterable[Object], source: str) -> SnapshotObjects:
        """What manifests leave out is filled in: the namespace, and the uid by the pod's name.

        Args:
            objects: as they were read.
            source: what to call them in errors.

        Raises:
            KoordError: an object is there twice.
        """
        seen = set[tuple[type, str, str]]()
        complete = []
        for each in objects:
            whole = _complete(each)
            meta = whole.metadata
            key = type(whole), meta.namespace, meta.name
            if type(whole) is not Object and key in seen:
                title = f"{type(whole).__name__} {meta.namespace}/{meta.name}".replace(" /", " ")
                raise KoordError(source, "", title, "every object once")
            seen.add(key)
            complete.append(whole)
        return cls(tuple(sorted(complete, key=_place)))

    def cluster(self, configuration: DeschedulerConfiguration) -> ClusterSnapshot:
        """What strategies see: ready nodes that the configuration selects, and all else.

        Nodes offer what their reservation leaves, as in the program.
        """
        nodes = [
            transforms.node(node)
            for node in self._all(Node)
            if is_ready(node) and selects_node(configuration, node.metadata.labels)
        ]
        return ClusterSnapshot(
            sorted(nodes, key=lambda node: node.metadata.name),
            [transforms.pod(pod) for pod in self._all(Pod)],
            {each.metadata.name: each for each in self._all(Namespace)},
            {each.metadata.name: each for each in self._all(PriorityClass)},
            self._all(PodDisruptionBudget),
            {
                (each.metadata.namespace, each.metadata.name): each
                for each in self._all(PersistentVolumeClaim)
            },
            {each.metadata.name: each for each in self._all(NodeMetric)},
            pod_groups=self._all(PodGroup),
        )

    def seconds(self) -> float | None:
        """The moment: when the last node reported its load; None where none did."""
        times = [
            each.status.update_time.timestamp()
            for each in self._all(NodeMetric)
            if each.status.update_time is not None
        ]
        return max(times, default=None)

    def scheduler_names(self) -> list[str]:
        """The schedulers that pods name, sorted."""
        return sorted({pod.spec.scheduler_name for pod in self._all(Pod)})

    def _all(self, kind: type[KindT]) -> list[KindT]:
        return [each for each in self.objects if isinstance(each, kind)]


def _place(value: Object) -> tuple[str, str, str]:
    return type(value).__name__, value.metadata.namespace, value.metadata.name


def _complete(value: Object) -> Object:
    """A pod has a namespace, a uid and a scheduler, whatever its manifest says."""
    if not isinstance(value, Pod):
        return value
    meta = value.metadata
    namespace = meta.namespace or _DEFAULT_NAMESPACE
    uid = meta.uid or f"{namespace}/{meta.name}"
    scheduler = value.spec.scheduler_name or DEFAULT_SCHEDULER_NAME
    return replace(
        value,
        metadata=replace(meta, namespace=namespace, uid=uid),
        spec=replace(value.spec, scheduler_name=scheduler),
    )
