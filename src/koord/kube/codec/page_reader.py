# SPDX-License-Identifier: Apache-2.0
"""The objects of lists and watches made straight out of parts that are known by their bytes.

The pods of a workload repeat the same labels, containers and volumes, byte for byte. So a text is
cut to what is read of it, and of each object in it only the places of its fields (those of
metadata, spec and status) are looked up. Bytes that were seen before in that field stand for the
value of then, which is the one that :class:`koord.kube.codec.interner.Interner` keeps; only others
are decoded, and given to it. Of lists that hardly ever come again, as conditions with their times,
the items are known by their bytes. That is several times as fast as to decode every object whole
and to look for what it shares afterwards, and gives the same.
"""

from __future__ import annotations

from copy import copy
from datetime import datetime
from functools import cache
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import astuple

from koord.api import codec
from koord.kernels.projection import Projection
from koord.kernels.sharing import Assembly, KnownPart, LastStates, Part
from koord.kube.codec.projection import OUTLINED, fields_of, members

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.kernels.sharing import Place
    from koord.kube.codec.interner import Interner

T = TypeVar("T")

_SCALARS = (str, int, float, bool, type(None), datetime)
MANY, FEW = 16_384, 1024
"""How many bytes of each field are remembered at most: during a list, and between lists."""
_HEAD = 0
_DELETED = b'"DELETED"'


class PageReader(Generic[T]):
    """Makes shared objects of the items of a list, or of the events of a watch.

    Args:
        into: the type of the objects.
        sharer: keeps what they share.
        before: gives the state that is known of an object that was just made, None for none.
        by_text: whether of each object that a watch told of is remembered, by a digest, what is
            read of it: where nothing else is new, its last state comes again with another version,
            and nothing is decoded. For objects that mostly change in what nobody reads.
    """

    def __init__(
        self,
        into: type[T],
        sharer: Interner,
        before: Callable[[Any], T | None] | None = None,
        by_text: bool = False,
    ) -> None:
        self._parts: list[KnownPart] = []
        self._before = before or _nothing
        self._columns = count(_HEAD + 1)
        # By name on the wire, the columns of what metadata have.
        self._metadata: dict[str, int] = {}
        plan, self._assembly = self._struct(into, sharer, whole=True)
        items = next(self._columns), [plan]
        self._list = Projection({"metadata": (_HEAD, None), "items": items})
        self._event = Projection({"type": (_HEAD, None), "object": plan})
        self._last = self._last_states() if by_text else None

    @classmethod
    def of(
        cls,
        into: Any,
        sharer: Interner | None,
        before: Callable[[Any], Any] | None = None,
        by_text: bool = False,
    ) -> PageReader[Any] | None:
        """A reader; None for types whose objects cannot be put together from their fields."""
        if sharer is None or not _is_plain(into):
            return None
        return cls(into, sharer, before, by_text)

    def page(self, body: bytes) -> tuple[bytes, list[T]] | None:
        """The metadata of a list, as JSON (empty if it has none), and its items.

        Returns:
            None where the text is not as it usually is.

        Raises:
            msgspec.MsgspecError, UnicodeError, RecursionError: a part does not decode.
        """
        if self._last is not None:
            self._last.clear()
        return self._assembly.read(self._list, body, 1, self._before)

    def event(self, line: bytes) -> tuple[bytes, T] | None:
        """The type of an event, as JSON, and its object; otherwise as :meth:`page`."""
        found = self._assembly.read(self._event, line, 0, self._before, self._last)
        if found is None:
            return None
        if self._last is not None and found[0] == _DELETED:
            self._last.forget()
        return found[0], found[1][0]

    def remember(self, most: int) -> None:
        """Lets go of the bytes that are known, and remembers so many of each field from now on.

        What they stood for is still shared.
        """
        for part in self._parts:
            part.remember(most, brief=most > FEW)

    def _last_states(self) -> LastStates:
        names = self._metadata
        return LastStates(
            names["name"], names["namespace"], names["resourceVersion"], _digest, _at_version
        )

    def _struct(self, kind: Any, sharer: Interner, whole: bool = False) -> tuple[Any, Assembly]:
        """What of a struct type is cut out, with its columns, and how structs are put together."""
        parts: list[Part] = []
        plan: dict[str, Any] = {}
        kept = members(kind) or {}
        for field, (_, place) in zip(fields_of(kind), sharer.struct(kind).places, strict=True):
            name = field.encode_name
            if whole and name in OUTLINED and _is_plain(field.type):
                plan[name], assembly = self._struct(field.type, sharer)
                parts.append(assembly)
                if name == "metadata":
                    self._metadata = {of: at[0] for of, at in plan[name][1].items()}
            else:
                column = next(self._columns)
                plan[name] = column, kept[name]
                parts.append(self._part(column, field, place))
        column = next(self._columns)
        names = (
            None if kind.__struct_config__.frozen else tuple(each.name for each in fields_of(kind))
        )
        return (column, plan), Assembly(column, kind, astuple, parts, names)

    def _part(self, column: int, field: Any, place: Place) -> KnownPart:
        default: tuple[Any, ...] = ()
        if field.default_factory is not msgspec.NODEFAULT:
            default = (field.default_factory(),)
        elif field.default is not msgspec.NODEFAULT:
            default = (field.default,)
        scalar, items = _is_scalar(field.type), None
        if kind := _item_of(field.type):
            known = KnownPart(column, place.parts(), codec.decoder(kind).decode, (), False, FEW)
            items = known, codec.decoder(list[msgspec.Raw]).decode
        decode = codec.decoder(field.type).decode
        text = field.type is str
        part = KnownPart(column, place, decode, default, scalar, FEW, items, text)
        self._parts.append(part)
        return part


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _at_version(value: Any, version: str) -> Any:
    made = copy(value)
    made.metadata = copy(value.metadata)
    made.metadata.resource_version = version
    return made


def _nothing(made: object) -> None:
    """Nothing is known of any object."""


@cache
def _is_scalar(kind: Any) -> bool:
    """Whether values of a type have no parts."""
    if hasattr(kind, "__metadata__"):
        return _is_scalar(kind.__origin__)
    if get_origin(kind) in (list, dict, tuple, set, frozenset):
        return False
    if arguments := get_args(kind):
        return all(_is_scalar(each) for each in arguments)
    return kind in _SCALARS or isinstance(kind, str)  # one text of a Literal


@cache
def _item_of(kind: Any) -> Any:
    """The struct type of a list's items; None where a type is no such list."""
    if hasattr(kind, "__metadata__"):
        return None  # a list that is checked whole, or decoded in another way
    item = get_args(kind)[0] if get_origin(kind) is list else None
    return item if isinstance(item, type) and issubclass(item, msgspec.Struct) else None


@cache
def _is_plain(kind: Any) -> bool:
    """Whether a type is a struct that its fields, in their order, make."""
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return False
    config = kind.__struct_config__
    odd = config.array_like or config.forbid_unknown_fields or config.tag is not None
    names = tuple(field.name for field in fields_of(kind))
    return not odd and kind.__match_args__ == names and not hasattr(kind, "__post_init__")
