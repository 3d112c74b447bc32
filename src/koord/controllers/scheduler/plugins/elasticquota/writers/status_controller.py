# SPDX-License-Identifier: Apache-2.0
"""Makes the built-in groups' objects and keeps the status of all quota objects up to date.

Runs while this process leads, so that two schedulers never write against each other. Conflicts and
throttled writes are the client's to repeat; what fails for good is tried again at the next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.quota import ElasticQuota, ElasticQuotaSpec, GroupQuota
from koord.api.protocol import keys
from koord.base import faults, log
from koord.base.errors import KoordError, one_line
from koord.controllers.cluster.quota_objects import group_name
from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import (
    GroupUsage,
    group_usage,
)
from koord.controllers.scheduler.plugins.elasticquota.writers.status import (
    canonical_patch,
    guide_patch,
)
from koord.kernels.quota import DEFAULT, ROOT, SYSTEM
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from koord.api.kinds.meta import ResourceList
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import QuotaLedger
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
        GroupKey,
        QuotaTrees,
    )
    from koord.kube.client import Client

_LOG = log.get("scheduler")
LOOK_SECONDS = 1.0
# Objects that are compared before others get a turn.
_CHUNK = 100
_API = "scheduling.sigs.k8s.io/v1alpha1"


class WrittenStatus(NamedTuple):
    """An object, and the figures with which it was found to agree."""

    item: object
    usage: GroupUsage
    held: dict[str, dict[str, int]]


class QuotaStatusController:
    """Creates the built-in groups' objects and writes the status of all quota objects.

    Args:
        groups: the trees.
        ledger: whose pods, for the guide's status.
        canonical: all objects of ``scheduling.sigs.k8s.io``.
        guides: all objects of ``quota.koordinator.sh``.
        client: writes.
        adjust: has the last word on a patch: object and patch in, patch or None out.
    """

    def __init__(
        self,
        groups: QuotaTrees,
        ledger: QuotaLedger,
        canonical: View[ElasticQuota],
        guides: View[GroupQuota],
        client: Client,
        adjust: Callable[[Any, dict[str, Any] | None], dict[str, Any] | None] = lambda o, p: p,
    ) -> None:
        self._groups = groups
        self._ledger = ledger
        self._canonical = canonical
        self._guides = guides
        self._client = client
        self._adjust = adjust
        self._looked_at: tuple[int, int] | None = None
        # Objects that were found to agree with figures, and those figures.
        self._agreed: dict[tuple[type, str], WrittenStatus] = {}
        self.changes = 0

    async def run(self) -> None:
        """Looks every second until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(LOOK_SECONDS)

    async def step(self) -> int:
        """Compares all objects if anything changed; returns how many were written."""
        state = self._groups.version, self.changes
        if state == self._looked_at:
            return 0
        written, failed = 0, False
        agreed, self._agreed = self._agreed, {}
        for number, item in enumerate(self._objects()):
            if number % _CHUNK == _CHUNK - 1:
                await asyncio.sleep(0)
            try:
                written += await self._bring_up_to_date(item, agreed.get(_identity(item)))
            except Exception as error:
                failed = True
                told = log.fields(quota=item.title, error=one_line(str(error)))
                _LOG.warning("a quota's status is not written", extra=told)
        self._looked_at = None if failed else state
        return written

    async def create_builtin(self, namespace: str, limits: Mapping[str, ResourceList]) -> None:
        """Creates the objects of the built-in groups that are not there.

        Args:
            namespace: where they go; where it is missing, that is logged, and nothing is created.
            limits: group to its ``max``.
        """
        for item in builtin_objects(namespace, limits):
            if self._groups.source(item.metadata.name) is not None:
                continue
            try:
                faults.point("scheduler.quota.create")
                await self._client.create(item)
            except KoordError as error:
                told = log.fields(quota=item.title, error=one_line(str(error)))
                # Somebody else was first; or nobody can, and the trees do without the object.
                _LOG.info("a built-in quota was not created", extra=told)

    def _objects(self) -> list[ElasticQuota | GroupQuota]:
        canonical = sorted(self._canonical.items())
        return [item for _, item in canonical] + [item for _, item in sorted(self._guides.items())]

    async def _bring_up_to_date(
        self, item: ElasticQuota | GroupQuota, agreed: WrittenStatus | None
    ) -> bool:
        place = self._place(item)
        if place is None:
            return False
        now = group_usage(self._groups.tree(place.tree_id), place.group)
        held = self._held(place, now) if isinstance(item, GroupQuota) else {}
        if agreed is None or agreed != WrittenStatus(item, now, held):
            patch = self._adjust(item, _patch(item, now, held))
            if patch is not None:
                await self._write(item, patch)
                return True
        self._agreed[_identity(item)] = WrittenStatus(item, now, held)
        return False

    async def _write(self, item: ElasticQuota | GroupQuota, patch: dict[str, Any]) -> None:
        faults.point("scheduler.quota.status")
        meta = item.metadata
        subresource = "status" if isinstance(item, GroupQuota) else ""
        body = Patch.merge(patch)
        await self._client.patch(type(item), meta.name, body, meta.namespace, subresource)

    def _held(self, place: GroupKey, now: GroupUsage) -> dict[str, dict[str, int]]:
        return {
            entry.pod.pod.metadata.name: {
                name: n for name, n in entry.amounts.forth.items() if name in now.spec.max
            }
            for entry in self._ledger.pods(place.group)
            if entry.used
        }

    def _place(self, item: ElasticQuota | GroupQuota) -> GroupKey | None:
        """The place of the group that follows the object, None if it follows another or none."""
        group = group_name(item)
        source = self._groups.source(group)
        if source is None or source.namespace != item.metadata.namespace:
            return None
        return self._groups.place(group)


def _patch(
    item: ElasticQuota | GroupQuota, now: GroupUsage, held: dict[str, dict[str, int]]
) -> dict[str, Any] | None:
    if isinstance(item, ElasticQuota):
        return canonical_patch(item, now)
    return guide_patch(item, now, held)


def _identity(item: ElasticQuota | GroupQuota) -> tuple[type, str]:
    return type(item), f"{item.metadata.namespace}/{item.metadata.name}"


def builtin_objects(namespace: str, limits: Mapping[str, ResourceList]) -> list[ElasticQuota]:
    """The objects of root, system and default group (docs/reference/quota.md#built-in-groups)."""
    root_labels = {
        keys.QUOTA_IS_PARENT: "true",
        keys.QUOTA_ALLOW_LENT_RESOURCE: "false",
        keys.QUOTA_PARENT: "",
    }
    found = [_object(ROOT, namespace, {}, root_labels)]
    return found + [_object(name, namespace, limits[name], {}) for name in (SYSTEM, DEFAULT)]


def _object(name: str, namespace: str, limit: ResourceList, labels: dict[str, str]) -> ElasticQuota:
    meta = ObjectMeta(name=name, namespace=namespace, labels=labels)
    spec = ElasticQuotaSpec(max=dict(limit))
    return ElasticQuota(api_version=_API, kind="ElasticQuota", metadata=meta, spec=spec)
