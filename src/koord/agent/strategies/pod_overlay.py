# SPDX-License-Identifier: Apache-2.0
"""Settings of a node overlaid by those of a pod: what the pod does not set stays the node's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.pod import Pod
    from koord.api.wirestruct import WireStruct

S = TypeVar("S", bound="WireStruct")
T = TypeVar("T")


def overlaid(base: S, over: WireStruct) -> S:
    """A copy of ``base`` with every field of ``over`` that says something.

    None and empty text are "not set"; ``over`` may have fields that ``base`` has not.
    """
    values = {name: getattr(base, name) for name in base.__struct_fields__}
    for name in values:
        said = getattr(over, name, None)
        if said is not None and said != "":
            values[name] = said
    return type(base)(**values)


def lenient(read: Callable[[Pod], T], pod: Pod) -> T | None:
    """An annotation of a pod; None where it is absent or malformed."""
    try:
        return read(pod)
    except KoordError:
        return None
