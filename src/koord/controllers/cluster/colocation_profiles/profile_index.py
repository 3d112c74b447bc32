# SPDX-License-Identifier: Apache-2.0
"""All profiles, found by a label that an object must have to be selected by one.

Selectors are looked at once for each version of a profile; of a pod only those profiles are asked
whose required label it has, so that profiles for others cost it nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.codec import to_json
from koord.api.kinds.meta import LabelSelector
from koord.api.protocol import keys
from koord.api.selectors import IN
from koord.controllers.cluster.colocation_profiles import selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.kinds.cluster import Namespace
    from koord.api.kinds.profile import ClusterColocationProfile

_ANYTHING = LabelSelector()
_MAX_VALUES = 64
"""A requirement with more values is no help: the profile would stand below each of them."""


@dataclass(frozen=True, slots=True, eq=False)
class UsableProfile:
    """A profile that can be evaluated.

    Attributes:
        profile: as it is stored; nobody changes it.
        share_percent: of the objects that it selects.
        keeps_resources: objects that it selects keep their native resources.
        patch: its strategic merge patch as JSON; None without one.
    """

    profile: ClusterColocationProfile
    share_percent: int
    keeps_resources: bool
    patch: bytes | None


def usable(profile: ClusterColocationProfile) -> UsableProfile:
    """A profile as it is evaluated.

    Raises:
        KoordError: it cannot be.
    """
    selection.check(profile)
    return UsableProfile(
        profile,
        selection.percent(profile),
        keys.SKIP_UPDATE_RESOURCES in profile.metadata.annotations,
        to_json(profile.spec.patch) if profile.spec.patch is not None else None,
    )


@dataclass(frozen=True, slots=True)
class _IndexEntry:
    """Below which labels a profile stands: of objects, of namespaces, or of neither."""

    of_namespaces: bool
    labels: tuple[tuple[str, str], ...]


_Bucket = dict[str, UsableProfile]


class ProfileIndex:
    """Profiles by name, and by a required label.

    Args:
        with_namespaces: whether ``namespaceSelector`` counts; not for objects without a namespace.
    """

    def __init__(self, *, with_namespaces: bool = True) -> None:
        self._with_namespaces = with_namespaces
        self._entries: dict[str, _IndexEntry] = {}
        self._choosy: set[str] = set()
        self._everywhere: _Bucket = {}
        self._of_objects: dict[tuple[str, str], _Bucket] = {}
        self._of_namespaces: dict[tuple[str, str], _Bucket] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def asks_namespaces(self) -> bool:
        """Whether any profile has conditions on namespaces."""
        return bool(self._choosy)

    def put(self, profile: ClusterColocationProfile) -> None:
        """Takes a profile in, in the place of an earlier one of its name.

        Raises:
            KoordError: it cannot be evaluated, and selects nothing.
        """
        self.remove(profile.metadata.name)
        found, spec = usable(profile), profile.spec
        name = profile.metadata.name
        entry = self._entries[name] = self._entry(profile)
        for bucket in self._buckets(entry):
            bucket[name] = found
        if self._with_namespaces and not selectors.is_empty(spec.namespace_selector or _ANYTHING):
            self._choosy.add(name)

    def remove(self, name: str) -> None:
        """Forgets a profile."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self._choosy.discard(name)
        for bucket in self._buckets(entry):
            bucket.pop(name, None)
        buckets = self._of_namespaces if entry.of_namespaces else self._of_objects
        for label in entry.labels:
            if not buckets[label]:
                del buckets[label]

    def selected(
        self, labels: Mapping[str, str], namespace: Namespace | None = None
    ) -> list[UsableProfile]:
        """The profiles for an object, by name.

        Args:
            labels: of the object.
            namespace: the object's; None if it is not known.
        """
        found = [
            each
            for each in self._candidates(labels, namespace)
            if selection.is_selected(
                each.profile.spec, labels, namespace, absent_selects=True,
                with_namespaces=self._with_namespaces,
            )
        ]  # fmt: skip
        if len(found) > 1:
            found.sort(key=lambda each: each.profile.metadata.name)
        return found

    def _candidates(
        self, labels: Mapping[str, str], namespace: Namespace | None
    ) -> Iterator[UsableProfile]:
        yield from self._everywhere.values()
        for label in labels.items():
            if label in self._of_objects:
                yield from self._of_objects[label].values()
        if namespace is not None:
            for label in namespace.metadata.labels.items():
                if label in self._of_namespaces:
                    yield from self._of_namespaces[label].values()

    def _entry(self, profile: ClusterColocationProfile) -> _IndexEntry:
        """The place with the fewest others, so that few are asked in vain."""
        spec = profile.spec
        given = [(False, spec.selector)]
        if self._with_namespaces:
            given.append((True, spec.namespace_selector))
        best, least = _IndexEntry(False, ()), -1
        for of_namespaces, selector in given:
            buckets = self._of_namespaces if of_namespaces else self._of_objects
            for required in _required(selector):
                crowd = max(len(buckets.get(label, ())) for label in required)
                if least < 0 or crowd < least:
                    best, least = _IndexEntry(of_namespaces, required), crowd
        return best

    def _buckets(self, entry: _IndexEntry) -> list[_Bucket]:
        if not entry.labels:
            return [self._everywhere]
        buckets = self._of_namespaces if entry.of_namespaces else self._of_objects
        return [buckets.setdefault(label, {}) for label in entry.labels]


def _required(selector: LabelSelector | None) -> Iterator[tuple[tuple[str, str], ...]]:
    """Sets of labels of which whatever is selected has exactly one."""
    if selector is None:
        return
    for label in sorted(selector.match_labels.items()):
        yield (label,)
    for requirement in selector.match_expressions:
        values = sorted(set(requirement.values))
        if requirement.operator == IN and len(values) <= _MAX_VALUES:
            yield tuple((requirement.key, value) for value in values)
