# SPDX-License-Identifier: Apache-2.0
"""Our ``.proto`` files beside the published ones: names, numbers and types of all fields."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import koord.delivery.cri
import koord.delivery.nri
from tests.real.binaries import MODULES
from tests.real.build import run_go
from tests.real.fixtures import need

pytestmark = pytest.mark.real

_OURS = Path(koord.delivery.nri.__file__).parent
_PROXY = Path(koord.delivery.cri.__file__).parent
_CRI = Path(__file__).with_name("cri.proto")
_STREAMING = Path(__file__).with_name("streaming.proto")
# What tests call otherwise, because messages with the same fields are one there, or are parts.
_CRI_NAMES = {
    "Sandbox": "StopPodSandboxRequest", "OneContainer": "StartContainerRequest",
    "SandboxSecurity": "LinuxSandboxSecurityContext",
    "ContainerSecurity": "LinuxContainerSecurityContext",
}  # fmt: skip
_SCALARS = {"bool", "bytes", "int32", "int64", "string", "uint32", "uint64"}


def fields(text: str) -> dict[str, dict[str, tuple[int, str]]]:
    """Messages that are not within others: number and type of each field, by its name."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).replace("{}", "{\n}")
    found = {}
    for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", plain, re.M | re.S):
        rows = re.findall(r"(repeated )?(map<[^>]*>|[\w.]+)\s+(\w+)\s*=\s*(\d+)[^;]*;", body)
        found[name] = {row[2]: (int(row[3]), _kind(*row[:2])) for row in rows}
    return found


def _kind(repeated: str, kind: str) -> str:
    if kind.startswith("map<"):
        return "repeated message"  # of pairs, on the wire
    return repeated + (kind if kind in _SCALARS else "message")


def published(module: str, path: str) -> dict[str, dict[str, tuple[int, str]]]:
    source = next(each for each in MODULES if each.folder == "containerd")
    run_go(source, "mod", "download", module)
    folder = Path(run_go(source, "list", "-m", "-f", "{{.Dir}}", module).strip())
    return fields((folder / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("ours", "module", "path", "names"),
    [
        (_OURS / "nri.proto", "github.com/containerd/nri", "pkg/api/api.proto", {}),
        (_OURS / "ttrpc.proto", "github.com/containerd/ttrpc", "request.proto", {}),
        (_PROXY / "cri.proto", "k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto", {}),
        (_CRI, "k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto", _CRI_NAMES),
        (_STREAMING, "k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto", {}),
    ],
)
def test_fields_are_those_of_the_published_file(
    ours: Path, module: str, path: str, names: dict[str, str]
) -> None:
    need("containerd")
    there = published(module, path)
    mine = fields(ours.read_text(encoding="utf-8"))
    assert len(mine) > 2
    for name, rows in mine.items():
        # Of no fields, of another published file, or the pairs of maps.
        if not rows or name in ("Status", "Entry"):
            continue
        for field, (number, kind) in rows.items():
            theirs = there[names.get(name, name)][field]
            # An enumeration is a number on the wire.
            enumeration = kind == "int32" and theirs[1] == "message"
            # Text up to 1.35, bytes later: the same on the wire.
            as_bytes = (name, field) == ("KeyValue", "value") and theirs == (number, "string")
            assert theirs == (number, kind) or enumeration or as_bytes, f"{name}.{field}"
