# SPDX-License-Identifier: Apache-2.0
"""The extension modules are hardened, and what judges that sees what is missing."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from koord._native import cluster, core, wire
from tests.project.elf import Elf, main

MODULES = [Path(str(module.__file__)) for module in (cluster, core, wire)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name.partition(".")[0])
def test_the_extension_modules_are_hardened(path: Path) -> None:
    assert Elf.parse(path.read_bytes()).weaknesses() == []


def test_the_extension_modules_check_sizes() -> None:
    assert any(Elf.parse(path.read_bytes()).checks_sizes for path in MODULES)


# Type and flags of segments, tags and values of the dynamic section, names that are imported.
RELRO, STACK, CODE = (0x6474E552, 4), (0x6474E551, 6), (1, 5)
NOW = (30, 0x8)
CHECKS = ("__stack_chk_fail", "__memcpy_chk")


@pytest.mark.parametrize(
    ("segments", "dynamic", "imports", "weaknesses"),
    [
        ((RELRO, STACK, CODE), (NOW,), CHECKS, []),
        ((RELRO, STACK, CODE), ((0x6FFFFFFB, 1),), CHECKS, []),
        ((STACK, CODE), (NOW,), CHECKS, ["no RELRO"]),
        ((RELRO, STACK, CODE), (), CHECKS, ["no BIND_NOW"]),
        ((RELRO, (0x6474E551, 7), CODE), (NOW,), CHECKS, ["an executable stack"]),
        ((RELRO, CODE), (NOW,), CHECKS, ["an executable stack"]),
        ((RELRO, STACK, (1, 7)), (NOW,), CHECKS, ["a segment both writable and executable"]),
        ((RELRO, STACK, CODE), (NOW, (22, 0)), CHECKS, ["text relocations"]),
        ((RELRO, STACK, CODE), ((30, 0xC),), CHECKS, ["text relocations"]),
        ((RELRO, STACK, CODE), (NOW,), CHECKS[1:], ["no stack protector"]),
    ],
)
def test_each_weakness_is_seen(segments, dynamic, imports, weaknesses) -> None:
    assert Elf(segments, dynamic, frozenset(imports)).weaknesses() == weaknesses


def test_checked_sizes_are_seen() -> None:
    assert Elf((), (), frozenset(CHECKS)).checks_sizes
    assert not Elf((), (), frozenset(CHECKS[:1])).checks_sizes


def test_what_a_file_says_is_what_is_read() -> None:
    elf = Elf.parse(_file())
    assert elf == Elf((RELRO, (2, 6)), (NOW,), frozenset({"__stack_chk_fail"}))


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="no 64-bit little-endian ELF file"):
        Elf.parse(b"\x7fELF\x01\x01" + bytes(60))


def test_a_wheel_is_refused_in_lines(tmp_path: Path) -> None:
    wheel = str(tmp_path / "a.whl")
    with zipfile.ZipFile(wheel, "w"):
        pass
    with pytest.raises(SystemExit, match=r"a\.whl: no extension module$"):
        main(wheel)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("koord/core.so", _file())
    with pytest.raises(SystemExit) as stop:
        main(wheel)
    assert str(stop.value).splitlines() == [
        f"{wheel}: koord/core.so: an executable stack",
        f"{wheel}: no checked buffer sizes",
    ]


def _file() -> bytes:
    """Two segments, one dynamic entry, one name that is imported and one that is not."""
    names = b"\0__stack_chk_fail\0PyInit_core\0"
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    symbols += struct.pack("<IBBHQQ", 1, 0x12, 0, 0, 0, 0)
    symbols += struct.pack("<IBBHQQ", names.index(b"PyInit"), 0x12, 0, 7, 0, 0)
    dynamic = struct.pack("<qQ", *NOW)
    programs, start = 64, 64 + 2 * 56
    at = [start, start + len(dynamic), start + len(dynamic) + len(symbols)]
    sections = at[2] + len(names)
    header = b"\x7fELF\x02\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, programs, sections, 0, 64, 56, 2, 64, 3, 0)
    segments = struct.pack("<IIQQQQQQ", *RELRO, 0, 0, 0, 0, 0, 0)
    segments += struct.pack("<IIQQQQQQ", 2, 6, at[0], 0, 0, len(dynamic), 0, 0)
    headers = bytes(64)
    headers += struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, at[1], len(symbols), 2, 0, 8, 24)
    headers += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at[2], len(names), 0, 0, 1, 0)
    return header + segments + dynamic + symbols + names + headers
