# SPDX-License-Identifier: Apache-2.0
"""Where a pod's claims let it go, node by node: the plain model of VolumeBinding.

Sizes are whole bytes; a volume's or class's nodes are given by one label and its values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
UNBOUND = "node(s) didn't find available persistent volumes to bind"
FULL = "node(s) did not have enough free storage"
LOST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

Where = tuple[str, tuple[str, ...]] | None


@dataclass
class Volume:
    name: str
    size: int
    cls: str
    where: Where = None
    claim: str = ""
    phase: str = "Available"
    modes: tuple[str, ...] = ("ReadWriteOnce",)
    labels: dict[str, str] = field(default_factory=dict)
    block: bool = False


@dataclass
class Claim:
    name: str
    size: int
    cls: str
    volume: str = ""
    selected: str | None = None
    modes: tuple[str, ...] = ("ReadWriteOnce",)
    label: str = ""
    block: bool = False


@dataclass
class Class:
    name: str
    provisioner: str
    where: Where = None


@dataclass
class Capacity:
    cls: str
    size: int
    where: Where


@dataclass
class Found:
    reasons: tuple[str, ...]
    bindings: dict[str, str]
    made: list[str]


@dataclass
class Cluster:
    nodes: dict[str, dict[str, str]]
    volumes: list[Volume]
    classes: list[Class]
    capacities: list[Capacity]
    tracked: set[str]


def reaches(labels: dict[str, str], where: Where) -> bool:
    return where is None or labels.get(where[0]) in where[1]


def on_node(cluster: Cluster, claims: list[Claim], node: str) -> Found:
    labels = cluster.nodes[node]
    reasons = dict.fromkeys((CONFLICT, UNBOUND, FULL, LOST), False)
    for claim in claims:
        if not claim.volume:
            continue
        volume = next((v for v in cluster.volumes if v.name == claim.volume), None)
        if volume is None:
            reasons[LOST] = True
            break
        if not reaches(labels, volume.where):
            reasons[CONFLICT] = True
            break
    bindings: dict[str, str] = {}
    made: list[str] = []
    loose = [claim for claim in claims if not claim.volume]
    if any(claim.selected not in (None, node) for claim in loose):
        reasons[UNBOUND] = True
        return Found(tuple(t for t, is_so in reasons.items() if is_so), {}, [])
    to_make = [claim for claim in loose if claim.selected is not None]
    to_match = [claim for claim in loose if claim.selected is None]
    for claim in sorted(to_match, key=lambda c: (c.size, c.name)):
        chosen = _match(cluster, claim, labels, set(bindings.values()))
        if chosen:
            bindings[claim.name] = chosen
        else:
            to_make.append(claim)
    for claim in to_make:
        why = _provide(cluster, claim, labels)
        if why:
            reasons[why] = True
            break
        made.append(claim.name)
    return Found(tuple(t for t, is_so in reasons.items() if is_so), bindings, made)


def _match(cluster: Cluster, claim: Claim, labels: dict[str, str], taken: set[str]) -> str:
    best: Volume | None = None
    for volume in sorted(cluster.volumes, key=lambda v: v.name):
        if volume.name in taken or volume.cls != claim.cls:
            continue
        if volume.claim not in ("", claim.name):
            continue
        if volume.size < claim.size or volume.block != claim.block:
            continue
        if volume.claim == claim.name:
            return volume.name if reaches(labels, volume.where) else ""
    for volume in sorted(cluster.volumes, key=lambda v: v.name):
        if volume.name in taken or volume.cls != claim.cls or volume.claim:
            continue
        if volume.size < claim.size or volume.block != claim.block:
            continue
        if volume.phase != "Available" or not reaches(labels, volume.where):
            continue
        if claim.label and volume.labels.get("tier") != claim.label:
            continue
        if not set(claim.modes) <= set(volume.modes):
            continue
        if best is None or volume.size < best.size:
            best = volume
    return best.name if best is not None else ""


def _provide(cluster: Cluster, claim: Claim, labels: dict[str, str]) -> str:
    cls = next(c for c in cluster.classes if c.name == claim.cls)
    if cls.provisioner == "kubernetes.io/no-provisioner" or not reaches(labels, cls.where):
        return UNBOUND
    if cls.provisioner not in cluster.tracked:
        return ""
    for capacity in cluster.capacities:
        fits = capacity.cls == cls.name and capacity.size >= claim.size
        if fits and reaches(labels, capacity.where):
            return ""
    return FULL
