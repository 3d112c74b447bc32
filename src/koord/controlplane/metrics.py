# SPDX-License-Identifier: Apache-2.0
"""The server's metrics: requests as they come, the rest looked up when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base import metrics

if TYPE_CHECKING:
    from koord.base.metrics import Metric
    from koord.controlplane.storage.store import Store
    from koord.controlplane.storage.watch import WatchCursor


class ServerMetrics:
    """What ``/metrics`` shows; kube-apiserver's names where it has the same figure."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.registry = metrics.registry()
        self._requests = self.registry.counter(
            "apiserver_request_total", "Requests answered.", ("verb", "code")
        )
        self._watches = self.registry.gauge("koord_controlplane_watches", "Watches that are open.")
        self._objects = self.registry.gauge(
            "apiserver_resource_objects", "Objects stored.", ("resource",)
        )
        self._changes = self.registry.gauge(
            "koord_controlplane_log_changes", "Changes that watches can resume from.",
            ("resource",),
        )  # fmt: skip
        self._bytes = self.registry.gauge(
            "koord_controlplane_log_bytes", "Text of these changes.", ("resource",)
        )
        self._version = self.registry.gauge(
            "koord_controlplane_resource_version", "Version of the last change."
        )
        self._counted: dict[tuple[str, int], Metric] = {}

    def count(self, method: str, status: int) -> None:
        """One request has been answered."""
        counter = self._counted.get((method, status))
        if counter is None:
            counter = self._requests.labels(method, str(status))
            self._counted[method, status] = counter
        counter.inc()

    def follow(self, watch: WatchCursor) -> None:
        """A watch has been opened."""
        self._watches.inc()
        watch.when_ended(lambda _: self._watches.inc(-1))

    def expose(self) -> bytes:
        """Everything, in Prometheus' text format."""
        self._version.set(self._store.version)
        for collection in self._store.collections():
            name = collection.storage
            self._objects.labels(name).set(len(collection.entries))
            self._changes.labels(name).set(len(collection.log))
            self._bytes.labels(name).set(collection.log_bytes)
        return self.registry.expose()
