# SPDX-License-Identifier: Apache-2.0
"""What an ELF file says of how it was built.

``python -m tests.project.elf WHEEL`` judges a wheel's extension modules. Zeroed variables leave no
trace in a file; `.ci/wheel` looks for them among the compiler's options.
"""

from __future__ import annotations

import struct
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

_PT_DYNAMIC, _PT_GNU_STACK, _PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
_DT_BIND_NOW, _DT_FLAGS, _DT_FLAGS_1, _DT_TEXTREL = 24, 30, 0x6FFFFFFB, 22
_DF_TEXTREL, _DF_BIND_NOW, _DF_1_NOW = 0x4, 0x8, 0x1
_EXECUTABLE, _WRITABLE = 1, 2
_SHT_DYNSYM = 11


@dataclass(frozen=True)
class Elf:
    """The parts of an ELF file that hardening shows in."""

    segments: tuple[tuple[int, int], ...]
    """Type and flags of each."""
    dynamic: tuple[tuple[int, int], ...]
    """Tag and value of each entry."""
    imports: frozenset[str]
    """Names that other files define."""

    @classmethod
    def parse(cls, data: bytes) -> Elf:
        """Reads a 64-bit little-endian file, as x86-64 and arm64 have; ValueError for another."""
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian ELF file")
        segments: list[tuple[int, int]] = []
        dynamic: list[tuple[int, int]] = []
        for kind, flags, offset, size in _segments(data):
            segments.append((kind, flags))
            if kind == _PT_DYNAMIC:
                entries = struct.iter_unpack("<qQ", data[offset : offset + size])
                dynamic += [(tag, value) for tag, value in entries if tag]
        return cls(tuple(segments), tuple(dynamic), frozenset(_imports(data)))

    def weaknesses(self) -> list[str]:
        """What is missing, a line each; none where the file is as `koord_harden` makes it."""
        tags = dict(self.dynamic)
        flags, flags_1 = tags.get(_DT_FLAGS, 0), tags.get(_DT_FLAGS_1, 0)
        stacks = [flags for kind, flags in self.segments if kind == _PT_GNU_STACK]
        both = _EXECUTABLE | _WRITABLE
        tests = {
            "no RELRO": any(kind == _PT_GNU_RELRO for kind, _ in self.segments),
            "no BIND_NOW": bool(
                flags & _DF_BIND_NOW or flags_1 & _DF_1_NOW or _DT_BIND_NOW in tags
            ),
            "an executable stack": bool(stacks) and not any(f & _EXECUTABLE for f in stacks),
            "a segment both writable and executable": not any(
                flags & both == both for kind, flags in self.segments if kind != _PT_GNU_STACK
            ),
            "text relocations": _DT_TEXTREL not in tags and not flags & _DF_TEXTREL,
            "no stack protector": "__stack_chk_fail" in self.imports,
        }
        return [weakness for weakness, holds in tests.items() if not holds]

    @property
    def checks_sizes(self) -> bool:
        """Whether a function is called that checks a buffer's size.

        A file need not call one: of what has such a form, little writes into a buffer whose size
        the compiler knows. All modules have the same options, so that one tells of all.
        """
        return any(name.endswith("_chk") for name in self.imports)


def _segments(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    start, size, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, flags, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, start + i * size)
        yield kind, flags, offset, length


def _imports(data: bytes) -> Iterator[str]:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQII", data, start + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, _ in headers:
        if kind != _SHT_DYNSYM:
            continue
        names = headers[link][4]
        for name, _, _, section, _, _ in struct.iter_unpack(
            "<IBBHQQ", data[offset : offset + length]
        ):
            if section == 0 and name:
                begin = names + name
                yield data[begin : data.index(b"\0", begin)].decode()


def main(wheel: str) -> None:
    """Ends with a line for each weakness of the extension modules in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        modules = [name for name in archive.namelist() if name.endswith(".so")]
        files = {name: Elf.parse(archive.read(name)) for name in modules}
    found = [
        f"{wheel}: {name}: {weakness}"
        for name, file in files.items()
        for weakness in file.weaknesses()
    ]
    if not any(file.checks_sizes for file in files.values()):
        found.append(f"{wheel}: no checked buffer sizes")
    if not modules:
        found = [f"{wheel}: no extension module"]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1])
