# SPDX-License-Identifier: Apache-2.0
"""The profiles for an object, with all that they need; events about those that cannot be used.

Rule: docs/reference/admission.md#profiles-on-new-pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.profile import ClusterColocationProfile
from koord.base.errors import Code, KoordError
from koord.controllers.cluster.colocation_profiles import selection
from koord.controllers.cluster.colocation_profiles.profile_conditions import ProfileConditions
from koord.controllers.cluster.colocation_profiles.profile_index import ProfileIndex
from koord.controllers.webhook.profiles.object_lookup import ObjectLookup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from koord.api.kinds.meta import ObjectMeta
    from koord.controllers.cluster.colocation_profiles.profile_index import UsableProfile
    from koord.controllers.webhook.framework.handler import HandlerDependencies


@dataclass(frozen=True)
class ChosenProfiles:
    """The profiles for one object.

    Attributes:
        selected: those that select it, by name.
        drawn: those of them among whose share it is.
        classes: the priority classes that the drawn ones name, by name.
        draws: of an object whose name is yet to be generated, by profile that takes a share.
    """

    selected: list[UsableProfile]
    drawn: list[UsableProfile]
    classes: dict[str, PriorityClass]
    draws: dict[str, int]


class ProfileChoice:
    """Follows profiles, namespaces and priority classes.

    Args:
        dependencies: views, client, clock and events.
        with_namespaces: whether ``namespaceSelector`` counts.
    """

    def __init__(self, dependencies: HandlerDependencies, *, with_namespaces: bool = True) -> None:
        self._index = ProfileIndex(with_namespaces=with_namespaces)
        self._classes = ObjectLookup(dependencies, PriorityClass)
        self._namespaces = ObjectLookup(dependencies, Namespace) if with_namespaces else None
        kind = "pods" if with_namespaces else "reservations"
        name = f"conditions of profiles for {kind}"
        self._conditions = ProfileConditions(
            dependencies.client, dependencies.clock, dependencies.supervisor,
            dependencies.write_event, name,
        )  # fmt: skip
        dependencies.loops[name] = self._conditions.run
        dependencies.views.view(ClusterColocationProfile).on_change(
            self._put, lambda _, profile: self._put(profile), lambda gone, _: self._remove(gone)
        )

    def of(
        self, meta: ObjectMeta, *, with_classes: bool = True, review: str = ""
    ) -> ChosenProfiles | Awaitable[ChosenProfiles]:
        """The profiles for an object; to be waited for where a cache lacks something.

        Args:
            meta: of the object, with its namespace if it is in one.
            with_classes: whether the priority classes that they name are wanted.
            review: uid of the review, by which an object without a name draws.

        Raises:
            KoordError: a profile names a priority class that there is not.
        """
        namespace = None
        if self._namespaces is not None and self._index.asks_namespaces:
            namespace = self._namespaces.cached(meta.namespace)
            if namespace is None:
                return self._looked_up(meta, with_classes, review)
        selected, drawn = self._select(meta, namespace, review)
        classes = {}
        for name, _ in _class_names(drawn) if with_classes else ():
            known = self._classes.cached(name)
            if known is None:
                return self._looked_up(meta, with_classes, review)
            classes[name] = known
        return ChosenProfiles(selected, drawn, classes, _draws(selected, meta, review))

    def report(self, profile: ClusterColocationProfile, error: KoordError) -> None:
        """Says of a profile that it cannot be used; once for each version of it."""
        self._conditions.report(profile, error)

    async def _looked_up(self, meta: ObjectMeta, with_classes: bool, review: str) -> ChosenProfiles:
        namespace = None
        if self._namespaces is not None and self._index.asks_namespaces:
            namespace = await self._namespaces.get(meta.namespace)
        selected, drawn = self._select(meta, namespace, review)
        classes = {}
        for name, title in _class_names(drawn) if with_classes else ():
            known = await self._classes.get(name)
            if known is None:
                expected = "the name of a PriorityClass that there is"
                raise KoordError(title, "spec.priorityClassName", name, expected, Code.NOT_FOUND)
            classes[name] = known
        return ChosenProfiles(selected, drawn, classes, _draws(selected, meta, review))

    def _select(
        self, meta: ObjectMeta, namespace: Namespace | None, review: str
    ) -> tuple[list[UsableProfile], list[UsableProfile]]:
        selected = self._index.selected(meta.labels, namespace)
        if not selected:
            return [], []
        drawn = [
            each
            for each in selected
            if selection.is_in_share(each.profile, meta, each.share_percent, review)
        ]
        return selected, drawn

    def _put(self, profile: ClusterColocationProfile) -> None:
        try:
            self._index.put(profile)
        except KoordError as error:
            self.report(profile, error)
        else:
            self._conditions.mark(profile, None)

    def _remove(self, profile: ClusterColocationProfile) -> None:
        self._index.remove(profile.metadata.name)
        self._conditions.forget(profile.metadata.name)


def _draws(selected: list[UsableProfile], meta: ObjectMeta, review: str) -> dict[str, int]:
    """What there is to remember of an object's draws: its name will not tell them again."""
    if meta.name:
        return {}
    return {
        each.profile.metadata.name: selection.number_of(each.profile, meta, review)
        for each in selected
        if selection.is_partial(each.share_percent)
    }


def _class_names(profiles: list[UsableProfile]) -> Iterator[tuple[str, str]]:
    """The classes that profiles name, each with the title of the profile."""
    for usable in profiles:
        if usable.profile.spec.priority_class_name:
            yield usable.profile.spec.priority_class_name, usable.profile.title
