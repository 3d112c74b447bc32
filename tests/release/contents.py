# SPDX-License-Identifier: Apache-2.0
"""What is in an image, by the package that it came with."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SITE = "opt/koord/lib/python3.11/site-packages"
STATUS = "var/lib/dpkg/status.d"
MIB = 1 << 20
LIMIT_MIB = 200

# All that may be in an image; whatever else comes along has to be looked at first.
_DEBIAN = """
base-files libbz2-1.0 libc6 libexpat1 libffi8 libgcc-s1 liblzma5 libpython3.11-minimal
libpython3.11-stdlib libsqlite3-0 libssl3 libstdc++6 libuuid1 netbase python3.11-minimal zlib1g
"""
_PYTHON = """
aiohappyeyeballs aiohttp aiosignal annotated-doc annotated-types attrs cffi click cryptography
frozenlist idna koord markdown-it-py mdurl msgspec multidict numpy prometheus-client propcache
pycparser pydantic pydantic-core pygments pyyaml rich shellingham typer typing-extensions
typing-inspection yarl
"""
DEBIAN = frozenset(_DEBIAN.split())
PYTHON = frozenset(_PYTHON.split())
CONTROLLER_PYTHON = PYTHON | {"uvloop"}
AGENT_PYTHON = PYTHON | {"grpcio", "nvidia-ml-py", "protobuf", "pyroute2"}


@dataclass(frozen=True)
class Part:
    """A package in an image.

    Attributes:
        origin: ``Debian`` or ``PyPI``.
        licence: what its metadata says; nothing where that says nothing.
        size: bytes of its files, and of what the interpreter made of them.
    """

    name: str
    version: str
    origin: str
    licence: str
    size: int


def parts(root: Path) -> list[Part]:
    """The packages of an unpacked image, the largest first."""
    owners = _debian_files(root) | _python_files(root)
    sizes: Counter[str] = Counter()
    for path in _files(root):
        sizes[owners.get(_source(path), "")] += (root / path).lstat().st_size
    found = [
        Part(name, version, origin, licence, sizes[f"{origin} {name}"])
        for origin, name, version, licence in (*_debian(root), *_python(root))
    ]
    rest = sum(sizes.values()) - sum(each.size for each in found)
    found.append(Part("links, environments and caches", "", "", "", rest))
    return sorted(found, key=lambda each: -each.size)


def total(root: Path) -> int:
    """Bytes of all files of an unpacked image."""
    return sum((root / path).lstat().st_size for path in _files(root))


def strangers(found: list[Part], python: frozenset[str]) -> list[str]:
    """Packages that nobody has allowed."""
    allowed = {"Debian": DEBIAN, "PyPI": python}
    return [each.name for each in found if each.origin and each.name not in allowed[each.origin]]


def _files(root: Path) -> list[str]:
    return [
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    ]


def _source(path: str) -> str:
    """The module that a compiled one was made from; any other file is its own."""
    found = re.fullmatch(r"(.*/)__pycache__/(.+)\.cpython-\d+(\.opt-\d)?\.pyc", path)
    return f"{found[1]}{found[2]}.py" if found else path


def _debian(root: Path) -> list[tuple[str, str, str, str]]:
    files = [each for each in (root / STATUS).iterdir() if each.suffix != ".md5sums"]
    described = (_fields(each.read_text(encoding="utf-8")) for each in files)
    return [("Debian", each["Package"], each["Version"], "") for each in described]


def _debian_files(root: Path) -> dict[str, str]:
    return {
        # Their paths are those before /bin and /lib became links.
        re.sub(r"^(bin|sbin|lib|lib64)/", r"usr/\1/", line.split(None, 1)[1]): f"Debian {file.stem}"
        for file in (root / STATUS).glob("*.md5sums")
        for line in file.read_text(encoding="utf-8").splitlines()
    }


def _python(root: Path) -> list[tuple[str, str, str, str]]:
    found = []
    for file in (root / SITE).glob("*.dist-info/METADATA"):
        fields = _fields(file.read_text(encoding="utf-8"))
        licence = fields.get("License-Expression", fields.get("License", ""))
        found.append(("PyPI", _normal(fields["Name"]), fields["Version"], licence))
    return found


def _python_files(root: Path) -> dict[str, str]:
    owners = {}
    for record in (root / SITE).glob("*.dist-info/RECORD"):
        metadata = _fields((record.parent / "METADATA").read_text(encoding="utf-8"))
        owner = f"PyPI {_normal(metadata['Name'])}"
        for row in csv.reader(record.read_text(encoding="utf-8").splitlines()):
            path = (root / SITE / row[0]).resolve()
            owners[str(path.relative_to(root.resolve()))] = owner
    return owners


def _fields(text: str) -> dict[str, str]:
    """Those of the first paragraph, as control files and metadata have them."""
    head = text.split("\n\n", 1)[0]
    pairs = (line.split(":", 1) for line in head.splitlines() if re.match(r"[A-Za-z-]+:", line))
    return {key: value.strip() for key, value in pairs}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
