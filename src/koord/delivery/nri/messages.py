# SPDX-License-Identifier: Apache-2.0
"""Types of the messages, made of the ``.proto`` files beside this module when it is imported.

protobuf's runtime does the work; nothing is generated beforehand that could differ from the files.
Fields that a file leaves out stay in a message that was read and is written again.
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
_FIELD = re.compile(r"^  (repeated )?(\w+) (\w+) = (\d+);$")
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint64": _Field.TYPE_UINT64,
}


def file_descriptor(name: str, text: str) -> Any:
    """The descriptor of a file in the form of the two beside this module.

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
    label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=int(number), label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f"{package}.{kind}"


def types_of(name: str, text: str) -> SimpleNamespace:
    """The classes of a file's messages, by their names.

    Raises:
        ValueError: a line that is no field.
    """
    file = file_descriptor(name, text)
    # A pool of its own: other programs in the process may have loaded NRI's published files.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = {
        each.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{file.package}.{each.name}")
        )
        for each in file.message_type
    }
    return SimpleNamespace(**found)


def _load(name: str) -> SimpleNamespace:
    return types_of(name, files(__package__).joinpath(name).read_text("utf-8"))


NRI: Any = _load("nri.proto")
"""Classes of NRI's messages, e.g. ``NRI.PodSandbox``."""
TTRPC: Any = _load("ttrpc.proto")
"""``Request``, ``Response`` and ``Status``."""
