# SPDX-License-Identifier: Apache-2.0
"""Equal parts of many objects are kept once.

The pods of a workload differ in little: name, uid, address, times. A :class:`Interner` looks at
each field of each object. A text that was seen before is replaced by the earlier one; a struct,
list or map is known by its JSON text, and replaced as a whole where that was seen before. What a
field has seen lies in a table bounded in number and size, and all tables of the process have a
budget. Where a table fills up with values that
do not come again the field gives up its table: a text is then left alone, of anything else the
parts are looked at instead. So no field has to be named, and a kind that nobody thought of is
treated like pods.

Shared parts are read by many: nobody may change them.
"""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec
from msgspec.structs import astuple

from koord.api.codec import to_json
from koord.kernels.sharing import Place, SharedFields, Sharing, SharingBudget
from koord.kube.codec.projection import fields_of

T = TypeVar("T")

# A table keeps at least the last of this many different values, at most the last two times as many.
TABLE_SIZE = 8192
# Whatever kinds, fields and informers it is of: each kind has a hundred fields, and each of them
# could have a megabyte of what somebody wrote and took back.
_SHARED_BYTES = 32 << 20
_BUDGET = SharingBudget(_SHARED_BYTES)


class Interner:
    """Makes the objects it is given share their equal parts.

    Args:
        table_size: how many different values of one field are remembered, at least; fewer where
            they are large.
        budget: of the memory of what is remembered; None for that which all have together.
    """

    def __init__(self, table_size: int = TABLE_SIZE, budget: SharingBudget | None = None) -> None:
        budget = budget or _BUDGET
        self._sharing = Sharing(budget, table_size, to_json, self._fields, astuple)
        self._root = self.place()

    def share(self, value: T) -> T:
        """The same struct, list or map, its parts replaced by equal ones of earlier calls.

        Structs are changed in place, so that nobody else may hold the value yet.
        """
        shared: T = self._sharing.inside(value, self._root)
        return shared

    def struct(self, kind: type) -> InternedStruct:
        """How structs of a type are shared."""
        return cast("InternedStruct", self._sharing.fields(kind))

    def place(self) -> Place:
        """A new place, with nothing seen."""
        return Place(self._sharing)

    def _fields(self, kind: type) -> InternedStruct | None:
        return (
            InternedStruct(kind, self, self._sharing) if issubclass(kind, msgspec.Struct) else None
        )


class InternedStruct(SharedFields):
    """The fields of one struct type."""

    def __init__(self, kind: type, sharer: Interner, sharing: Sharing) -> None:
        fields = fields_of(kind)
        frozen = kind.__struct_config__.frozen  # type: ignore[attr-defined]
        assign = msgspec.structs.force_setattr if frozen else setattr
        super().__init__(sharing, [(each.name, sharer.place()) for each in fields], assign)
