# SPDX-License-Identifier: Apache-2.0
"""What the built-in controllers read, and the kinds they read and write.

Pods and nodes are many: they are decoded to the fields of :mod:`koord.api`. Owners are few, and
their specs are copied into what they own: metadata is typed, ``spec`` and ``status`` stay plain
documents.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.meta import LabelSelector, Object, ObjectMeta, OwnerReference
from koord.api.kinds.registry import KINDS, Kind
from koord.api.schema import FreeForm
from koord.api.timestamps import seconds_text
from koord.base.documents import Document

if TYPE_CHECKING:
    from collections.abc import Iterable


class Owner(Object):
    """An object with a ``spec`` and a ``status`` that are plain documents."""

    spec: FreeForm = {}  # noqa: RUF012 - msgspec copies empty defaults
    status: FreeForm = {}  # noqa: RUF012


class Revision(Object):
    """A ControllerRevision: one state of a template."""

    data: FreeForm = {}  # noqa: RUF012
    revision: int = 0


_CORE = {kind.name: kind for kind in KINDS if not kind.custom}

POD = _CORE["Pod"]
SERVICE = _CORE["Service"]
NODE = _CORE["Node"]
NAMESPACE = _CORE["Namespace"]
CONFIG_MAP = _CORE["ConfigMap"]
LEASE = _CORE["Lease"]
DEPLOYMENT = _CORE["Deployment"]
REPLICA_SET = _CORE["ReplicaSet"]
STATEFUL_SET = _CORE["StatefulSet"]
DAEMON_SET = _CORE["DaemonSet"]
JOB = _CORE["Job"]
PDB = _CORE["PodDisruptionBudget"]
CONTROLLER_REVISION = Kind(
    "apps", "v1", "ControllerRevision", "controllerrevisions", True, "meta.Object"
)
CLAIM = _CORE["PersistentVolumeClaim"]
VOLUME = _CORE["PersistentVolume"]
STORAGE_CLASS = _CORE["StorageClass"]
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, "meta.Object")


def key_of(metadata: ObjectMeta) -> str:
    """``namespace/name``, or the name alone for what lives in no namespace."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def split_key(key: str) -> tuple[str, str]:
    """Namespace (empty for none) and name of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The owner that manages an object; there is at most one."""
    return next((ref for ref in metadata.owner_references if ref.controller), None)


def controller_reference(owner: Object, kind: Kind) -> Document:
    """The owner reference that a controller writes into what it makes."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_of(document: Document | None) -> LabelSelector | None:
    """A label selector from its document."""
    return None if document is None else codec.convert(document, LabelSelector, "selector")


def timestamp(seconds: float) -> str:
    """Wall time as the API writes it: RFC 3339 in whole seconds."""
    return seconds_text(seconds)


def seconds_of(time: datetime | str | None) -> float:
    """Seconds since the epoch of a time, as decoded or as RFC 3339 text; 0 for none."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return time.timestamp() if time else 0.0


def oldest_first(objects: Iterable[Any]) -> list[Any]:
    """In order of creation, then of name."""
    return sorted(
        objects, key=lambda o: (seconds_of(o.metadata.creation_timestamp), o.metadata.name)
    )


def scaled(value: int | str | None, total: int, round_up: bool, default: int | str = 0) -> int:
    """A number, or a percentage of a total (apimachinery's ``intstr``).

    Raises:
        ValueError: text that is no percentage.
    """
    value = default if value is None else value
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"got {value!r}, expected a number or a percentage")
    percent = int(value[:-1])
    return -(-percent * total // 100) if round_up else percent * total // 100
