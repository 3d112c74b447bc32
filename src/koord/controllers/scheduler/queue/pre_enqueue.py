# SPDX-License-Identifier: Apache-2.0
"""PreEnqueue: plugins that hold a pod back before it is tried at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base import log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.queue.options import QueueProfile
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod

_LOG = log.get("scheduler")


class PreEnqueuePlugins:
    """The PreEnqueue plugins of all profiles."""

    def __init__(self, profiles: Mapping[str, QueueProfile]) -> None:
        self._of = {name: tuple(p.pre_enqueue) for name, p in profiles.items() if p.pre_enqueue}

    def passes(self, pod: QueuedPod) -> bool:
        """Whether no plugin holds the pod back; notes in the pod who does, and why.

        The one that did last is asked first, since it is the likeliest to do so still.
        """
        gates = self._of.get(pod.profile)
        if not gates:
            return True
        last = pod.gated_by
        for name, check in sorted(gates, key=lambda gate: gate[0] != last) if last else gates:
            try:
                reason = check(pod.info)
            except Exception as error:
                _LOG.exception(
                    "a PreEnqueue plugin failed", extra=log.fields(plugin=name, pod=pod.info.key)
                )
                reason = error.with_traceback(None)  # It is kept as long as the pod waits.
            if reason is not None:
                pod.gated_by, pod.gate_reason = name, reason
                return False
        pod.gated_by, pod.gate_reason = "", None
        return True
