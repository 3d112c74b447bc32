# SPDX-License-Identifier: Apache-2.0
"""Which pods belong together because something selects them: for default constraints.

Kubernetes: DefaultSelector in pkg/scheduler/framework/plugins/helper. All Services that select the
pod, and the ReplicationController, ReplicaSet or StatefulSet that owns it, narrow the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api import selectors
from koord.api.kinds.meta import LabelSelector, LabelSelectorRequirement
from koord.api.kinds.service import ReplicationController, Service
from koord.api.kinds.workloads import ReplicaSet, StatefulSet
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.framework.handle import Handle


class DefaultSelectors:
    """Services and owners of pods.

    Attributes:
        version: counts their changes.
    """

    def __init__(self, handle: Handle) -> None:
        self.version = 0
        self._table = handle.table
        self._services: dict[str, dict[str, dict[str, str]]] = {}
        self._controllers = handle.view(ReplicationController)
        self._sets: dict[str, View[Any]] = {
            "ReplicaSet": handle.view(ReplicaSet),
            "StatefulSet": handle.view(StatefulSet),
        }
        handle.view(Service).on_change(self._put, lambda _, new: self._put(new), self._drop)
        owners: tuple[View[Any], ...] = (self._controllers, *self._sets.values())
        for view in owners:
            view.on_change(self._changed, self._updated, self._changed)

    @property
    def services(self) -> bool:
        """Whether there is any Service."""
        return bool(self._services)

    def selector(self, shape: PodShape) -> LabelSelector | None:
        """What selects pods of a shape together; None for nothing."""
        labels: dict[str, str] = {}
        for _, wanted in sorted(self._services.get(shape.namespace, {}).items()):
            if wanted and all(shape.labels.get(key) == value for key, value in wanted.items()):
                labels.update(wanted)
        expressions: list[LabelSelectorRequirement] = []
        owner = shape.owner
        if owner is not None:
            key = f"{shape.namespace}/{owner.name}"
            if owner.kind == "ReplicationController" and owner.api_version == "v1":
                controller = self._controllers.get(key)
                if controller is not None:
                    labels.update(controller.spec.selector)
            elif owner.kind in self._sets and owner.api_version.startswith("apps/"):
                expressions = _expressions(self._sets[owner.kind].get(key))
        if not labels and not expressions:
            return None
        return LabelSelector(labels, expressions)

    def _moved(self) -> None:
        """Other pods than before may be selected, so that others have default constraints."""
        self.version += 1
        self._table.advance_generation()

    def _put(self, service: Service) -> None:
        meta = service.metadata
        services = self._services.setdefault(meta.namespace, {})
        if services.get(meta.name) != service.spec.selector:
            services[meta.name] = service.spec.selector
            self._moved()

    def _drop(self, service: Service, unknown: bool) -> None:
        meta = service.metadata
        services = self._services.get(meta.namespace, {})
        services.pop(meta.name, None)
        if not services:
            self._services.pop(meta.namespace, None)
        self._moved()

    def _changed(self, owner: Any, unknown: bool = False) -> None:
        self._moved()

    def _updated(self, old: Any, new: Any) -> None:
        if old.spec.selector != new.spec.selector:
            self._moved()


def _expressions(owner: ReplicaSet | StatefulSet | None) -> list[LabelSelectorRequirement]:
    selector = owner.spec.selector if owner is not None else None
    if selector is None:
        return []
    try:
        selectors.check(selector, "", "selector")
    except KoordError:
        return []  # an owner that the API should not have let in selects nothing
    equal = [
        LabelSelectorRequirement(key=key, operator="In", values=[value])
        for key, value in sorted(selector.match_labels.items())
    ]
    return [*equal, *selector.match_expressions]
