# SPDX-License-Identifier: Apache-2.0
"""Evictions through the API: budgets hold, and the pod gets an event.

Rule: docs/reference/descheduling.md#defaultevictor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base import faults, log
from koord.base.errors import one_line
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.meta import Object
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.points import PodEviction
    from koord.kube.client import Client

    WriteEvent = Callable[[Object, str, str, str], None]

_LOG = log.get("descheduler")


class PodEvictions:
    """Evicts pods by the eviction subresource.

    Args:
        client: the way to the API server.
        write_event: of an object: its type, reason and message.
        grace_period_seconds: of every eviction; None for the pod's own.
        events_of_failures: whether an eviction that fails is an event of its pod.

    Attributes:
        why: the last eviction did not take place, in one line.
    """

    def __init__(
        self,
        client: Client,
        write_event: WriteEvent,
        grace_period_seconds: int | None = None,
        events_of_failures: bool = False,
    ) -> None:
        self._client = client
        self._write_event = write_event
        self._grace_period_seconds = grace_period_seconds
        self._events_of_failures = events_of_failures
        self.why = ""

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        """Whether the API server took the eviction; it refuses what a budget does not allow.

        The pod has to be the one that was judged: one that was made anew under its name stays.
        """
        meta, grace = pod.metadata, request.delete_options.grace_period_seconds
        try:
            faults.point("descheduler.evict")
            await self._client.evict(
                meta.name,
                meta.namespace,
                uid=meta.uid,
                grace_period_seconds=self._grace_period_seconds if grace is None else grace,
            )
        except (ApiError, TransportError) as error:
            self._report(pod, request, one_line(str(error)))
            return False
        reason = request.reason or request.plugin
        self._write_event(pod, "Normal", "Descheduled", f"pod evicted by {reason}")
        return True

    def _report(self, pod: Pod, request: PodEviction, why: str) -> None:
        self.why = why
        fields = log.fields(pod=pod.title, strategy=request.plugin, error=why)
        _LOG.warning("a pod is not evicted", extra=fields)
        if self._events_of_failures:
            text = f"eviction by {request.plugin} failed: {why}"
            self._write_event(pod, "Warning", "EvictionFailed", text)
