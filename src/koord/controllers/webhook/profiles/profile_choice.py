# SPDX-License-Identifier: Apache-2.0
"""The profiles for an object, with all that they need; events about those that cannot be used.

Rule: docs/reference/admission.md#profiles-on-new-pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.profile import ClusterColocationProfile
from koord.base import log
from koord.base.errors import Code, KoordError
from koord.controllers.cluster.colocation_profiles import selection
from koord.controllers.cluster.colocation_profiles.profile_index import ProfileIndex
from koord.controllers.webhook.profiles.object_lookup import ObjectLookup
from koord.controllers.webhook.profiles.profile_conditions import ProfileConditions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from koord.api.kinds.meta import ObjectMeta
    from koord.controllers.cluster.colocation_profiles.profile_index import UsableProfile
    from koord.controllers.webhook.framework.handler import HandlerDependencies

REASON = "InvalidColocationProfile"
_LOG = log.get("webhook.profiles")


@dataclass(frozen=True)
class ChosenProfiles:
    """The profiles for one object.

    Attributes:
        selected: those that select it, by name.
        drawn: those of them among whose share it is.
        classes: the priority classes that the drawn ones name, by name.
    """

    selected: list[UsableProfile]
    drawn: list[UsableProfile]
    classes: dict[str, PriorityClass]


class ProfileChoice:
    """Follows profiles, namespaces and priority classes.

    Args:
        dependencies: views, client, clock and events.
        with_namespaces: whether ``namespaceSelector`` counts.
    """

    def __init__(self, dependencies: HandlerDependencies, *, with_namespaces: bool = True) -> None:
        self._write_event = dependencies.write_event
        self._index = ProfileIndex(with_namespaces=with_namespaces)
        self._classes = ObjectLookup(dependencies, PriorityClass)
        self._namespaces = ObjectLookup(dependencies, Namespace) if with_namespaces else None
        kind = "pods" if with_namespaces else "reservations"
        self._conditions = ProfileConditions(dependencies, f"conditions of profiles for {kind}")
        self._reported: dict[str, tuple[str, str]] = {}
        dependencies.views.view(ClusterColocationProfile).on_change(
            self._put, lambda _, profile: self._put(profile), lambda gone, _: self._remove(gone)
        )

    def of(
        self, meta: ObjectMeta, *, with_classes: bool = True
    ) -> ChosenProfiles | Awaitable[ChosenProfiles]:
        """The profiles for an object; to be waited for where a cache lacks something.

        Args:
            meta: of the object, with its namespace if it is in one.
            with_classes: whether the priority classes that they name are wanted.

        Raises:
            KoordError: a profile names a priority class that there is not.
        """
        namespace = None
        if self._namespaces is not None and self._index.asks_namespaces:
            namespace = self._namespaces.cached(meta.namespace)
            if namespace is None:
                return self._looked_up(meta, with_classes)
        selected, drawn = self._select(meta, namespace)
        classes = {}
        for name, _ in _class_names(drawn) if with_classes else ():
            known = self._classes.cached(name)
            if known is None:
                return self._looked_up(meta, with_classes)
            classes[name] = known
        return ChosenProfiles(selected, drawn, classes)

    def report(self, profile: ClusterColocationProfile, error: KoordError) -> None:
        """Says of a profile that it cannot be used; once for each version of it."""
        version = (profile.metadata.uid, profile.metadata.resource_version)
        if self._reported.get(profile.metadata.name) == version:
            return
        self._reported[profile.metadata.name] = version
        _LOG.warning("a profile is skipped", extra=log.fields(error=str(error)))
        self._write_event(profile, "Warning", REASON, str(error))
        self._conditions.mark(profile, error)

    async def _looked_up(self, meta: ObjectMeta, with_classes: bool) -> ChosenProfiles:
        namespace = None
        if self._namespaces is not None and self._index.asks_namespaces:
            namespace = await self._namespaces.get(meta.namespace)
        selected, drawn = self._select(meta, namespace)
        classes = {}
        for name, title in _class_names(drawn) if with_classes else ():
            known = await self._classes.get(name)
            if known is None:
                expected = "the name of a PriorityClass that there is"
                raise KoordError(title, "spec.priorityClassName", name, expected, Code.NOT_FOUND)
            classes[name] = known
        return ChosenProfiles(selected, drawn, classes)

    def _select(
        self, meta: ObjectMeta, namespace: Namespace | None
    ) -> tuple[list[UsableProfile], list[UsableProfile]]:
        selected = self._index.selected(meta.labels, namespace)
        if not selected:
            return [], []
        identity = selection.identity(meta)
        drawn = [
            each
            for each in selected
            if selection.is_drawn(each.profile, identity, each.share_percent)
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
        self._reported.pop(profile.metadata.name, None)


def _class_names(profiles: list[UsableProfile]) -> Iterator[tuple[str, str]]:
    """The classes that profiles name, each with the title of the profile."""
    for usable in profiles:
        if usable.profile.spec.priority_class_name:
            yield usable.profile.spec.priority_class_name, usable.profile.title
