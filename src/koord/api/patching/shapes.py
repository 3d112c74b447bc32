# SPDX-License-Identifier: Apache-2.0
"""The shape of documents: what decoding, patches and managed fields need to know of a type.

Core types come from the table (:mod:`koord.api.patching.core_types`), those of custom
resources from their structural schemas; nothing that uses shapes can tell the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

ANY = "any"
STRUCT = "struct"
LIST = "list"
MAP = "map"
SCALAR = "scalar"

ATOMIC = "atomic"
SET = "set"


@dataclass(slots=True, eq=False, repr=False)
class Shape:
    """The shape of a type.

    Attributes:
        type: ``struct``, ``list``, ``map``, ``any``, or the word of a scalar: ``string``,
            ``boolean``, ``int32``, ``int64``, ``double``, ``byte`` (base64), ``time``,
            ``micro-time``, ``quantity``, ``int-or-string``, or ``scalar`` for one of any type.
        name: of a struct, e.g. ``io.k8s.api.core.v1.Pod``.
        fields: of a struct.
        element: of a list or map.
        list_type: of a list: ``atomic``, ``set`` or ``map``.
        keys: what tells the items of a ``map`` list apart.
        atomic: a struct or map that has one owner as a whole.
        open: a struct that keeps fields it does not name.
    """

    type: str
    name: str = ""
    fields: dict[str, Field] = field(default_factory=dict)
    element: Shape | None = None
    list_type: str = ATOMIC
    keys: tuple[str, ...] = ()
    atomic: bool = False
    open: bool = False


class Field(NamedTuple):
    """A field of a struct.

    Attributes:
        shape: of the value.
        strategy: of strategic merge patches: ``merge``, ``replace``, ``retainKeys``.
        merge_key: field that tells the items of a merged list apart.
        default: scalar that stands for an absent value; None for none.
        required: whether it must be there.
        enum: the values that documentation names; not enforced here.
    """

    shape: Shape
    strategy: frozenset[str] = frozenset()
    merge_key: str = ""
    default: Any = None
    required: bool = False
    enum: tuple[str, ...] = ()


ANYTHING = Shape(ANY)
