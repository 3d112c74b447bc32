# SPDX-License-Identifier: Apache-2.0
"""What profiles tell of themselves: the condition ``Valid``, False while one is passed over, with
the reason, and an event.

Rule: docs/reference/admission.md#profiles-on-new-pods. Every replica of admission may find out, and
the manager's controller; each write is on the condition of the version that was judged, so that
they don't undo each other's.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from koord.api import codec
from koord.api.kinds.meta import Condition
from koord.api.kinds.profile import VALID, ClusterColocationProfile
from koord.base import log
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.clock import Clock
    from koord.base.errors import KoordError
    from koord.base.supervision import Supervisor
    from koord.kube.client import Client

REASON = "InvalidColocationProfile"
_LOG = log.get("profiles")
_LONGEST_MESSAGE = 1024
_GONE_OR_CHANGED = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class ProfileConditions:
    """Writes conditions, one after the other, beside the answers.

    Args:
        client: writes.
        clock: says when.
        supervisor: counts what fails.
        write_event: ``(object, type, reason, message)``.
        name: of the loop, :meth:`run`, which its owner keeps going.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        supervisor: Supervisor,
        write_event: Callable[..., None],
        name: str,
    ) -> None:
        self._client, self._clock = client, clock
        self._supervisor, self._write_event, self._name = supervisor, write_event, name
        self._due: dict[str, tuple[ClusterColocationProfile, Condition]] = {}
        self._reported: dict[str, tuple[str, int]] = {}
        self._wake = asyncio.Event()

    def report(self, profile: ClusterColocationProfile, error: KoordError) -> None:
        """Says of a profile that it cannot be used; once for each version of its spec."""
        version = (profile.metadata.uid, profile.metadata.generation)
        if self._reported.get(profile.metadata.name) == version:
            return
        self._reported[profile.metadata.name] = version
        _LOG.warning("a profile is skipped", extra=log.fields(error=str(error)))
        self._write_event(profile, "Warning", REASON, str(error))
        self.mark(profile, error)

    def forget(self, name: str) -> None:
        """A profile is gone."""
        self._reported.pop(name, None)
        self._due.pop(name, None)

    def mark(self, profile: ClusterColocationProfile, error: KoordError | None) -> None:
        """Takes note that a profile can be used, or why not; writes later where that is new.

        What was found wrong while a profile was applied holds until its spec changes.

        Args:
            profile: as the API server has it.
            error: None where it can be used, as far as can be told without a pod.
        """
        meta = profile.metadata
        former = next((each for each in profile.status.conditions if each.type == VALID), None)
        if error is None:
            self._due.pop(meta.name, None)
            is_new = former is not None and former.status == "False"
            if not is_new or (former is not None and former.observed_generation >= meta.generation):
                return
        status, reason = ("True", "Usable") if error is None else ("False", error.code.value)
        message = "" if error is None else str(error)[:_LONGEST_MESSAGE]
        wanted = Condition(
            type=VALID, status=status, reason=reason, message=message,
            last_transition_time=datetime.fromtimestamp(int(self._clock.wall_seconds()), UTC),
            observed_generation=meta.generation,
        )  # fmt: skip
        if former is not None and former.status == status:
            wanted.last_transition_time = former.last_transition_time
            if former == wanted:
                return
        self._due[meta.name] = (profile, wanted)
        self._wake.set()

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                _, (profile, condition) = self._due.popitem()
                with self._supervisor.round(self._name):
                    await self._write(profile, condition)

    async def _write(self, profile: ClusterColocationProfile, condition: Condition) -> None:
        others = [each for each in profile.status.conditions if each.type != VALID]
        change = {
            "metadata": {"resourceVersion": profile.metadata.resource_version},
            "status": {"conditions": codec.to_document([*others, condition])},
        }
        try:
            await self._client.patch(
                ClusterColocationProfile, profile.metadata.name, Patch.merge(change),
                subresource="status",
            )  # fmt: skip
        except ApiError as error:
            if error.http_status not in _GONE_OR_CHANGED:
                raise
