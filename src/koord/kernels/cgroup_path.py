# SPDX-License-Identifier: Apache-2.0
"""Where kubelet and container runtimes put cgroups, and back from a directory to its owner.

Paths are relative to a hierarchy. Pure functions; ValueError when a name cannot be one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from koord._native.core import cgroup as _native


class Driver(StrEnum):
    """Kubelet's ``--cgroup-driver``."""

    SYSTEMD = "systemd"
    CGROUPFS = "cgroupfs"


class KubeQos(StrEnum):
    """``status.qosClass`` of a pod."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class HostPath(NamedTuple):
    """``cgroupPath`` of a host application; `base` as on the wire, e.g. ``KubepodsBurstable``."""

    base: str = ""
    parent: str = ""
    relative: str = ""


def qos_directory(driver: Driver, qos: KubeQos) -> str:
    """``kubepods.slice/kubepods-burstable.slice`` and its like; Guaranteed pods lie in the root."""
    return _native.qos_directory(driver, qos)


def pod_directory(driver: Driver, qos: KubeQos, uid: str) -> str:
    """The directory of a pod."""
    return _native.pod_directory(driver, qos, uid)


def container_name(driver: Driver, container_id: str) -> str:
    """The last component of a container's directory, from an id such as ``containerd://HASH``."""
    return _native.container_name(driver, container_id)


def container_directory(driver: Driver, qos: KubeQos, uid: str, container_id: str) -> str:
    """The directory of a container."""
    return _native.container_directory(driver, qos, uid, container_id)


def pod_uid_of(driver: Driver, name: str) -> str:
    """The uid in the name of a pod's directory; systemd's names keep ``_`` for ``-``."""
    return _native.pod_uid_of(driver, name)


def container_hash_of(driver: Driver, name: str) -> str:
    """The hash in the name of a container's directory."""
    return _native.container_hash_of(driver, name)


def qos_of_path(path: str) -> KubeQos:
    """The QoS class that a path tells by the words in it."""
    return KubeQos(_native.qos_of_path(path))


def host_application_directory(
    driver: Driver, name: str, koord_qos: str, path: HostPath | None = None
) -> str:
    """The directory of an application outside Kubernetes, by its koord QoS unless `path` says."""
    return _native.host_application_directory(driver, name, koord_qos, path)
