# SPDX-License-Identifier: Apache-2.0
"""The profiles there are, those for an object, and events about those that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.cluster import Namespace
from koord.api.kinds.profile import ClusterColocationProfile
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.cluster.colocation_profiles import selection
from koord.controllers.cluster.colocation_profiles.profile_index import ProfileIndex

if TYPE_CHECKING:
    from koord.api.kinds.meta import ObjectMeta
    from koord.controllers.cluster.colocation_profiles.profile_index import UsableProfile
    from koord.controllers.webhook.framework.handler import HandlerDependencies

REASON = "InvalidColocationProfile"
_LOG = log.get("webhook.profiles")


class KnownProfiles:
    """Follows profiles and namespaces.

    Args:
        dependencies: views and events.
        with_namespaces: whether ``namespaceSelector`` counts.
    """

    def __init__(self, dependencies: HandlerDependencies, *, with_namespaces: bool = True) -> None:
        self._write_event = dependencies.write_event
        self._index = ProfileIndex(with_namespaces=with_namespaces)
        self._namespaces = dependencies.views.view(Namespace) if with_namespaces else None
        self._told: dict[str, tuple[str, str]] = {}
        dependencies.views.view(ClusterColocationProfile).on_change(
            self._put, lambda _, profile: self._put(profile), lambda gone, _: self._remove(gone)
        )

    def selected(self, meta: ObjectMeta) -> list[UsableProfile]:
        """The profiles for an object, by name, whether or not it is among their share.

        Args:
            meta: of the object, with its namespace if it is in one.
        """
        if not len(self._index):
            return []
        namespace = self._namespaces.get(meta.namespace) if self._namespaces is not None else None
        return self._index.selected(meta.labels, namespace)

    def tell(self, profile: ClusterColocationProfile, error: KoordError) -> None:
        """Says of a profile that it cannot be used; once for each version of it."""
        version = (profile.metadata.uid, profile.metadata.resource_version)
        if self._told.get(profile.metadata.name) == version:
            return
        self._told[profile.metadata.name] = version
        _LOG.warning("a profile is skipped", extra=log.fields(error=str(error)))
        self._write_event(profile, "Warning", REASON, str(error))

    def _put(self, profile: ClusterColocationProfile) -> None:
        try:
            self._index.put(profile)
        except KoordError as error:
            self.tell(profile, error)

    def _remove(self, profile: ClusterColocationProfile) -> None:
        self._index.remove(profile.metadata.name)
        self._told.pop(profile.metadata.name, None)


def drawn(profiles: list[UsableProfile], meta: ObjectMeta) -> list[UsableProfile]:
    """Those of some profiles among whose share an object is.

    Args:
        profiles: that select it.
        meta: of the object, with its namespace if it is in one.
    """
    identity = selection.identity(meta)
    return [
        each for each in profiles if selection.is_drawn(each.profile, identity, each.share_percent)
    ]
