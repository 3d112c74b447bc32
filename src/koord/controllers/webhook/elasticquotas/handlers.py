# SPDX-License-Identifier: Apache-2.0
"""Answers what is asked about ElasticQuotas of both groups.

Rule: docs/reference/admission.md#elasticquota.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from koord.api.kinds.quota import ElasticQuota, GroupQuota
from koord.api.protocol import quotas
from koord.base.errors import KoordError
from koord.controllers.cluster import quota_validation
from koord.controllers.cluster.quota_groups import group_of, own_problems
from koord.controllers.cluster.quota_objects import quota_object
from koord.controllers.webhook.elasticquotas import quota_changes
from koord.controllers.webhook.elasticquotas.guarantee import guarantee_problems
from koord.controllers.webhook.elasticquotas.parent_writer import ParentWriter
from koord.controllers.webhook.elasticquotas.quota_defaults import (
    fill_defaults,
    has_weight,
    parent_name,
)
from koord.controllers.webhook.elasticquotas.quota_state import QuotaState
from koord.controllers.webhook.elasticquotas.shared_weights import SharedWeights
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    denied,
)
from koord.controllers.webhook.framework.admission_request import Operation
from koord.controllers.webhook.framework.webhook_table import (
    MUTATE_QUOTA,
    VALIDATE_GROUP_QUOTA,
    VALIDATE_QUOTA,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.cluster.quota_groups import QuotaGroup
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies
    from koord.kube.client import Client

DEBUG_PATH = "/elasticQuota"
"""Where the tree is told, under the original's name."""

_LOOKUP_SECONDS = 1.0


class MutateQuota:
    """Fills in what a new quota does not say."""

    def __init__(self, given: HandlerDependencies) -> None:
        self._state = QuotaState.of(given)
        self._client = given.client
        self._weights = SharedWeights(given)

    async def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """See :class:`koord.controllers.webhook.framework.handler.Handler`."""
        if request.operation is not Operation.CREATE:
            return ALLOWED
        item = request.decode(ElasticQuota)  # which names the field that is of the wrong type
        document = request.document()
        await look_up(parent_name(document), self._state, self._client)
        try:
            effects = tuple(fill_defaults(document, request.title, self._state.tree.groups))
        except KoordError as error:
            return denied([error])
        if effects and not request.dry_run and not has_weight(item):
            self._weights.filled(item)
        return AdmissionDecision(document=document if effects else None, effects=effects)


class ValidateQuota:
    """Judges a quota by itself and among the others."""

    def __init__(self, given: HandlerDependencies) -> None:
        self._state = QuotaState.of(given)
        self._client = given.client
        self._gates = given.gates
        self._writer = ParentWriter(given.client, self._state)
        given.debug_pages[DEBUG_PATH] = self._state.tree.document

    async def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """See :class:`koord.controllers.webhook.framework.handler.Handler`."""
        if request.operation is Operation.DELETE:
            item = request.decode_old(ElasticQuota)
            children = self._state.children(item.metadata.name)
            return denied(list(quota_changes.deletion_problems(item, children, self._state.pods)))
        item = request.decode(ElasticQuota)
        old = request.decode_old(ElasticQuota) if request.operation is Operation.UPDATE else None
        for each in (item, old):
            if each is not None and not each.metadata.namespace:
                each.metadata.namespace = request.namespace
        if old is not None and quota_changes.is_unchanged(old, item):
            return ALLOWED
        group = group_of(item)
        await look_up(group.parent, self._state, self._client)
        if old is not None and self._state.children(group.name):
            version = old.metadata.resource_version
            if version and not await self._state.seen(group.name, version):
                message = f"{item.title}: its last change is not seen by this replica; try again"
                return AdmissionDecision(False, HTTPStatus.SERVICE_UNAVAILABLE, message)
        errors = list(self._problems(item, old))
        if errors or request.dry_run or not _takes(group, old):
            return denied(errors)
        return await self._writer.settle(
            group, request.uid, lambda: list(self._problems(item, old))
        )

    def _problems(self, item: ElasticQuota, old: ElasticQuota | None) -> Iterator[KoordError]:
        tree = self._state.tree
        if old is None:
            yield from _name_is_taken(item, self._state)
        else:
            yield from quota_changes.name_problems(item)
        yield from quota_changes.namespace_problems(item, old, tree)
        yield from own_problems(item)
        group = group_of(item)
        if not group.parent:
            return
        if old is not None:
            children = self._state.children(group.name)
            yield from quota_changes.change_problems(
                old, group_of(old), group, children, self._state.pods
            )
        yield from quota_changes.parent_problems(item, tree)
        around = self._state.surroundings(group)
        if group.parent == quotas.ROOT_QUOTA and not group.is_parent:
            for child in around.children:
                yield from quota_validation.tree_problems(group, child, "child")
            return
        fewer = self._gates.enabled("ElasticQuotaEnableUpdateResourceKey")
        yield from quota_validation.problems(group, around, fewer_resources=fewer)
        if self._gates.enabled("ElasticQuotaGuaranteeUsage"):
            yield from guarantee_problems(group, tree)


class ValidateGroupQuota:
    """Judges a quota of the guide's shape, field by field."""

    def __init__(self, given: HandlerDependencies) -> None:
        del given

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """See :class:`koord.controllers.webhook.framework.handler.Handler`."""
        item = request.decode(GroupQuota)
        item.metadata.namespace = item.metadata.namespace or request.namespace
        try:
            quota_object(item)
        except KoordError as error:
            return denied([error])
        return ALLOWED


async def look_up(name: str, state: QuotaState, client: Client) -> None:
    """Waits for a quota that was made a moment ago and is not seen yet; at most a second or two."""
    if name in ("", quotas.ROOT_QUOTA) or name in state.tree.groups:
        return
    found = await client.list(
        ElasticQuota, field_selector=f"metadata.name={name}", timeout_seconds=_LOOKUP_SECONDS
    )
    if found.items:
        await state.seen(name, "")


def _name_is_taken(item: ElasticQuota, state: QuotaState) -> Iterator[KoordError]:
    name = item.metadata.name
    there = state.tree.item(name)
    if there is not None:
        expected = f"a name that no quota has; {there.title} has it"
        yield KoordError(item.title, "metadata.name", name, expected)


def _takes(group: QuotaGroup, old: ElasticQuota | None) -> bool:
    """Whether a quota wants more of its parent than it had, or is new below it."""
    if group.parent in ("", quotas.ROOT_QUOTA):
        return False
    if old is None:
        return True
    before = group_of(old)
    if before.parent != group.parent:
        return True
    return any(amount > before.min.get(name, 0) for name, amount in group.min.items())


HANDLERS: Mapping[str, Callable[[HandlerDependencies], Handler]] = {
    MUTATE_QUOTA: MutateQuota,
    VALIDATE_QUOTA: ValidateQuota,
    VALIDATE_GROUP_QUOTA: ValidateGroupQuota,
}
