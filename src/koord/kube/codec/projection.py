# SPDX-License-Identifier: Apache-2.0
"""Answers cut down to what a type reads of them, before they are decoded.

Of a running pod a scheduler reads a fifth. A decoder passes over the rest value by value;
:mod:`koord.kernels.projection` is several times as fast, and what it leaves of two pods is the same
bytes more often: a list can then be put together from parts that are known.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, get_args

import msgspec

from koord.kernels.projection import Projection


class OmitIfPresent(NamedTuple):
    """Marks a list in a type: items that have a member of this name are not read.

    As ``Annotated[list[dict[str, Any]], OmitIfPresent("projected")]``.

    Attributes:
        member: its name on the wire.
    """

    member: str


class ProjectItems(NamedTuple):
    """Marks a list of structs in a type that read little of what is there: items are cut too."""


# The parts of an object that are cut. What lies deeper is kept whole where no mark says otherwise:
# most of it is read, and to look what is not costs more than to pass over it later.
OUTLINED = ("metadata", "spec", "status")


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a struct type: worked out once, which takes longer than all else of a plan."""
    return msgspec.structs.fields(kind)


def members(kind: Any) -> dict[str, Any] | None:
    """The members that a type reads, each with what is kept of it.

    None where it is no struct, or reads them in other ways.
    """
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return None
    config = kind.__struct_config__
    if config.array_like or config.forbid_unknown_fields or config.tag is not None:
        return None
    return {each.encode_name: _marked(each.type) for each in fields_of(kind)}


def projection(kind: Any, *parents: str) -> Projection:
    """Keeps what a type reads.

    Args:
        kind: of an object.
        parents: names of what the object stands in, the outermost first; with ``[]`` a list. All
            else there is kept too, as far as it is called ``metadata`` or ``type``.
    """
    plan = _whole(kind)
    for name in reversed(parents):
        inside = [plan] if name.endswith("[]") else plan
        plan = {"type": None, "metadata": None, name.removesuffix("[]"): inside}
    return Projection(plan)


def _whole(kind: Any) -> Any:
    plan = members(kind)
    if plan is None:
        return None
    for field in fields_of(kind):
        if field.encode_name in OUTLINED:
            plan[field.encode_name] = members(field.type)
    return plan


def _marked(kind: Any) -> Any:
    for mark in getattr(kind, "__metadata__", ()):
        if isinstance(mark, OmitIfPresent):
            return [mark.member]
        if isinstance(mark, ProjectItems):
            return [members(get_args(kind.__origin__)[0])]
    return None
