# SPDX-License-Identifier: Apache-2.0
"""What somebody may write where koord reads JSON: texts, numbers, documents of its own fields."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, get_args, get_type_hints

import msgspec
from hypothesis import strategies as st

from koord.api import kinds, protocol
from koord.api.kinds.meta import Object
from koord.api.protocol import keys
from koord.api.wirestruct import WireStruct


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """All of a package."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def _structs() -> Iterator[type[WireStruct]]:
    for module in (*modules(protocol), *modules(kinds)):
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, WireStruct):
                yield each


def readers() -> list[tuple[str, Callable[[Any], object], type[Object]]]:
    """Every function of the protocol that reads one object, with the type that it takes.

    Those of any object are given a pod.
    """
    found = []
    kinds_by_name = {each.__name__: each for each in _structs() if issubclass(each, Object)}
    for module in modules(protocol):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ != module.__name__ or name.startswith("_"):
                continue
            first, *others = inspect.signature(function).parameters.values()
            needed = [each for each in others if each.default is each.empty]
            kind = str(first.annotation)
            kind = "Pod" if kind in ("Object", "Pod | None") else kind
            if kind in kinds_by_name and not needed:
                where = f"{module.__name__.rpartition('.')[2]}.{name}"
                found.append((where, function, kinds_by_name[kind]))
    return found


KEYS = sorted({value for value in vars(keys).values() if isinstance(value, str) and "/" in value})
_FIELDS = sorted(
    {field.encode_name for each in _structs() for field in msgspec.structs.fields(each)}
)
_WORDS = [
    "cpu", "memory", "koordinator.sh/gpu", "koordinator.sh/gpu-memory", "nvidia.com/gpu", "gpu",
    "rdma", "0", "1", "a", "main", "Device", "ApplyForAll", "auto", "none", "default",
]  # fmt: skip
TEXTS = (
    st.sampled_from([*_WORDS, "", "0-4294967295", "1e999", "-1", "9" * 400, "1n", "1E", "NaN"])
    | st.text(max_size=8)
    | st.text('{}[]":,0a\\u-+eE.', max_size=12)
)
_NUMBERS = (
    st.integers()
    | st.sampled_from(
        [2**31, 2**63, -(2**63) - 1, 2**64, 10**30, -1, 0, 1, 100, 1e308, -0.0, 1e-320]
    )
    | st.floats(allow_nan=False, allow_infinity=False)
)
LEAVES = st.none() | st.booleans() | _NUMBERS | TEXTS
NAMES = st.sampled_from([*_FIELDS, *_WORDS]) | st.text(max_size=4)
DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@cache
def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Documents that are nearly of a type: most fields are right, any may be anything.

    Remembered: to look through a type takes longer than to draw from it.
    """
    info = msgspec.inspect.type_info(kind) if isinstance(kind, type) else None
    if isinstance(info, msgspec.inspect.StructType):
        hints = get_type_hints(kind)
        parts = {each.encode_name: _nearly(hints[each.name]) for each in info.fields}
        return st.fixed_dictionaries({}, optional=parts) | DOCUMENTS
    return _nearly(kind)


def _nearly(hint: Any) -> st.SearchStrategy[Any]:
    inner = [each for each in get_args(hint) if each is not type(None)]
    origin = getattr(hint, "__origin__", None)
    if origin is list and inner:
        return st.lists(st.deferred(lambda: of_type(inner[0])), max_size=3) | DOCUMENTS
    if origin is dict and inner:
        return (
            st.dictionaries(NAMES, st.deferred(lambda: of_type(inner[1])), max_size=3) | DOCUMENTS
        )
    if len(inner) == 1:
        return of_type(inner[0])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return st.deferred(lambda: of_type(hint))
    if hint is str:
        return TEXTS
    if hint in (int, float):
        return _NUMBERS
    return LEAVES


ANNOTATIONS = TEXTS | DOCUMENTS.map(json.dumps)
