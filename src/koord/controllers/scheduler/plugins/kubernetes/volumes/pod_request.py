# SPDX-License-Identifier: Apache-2.0
"""What a pod requests of volumes: its claims, and disks that it names itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.controllers.cluster.pods import PodInfo, PodShape

_MEMO = "volumes"
DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")
_THAT_MATTER = frozenset(("persistentVolumeClaim", "ephemeral", *DISKS))


class VolumeRequest(NamedTuple):
    """The volumes of pods of a shape that matter.

    Attributes:
        claims: names of claims, in order, each with whether it is made for the pod alone; then the
            name is that of the volume, and the claim's begins with the pod's.
        disks: volumes of the kinds in :data:`DISKS`, as the pod has them.
    """

    claims: tuple[tuple[str, bool], ...]
    disks: tuple[dict[str, Any], ...]


class ClaimName(NamedTuple):
    """A claim of one pod: its name, its key, and whether it must belong to the pod."""

    name: str
    key: str
    ephemeral: bool


_NO_VOLUMES = VolumeRequest((), ())


def volume_request_of(shape: PodShape) -> VolumeRequest:
    """What pods of a shape want; :data:`_NO_VOLUMES` for most."""
    wants: VolumeRequest | None = shape.memo.get(_MEMO)
    if wants is None:
        wants = shape.memo[_MEMO] = _read(shape.pod.spec.volumes)
    return wants


def claims_of(pod: PodInfo) -> Iterator[ClaimName]:
    """The claims of a pod, in order."""
    namespace = pod.shape.namespace
    for name, ephemeral in volume_request_of(pod.shape).claims:
        full = f"{pod.pod.metadata.name}-{name}" if ephemeral else name
        yield ClaimName(full, f"{namespace}/{full}", ephemeral)


def has_claim(pod: PodInfo, key: str) -> bool:
    """Whether a pod uses the claim of that key."""
    return any(claim.key == key for claim in claims_of(pod))


def _read(volumes: Iterable[dict[str, Any]]) -> VolumeRequest:
    claims: list[tuple[str, bool]] = []
    disks: list[dict[str, Any]] = []
    for volume in volumes:
        if _THAT_MATTER.isdisjoint(volume):
            continue
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict):
            claims.append((str(claim.get("claimName", "")), False))
        elif isinstance(volume.get("ephemeral"), dict):
            claims.append((str(volume.get("name", "")), True))
        elif _is_disk(volume):
            disks.append(volume)
    return VolumeRequest(tuple(claims), tuple(disks)) if claims or disks else _NO_VOLUMES


def _is_disk(volume: dict[str, Any]) -> bool:
    return any(isinstance(volume.get(kind), dict) for kind in DISKS)
