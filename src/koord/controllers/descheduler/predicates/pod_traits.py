# SPDX-License-Identifier: Apache-2.0
"""What kind of pod it is, as far as it says whether it may go.

Rule: docs/reference/descheduling.md#defaultevictor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.pod import Pod

SYSTEM_CRITICAL = 2_000_000_000
"""The least priority of Kubernetes' own classes for the system."""


def is_mirror(pod: Pod) -> bool:
    """Whether it stands for a static pod."""
    return keys.MIRROR_POD in pod.metadata.annotations


def is_static(pod: Pod) -> bool:
    """Whether a kubelet read it from another place than the API."""
    return pod.metadata.annotations.get(keys.CONFIG_SOURCE, "api") != "api"


def is_of_daemon_set(pod: Pod) -> bool:
    """Whether a DaemonSet owns it."""
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


def is_system_critical(pod: Pod) -> bool:
    """Whether its priority is one of the system's."""
    return pod.spec.priority is not None and pod.spec.priority >= SYSTEM_CRITICAL


def has_local_storage(pod: Pod) -> bool:
    """Whether it has a volume that lies on its node."""
    return any("hostPath" in volume or "emptyDir" in volume for volume in pod.spec.volumes)


def claim_names(pod: Pod) -> Iterator[str]:
    """Names of the PersistentVolumeClaims that its volumes name."""
    for volume in pod.spec.volumes:
        source = volume.get("persistentVolumeClaim")
        if isinstance(source, dict):
            yield str(source.get("claimName", ""))


def asks_to_be_evicted(pod: Pod) -> bool:
    """Whether its annotation opens every filter; the value says nothing."""
    return keys.DESCHEDULER_EVICT in pod.metadata.annotations


def prefers_no_eviction(pod: Pod) -> bool:
    """Whether its annotation asks to be left alone."""
    return keys.PREFER_NO_EVICTION in pod.metadata.annotations
