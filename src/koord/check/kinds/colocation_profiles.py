# SPDX-License-Identifier: Apache-2.0
"""ClusterColocationProfiles: selectors, the share of pods, and what is put on pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod, PodSpec
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.protocol import admission
from koord.api.protocol.documents import DOCUMENTS
from koord.base.errors import KoordError
from koord.check.kinds.annotations import document_findings
from koord.check.kinds.pods import metadata_findings, priority_findings, priority_of
from koord.check.kinds.unknown_keys import key_findings
from koord.check.problem import Finding
from koord.check.registry import checker
from koord.controllers.cluster.colocation_profiles import effect, selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject


@checker("ClusterColocationProfile", "config.koordinator.sh")
def profile(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """A profile, and the pod that it makes of an empty one."""
    profile_object = subject.typed
    if not isinstance(profile_object, ClusterColocationProfile):
        return
    spec = profile_object.spec
    for name, selector in (
        ("selector", spec.selector), ("namespaceSelector", spec.namespace_selector),
    ):  # fmt: skip
        try:
            if selector is not None:
                selectors.check(selector, profile_object.title, f"spec.{name}")
        except KoordError as error:
            yield Finding.of(error)
    try:
        selection.percent(profile_object)
    except KoordError as error:
        yield Finding.of(error)
    if isinstance(spec.probability, int) and not 0 <= spec.probability <= 100:
        yield Finding.warning("spec.probability", spec.probability, "a percentage from 0 to 100")
    yield from _set_on_pods(profile_object)
    if spec.priority_class_name:
        yield from priority_findings(world, "spec.priorityClassName", spec.priority_class_name)
        yield from _classes(profile_object, world)


def _set_on_pods(profile_object: ClusterColocationProfile) -> Iterator[Finding]:
    """Labels and annotations, as if a pod had them."""
    spec = profile_object.spec
    meta = ObjectMeta(name="pod", labels=spec.labels, annotations=spec.annotations)
    for finding in metadata_findings(Pod(metadata=meta)):
        yield finding._replace(path=f"spec.{finding.path}")
    yield from key_findings(spec.labels, "spec.labels")
    yield from key_findings(spec.annotations, "spec.annotations")
    for key, text in spec.annotations.items():
        if key in DOCUMENTS and text:
            yield from document_findings(key, text, f"spec.annotations[{key}]")


def _classes(profile_object: ClusterColocationProfile, world: ObjectIndex) -> Iterator[Finding]:
    """A QoS class and a priority class that exclude each other."""
    labels = effect.labels_after(profile_object.spec, {})
    pod = Pod(
        metadata=ObjectMeta(name="pod", labels=labels),
        spec=PodSpec(priority_class_name=profile_object.spec.priority_class_name),
    )
    priority = priority_of(pod, world)
    if priority is None:
        return
    pod.spec.priority = priority
    for error in admission.class_problems(pod):
        yield Finding("spec.qosClass", error.value, error.expected)
