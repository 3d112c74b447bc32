# SPDX-License-Identifier: Apache-2.0
"""The controller ``quotaprofile``: keeps the root group of each profile's quota tree up to date.

Rule: docs/reference/manager.md#quota-roots; what a root is,
:mod:`koord.controllers.manager.quotaprofile.quota_root`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.quota import ElasticQuota, ElasticQuotaProfile, ElasticQuotaSpec
from koord.api.protocol import keys
from koord.base import faults, log
from koord.base.errors import KoordError, one_line
from koord.controllers.manager.quotaprofile import quota_root
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch, preconditions_of

if TYPE_CHECKING:
    from koord.controllers.manager.dependencies import ControllerDependencies
    from koord.controllers.manager.quotaprofile.quota_root import QuotaRoot

_LOG = log.get("manager.quotaprofile")
_CONFLICT, _NOT_FOUND = 409, 404
# Nodes are not watched for this: they are added up so often.
_ROUND_SECONDS = 10.0
_FAILED_SECONDS = 2.0
# The cache is about to hear of what somebody else wrote.
_AGAIN_SECONDS = 0.2


class QuotaProfiles:
    """The controller.

    Args:
        around: its world.
    """

    def __init__(self, dependencies: ControllerDependencies) -> None:
        self._client = dependencies.client
        self._write_event = dependencies.write_event
        self._profiles = dependencies.views.view(ElasticQuotaProfile)
        self._quotas = dependencies.views.view(ElasticQuota)
        self._nodes = dependencies.views.view(Node)
        self._controller = Controller(
            "quotaprofile",
            self._reconcile,
            metrics=dependencies.metrics.queues,
            supervisor=dependencies.supervisor,
        )
        self._attached = False

    async def run(self) -> None:
        """Works until cancelled."""
        if not self._attached:
            self._attached = True
            self._profiles.on_change(self._added, self._updated)
        await self._controller.run()

    def _added(self, profile: ElasticQuotaProfile) -> None:
        self._controller.queue.add(_key(profile.metadata))

    def _updated(self, old: ElasticQuotaProfile, new: ElasticQuotaProfile) -> None:
        if old.metadata.generation != new.metadata.generation:
            self._controller.queue.add(_key(new.metadata))

    async def _reconcile(self, key: str) -> float | None:
        profile = self._profiles.get(key)
        if profile is None:
            return None
        try:
            if not profile.metadata.labels.get(keys.QUOTA_TREE_ID):
                await self._name_tree(profile)
                return _AGAIN_SECONDS
            wanted = quota_root.root(profile, (node for _, node in self._nodes.items()))
        except (ApiError, TransportError):
            raise
        except (KoordError, ValueError) as error:
            told = log.fields(profile=key, error=one_line(str(error)))
            _LOG.error("a profile cannot be followed", extra=told)
            return _ROUND_SECONDS
        return await self._keep(profile, wanted)

    async def _name_tree(self, profile: ElasticQuotaProfile) -> None:
        label = {"labels": {keys.QUOTA_TREE_ID: quota_root.tree_id(profile)}}
        meta = profile.metadata
        change = {"metadata": {**label, **preconditions_of(meta)}}
        faults.point("manager.quotaprofile.tree")
        await self._client.patch(
            ElasticQuotaProfile, meta.name, Patch.merge(change), meta.namespace
        )

    async def _keep(self, profile: ElasticQuotaProfile, wanted: QuotaRoot) -> float:
        namespace, name = profile.metadata.namespace, profile.spec.quota_name
        if not self._quotas.served:
            return _ROUND_SECONDS
        there = self._quotas.get(f"{namespace}/{name}")
        change = quota_root.changes(there, wanted)
        if there is not None and not change:
            return _ROUND_SECONDS
        try:
            faults.point("manager.quotaprofile.write")
            if there is None:
                await self._client.create(_new(namespace, name, wanted))
            else:
                change.setdefault("metadata", {}).update(preconditions_of(there.metadata))
                await self._client.patch(ElasticQuota, name, Patch.merge(change), namespace)
        except (ApiError, TransportError) as error:
            status = error.http_status if isinstance(error, ApiError) else 0
            if status == _CONFLICT or (status == _NOT_FOUND and there is not None):
                return _AGAIN_SECONDS
            reason, verb = ("CreateQuotaFailed", "create") if there is None else (
                "UpdateQuotaFailed", "update",
            )  # fmt: skip
            text = f"failed to {verb} quota {namespace}/{name}: {one_line(str(error))}"
            self._write_event(profile, "Warning", reason, text)
            _LOG.warning("a quota root is not written", extra=log.fields(error=text))
            return _FAILED_SECONDS
        return _ROUND_SECONDS


def _new(namespace: str, name: str, wanted: QuotaRoot) -> ElasticQuota:
    told = quota_root.changes(None, wanted)["metadata"]
    meta = ObjectMeta(name=name, namespace=namespace, **told)
    return ElasticQuota(metadata=meta, spec=ElasticQuotaSpec(wanted.min, wanted.max))


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
