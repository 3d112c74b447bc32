# SPDX-License-Identifier: Apache-2.0
"""Which resources are served: the core table, plus one for each version of each established CRD."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controlplane.resource import Resource


class Catalog:
    """Resources by path and by storage.

    Attributes:
        revision: counts changes; for caches.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._stored: dict[str, Resource] = {}
        self.revision = 0
        self.add(resources)

    def add(self, resources: Iterable[Resource]) -> None:
        """Serves these from now on."""
        for resource in resources:
            self._by_path[resource.group, resource.version, resource.plural] = resource
            if resource.api_version == resource.storage_api_version:
                self._stored[resource.storage] = resource
        self.revision += 1

    def remove(self, group: str, plural: str) -> None:
        """Serves no version of a resource any more."""
        gone = [path for path in self._by_path if path[0] == group and path[2] == plural]
        for path in gone:
            self._stored.pop(self._by_path.pop(path).storage, None)
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at a path."""
        return self._by_path.get((group, version, plural))

    def serves(self, group: str, version: str) -> bool:
        """Whether anything is served in a group version."""
        return any(path[:2] == (group, version) for path in self._by_path)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an apiVersion and a kind."""
        for resource in self._by_path.values():
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def stored(self, storage: str) -> Resource | None:
        """The resource at the version that is stored."""
        return self._stored.get(storage)

    def at_all_versions(self, resource: Resource) -> list[Resource]:
        """The resources that share their objects with one, itself included."""
        return [entry for entry in self._by_path.values() if entry.storage == resource.storage]

    def resources(self) -> list[Resource]:
        """All of them, in the order they came."""
        return list(self._by_path.values())
