# SPDX-License-Identifier: Apache-2.0
"""Which of a CustomResourceDefinition's names are free: within a group every name is given once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.base.documents import Document


class AcceptedNames(NamedTuple):
    """What a definition gets of the names that it asks for.

    Attributes:
        names: for ``status.acceptedNames``: those that are free, else what it had.
        reason: of the condition ``NamesAccepted``; ``NoConflicts`` if it got all.
        message: the same.
    """

    names: Document
    reason: str
    message: str

    @property
    def all(self) -> bool:
        """Whether there was no conflict."""
        return self.reason == "NoConflicts"


def accept(crd: Document, others: Iterable[Document]) -> AcceptedNames:
    """The names of a definition beside those of the others of its group.

    Plural, singular and short names share one space, kind and list kind another. Of several
    conflicts the last one is told (apiextensions' naming controller).
    """
    wanted = crd["spec"]["names"]
    had: Document = (crd.get("status") or {}).get("acceptedNames") or {}
    paths, kinds = _claimed(crd, others)
    names: Document = {"plural": "", "kind": "", **had}
    reason, message = "NoConflicts", "no conflicts found"
    for key, taken in (
        ("plural", paths), ("singular", paths), ("shortNames", paths), ("kind", kinds),
        ("listKind", kinds),
    ):  # fmt: skip
        clashes = [name for name in _listed(wanted.get(key)) if name in taken]
        if clashes:
            told = [f'"{name}" is already in use' for name in clashes]
            message = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
            reason = f"{key[0].upper()}{key[1:]}Conflict"
        else:
            _take(names, wanted, key)
    _take(names, wanted, "categories")
    return AcceptedNames(names, reason, message)


def _claimed(crd: Document, others: Iterable[Document]) -> tuple[set[str], set[str]]:
    """The names that other definitions of the group have been given."""
    paths: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != crd["spec"]["group"]:
            continue
        if other["metadata"]["name"] == crd["metadata"]["name"]:
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        for key in ("plural", "singular", "shortNames"):
            paths.update(_listed(names.get(key)))
        for key in ("kind", "listKind"):
            kinds.update(_listed(names.get(key)))
    return paths, kinds


def _take(names: Document, wanted: Document, key: str) -> None:
    if key in wanted:
        names[key] = wanted[key]
    else:
        names.pop(key, None)


def _listed(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    return list(value or ())
