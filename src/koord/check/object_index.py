# SPDX-License-Identifier: Apache-2.0
"""What an object may refer to: the other objects of the files, and those of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from koord.base.errors import KoordError, nearest
from koord.check.problem import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koord.api.kinds.meta import Object
    from koord.api.kinds.registry import Kind
    from koord.check.subject import Subject

DEFAULT_NAMESPACE = "default"
# Looking for the nearest name takes longer than anything else here.
_MOST_HINTS, _MOST_KNOWN = 200, 2000


class ClusterReader(Protocol):
    """A cluster as far as checks need one; nothing is written."""

    def get(self, kind: Kind, name: str, namespace: str) -> Object | None:
        """An object; None if there is none, or its kind is not served."""
        ...

    def serves(self, kind: Kind) -> bool:
        """Whether the cluster has a kind."""
        ...

    def all(self, kind: Kind) -> Sequence[Any]:
        """All objects of a kind; none if it is not served."""
        ...


class ObjectIndex:
    """The subjects of a check, and the cluster if one was named.

    Args:
        subjects: all there are.
        cluster: None for a check offline.
    """

    def __init__(self, subjects: Iterable[Subject], cluster: ClusterReader | None = None) -> None:
        self.cluster = cluster
        self.memo: dict[str, Any] = {}
        self._by_kind: dict[tuple[str, str], dict[tuple[str, str], Subject]] = {}
        self._hints = _MOST_HINTS
        self.twice: dict[int, Subject] = {}
        for subject in subjects:
            known = self._by_kind.setdefault((subject.group, subject.kind), {})
            key = self._namespace(subject), subject.name
            first = known.setdefault(key, subject)
            if first is not subject and subject.name:
                self.twice[id(subject)] = first

    def of_kind(self, kind: Kind) -> Iterator[Subject]:
        """The subjects of a kind."""
        yield from self._by_kind.get((kind.group, kind.name), {}).values()

    def typed(self, kind: Kind) -> Iterator[Object]:
        """The subjects of a kind that can be read."""
        for subject in self.of_kind(kind):
            if not isinstance(subject.typed, KoordError):
                yield subject.typed

    def find(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """An object of the files or, if they have none of that name, of the cluster."""
        subject = self._by_kind.get((kind.group, kind.name), {}).get((namespace, name))
        if subject is not None and not isinstance(subject.typed, KoordError):
            return subject.typed
        if self.cluster is None or not name:
            return None
        return self.cluster.get(kind, name, namespace)

    def reference(
        self, kind: Kind, path: str, name: str, namespace: str = "", known: Sequence[str] = ()
    ) -> Iterator[Finding]:
        """Says so if an object that is referred to does not exist.

        Offline nobody knows what the cluster has. Files that hold objects of the kind are taken to
        hold those that matter, but that is a guess, so the finding is a warning.

        Args:
            kind: of the object.
            path: of the field that refers to it.
            name: the object's.
            namespace: the object's.
            known: names that always exist.
        """
        there = {key[1]: None for key in self._by_kind.get((kind.group, kind.name), {})}
        if name in known or (self.cluster is None and not there):
            return
        if (namespace, name) in self._by_kind.get((kind.group, kind.name), {}):
            return
        if self.cluster is not None and self.cluster.get(kind, name, namespace) is not None:
            return
        yield self.missing(path, name, kind.name, [*there, *known])

    def missing(self, path: str, name: str, what: str, known: Sequence[str]) -> Finding:
        """The finding that no object has a name, with the nearest of those that are known."""
        guess = None
        if self._hints:
            self._hints -= 1
            guess = nearest(name, list(known[:_MOST_KNOWN]))
        hint = f", such as {guess}" if guess else ""
        where = "the files or the cluster" if self.cluster is not None else "the files"
        severity = Severity.WARNING if self.cluster is None else Severity.ERROR
        return Finding(path, name, f"the name of a {what} of {where}{hint}", severity)

    def _namespace(self, subject: Subject) -> str:
        from koord.api.kinds.registry import kind_of

        kind = kind_of(subject.api_version, subject.kind)
        if kind is not None and not kind.namespaced:
            return ""
        return subject.namespace or DEFAULT_NAMESPACE
