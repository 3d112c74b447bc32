# SPDX-License-Identifier: Apache-2.0
"""ziglang's clang from PyPI as a C and C++ compiler against an older C library.

It has the symbols of every glibc with it, so that what it links runs on any Linux from that one on,
and its own C++ library, linked in.
"""

from __future__ import annotations

from pathlib import Path

GLIBC = "2.28"
# zig takes names of processors as its own tables have them.
_WRAPPER = """#!/bin/bash
exec {python} -m ziglang {program} -target {machine}-linux-gnu.{glibc} \\
  "${{@/#-march=x86-64-v2/-mcpu=x86_64_v2}}"
"""


def write(folder: Path, python: Path, machine: str) -> dict[str, str]:
    """Writes the two compilers as programs; the environment that has CMake take them.

    Args:
        folder: where they go.
        python: one that has ``ziglang``.
        machine: ``x86_64`` or ``aarch64``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = {}
    for variable, program in (("CC", "cc"), ("CXX", "c++")):
        path = folder / f"{machine}-{program}"
        text = _WRAPPER.format(python=python, program=program, machine=machine, glibc=GLIBC)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        environment[variable] = str(path)
    return environment
