# SPDX-License-Identifier: Apache-2.0
"""What profiles make of the document of a Pod or Reservation.

Rule: docs/reference/admission.md#effect-of-one-profile. Nothing of a profile is applied that cannot
be applied as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koord.api import codec
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.patching.core_types import shape_of
from koord.api.patching.shapes import STRUCT, Field, Shape
from koord.api.patching.strategic_merge import PatchError, strategic_merge
from koord.base.errors import KoordError
from koord.controllers.cluster.colocation_profiles import effect
from koord.controllers.webhook.framework.admission_decision import RuleEffect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from koord.api.kinds.cluster import PriorityClass
    from koord.api.kinds.profile import ClusterColocationProfileSpec
    from koord.base.documents import Document
    from koord.controllers.cluster.colocation_profiles.profile_index import UsableProfile

RULE = "clustercolocationprofile"
MAX_METADATA_BYTES = 256 * 1024
"""Of all labels, and of all annotations, after a profile: API servers take no more annotations."""
MAX_PATCH_BYTES = 1_536 * 1024
"""Of the patches of all profiles of one object together: no API server stores a larger object."""

_META = "apimachinery.pkg.apis.meta.v1.ObjectMeta"


@dataclass(frozen=True, eq=False)
class ProfileTarget:
    """A kind that profiles change.

    Attributes:
        kind: what a document of it is read as.
        pod_spec: where the pod's spec stands that scheduler and priority class go to.
        is_spec_made: whether it is made where there is none.
    """

    kind: type[Pod | Reservation]
    pod_spec: tuple[str, ...]
    is_spec_made: bool

    @cached_property
    def shape(self) -> Shape:
        """How strategic merge patches of it are merged."""
        if self.kind is Pod:
            return shape_of("api.core.v1.Pod")
        spec = Shape(STRUCT, fields={"template": Field(shape_of("api.core.v1.PodTemplateSpec"))})
        return Shape(STRUCT, fields={"metadata": Field(shape_of(_META)), "spec": Field(spec)})


PODS = ProfileTarget(Pod, ("spec",), is_spec_made=True)
RESERVATIONS = ProfileTarget(Reservation, ("spec", "template"), is_spec_made=False)
"""Its ``spec.template`` has to be there; the spec in that is made."""


class AppliedProfiles(NamedTuple):
    """What came of some profiles.

    Attributes:
        document: with all of those that could be applied.
        effects: what each did.
        failures: what is wrong with the others, by their profile.
    """

    document: Document
    effects: list[RuleEffect]
    failures: list[tuple[UsableProfile, KoordError]]


def apply(
    document: Document,
    profiles: Sequence[UsableProfile],
    classes: Mapping[str, PriorityClass],
    target: ProfileTarget,
    title: str,
) -> AppliedProfiles:
    """Applies profiles in their order, each to what the ones before left.

    Args:
        document: of the object; stays as it is.
        profiles: that select the object and whose share it is among.
        classes: by name, all that the profiles name.
        target: the object's kind.
        title: the object as errors name it.
    """
    effects: list[RuleEffect] = []
    failures: list[tuple[UsableProfile, KoordError]] = []
    patch_bytes = 0
    for usable in profiles:
        lines: list[str] = []
        try:
            patch_bytes = _with_patch(patch_bytes, usable)
            document = _applied(document, usable, classes, target, title, lines)
        except KoordError as error:
            failures.append((usable, error))
        else:
            effects += (RuleEffect(RULE, usable.profile.title, line) for line in lines)
    return AppliedProfiles(document, effects, failures)


def _with_patch(before_bytes: int, usable: UsableProfile) -> int:
    """The bytes of all patches so far and of this one."""
    together = before_bytes + len(usable.patch or b"")
    if together > MAX_PATCH_BYTES:
        got = f"{together} bytes with those of profiles before it"
        expected = f"patches of at most {MAX_PATCH_BYTES} bytes for one object together"
        raise KoordError(usable.profile.title, "spec.patch", got, expected)
    return together


def _applied(
    document: Document,
    usable: UsableProfile,
    classes: Mapping[str, PriorityClass],
    target: ProfileTarget,
    title: str,
    lines: list[str],
) -> Document:
    spec = usable.profile.spec
    changed = {**document, "metadata": _metadata(document.get("metadata") or {}, usable, lines)}
    at = _pod_spec(changed, target)
    if at is not None:
        for name, value in _pod_fields(spec, classes).items():
            if at.get(name) != value:
                lines.append(f"spec.{name} = {value}")
                at[name] = value
                if value is None:
                    del at[name]
    if usable.patch is None:
        return changed
    patch: Document = msgspec.json.decode(usable.patch)
    try:
        patched = strategic_merge(changed, patch, target.shape)
    except PatchError as error:
        expected = f"a strategic merge patch that fits {title} ({error})"
        raise KoordError(usable.profile.title, "spec.patch", patch, expected) from None
    _check(patched, target, usable, patch)
    if (patch.get("metadata") or {}).get("annotations"):
        _check_size("annotations", patched["metadata"].get("annotations") or {}, usable)
    if patched != changed:
        lines += (f"patch of {path}" for path in sorted(_paths(patch)))
    return patched


def _metadata(metadata: Document, usable: UsableProfile, lines: list[str]) -> Document:
    found, spec = dict(metadata), usable.profile.spec
    for key, after in (("labels", effect.labels_after), ("annotations", effect.annotations_after)):
        old = metadata.get(key) or {}
        new = after(spec, old)
        if new != old:
            _check_size(key, new, usable)
            found[key] = new
            changes = (name for name in new if old.get(name) != new[name])
            lines += (f"{key}[{name}] = {new[name]}" for name in changes)
    return found


def _check_size(key: str, texts: Mapping[str, str], usable: UsableProfile) -> None:
    """A mapping may copy a long text again and again."""
    together = sum(len(name) + len(text) for name, text in texts.items())
    if together > MAX_METADATA_BYTES:
        expected = f"{key} of at most {MAX_METADATA_BYTES} bytes together after it"
        raise KoordError(usable.profile.title, "spec", f"{together} bytes of {key}", expected)


def _pod_spec(document: Document, target: ProfileTarget) -> Document | None:
    """The spec that scheduler and class go to, below copies of all on the way; None without."""
    at = document
    for key in target.pod_spec:
        if at.get(key) is None and not target.is_spec_made:
            return None
        at[key] = dict(at.get(key) or {})
        at = at[key]
    if not target.is_spec_made:
        at["spec"] = dict(at.get("spec") or {})
        at = at["spec"]
    return at


def _pod_fields(
    spec: ClusterColocationProfileSpec, classes: Mapping[str, PriorityClass]
) -> Document:
    """What becomes of fields of a pod's spec; None for one that goes."""
    fields: Document = {}
    if spec.scheduler_name:
        fields["schedulerName"] = spec.scheduler_name
    if spec.priority_class_name:
        priority_class = classes[spec.priority_class_name]
        fields["priorityClassName"] = spec.priority_class_name
        fields["priority"] = priority_class.value
        fields["preemptionPolicy"] = priority_class.preemption_policy
    return fields


def _check(patched: Document, target: ProfileTarget, usable: UsableProfile, patch: object) -> None:
    """A patch must leave an object of the kind."""
    try:
        codec.convert(codec.without_nulls(patched, ""), target.kind, "", "")
        codec.convert(codec.without_nulls(patched.get("metadata"), ""), ObjectMeta, "", "metadata")
    except KoordError as error:
        field = f"spec.patch.{error.field}"
        raise KoordError(usable.profile.title, field, error.value, error.expected) from None


def _paths(patch: Document, depth: int = 2) -> Iterator[str]:
    """The fields that a patch names, to a depth."""
    for key, value in patch.items():
        if depth > 1 and isinstance(value, dict) and value:
            yield from (f"{key}.{inner}" for inner in _paths(value, depth - 1))
        else:
            yield key
