# SPDX-License-Identifier: Apache-2.0
"""What both installations have in common: definitions, webhooks, Leases and the objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.crdcompare import Side, compare
from koord.check.original.change import Effect, MovingChange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from koord.base.documents import Document

_MOST_PATHS = 3


def definitions(
    ours: Iterable[Document], theirs: Iterable[Document], needed: Collection[str]
) -> Iterator[MovingChange]:
    """How the definitions of an installation stand to koord's, strangers of the same groups last.

    Args:
        ours: all that koord reads objects of.
        theirs: those of a cluster, or of files.
        needed: names of those that are missed where they are not there.
    """
    there = {each["metadata"]["name"]: each for each in theirs}
    groups, known = set(), set()
    for each in ours:
        name = each["metadata"]["name"]
        groups.add(each["spec"]["group"])
        known.add(name)
        if name in there:
            yield from _definition(name, each, there[name])
        elif name in needed:
            yield MovingChange(Effect.NOTE, name, "not there: koord crds install adds it")
    for name, each in there.items():
        if name not in known and each.get("spec", {}).get("group") in groups:
            yield MovingChange(Effect.IGNORED, name, "koord does not read objects of this kind")


def _definition(name: str, ours: Document, theirs: Document) -> Iterator[MovingChange]:
    found = [each for each in compare(ours, theirs) if ".columns." not in each.path]
    other = [each.path for each in found if each.side is Side.OTHER]
    missing = [each.path for each in found if each.side is Side.MISSING]
    if other:
        yield MovingChange(Effect.DIFFERS, name, f"means another thing in {_some(other)}")
    if missing:
        why = f"lacks {_some(missing)}, which koord uses: koord crds install adds it"
        yield MovingChange(Effect.DIFFERS, name, why)


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return ", ".join(paths[:_MOST_PATHS]) + more


def webhooks(ours: Iterable[Document], theirs: Iterable[Document]) -> Iterator[MovingChange]:
    """How webhook configurations of the same names differ: entries, and who fails what."""
    there = {(each["kind"], each["metadata"]["name"]): each for each in theirs}
    for each in ours:
        old = there.get((each["kind"], each["metadata"]["name"]))
        if old is None:
            continue
        new_entries, old_entries = _by_name(each), _by_name(old)
        for name in sorted(old_entries.keys() - new_entries.keys()):
            yield MovingChange(Effect.DIFFERS, name, "koord has no webhook of that name")
        for name in sorted(new_entries.keys() - old_entries.keys()):
            yield MovingChange(Effect.NOTE, name, "not there; koord's configuration has it")
        for name in sorted(new_entries.keys() & old_entries.keys()):
            yield from _entry(name, new_entries[name], old_entries[name])


def _by_name(configuration: Document) -> dict[str, dict[str, Any]]:
    return {str(each.get("name")): each for each in configuration.get("webhooks") or ()}


def _entry(name: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[MovingChange]:
    was, becomes = (each.get("failurePolicy", "Fail") for each in (old, new))
    if was != becomes:
        yield MovingChange(
            Effect.DIFFERS, name, f"failurePolicy is {was}; koord's chart has {becomes} by default"
        )


def lease(name: str, namespace: str, document: Document | None, *, moved: bool) -> MovingChange:
    """Who leads by the Lease that both programs use.

    Args:
        name: of the Lease.
        namespace: of the Lease.
        document: the Lease; None where there is none.
        moved: whether the program that leads by it is koord's already.
    """
    title = f"Lease {namespace}/{name}"
    if document is None:
        return MovingChange(Effect.NOTE, title, "nobody leads by it")
    holder = document.get("spec", {}).get("holderIdentity")
    if not holder:
        who = "nobody leads now" if moved else "koord's program can lead at once"
        return MovingChange(Effect.NOTE, title, f"given back: {who}")
    waits = "" if moved else "; koord's program waits for it beside, and leads when it ends"
    why = f"held by {holder}{waits}"
    return MovingChange(Effect.NOTE, title, why)
