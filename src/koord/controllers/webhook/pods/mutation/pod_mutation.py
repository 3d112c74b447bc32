# SPDX-License-Identifier: Apache-2.0
"""What admission makes of a new pod, in order: a function of plain values.

Rule: docs/reference/admission.md#profiles-on-new-pods and the sections after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol.priority import PriorityClass, class_with_default, raw_class
from koord.controllers.webhook.framework.admission_decision import RuleEffect
from koord.controllers.webhook.pods.documents import present
from koord.controllers.webhook.pods.mutation import (
    device_resource_spec,
    extended_resource_spec,
    quota_tree_affinity,
    resource_translation,
)
from koord.controllers.webhook.profiles import application

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from koord.api.kinds import cluster
    from koord.api.kinds.quota import ElasticQuotaProfile
    from koord.base.documents import Document
    from koord.base.errors import KoordError
    from koord.controllers.cluster.colocation_profiles.profile_index import UsableProfile


@dataclass(frozen=True)
class MutationSwitches:
    """Which rules are on.

    Attributes:
        translates_resources: native amounts become those of the pod's class.
        tells_extended_resources: the annotation for the node.
        completes_devices: shares of GPUs.
    """

    translates_resources: bool = True
    tells_extended_resources: bool = True
    completes_devices: bool = True


@dataclass(frozen=True)
class PodSurroundings:
    """What there is about a pod.

    Attributes:
        selected: the profiles that select it, by name.
        drawn: those among whose share it is.
        classes: the priority classes that the drawn ones name, by name.
        tree: whose nodes it may use; None for all.
        draws: what it is to remember of its draws, by profile.
    """

    selected: Sequence[UsableProfile] = ()
    drawn: Sequence[UsableProfile] = ()
    classes: Mapping[str, cluster.PriorityClass] | None = None
    tree: ElasticQuotaProfile | None = None
    draws: Mapping[str, int] | None = None


class MutatedPod(NamedTuple):
    """What came of a pod.

    Attributes:
        document: as it is to be.
        effects: what each rule did; empty if it is as it was.
        failures: what is wrong with profiles that were skipped.
    """

    document: Document
    effects: list[RuleEffect]
    failures: list[tuple[UsableProfile, KoordError]]


def mutate(
    document: Document, surroundings: PodSurroundings, switches: MutationSwitches, title: str
) -> MutatedPod:
    """All rules on one new pod.

    Args:
        document: the pod's, read as a Pod already; may be changed.
        surroundings: what there is about it.
        switches: which rules are on.
        title: the pod as errors name it.

    Raises:
        KoordError: an amount or annotation of the pod cannot be used.
    """
    applied = application.apply(
        document, surroundings.drawn, surroundings.classes or {}, application.PODS, title
    )
    document, effects, failures = applied
    if surroundings.draws:
        lines: Iterable[str] = _remember(document, surroundings.draws)
        effects += _effects(application.RULE, lines)
    keeps = any(usable.keeps_resources for usable in surroundings.selected)
    if surroundings.selected and switches.translates_resources and not keeps:
        priority_class = _class(document, title)
        lines = resource_translation.translate(document, priority_class, title)
        effects += _effects("resource-translation", lines, f"class {priority_class}")
    if switches.tells_extended_resources:
        lines = extended_resource_spec.write_spec(document, title)
        effects += _effects("extended-resource-spec", lines)
    if surroundings.tree is not None and surroundings.tree.spec.node_selector is not None:
        lines = quota_tree_affinity.require_nodes(document, surroundings.tree.spec.node_selector)
        effects += _effects("quota-tree-affinity", lines, surroundings.tree.title)
    if switches.completes_devices:
        lines = device_resource_spec.complete(document, title)
        effects += _effects("device-resource-spec", lines)
    return MutatedPod(document, effects, failures)


def _remember(document: Document, draws: Mapping[str, int]) -> Iterator[str]:
    """Notes what a pod without a name has drawn."""
    text = codec.to_json(dict(sorted(draws.items()))).decode()
    annotations = present(present(document, "metadata"), "annotations")
    if annotations.get(keys.PROFILE_DRAWS) != text:
        metadata = document["metadata"] = dict(present(document, "metadata"))
        metadata["annotations"] = {**annotations, keys.PROFILE_DRAWS: text}
        yield f"annotations[{keys.PROFILE_DRAWS}] = {text}"


def _class(document: Document, title: str) -> PriorityClass:
    """The pod's priority class; in most cases labels and priority decide, and no more is read."""
    labels = present(present(document, "metadata"), "labels")
    said = raw_class(labels, present(document, "spec").get("priority"))
    if said is not PriorityClass.NONE:
        return said
    return class_with_default(codec.convert(codec.without_nulls(document, title), Pod, title))


def _effects(rule: str, lines: Iterable[str], source: str = "") -> list[RuleEffect]:
    return [RuleEffect(rule, source, line) for line in lines]
