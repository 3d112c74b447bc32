# SPDX-License-Identifier: Apache-2.0
"""Equal parts of many objects are kept once.

The pods of a workload differ in little: name, uid, address, times. A :class:`Sharer` looks at each
field of each object. A text that was seen before is replaced by the earlier one; a struct, list or
map is known by its JSON text, and replaced as a whole where that was seen before. What a field
has seen lies in a bounded table. Where a table fills up with values that do not come again the
field gives up its table: a text is then left alone, of anything else the parts are looked at
instead. So no field has to be named, and a kind that nobody thought of is treated like pods.

Shared parts are read by many: nobody may change them.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import astuple

from koord.api.codec import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# A table keeps at least the last of this many different values, at most the last two times as many.
TABLE_SIZE = 8192

# After so many different values it shows whether any come again.
_TRIAL = 1024

# Too small to be worth a look.
_UNSHARED = (bool, type(None), int, float)
# Known by their value and not by their JSON text.
_PLAIN = (str, datetime)
_EMPTY: dict[type, Any] = {list: [], dict: {}}


class Sharer:
    """Makes the objects it is given share their equal parts.

    Args:
        table_size: how many different values of one field are remembered, at least.
    """

    def __init__(self, table_size: int = TABLE_SIZE) -> None:
        self._table_size = table_size
        self._structs: dict[type, _Struct] = {}
        self._root = self.place()

    def share(self, value: T) -> T:
        """The same struct, list or map, its parts replaced by equal ones of earlier calls.

        Structs are changed in place, so that nobody else may hold the value yet.
        """
        shared: T = self.inside(value, self._root)
        return shared

    def inside(self, value: Any, place: _Place) -> Any:
        """The value, its parts shared.

        Args:
            value: a struct, list or map; anything else stays as it is.
            place: where lists and maps keep the tables of their parts.
        """
        kind = type(value)
        struct = self._structs.get(kind)
        if struct is None and isinstance(value, msgspec.Struct):
            struct = self._structs[kind] = _Struct(kind, self)
        if struct is not None:
            struct.share(value)
        elif kind is list:
            parts = place.parts()
            return [parts.share(item) for item in value]
        elif kind is dict:
            names, parts = place.named_parts()
            return {names.share(name): parts.share(item) for name, item in value.items()}
        return value

    def place(self) -> _Place:
        """A new place, with nothing seen."""
        return _Place(self, self._table_size)


class _Struct:
    """The fields of one struct type."""

    def __init__(self, kind: type, sharer: Sharer) -> None:
        fields = msgspec.structs.fields(kind)
        self._places = [(field.name, sharer.place()) for field in fields]
        frozen = kind.__struct_config__.frozen  # type: ignore[attr-defined]
        self._set: Callable[[Any, str, Any], None] = (
            msgspec.structs.force_setattr if frozen else setattr
        )

    def share(self, value: Any) -> None:
        """Shares every field, in place."""
        # One of the hottest loops of an informer: most fields are empty, or texts that are known
        # or never come again, and cost no call.
        for had, (name, place) in zip(astuple(value), self._places, strict=True):
            if not had:
                shared = _EMPTY.get(type(had), had)
            elif type(had) is str:
                if place.open:
                    continue
                shared = place.seen.get(had)
                if shared is None:
                    shared = place.share(had)
                else:
                    place.hits += 1
            elif type(had) in _UNSHARED:
                continue
            else:
                shared = place.share(had)
            if shared is not had:
                self._set(value, name, shared)


class _Place:
    """One field of one type, or the items of one: what was seen there."""

    __slots__ = ("_names", "_old", "_parts", "_sharer", "_size", "hits", "open", "seen")

    def __init__(self, sharer: Sharer, size: int) -> None:
        self._sharer = sharer
        self._size = size
        # Two generations: a value is forgotten when it was not met while a whole one filled up.
        self.seen: dict[Any, Any] = {}
        self._old: dict[Any, Any] = {}
        self.hits = 0
        self.open = False
        self._parts: _Place | None = None
        self._names: _Place | None = None

    def parts(self) -> _Place:
        """The place of a list's items or a map's values."""
        if self._parts is None:
            self._parts = self._sharer.place()
        return self._parts

    def named_parts(self) -> tuple[_Place, _Place]:
        """The places of a map's keys and of its values."""
        if self._names is None:
            self._names = self._sharer.place()
        return self._names, self.parts()

    def share(self, value: Any) -> Any:
        """An equal value that was here before, or this one with its parts shared."""
        kind = type(value)
        if kind in _UNSHARED:
            return value
        if not value and kind in _EMPTY:
            return _EMPTY[kind]
        plain = kind in _PLAIN
        if self.open:
            return value if plain else self._sharer.inside(value, self)
        # Equal JSON texts of one place mean equal values. Quantities that are equal may be
        # spelled differently, so they go by their text too.
        key = value if plain else to_json(value)
        found = self.seen.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return self._remember(key, value if plain else self._sharer.inside(value, self))
            self._remember(key, found)
        self.hits += 1
        return found

    def _remember(self, key: Any, value: Any) -> Any:
        self.seen[key] = value
        known = len(self.seen)
        if known == self._size:
            # A generation is full, and takes the place of the one before.
            self._old, self.seen = self.seen, {}
            self._judge(self._size // 4)
            self.hits = 0
        elif known == _TRIAL and not self._old:
            self._judge(_TRIAL // 32)
        return value

    def _judge(self, least_hits: int) -> None:
        """Gives the table up if it is of little use."""
        if self.hits < least_hits:
            self.open = True
            self._old, self.seen = {}, {}
