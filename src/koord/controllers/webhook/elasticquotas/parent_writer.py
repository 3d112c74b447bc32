# SPDX-License-Identifier: Apache-2.0
"""Claims a child's minimum of its parent, by one write that holds only of what was judged.

Rule: docs/reference/admission.md#a-parents-minimum.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from http import HTTPStatus
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import annotation, keys
from koord.controllers.webhook.elasticquotas.minimum_claims import MOST_CLAIMS
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    denied,
)
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.base.errors import KoordError
    from koord.controllers.cluster.quota_groups import QuotaGroup
    from koord.controllers.webhook.elasticquotas.quota_state import QuotaState
    from koord.kube.client import Client

TRIES = 8
MOST_WRITTEN = 4096
"""Of how many parents the version of the last write is remembered."""
WRITE_SECONDS = 5.0
"""How long one write may take, with all tries that the client makes of it."""


class ParentWriter:
    """Settles what children take, parent by parent.

    Args:
        client: writes.
        state: what this replica knows.
    """

    def __init__(self, client: Client, state: QuotaState) -> None:
        self._client = client
        self._state = state
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # By parent, until it is written again; the parent may go meanwhile.
        self._written: OrderedDict[str, str] = OrderedDict()

    async def settle(
        self, child: QuotaGroup, request: str, judge: Callable[[], Sequence[KoordError]]
    ) -> AdmissionDecision:
        """Judges, and writes the claim while nobody else has.

        Args:
            child: as it is to be.
            request: uid of the admission request.
            judge: what is wrong with the child, over what is known at that time.
        """
        lock = self._locks.setdefault(child.parent, asyncio.Lock())
        async with lock:
            return await self._settle(child, request, judge)

    async def _settle(
        self, child: QuotaGroup, request: str, judge: Callable[[], Sequence[KoordError]]
    ) -> AdmissionDecision:
        state, name = self._state, child.parent
        version = self._written.pop(name, "")
        for _ in range(TRIES):
            if not await state.seen(name, version):
                return _behind(child)
            errors = judge()
            if errors or state.book.has(name, request):
                return denied(errors)
            parent = state.tree.item(name)
            claims = [*state.book.open(name), state.book.claim(request, child)]
            if parent is None or len(claims) > MOST_CLAIMS:
                return _behind(child)
            written = await self._write(parent, annotation.text(claims))
            if written is not None:
                self._written[name] = written
                if len(self._written) > MOST_WRITTEN:
                    # What is forgotten costs no more than a conflict, and another look.
                    self._written.popitem(last=False)
                return ALLOWED
            version = str(int(parent.metadata.resource_version or 0) + 1)
        return _behind(child)

    async def _write(self, parent: ElasticQuota, text: str) -> str | None:
        """The version that was written; None where another write came before."""
        meta = parent.metadata
        change = Patch.merge(
            {
                "metadata": {
                    "resourceVersion": meta.resource_version,
                    "annotations": {keys.QUOTA_CLAIMS: text},
                }
            }
        )
        try:
            written = await self._client.patch(
                ElasticQuota, meta.name, change, meta.namespace, timeout_seconds=WRITE_SECONDS
            )
        except ApiError as error:
            if error.http_status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                return None
            raise
        return written.metadata.resource_version


def _behind(child: QuotaGroup) -> AdmissionDecision:
    message = (
        f"{child.title}: the minimum of its parent {child.parent} is being shared out by others, "
        "or this replica has not seen its last change yet; try again"
    )
    return AdmissionDecision(False, HTTPStatus.SERVICE_UNAVAILABLE, message)
