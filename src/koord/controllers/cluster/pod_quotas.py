# SPDX-License-Identifier: Apache-2.0
"""Which quota a pod uses, as admission finds it.

Rules: docs/reference/admission.md#quota-membership, docs/reference/quota-scheduling.md#reach.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys, quotas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.controllers.cluster.views import View

_NEVER = datetime.max.replace(tzinfo=UTC)


class PodQuotas:
    """Quotas by name, and by the namespaces whose pods use them.

    Of several of one name the oldest counts, then the first by namespace.

    Args:
        view: of quotas.
        reaches: ``(namespace of a quota, namespace of a pod)``; None where all quotas reach all.
    """

    def __init__(
        self, view: View[ElasticQuota], reaches: Callable[[str, str], bool] | None = None
    ) -> None:
        self._reaches = reaches or (lambda quotas_of, namespace: True)
        self._by_name: dict[str, dict[str, ElasticQuota]] = {}
        self._bound: dict[str, dict[str, None]] = {}
        view.on_change(self._put, self._changed, lambda gone, _: self._remove(gone))

    def named(self, name: str, namespace: str) -> ElasticQuota | None:
        """The quota of a name that pods of a namespace may use; None for one out of reach."""
        found = self._object(name)
        if found is None or not self._reaches(found.metadata.namespace, namespace):
            return None
        return found

    def bound_to(self, namespace: str) -> ElasticQuota | None:
        """The quota that lists a namespace; of several the first by name."""
        for name in sorted(self._bound.get(namespace, ())):
            found = self.named(name, namespace)
            if found is not None and namespace in quotas.namespaces(found):
                return found
        return None

    def name_for(
        self, labels: Mapping[str, str], namespace: str, *, by_label_alone: bool = False
    ) -> str:
        """The name of a pod's quota, whether or not there is one; empty for none.

        Args:
            labels: of the pod.
            namespace: of the pod.
            by_label_alone: the namespace does not count.
        """
        name = labels.get(keys.QUOTA_NAME, "")
        if name and self._object(name) is not None and self.named(name, namespace) is None:
            name = ""
        if name or by_label_alone:
            return name
        if namespace in self._by_name.get(namespace, ()):
            return namespace
        bound = self.bound_to(namespace)
        return bound.metadata.name if bound is not None else quotas.DEFAULT_QUOTA

    def is_out_of_reach(self, labels: Mapping[str, str], namespace: str) -> bool:
        """Whether a pod names a quota that there is and that is not for its namespace."""
        found = self._object(labels.get(keys.QUOTA_NAME, ""))
        return found is not None and not self._reaches(found.metadata.namespace, namespace)

    def _object(self, name: str) -> ElasticQuota | None:
        found = self._by_name.get(name)
        if not found:
            return None
        return min(
            found.values(),
            key=lambda item: (item.metadata.creation_timestamp or _NEVER, item.metadata.namespace),
        )

    def _changed(self, old: ElasticQuota, new: ElasticQuota) -> None:
        self._remove(old)
        self._put(new)

    def _put(self, item: ElasticQuota) -> None:
        meta = item.metadata
        self._by_name.setdefault(meta.name, {})[meta.namespace] = item
        for namespace in quotas.namespaces(item):
            self._bound.setdefault(namespace, {})[meta.name] = None

    def _remove(self, item: ElasticQuota) -> None:
        meta = item.metadata
        same = self._by_name.get(meta.name, {})
        same.pop(meta.namespace, None)
        if not same:
            self._by_name.pop(meta.name, None)
        listed = {each for other in same.values() for each in quotas.namespaces(other)}
        for namespace in quotas.namespaces(item):
            if namespace not in listed:
                self._bound.get(namespace, {}).pop(meta.name, None)
                if not self._bound.get(namespace):
                    self._bound.pop(namespace, None)
