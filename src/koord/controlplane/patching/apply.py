# SPDX-License-Identifier: Apache-2.0
"""Server-side apply, and the field managers of objects that were applied once.

An object that was never applied carries no ``managedFields`` here: tracking would cost every create
more than all its other work. Its first apply finds a manager ``before-first-apply`` that owns what
is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.controlplane.api_errors import bad_request, failure
from koord.controlplane.patching import last_applied
from koord.controlplane.patching.bodies import copied
from koord.controlplane.patching.field_managers import (
    APPLY,
    UPDATE,
    FieldManager,
    FieldManagers,
    OwnedFields,
    capped,
    decode,
    encode,
    losing,
    manager_of,
    owning,
)
from koord.controlplane.patching.field_sets import (
    EMPTY,
    MalformedError,
    Paths,
    text,
    tree,
    with_named_parents,
)
from koord.controlplane.patching.typed import check, compare, field_set, merge, remove
from koord.kube.errors import StatusCause, StatusDetails

if TYPE_CHECKING:
    from koord.api.patching.shapes import Shape
    from koord.base.documents import Document
    from koord.controlplane.resource import Context, Schema
    from koord.kube.errors import ApiError

BEFORE_FIRST_APPLY = "before-first-apply"


@dataclass(frozen=True)
class _ManagerWrite:
    """One change by one manager: all that the steps below share."""

    shape: Shape
    api_version: str
    subresource: str
    ignored: frozenset[str]
    now: str

    def manager(self, name: str, operation: str) -> FieldManager:
        return manager_of(name, operation, self.subresource, self.api_version)


def apply(
    live: Document | None,
    applied: Document,
    manager: str,
    force: bool,
    schema: Schema,
    context: Context,
    *,
    subresource: str = "",
    ignored: frozenset[str] = frozenset(),
) -> Document:
    """The live document with an applied one merged in.

    Args:
        live: as stored; None where there is no object yet.
        applied: the body as a document, apiVersion and kind checked, nothing pruned.
        manager: field manager.
        force: take over what others own instead of failing.
        schema: of the kind.
        context: of the request.
        subresource: through which the change comes.
        ignored: top-level fields that this way in does not change: ``status`` for the main
            resource of a kind with a status subresource, ``spec`` for its ``/status``.

    Returns:
        A new document with ``metadata.managedFields``; not yet pruned, defaulted or validated.

    Raises:
        ApiError: 400, the applied document has managedFields; 409, other managers own fields
            that it changes; 500, it does not fit the schema (as a kube-apiserver has it).
    """
    write = _write(applied, schema, context, subresource, ignored)
    if applied.get("metadata", {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    _refuse_untyped(applied, write)
    before, managers = _taken_apart(live)
    if live is not None and not managers:
        managers = _updated({}, before, write.manager(BEFORE_FIRST_APPLY, UPDATE), {}, write)
    applier = write.manager(manager, APPLY)
    try:
        merged, managers = _applied(before, applied, applier, managers, force, write)
    except _ConflictsError as error:
        if manager != last_applied.MANAGER:
            raise _conflict(error.conflicts) from None
        allowed = last_applied.unchanged(before, write.shape)
        conflicts = {who: paths - allowed for who, paths in error.conflicts.items()}
        if any(conflicts.values()):
            raise _conflict(conflicts) from None
        merged, managers = _applied(before, applied, applier, managers, True, write)
    if manager == last_applied.MANAGER:
        merged = last_applied.renewed(merged, applied)
    return _put_together(merged, managers)


def track_update(
    old: Document | None,
    new: Document,
    manager: str,
    subresource: str,
    schema: Schema,
    context: Context,
    *,
    ignored: frozenset[str] = frozenset(),
) -> Document:
    """The new document with managedFields that tell of the change; for all writes but apply.

    Args:
        old: as stored; None for a create.
        new: as it is about to be stored, defaults included.
        manager: field manager.
        subresource: through which the change comes.
        schema: of the kind.
        context: of the request.
        ignored: see :func:`apply`.

    Returns:
        ``new`` itself where nothing is tracked, else a new document.
    """
    given = new.get("metadata", {}).get("managedFields")
    had = (old or {}).get("metadata", {}).get("managedFields")
    if given is None and not had:
        return new
    write = _write(new, schema, context, subresource, ignored)
    after, told = _taken_apart(new, lenient=True)
    before, managers = _taken_apart(old, lenient=True)
    if not subresource and (given in ([], [{}]) or told):
        managers = told
    if managers:
        managers = capped(_updated(before, after, write.manager(manager, UPDATE), managers, write))
    return _put_together(after, managers)


def _write(
    document: Document, schema: Schema, context: Context, subresource: str, ignored: frozenset[str]
) -> _ManagerWrite:
    version = document.get("apiVersion", "")
    return _ManagerWrite(schema.shape, version, subresource, ignored, context.now)


def _refuse_untyped(applied: Document, write: _ManagerWrite) -> None:
    wrong = check(applied, write.shape)
    if not wrong:
        return
    metadata = applied.get("metadata", {})
    told = wrong[0] if len(wrong) == 1 else "errors:\n  " + "\n  ".join(wrong)
    group_version = write.api_version if "/" in write.api_version else f"/{write.api_version}"
    raise failure(
        500,
        "",
        f"failed to create typed patch object ({metadata.get('namespace', '')}/"
        f"{metadata.get('name', '')}; {group_version}, Kind={applied.get('kind', '')}): {told}",
    )


def _applied(
    live: Document,
    applied: Document,
    applier: FieldManager,
    managers: FieldManagers,
    force: bool,
    write: _ManagerWrite,
) -> tuple[Document, FieldManagers]:
    """Merges, drops what the applier no longer sets, and settles who owns what.

    Raises:
        _ConflictsError: others own what would change.
    """
    last = managers[applier].paths if applier in managers else EMPTY
    time = managers[applier].time if applier in managers else ""
    sets = OwnedFields(
        _without(field_set(applied, write.shape), write.ignored), write.api_version, time
    )
    managers = managers | {applier: sets}
    merged = _pruned(merge(live, applied, write.shape), managers, last, write.shape)
    difference = compare(live, merged, write.shape).without(write.ignored)
    others = {manager: owned for manager, owned in managers.items() if manager != applier}
    changed = difference.modified | difference.added
    conflicts = {who: owned.paths & changed for who, owned in others.items()}
    conflicts = {who: paths for who, paths in conflicts.items() if paths}
    if conflicts and not force:
        raise _ConflictsError(conflicts)
    lost = {who: conflicts.get(who, EMPTY) | difference.removed for who in others}
    if merged != live:
        sets = OwnedFields(sets.paths, sets.api_version, write.now)
    return merged, owning(losing(others, lost), applier, sets)


def _pruned(merged: Document, managers: FieldManagers, last: Paths, shape: Shape) -> Document:
    """Drops what the applier owned last time and nobody owns now."""
    if not last:
        return merged
    last = with_named_parents(last, shape)
    present = with_named_parents(field_set(merged, shape), shape)
    owned: set[tuple[str, ...]] = set()
    for manager in managers.values():
        owned |= manager.paths
    bare = remove(merged, shape, tree(last))
    kept = with_named_parents(field_set(bare, shape), shape)
    kept |= with_named_parents(frozenset(owned), shape)
    held = remove(merged, shape, tree(present - kept))
    gone = present - with_named_parents(field_set(held, shape), shape)
    # What fell with its parent without being the applier's comes back.
    return remove(merged, shape, tree(gone & last)) or {}


def _updated(
    old: Document,
    new: Document,
    updater: FieldManager,
    managers: FieldManagers,
    write: _ManagerWrite,
) -> FieldManagers:
    """The managers after an update: it takes over whatever it changes."""
    difference = compare(old, new, write.shape).without(write.ignored)
    changed = difference.modified | difference.added
    lost = frozenset(changed | difference.removed)
    left = losing(managers, dict.fromkeys(managers, lost))
    taken = OwnedFields(frozenset(changed), write.api_version, write.now)
    took = owning({}, updater, taken).get(updater)
    if took is None:
        return left
    kept = left[updater].paths if updater in left else EMPTY
    return left | {updater: OwnedFields(took.paths | kept, write.api_version, write.now)}


def _taken_apart(
    document: Document | None, lenient: bool = False
) -> tuple[Document, FieldManagers]:
    """A copy without managedFields, and the managers in them."""
    if document is None:
        return {}, {}
    bare = copied(document)
    try:
        return bare, decode(bare.get("metadata", {}).pop("managedFields", None))
    except (MalformedError, AttributeError, TypeError) as error:
        if lenient:
            return bare, {}
        raise failure(500, "", f"failed to decode managed fields: {error}") from None


def _put_together(document: Document, managers: FieldManagers) -> Document:
    document = copied(document)
    if managers:
        document.setdefault("metadata", {})["managedFields"] = encode(managers)
    return document


def _without(paths: Paths, ignored: frozenset[str]) -> Paths:
    tops = {f"f:{name}" for name in ignored}
    return frozenset(path for path in paths if path[0] not in tops)


class _ConflictsError(Exception):
    """Others own what an apply would change."""

    def __init__(self, conflicts: dict[FieldManager, Paths]) -> None:
        super().__init__()
        self.conflicts = conflicts


def _conflict(conflicts: dict[FieldManager, Paths]) -> ApiError:
    listed = [
        (manager, text(path))
        for manager in sorted(conflicts, key=str)
        for path in sorted(conflicts[manager])
    ]
    causes = [
        StatusCause("FieldManagerConflict", f"conflict with {manager}", path)
        for manager, path in listed
    ]
    if len(listed) == 1:
        told = f"1 conflict: conflict with {listed[0][0]}: {listed[0][1]}"
    else:
        lines = []
        for manager in dict.fromkeys(manager for manager, _ in listed):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path}" for who, path in listed if who == manager]
        told = f"{len(listed)} conflicts: " + "\n".join(lines)
    return failure(409, "Conflict", f"Apply failed with {told}", StatusDetails(causes=causes))
