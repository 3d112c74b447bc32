# SPDX-License-Identifier: Apache-2.0
"""One object of a file, as checkers see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from koord.api import objects
from koord.base.errors import KoordError
from koord.check.field_location import FieldLocation, locate, written
from koord.check.problem import FileProblem, Finding, Severity

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object
    from koord.check.source_tree import SourceNode


@dataclass(eq=False)
class Subject:
    """An object, or a pod template inside one.

    Attributes:
        file: where it stands, as the file was named.
        document: the object.
        branch: the place of the object, or of the object that it is a part of.
        whole: the document at that place.
        prefix: keys from there to this object.
        within: what it is a part of; None for an object of its own.
    """

    file: str
    document: dict[str, Any]
    branch: SourceNode
    whole: Any = None
    prefix: tuple[str | int, ...] = ()
    within: Subject | None = None

    @property
    def api_version(self) -> str:
        """As the object says; ``""`` where it does not."""
        return _text(self.document.get("apiVersion"))

    @property
    def kind(self) -> str:
        """As the object says; ``""`` where it does not."""
        return _text(self.document.get("kind"))

    @property
    def group(self) -> str:
        """The API group, ``""`` for the core."""
        head, slash, _ = self.api_version.partition("/")
        return head if slash else ""

    @property
    def name(self) -> str:
        """The object's name, or what its name begins with."""
        return _text(self._metadata.get("name")) or _text(self._metadata.get("generateName"))

    @property
    def namespace(self) -> str:
        """The object's namespace; ``""`` where it does not say."""
        return _text(self._metadata.get("namespace"))

    @property
    def title(self) -> str:
        """How problems name the object."""
        if self.within is not None:
            return self.within.title
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}".strip()

    @cached_property
    def typed(self) -> Object | KoordError:
        """The object as koord reads it, or why it cannot be read."""
        try:
            return objects.decode(self.document, self.title)
        except KoordError as error:
            return error

    def part(self, document: dict[str, Any], *keys: str | int) -> Subject:
        """An object at a place inside this one."""
        return Subject(
            self.file, document, self.branch, self.whole, (*self.prefix, *keys), self
        )  # fmt: skip

    def locate(self, path: str) -> FieldLocation:
        """Where a field of the object stands."""
        if path.startswith(("annotations", "labels")) and not self._is_top(path):
            path = f"metadata.{path}"
        head = written(self.prefix)
        joined = f"{head}.{path}" if head and path and path[0] != "[" else head + path
        return locate(self.whole, self.branch, joined)

    def problem(self, finding: Finding) -> FileProblem:
        """A finding with its place; paths are told from the outermost object on."""
        # Readers of texts add what sort of text it is: `annotations[a].reservedCPUs: cpu list`.
        path = finding.path.partition(": ")[0]
        place = self.locate("kind" if path == "apiVersion, kind" else path)
        return FileProblem(
            self.file, place.line, self.title, place.path.removeprefix(self._outer),
            finding.value, finding.expected, Severity(finding.severity),
        )  # fmt: skip

    @property
    def _outer(self) -> str:
        """The path of the outermost object, which is inside a list."""
        top = self
        while top.within is not None:
            top = top.within
        return f"{written(top.prefix)}." if top.prefix else ""

    def _is_top(self, path: str) -> bool:
        return path.partition("[")[0].partition(".")[0] in self.document

    @property
    def _metadata(self) -> dict[str, Any]:
        found = self.document.get("metadata")
        return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
