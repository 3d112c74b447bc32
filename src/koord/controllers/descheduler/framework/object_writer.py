# SPDX-License-Identifier: Apache-2.0
"""What strategies write beside evictions: annotations of pods, cordons, events.

Rule: docs/reference/descheduling.md#framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base import faults, log
from koord.base.errors import one_line
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch, preconditions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess

_LOG = log.get("descheduler")
_GONE = (404, 409)
"""The object is not there any more, or is another by now."""


class ObjectWriter:
    """The one place where strategies write; without a cluster, and in a dry run, only the log.

    A write is refused where the object is not the one that was judged.

    Args:
        cluster: the way to it; None where rounds run on snapshots alone.
        dry_run: whether nothing may be written.
    """

    def __init__(self, cluster: ClusterAccess | None, *, dry_run: bool = False) -> None:
        self._cluster = None if cluster is None or dry_run or cluster.dry_run else cluster

    async def annotate(
        self, pod: Pod, annotations: Mapping[str, str | None], *, unchanged: bool = False
    ) -> bool:
        """Sets annotations of a pod; None removes one.

        Args:
            pod: as it was judged.
            annotations: by name.
            unchanged: refuses the write where anything of the pod has changed.

        Returns:
            False where the write failed; a pod that is gone needs none, and is no failure.
        """
        if self._cluster is None:
            told = log.fields(pod=pod.title, annotations=dict(annotations))
            _LOG.info("would annotate a pod", extra=told)
            return True
        meta = pod.metadata
        held = preconditions_of(meta) if unchanged else {"uid": meta.uid}
        patch = Patch.merge({"metadata": {**held, "annotations": dict(annotations)}})
        try:
            faults.point("descheduler.annotate")
            await self._cluster.client.patch(Pod, meta.name, patch, meta.namespace)
        except (ApiError, TransportError) as error:
            return _is_gone(error) or _failed(pod, "a pod is not annotated", error)
        return True

    async def cordon(self, node: Node) -> bool:
        """Keeps new pods from a node that took some when it was judged; whether it does now."""
        if self._cluster is None:
            _LOG.info("would cordon a node", extra=log.fields(node=node.metadata.name))
            return True
        held = preconditions_of(node.metadata)
        patch = Patch.merge({"metadata": held, "spec": {"unschedulable": True}})
        return await self._patch_node(node, patch, "descheduler.cordon")

    async def uncordon(self, node: Node) -> bool:
        """Takes back :meth:`cordon`; whether it is taken back."""
        if self._cluster is None:
            _LOG.info("would uncordon a node", extra=log.fields(node=node.metadata.name))
            return True
        # The node has changed since, by the cordon if by nothing else.
        patch = Patch.json([
            {"op": "test", "path": "/metadata/uid", "value": node.metadata.uid},
            {"op": "test", "path": "/spec/unschedulable", "value": True},
            {"op": "remove", "path": "/spec/unschedulable"},
        ])  # fmt: skip
        return await self._patch_node(node, patch, "descheduler.uncordon")

    def warn(self, about: Pod | Node, reason: str, message: str) -> None:
        """Says something of an object as an event of type Warning."""
        if self._cluster is not None:
            self._cluster.events.event(about, "Warning", reason, message)
        _LOG.warning(message, extra=log.fields(object=about.title, reason=reason))

    async def _patch_node(self, node: Node, patch: Patch, point: str) -> bool:
        if self._cluster is None:
            return True
        try:
            faults.point(point)
            await self._cluster.client.patch(Node, node.metadata.name, patch)
        except (ApiError, TransportError) as error:
            return _failed(node, "a node is not cordoned or uncordoned", error)
        return True


def _is_gone(error: ApiError | TransportError) -> bool:
    return isinstance(error, ApiError) and error.http_status in _GONE


def _failed(about: Pod | Node, what: str, error: ApiError | TransportError) -> bool:
    _LOG.warning(what, extra=log.fields(object=about.title, error=one_line(str(error))))
    return False
