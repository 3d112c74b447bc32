# SPDX-License-Identifier: Apache-2.0
"""What bound pods say of themselves against their requests, or against what was decided.

Rule: docs/reference/scheduling.md#what-a-bound-pod-says. What is contradicted does not count; it
is shown by an event of the pod, by a metric and where a node is explained.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from koord.api.kinds.pod import Pod
from koord.api.protocol.annotation import field_of
from koord.base.errors import KoordError
from koord.controllers.scheduler.invalid.invalid_objects import CONTRADICTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.base.metrics import Metric, MetricRegistry
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.invalid.invalid_objects import InvalidObjects


class Contradictions:
    """Keeps what pods say that does not count, by pod and by the key that says it.

    Args:
        invalid: writes one event a pod and text.
    """

    def __init__(self, invalid: InvalidObjects) -> None:
        self._invalid = invalid
        self._by_pod: dict[str, dict[str, KoordError]] = {}
        self._pods: Metric | None = None

    def measure(self, into: MetricRegistry) -> None:
        """Begins to keep a metric."""
        self._pods = into.gauge(
            "koord_scheduler_contradicted_pods",
            "Bound pods that say what does not count, by the key that says it.",
            ("key",),
        )

    def note(self, pod: Pod, key: str, error: KoordError | None) -> None:
        """Notes what a pod says by one label or annotation; None where all of it counts."""
        uid = pod.metadata.uid
        known = self._by_pod.get(uid)
        before = known.get(key) if known is not None else None
        if str(before) == str(error):
            return
        if error is not None:
            self._by_pod.setdefault(uid, {})[key] = error.copy()
        elif known is not None:
            del known[key]
            if not known:
                del self._by_pod[uid]
        self._count(key, (error is not None) - (before is not None))
        said = next(iter(self._by_pod.get(uid, {}).values()), None)
        self._invalid.judge(Pod, pod, said, CONTRADICTED)

    def overridden(self, pod: PodInfo, key: str, plugin: str) -> None:
        """Notes that a pod says something else by an annotation than was decided here."""
        held = pod.allocations.get(plugin)
        counts = "nothing" if held is None else _in_words(held)
        expected = f"what this scheduler has decided, which is what counts: {counts}"
        value = pod.pod.metadata.annotations.get(key)
        self.note(pod.pod, key, KoordError(pod.pod.title, field_of(key), value, expected))

    def forget(self, pod: Pod) -> None:
        """A pod is gone, or holds nothing any more."""
        found = self._by_pod.pop(pod.metadata.uid, None)
        if found is not None:
            for key in found:
                self._count(key, -1)
            self._invalid.gone(Pod, pod)

    def of(self, uid: str, key: str = "") -> list[str]:
        """What a pod says that does not count, one line a key; of all keys or one."""
        if not self._by_pod:
            return []
        found = self._by_pod.get(uid, {})
        return [str(error) for each, error in sorted(found.items()) if key in ("", each)]

    def of_pods(self, uids: Iterable[str]) -> list[str]:
        """The lines of several pods, sorted."""
        return sorted(line for uid in uids if uid in self._by_pod for line in self.of(uid))

    def _count(self, key: str, change: int) -> None:
        if self._pods is not None and change:
            self._pods.labels(key).inc(change)


def _in_words(held: Any) -> str:
    parts = held if not hasattr(held, "describe") else (held,)
    return json.dumps([part.describe() for part in parts], separators=(",", ":"))
