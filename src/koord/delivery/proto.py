# SPDX-License-Identifier: Apache-2.0
"""Types of messages, made of ``.proto`` files in the package when a module is imported.

protobuf's runtime does the work; nothing is generated beforehand that could differ from the files.
Fields that a file leaves out stay in a message that was read and is written again. A file has one
message or field a line and no nesting.
Rule: docs/reference/delivery.md#messages.
"""

from __future__ import annotations

import re
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = re.compile(r"^package ([\w.]+);$", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (repeated )?(\w+|map<string, string>) (\w+) = (\d+);$")
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}


def file_descriptor(name: str, text: str) -> Any:
    """The descriptor of a file.

    Raises:
        ValueError: a line that is no field.
    """
    package = _PACKAGE.search(text)
    if package is None:
        raise ValueError(f"{name}: got no package, expected one")
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package[1], syntax="proto3")
    for message, body in _MESSAGE.findall(text):
        made = file.message_type.add(name=message)
        for line in body.splitlines():
            _add_field(made, f".{package[1]}", line)
    return file


def _add_field(message: Any, package: str, line: str) -> None:
    found = _FIELD.match(line)
    if found is None:
        raise ValueError(f"{message.name}: got {line!r}, expected a field")
    repeated, kind, name, number = found.groups()
    is_map = kind.startswith("map<")
    label = _Field.LABEL_REPEATED if repeated or is_map else _Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=int(number), label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        kind = f"{message.name}.{_add_pair(message, name)}" if is_map else kind
        field.type, field.type_name = _Field.TYPE_MESSAGE, f"{package}.{kind}"


def _add_pair(message: Any, field: str) -> str:
    """The message that protobuf wants for each pair of a map, nested and named as it says."""
    name = "".join(part.capitalize() for part in field.split("_")) + "Entry"
    pair = message.nested_type.add(name=name)
    pair.options.map_entry = True
    for number, part in enumerate(("key", "value"), 1):
        pair.field.add(
            name=part, number=number, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING
        )
    return name


def types_of(name: str, text: str) -> SimpleNamespace:
    """The classes of a file's messages, by their names.

    Raises:
        ValueError: a line that is no field.
    """
    file = file_descriptor(name, text)
    # A pool of its own: other programs in the process may have loaded the published files.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = {
        each.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{file.package}.{each.name}")
        )
        for each in file.message_type
    }
    return SimpleNamespace(**found)


def load(package: str, name: str) -> SimpleNamespace:
    """The classes of a file that lies in a package."""
    return types_of(name, files(package).joinpath(name).read_text("utf-8"))
