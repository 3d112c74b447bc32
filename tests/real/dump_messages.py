# SPDX-License-Identifier: Apache-2.0
"""Writes the table of messages from Kubernetes' types: ``schema/builtin/proto.json``.

Only facts are kept: the number of each field and whether its zero value stands for an absent one.
They are read from the tags of Go's struct fields, since the ``.proto`` files do not know which
fields are pointers. A test dumps the table anew from the module cache that the control plane for
the tests was built from, and compares it with the file.

    python -m tests.real.dump_messages > proto.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from tests.real.binaries import MODULES
from tests.real.build import run_go

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^\t(?:\w+\s+)?(?P<type>[*\[\]\w.]+)\s+`json:\"(?P<json>[^\"]*)\"[^`]*?"
    r"protobuf:\"\w+,(?P<number>\d+)",
    re.MULTILINE,
)
_GENERATED = ("generated.", "zz_generated.", "register.go", "doc.go")


class GoField(NamedTuple):
    """A field of a Go struct.

    Attributes:
        name: in JSON; empty for a struct whose fields stand among those of its holder.
        omitted: whether the zero value is left out of JSON.
    """

    name: str
    number: str
    type: str
    omitted: bool


def dump(types: Mapping[str, Mapping[str, Any]], sources: Mapping[str, str]) -> str:
    """The table as JSON text, one message a line.

    Args:
        types: the table of types, ``core.json``; what it does not name is left out.
        sources: of each Go package, e.g. ``api.core.v1``, the text of its files.
    """
    lines = []
    structs = {package: _structs(text) for package, text in sources.items()}
    for name, entry in types.items():
        package, _, struct = name.rpartition(".")
        known = entry.get("fields", {})
        message = {
            field: said for field, said in _message(structs[package], struct) if field in known
        }
        if message:
            lines.append(f"{json.dumps(name)}: {json.dumps(message)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _structs(text: str) -> dict[str, list[GoField]]:
    return {name: [_field(match) for match in _FIELD.finditer(body)]
            for name, body in _STRUCT.findall(text)}  # fmt: skip


def _field(match: re.Match[str]) -> GoField:
    name, *options = match["json"].split(",")
    omitted = "omitempty" in options and not match["type"].startswith("*")
    return GoField(name, match["number"], match["type"], omitted)


def _message(structs: Mapping[str, list[GoField]], name: str) -> Iterator[tuple[str, str]]:
    """Fields by their names in JSON, each with the path of numbers that leads to it."""
    for field in structs.get(name, ()):
        if field.name:
            yield field.name, field.number + "?" * field.omitted
            continue
        for inner, path in _message(structs, field.type):
            yield inner, f"{field.number}.{path}"


def go_sources(types: Iterable[str]) -> dict[str, str]:
    """The Go packages of types as the control plane for the tests is built from them."""
    packages = {name.rpartition(".")[0] for name in types}
    found = {}
    for package in sorted(packages):
        root, *parts = package.split(".")
        folder = _module_folder(f"k8s.io/{root}").joinpath(*parts)
        found[package] = "\n".join(
            path.read_text(encoding="utf-8")
            for path in sorted(folder.glob("*.go"))
            if not path.name.startswith(_GENERATED) and not path.name.endswith("_test.go")
        )
    return found


def _module_folder(module: str) -> Path:
    (kubernetes,) = (one for one in MODULES if one.folder == "kubernetes")
    # Programs may be kept where the modules that they were built from are not.
    run_go(kubernetes, "mod", "download", module)
    return Path(run_go(kubernetes, "list", "-m", "-f", "{{.Dir}}", module).strip())


def main() -> None:
    types = json.loads(files("koord.api.patching").joinpath("core.json").read_bytes())
    sys.stdout.write(dump(types, go_sources(types)))


if __name__ == "__main__":
    main()
