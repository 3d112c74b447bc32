# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests that are not about whole objects: scale, binding, eviction, deletion."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field

from koord.api.codec import to_json
from koord.api.kinds.meta import ObjectMeta
from koord.api.wirestruct import WireStruct, emitted

_encode = msgspec.json.Encoder().encode


class ScaleSpec(WireStruct):
    """How many replicas are wanted."""

    replicas: int = emitted(int)


class ScaleStatus(WireStruct):
    """How many replicas there are."""

    replicas: int = emitted(int)
    selector: str = ""


class Scale(WireStruct):
    """The ``scale`` subresource of ``autoscaling/v1``."""

    api_version: str = "autoscaling/v1"
    kind: str = "Scale"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ScaleSpec = field(default_factory=ScaleSpec)
    status: ScaleStatus = field(default_factory=ScaleStatus)


def delete_options(
    uid: str = "",
    resource_version: str = "",
    grace_period_seconds: int | None = None,
    propagation: str = "",
    dry_run: bool = False,
) -> dict[str, Any]:
    """The document of ``DeleteOptions``.

    Args:
        uid: delete only the object with it.
        resource_version: delete only this version.
        grace_period_seconds: None for the object's own.
        propagation: ``Foreground``, ``Background`` or ``Orphan``; empty for the kind's default.
        dry_run: delete nothing.
    """
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    options: dict[str, Any] = {
        "preconditions": {name: value for name, value in preconditions.items() if value},
        "gracePeriodSeconds": grace_period_seconds,
        "propagationPolicy": propagation,
        "dryRun": ["All"] if dry_run else None,
    }
    head = {"apiVersion": "v1", "kind": "DeleteOptions"}
    return head | {name: value for name, value in options.items() if value not in ({}, "", None)}


class _PodIdentity(msgspec.Struct, omit_defaults=True, gc=False):
    name: str
    namespace: str
    uid: str = ""


class _TargetNode(msgspec.Struct, rename="camel", gc=False):
    name: str
    api_version: str = "v1"
    kind: str = "Node"


class _PodBinding(msgspec.Struct, rename="camel", gc=False):
    """Of every pod one: encoded from structs in half the time that dicts take."""

    metadata: _PodIdentity
    target: _TargetNode
    api_version: str = "v1"
    kind: str = "Binding"


def binding(name: str, namespace: str, uid: str, node: str) -> bytes:
    """A ``Binding`` that puts a pod on a node; with a uid, only that very pod."""
    return _encode(_PodBinding(_PodIdentity(name, namespace, uid), _TargetNode(node)))


def eviction(name: str, namespace: str, options: dict[str, Any]) -> bytes:
    """An ``Eviction`` of a pod."""
    return to_json(
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
    )
