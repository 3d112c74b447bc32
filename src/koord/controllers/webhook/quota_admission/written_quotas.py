# SPDX-License-Identifier: Apache-2.0
"""Quotas as this replica wrote or read them last, until the cache has caught up."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from koord.api.kinds.quota import ElasticQuota
from koord.controllers.webhook.elasticquotas.quota_state import at_version

if TYPE_CHECKING:
    from koord.controllers.cluster.views import View
    from koord.kube.client import Client

MOST_KEPT = 100
READ_SECONDS = 2.0


class WrittenQuotas:
    """The newest known state of each quota: the cache's, or one that is newer.

    Args:
        client: reads past the cache.
        view: of all quotas.
    """

    def __init__(self, client: Client, view: View[ElasticQuota]) -> None:
        self._client = client
        self._view = view
        self._kept: OrderedDict[str, ElasticQuota] = OrderedDict()

    def newest(self, key: str) -> ElasticQuota | None:
        """A quota by ``namespace/name``; None where it is not known."""
        cached, kept = self._view.get(key), self._kept.get(key)
        if kept is None or (cached is not None and at_version(cached) >= at_version(kept)):
            self._kept.pop(key, None)
            return cached
        return kept

    def keep(self, key: str, quota: ElasticQuota) -> None:
        """Remembers what was written or read."""
        self._kept[key] = quota
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    async def newer(self, key: str, than: ElasticQuota, *, fresh: bool) -> ElasticQuota | None:
        """A quota after a write on one of its states was refused.

        Args:
            key: which.
            than: the state that was refused, so that it is not tried again.
            fresh: whether to read past the cache even where that has a newer one.
        """
        known = self.newest(key)
        if known is not None and not fresh and at_version(known) > at_version(than):
            return known
        meta = than.metadata
        listed = await self._client.list(
            ElasticQuota,
            namespace=meta.namespace,
            field_selector=f"metadata.name={meta.name}",
            timeout_seconds=READ_SECONDS,
        )
        for found in listed.items:
            self.keep(key, found)
        return listed.items[0] if listed.items else None
