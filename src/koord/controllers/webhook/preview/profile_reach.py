# SPDX-License-Identifier: Apache-2.0
"""Which pods a profile has, which it would have once they are made anew, and which it cannot have:
a function of plain values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.protocol import admission
from koord.api.protocol.priority import class_with_default
from koord.base.errors import KoordError
from koord.controllers.cluster.colocation_profiles import selection
from koord.controllers.webhook.pods.mutation import resource_translation
from koord.controllers.webhook.profiles import application

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.api.kinds.cluster import Namespace, PriorityClass
    from koord.base.documents import Document
    from koord.controllers.cluster.colocation_profiles.profile_index import UsableProfile

_ENDED = ("Succeeded", "Failed")
_HASH = "pod-template-hash"
MAX_REASONS = 3
"""As many different reasons are kept of an owner."""


class PodReach(StrEnum):
    """How a profile stands to a pod that it selects."""

    CAUGHT = "caught"
    NEXT_TIME = "next time"
    NOT_DRAWN = "not drawn"
    REFUSED = "refused"


@dataclass
class OwnerReach:
    """The pods of one owner.

    Attributes:
        namespace: of the pods.
        owner: kind and name; ``Pod`` and its name for a pod without one.
        counts: how many pods, by how the profile stands to them.
        reasons: why some cannot be converted.
    """

    namespace: str
    owner: str
    counts: Counter[PodReach] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)


def reach(
    usable: UsableProfile,
    pods: Iterable[Document],
    namespaces: Mapping[str, Namespace],
    classes: Mapping[str, PriorityClass],
) -> list[OwnerReach]:
    """The pods that a profile selects, by namespace and owner.

    Args:
        usable: the profile.
        pods: of the cluster; those that have ended do not count.
        namespaces: by name.
        classes: priority classes by name.
    """
    found: dict[tuple[str, str], OwnerReach] = {}
    for document in pods:
        plain = codec.without_nulls(document, "Pod")
        pod = codec.convert(plain, Pod, "Pod")
        meta = pod.metadata
        spec, namespace = usable.profile.spec, namespaces.get(meta.namespace)
        if pod.status.phase in _ENDED or not selection.is_selected(
            spec, meta.labels, namespace, absent_selects=True
        ):
            continue
        key = meta.namespace, _owner(pod)
        row = found.setdefault(key, OwnerReach(*key))
        stands, why = _stands(usable, plain, pod, classes)
        row.counts[stands] += 1
        if why and why not in row.reasons and len(row.reasons) < MAX_REASONS:
            row.reasons.append(why)
    return [found[key] for key in sorted(found)]


def _stands(
    usable: UsableProfile, document: Document, pod: Pod, classes: Mapping[str, PriorityClass]
) -> tuple[PodReach, str]:
    name = usable.profile.spec.priority_class_name
    if name and name not in classes:
        return PodReach.REFUSED, f"PriorityClass {name} is missing"
    if not selection.is_in_share(usable.profile, pod.metadata, usable.share_percent):
        return PodReach.NOT_DRAWN, ""
    applied = application.apply(document, [usable], classes, application.PODS, pod.title)
    for _, failure in applied.failures:
        return PodReach.REFUSED, f"{failure.field}: {failure.expected}"
    try:
        after, translates = _converted(applied.document, usable)
    except KoordError as error:
        return PodReach.REFUSED, f"{error.field}: {error.expected}"
    for wrong in (*admission.class_problems(after), *admission.request_problems(after)):
        return PodReach.REFUSED, f"{wrong.field}: {wrong.value}, expected {wrong.expected}"
    is_caught = not applied.effects and not translates
    return (PodReach.CAUGHT if is_caught else PodReach.NEXT_TIME), ""


def _converted(document: Document, usable: UsableProfile) -> tuple[Pod, bool]:
    """The pod with its class's own resources, and whether that changes any."""
    copy = codec.parse_json(codec.to_json(document), "Pod")
    pod = codec.convert(copy, Pod, "Pod")
    lines: list[str] = []
    if not usable.keeps_resources:
        lines = list(resource_translation.translate(copy, class_with_default(pod), pod.title))
    return (codec.convert(copy, Pod, "Pod") if lines else pod), bool(lines)


def _owner(pod: Pod) -> str:
    """Who makes the pod; a ReplicaSet of a Deployment counts as that."""
    meta = pod.metadata
    owner = next((each for each in meta.owner_references if each.controller), None)
    if owner is None:
        return f"Pod {meta.name}"
    suffix = f"-{meta.labels.get(_HASH)}"
    if owner.kind == "ReplicaSet" and owner.name.endswith(suffix):
        return f"Deployment {owner.name.removesuffix(suffix)}"
    return f"{owner.kind} {owner.name}"
