# SPDX-License-Identifier: Apache-2.0
"""What becomes of a StatefulSet's volume claims: who owns one takes it along when it goes.

Rule: ``persistentVolumeClaimRetentionPolicy``. With ``whenScaled: Delete`` the claims of a pod that
is one too many are the pod's, with ``whenDeleted: Delete`` all others are the set's. The garbage
collector does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import (
    CLAIM,
    POD,
    STATEFUL_SET,
    Owner,
    controller_of,
    controller_reference,
)
from koord.controlplane.controllers.base.plans import PatchAction, patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.storage import PersistentVolumeClaim


def reference(owner: Owner, leaving: Pod | None = None) -> Document | None:
    """The owner that a claim is to have; None for none.

    Args:
        owner: the StatefulSet.
        leaving: the claim's pod if there are to be fewer pods; None if it stays.
    """
    policy = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
    if leaving is not None and policy.get("whenScaled") == "Delete":
        return controller_reference(leaving, POD)
    if policy.get("whenDeleted") == "Delete":
        return controller_reference(owner, STATEFUL_SET)
    return None


def changes(
    owner: Owner,
    pods: Mapping[int, Pod],
    wanted: range,
    claims: Mapping[str, PersistentVolumeClaim],
) -> list[PatchAction]:
    """Gives the claims of pods the owners that they are to have.

    Args:
        owner: the StatefulSet.
        pods: by ordinal.
        wanted: the ordinals that are to be.
        claims: of the namespace, by name; those that something else controls are left alone.
    """
    found: list[PatchAction] = []
    for ordinal, pod in sorted(pods.items()):
        wish = reference(owner, None if ordinal in wanted else pod)
        for claim in claims_of(owner, pod.metadata.name, claims):
            found += _change(claim, wish, (owner.metadata.uid, pod.metadata.uid))
    return found


def is_ending(owner: Owner, pod_name: str, claims: Mapping[str, PersistentVolumeClaim]) -> bool:
    """Whether a pod that is to be made must wait until a claim of the one before it is gone."""
    return any(
        claim.metadata.deletion_timestamp is not None
        or ((holder := controller_of(claim.metadata)) is not None and holder.kind == POD.name)
        for claim in claims_of(owner, pod_name, claims)
    )


def claims_of(
    owner: Owner, pod_name: str, claims: Mapping[str, PersistentVolumeClaim]
) -> Iterable[PersistentVolumeClaim]:
    """The claims that there are of a pod."""
    for template in owner.spec.get("volumeClaimTemplates") or ():
        claim = claims.get(claim_name(template, pod_name))
        if claim is not None:
            yield claim


def claim_name(template: Document, pod_name: str) -> str:
    """What the claim of a pod is called."""
    return f"{template['metadata']['name']}-{pod_name}"


def _change(
    claim: PersistentVolumeClaim, owner: Document | None, ours: tuple[str, str]
) -> list[PatchAction]:
    holder = controller_of(claim.metadata)
    if holder is not None and holder.uid not in ours:
        return []
    uid = owner["uid"] if owner is not None else ""
    there = {each.uid for each in claim.metadata.owner_references}
    entries: list[Document] = [
        {"$patch": "delete", "uid": each} for each in ours if each in there and each != uid
    ]
    if owner is not None and uid not in there:
        entries.append(owner)
    body = {"metadata": {"ownerReferences": entries}}
    return [patch(CLAIM, claim, body, strategic=True)] if entries else []
