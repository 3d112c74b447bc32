# SPDX-License-Identifier: Apache-2.0
"""Which replica of koord-webhook writes certificate and configurations; all of them answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.base import log
from koord.kube.election import LeadLostError

if TYPE_CHECKING:
    from koord.kube.election import LeaderElector

LEASE = "koord-webhook"
"""The Lease of the lead."""

_LOG = log.get("webhook")


class WriterLead:
    """The lead among replicas; one that loses it stands for it again, and serves on.

    Args:
        elector: of :data:`LEASE`.
    """

    def __init__(self, elector: LeaderElector) -> None:
        self._elector = elector

    def leading(self) -> bool:
        """Whether this process may write."""
        return self._elector.leading

    async def run(self) -> None:
        """Stands for the lead until cancelled."""
        while True:
            try:
                await self._elector.lead(asyncio.Event().wait)
            except LeadLostError as error:
                _LOG.warning("lead lost", extra=log.fields(error=str(error)))
