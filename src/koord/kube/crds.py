# SPDX-License-Identifier: Apache-2.0
"""Putting CustomResourceDefinitions into a cluster, and comparing its own with koord's."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.crdcompare import Difference, Side, compare
from koord.api.kinds.registry import Kind
from koord.base.documents import Document
from koord.base.errors import Code, KoordError
from koord.kube.errors import unless_missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from koord.kube.client import Client


CRD = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, ""
)
FIELD_MANAGER = "koord"

_POLL_SECONDS = 0.2


class InstallResult(StrEnum):
    """What an installation did to one object, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


async def install(
    client: Client,
    documents: Iterable[Document],
    kind: Kind = CRD,
    *,
    dry_run: bool = False,
    force: bool = False,
) -> AsyncIterator[tuple[str, InstallResult]]:
    """Applies objects of one kind, and tells of each as it is done.

    Args:
        client: the way to the cluster.
        documents: what is applied.
        kind: of the documents.
        dry_run: the server checks everything and stores nothing.
        force: take over fields that another field manager owns.

    Raises:
        ApiError: the server refuses one; those before it are installed.
    """
    for document in documents:
        name = document["metadata"]["name"]
        before = await unless_missing(client.get(kind, name))
        after = await client.apply(
            document, kind=kind, force=force, dry_run=dry_run, field_manager=FIELD_MANAGER
        )
        if before is None:
            outcome = InstallResult.CREATED
        elif _version(before) == _version(after):
            outcome = InstallResult.UNCHANGED
        else:
            outcome = InstallResult.CONFIGURED
        yield name, outcome


async def is_defined(client: Client, name: str) -> bool:
    """Whether a cluster has a definition, established or not."""
    return await unless_missing(client.get(CRD, name)) is not None


async def wait_established(client: Client, names: Sequence[str], timeout_seconds: float) -> None:
    """Waits until every definition is served.

    Raises:
        KoordError: one is not in time, or its names are taken by another definition.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    for name in names:
        while True:
            found = await unless_missing(client.get(CRD, name))
            conditions = _conditions(found or {})
            if conditions.get("Established", {}).get("status") == "True":
                break
            refused = conditions.get("NamesAccepted", {})
            if refused.get("status") == "False" or loop.time() >= deadline:
                said = refused.get("message") or f"not established after {timeout_seconds:g} s"
                title = f"CustomResourceDefinition {name}"
                raise _FailedError(title, "", said, "an established definition")
            await asyncio.sleep(_POLL_SECONDS)


class DefinitionState(StrEnum):
    """How a cluster's definition stands to koord's."""

    CURRENT = "current"
    MISSING = "missing"
    OLDER = "older"  # lacks something that koord uses
    DIFFERS = "differs"  # has something that means another thing to koord
    NEWER = "newer"  # has all that koord uses, and more
    NOT_ESTABLISHED = "not established"
    UNKNOWN = "unknown"  # of a group of koord's, and none of its kinds

    @property
    def fine(self) -> bool:
        """Whether koord can work with it."""
        return self in (DefinitionState.CURRENT, DefinitionState.NEWER, DefinitionState.UNKNOWN)


class DefinitionComparison(NamedTuple):
    """A definition of the cluster, or one that it lacks, beside koord's."""

    name: str
    state: DefinitionState
    differences: list[Difference]


async def check(client: Client, documents: Iterable[Document]) -> list[DefinitionComparison]:
    """Compares a cluster's definitions with those given, in their order; strangers come last.

    Args:
        client: the way to the cluster.
        documents: the definitions that ought to be there.
    """
    there = {each["metadata"]["name"]: each for each in (await client.list(CRD)).items}
    wanted = {each["metadata"]["name"]: each for each in documents}
    checked = [_check(name, ours, there.get(name)) for name, ours in wanted.items()]
    groups = {ours["spec"]["group"] for ours in wanted.values()}
    strangers = sorted(
        name for name, each in there.items() if name not in wanted and _group(each) in groups
    )
    return checked + [DefinitionComparison(name, DefinitionState.UNKNOWN, []) for name in strangers]


class _FailedError(KoordError):
    exit_status = 1

    def __init__(self, title: str, field: str, value: object, expected: str) -> None:
        super().__init__(title, field, value, expected, Code.UNSUPPORTED)


def _is_missing_column(difference: Difference) -> bool:
    """Columns are for people: koord works as well with a definition that lacks some."""
    return difference.side is Side.MISSING and ".columns." in difference.path


def _check(name: str, ours: Document, theirs: Document | None) -> DefinitionComparison:
    if theirs is None:
        return DefinitionComparison(name, DefinitionState.MISSING, [])
    differences = compare(ours, theirs)
    sides = {each.side for each in differences if not _is_missing_column(each)}
    if Side.OTHER in sides:
        state = DefinitionState.DIFFERS
    elif Side.MISSING in sides:
        state = DefinitionState.OLDER
    elif _conditions(theirs).get("Established", {}).get("status") != "True":
        state = DefinitionState.NOT_ESTABLISHED
    else:
        state = DefinitionState.NEWER if sides else DefinitionState.CURRENT
    return DefinitionComparison(name, state, differences)


def _conditions(document: Mapping[str, Any]) -> dict[str, Any]:
    # A server has null there until it has looked at a new definition.
    found = (document.get("status") or {}).get("conditions") or ()
    return {each["type"]: each for each in found}


def _version(document: Mapping[str, Any]) -> str:
    return str(document["metadata"].get("resourceVersion", ""))


def _group(document: Mapping[str, Any]) -> str:
    return str(document.get("spec", {}).get("group", ""))
