# SPDX-License-Identifier: Apache-2.0
"""The limits of pods on the node's network, as their annotations say.

Rule: docs/reference/hooks.md#annotations-that-are-obeyed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol.agent import network_limits_bytes
from koord.base import log
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.agent.states.pod_state import PodState

_LOG = log.get("agent.hooks")


class PodLimits:
    """Reads limits; says once of a pod how its annotation is malformed, until that changes.

    Args:
        hook: the name of who asks, for the log.
    """

    def __init__(self, hook: str) -> None:
        self._hook = hook
        self._malformed: dict[str, str] = {}

    def read(self, pods: Iterable[PodState]) -> dict[str, tuple[int, int]]:
        """Ingress and egress limit in bytes per second by UID, 0 for none.

        A pod whose annotation is malformed is left out.
        """
        limits: dict[str, tuple[int, int]] = {}
        malformed: dict[str, str] = {}
        for state in pods:
            try:
                limits[state.uid] = network_limits_bytes(state.pod) or (0, 0)
            except KoordError as error:
                malformed[state.uid] = why = str(error)
                if self._malformed.get(state.uid) != why:
                    told = log.fields(hook=self._hook, error=why)
                    _LOG.warning("network limits of a pod left out", extra=told)
        self._malformed = malformed
        return limits
