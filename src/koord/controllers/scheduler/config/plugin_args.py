# SPDX-License-Identifier: Apache-2.0
"""What all plugin arguments have in common: strict reading, defaults, a check."""

from __future__ import annotations

from typing import Any, Self, TypeVar

import msgspec

from koord.api import codec
from koord.api.wirestruct import wire_name
from koord.base.config import reject_unknown
from koord.controllers.scheduler.config.field_path import FieldPath

T = TypeVar("T")

API_VERSION = "kubescheduler.config.k8s.io/v1"


class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, rename=wire_name):
    """A mapping of the configuration file; unknown keys are refused."""


class PluginArgs(ConfigStruct, frozen=True):
    """Arguments of a plugin, complete: every field has the value that holds."""

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """The document with defaults filled in that depend on other fields."""
        return document

    def check(self, at: FieldPath) -> None:
        """Refuses values that the types allow and the plugin does not.

        Raises:
            KoordError: the first of them.
        """

    @classmethod
    def read(cls, document: dict[str, Any], at: FieldPath) -> Self:
        """The arguments in a plain document, checked.

        Raises:
            KoordError: an unknown key, a value of the wrong type or out of range.
        """
        found = read_struct(cls, document, at, cls.prepared)
        found.check(at)
        return found


def read_struct(kind: type[T], document: object, at: FieldPath, prepare: Any = None) -> T:
    """A struct from a plain document, strictly; ``null`` is the same as absent.

    Args:
        kind: the struct.
        document: what the file has there.
        at: where that is.
        prepare: changes the document before it is converted, keys checked.

    Raises:
        KoordError: no mapping, an unknown key or a value of the wrong type.
    """
    if not isinstance(document, dict):
        at.refuse(document, "a mapping")
    body = codec.without_nulls(document, at.source)
    reject_unknown(kind, body, at.source, at.path)
    return codec.convert(prepare(body) if prepare else body, kind, at.source, at.path)


def without_empty(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The document without those keys whose value is empty, so that their defaults hold."""
    return {key: value for key, value in document.items() if key not in keys or value}
