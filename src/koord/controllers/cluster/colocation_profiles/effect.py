# SPDX-License-Identifier: Apache-2.0
"""What a profile makes of labels and annotations: functions of plain values.

Rule: docs/reference/admission.md#effect-of-one-profile. Applied to its own result it changes
nothing, as long as no mapping reads a key that the profile's own class or priority overwrites.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.patching.core_types import shape_of
from koord.api.patching.strategic_merge import PatchError, strategic_merge
from koord.api.protocol import keys
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.meta import ObjectMeta
    from koord.api.kinds.profile import ClusterColocationProfile, ClusterColocationProfileSpec

_POD = "api.core.v1.Pod"


def change(spec: ClusterColocationProfileSpec, pod: ObjectMeta) -> dict[str, Any]:
    """The strategic merge patch that a profile stands for; empty if it changes nothing.

    Whether the profile's own ``patch`` changes anything the server knows; it is always sent.

    Args:
        spec: of the profile.
        pod: the pod's metadata as it is.
    """
    metadata = {}
    for name, old, new in (
        ("labels", pod.labels, labels_after(spec, pod.labels)),
        ("annotations", pod.annotations, annotations_after(spec, pod.annotations)),
    ):
        differing = {key: text for key, text in new.items() if old.get(key) != text}
        if differing:
            metadata[name] = differing
    found: dict[str, Any] = {"metadata": metadata} if metadata else {}
    return merged(found, spec.patch) if spec.patch else found


def check_patch(profile: ClusterColocationProfile) -> None:
    """Accepts a profile whose ``patch`` fits a pod that has nothing else.

    Raises:
        KoordError: it fits no pod.
    """
    patch = profile.spec.patch
    if patch is None:
        return
    try:
        patched = strategic_merge({"metadata": {}, "spec": {}}, patch, shape_of(_POD))
    except PatchError as error:
        expected = f"a strategic merge patch that fits a pod ({error})"
        raise KoordError(profile.title, "spec.patch", patch, expected) from None
    try:
        codec.convert(codec.without_nulls(patched, ""), Pod, "", "")
    except KoordError as error:
        field = f"spec.patch.{error.field}"
        raise KoordError(profile.title, field, error.value, error.expected) from None


def labels_after(spec: ClusterColocationProfileSpec, old: Mapping[str, str]) -> dict[str, str]:
    """A pod's labels after a profile."""
    # A suffix that is there already was added by an earlier round, or by the admission webhook.
    suffixes = {key: text for key, text in spec.label_suffixes.items() if text}
    found = {key: value.removesuffix(suffixes.get(key, "")) for key, value in old.items()}
    found |= spec.labels
    found |= _mapped(spec.label_keys_mapping, found)
    for key, suffix in suffixes.items():
        if key in found:
            found[key] += suffix
    if spec.qos_class:
        found[keys.QOS_CLASS] = spec.qos_class
    if spec.koordinator_priority is not None:
        found[keys.PRIORITY] = str(spec.koordinator_priority)
    return found


def annotations_after(spec: ClusterColocationProfileSpec, old: Mapping[str, str]) -> dict[str, str]:
    """A pod's annotations after a profile."""
    found = {**old, **spec.annotations}
    return found | _mapped(spec.annotation_keys_mapping, found)


def _mapped(mapping: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """New keys with the values of old ones, empty where those are missing; old ones stay.

    A key that is new to one mapping and old to another stands for what it is mapped from, and of
    several old keys for one new one the last by name counts: the order of mappings does not.

    Args:
        mapping: old key to new key.
        values: of labels or annotations.
    """
    # A key mapped to itself stands for that only if nothing else is mapped to it.
    ordered = sorted(mapping, key=lambda old: (old != mapping[old], old))
    sources = {mapping[old]: old for old in ordered}
    return {new: values.get(_source(sources, new), "") for new in sources}


def _source(sources: Mapping[str, str], key: str) -> str:
    """The key whose value ends up at one; of keys in a circle that is the first by name."""
    path: dict[str, int] = {}
    while key in sources:
        if key in path:
            return min(list(path)[path[key] :])
        path[key] = len(path)
        key = sources[key]
    return key


def merged(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One patch laid over another."""
    found = dict(base)
    for key, value in over.items():
        inner = found.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        found[key] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return found
