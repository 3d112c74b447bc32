# SPDX-License-Identifier: Apache-2.0
"""Pods and nodes as admission remembers them: who they are, and which quota a pod names.

Rules judge the pod of a request, which comes whole with it. Of pods that are there they ask for no
more than whether there is one, which it is, and its labels, so that a pod costs admission a third
of what it costs a scheduler.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import field

from koord.api.kinds.meta import ObjectMeta, OwnerReference
from koord.api.kinds.node import Node, NodeSpec, NodeStatus
from koord.api.kinds.pod import Pod, PodSpec, PodStatus

# No field of a JSON object is called so on the wire.
_NEVER = "-{}"
_EMPTY_SPEC, _EMPTY_STATUS = PodSpec(), PodStatus()
_NODE_SPEC, _NODE_STATUS = NodeSpec(), NodeStatus()


def _skipped(name: str, empty: Any) -> Any:
    return field(default=empty, name=_NEVER.format(name))


class AdmittedPodMeta(ObjectMeta):
    """Names, uid, version and labels."""

    generate_name: str = _skipped("generateName", "")
    generation: int = _skipped("generation", 0)
    creation_timestamp: datetime | None = _skipped("creationTimestamp", None)
    deletion_timestamp: datetime | None = _skipped("deletionTimestamp", None)
    deletion_grace_period_seconds: int | None = _skipped("deletionGracePeriodSeconds", None)
    annotations: dict[str, str] = _skipped("annotations", {})
    owner_references: list[OwnerReference] = _skipped("ownerReferences", [])
    finalizers: list[str] = _skipped("finalizers", [])


class AdmittedPod(Pod):
    """A pod of which spec and status are never read; all have the same empty ones."""

    metadata: AdmittedPodMeta = field(default_factory=AdmittedPodMeta)
    spec: PodSpec = field(default_factory=lambda: _EMPTY_SPEC, name=_NEVER.format("spec"))
    status: PodStatus = field(default_factory=lambda: _EMPTY_STATUS, name=_NEVER.format("status"))


class AdmittedNode(Node):
    """A node that is there; the same of its metadata, and nothing else, is kept."""

    metadata: AdmittedPodMeta = field(default_factory=AdmittedPodMeta)
    spec: NodeSpec = field(default_factory=lambda: _NODE_SPEC, name=_NEVER.format("spec"))
    status: NodeStatus = field(default_factory=lambda: _NODE_STATUS, name=_NEVER.format("status"))
