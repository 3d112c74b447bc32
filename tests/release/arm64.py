# SPDX-License-Identifier: Apache-2.0
"""What a wheel for arm64 is compiled against and tried in: Debian's arm64 Python beneath qemu-user.

Nothing of it is installed on this machine: a folder has the packages, `qemu-aarch64-static` runs
their Python.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.release.engine import ROOT, call

# Debian 12's own.
PYTHON = "3.11"
MACHINE = "aarch64"
_SUFFIX = f".cpython-{PYTHON.replace('.', '')}-{MACHINE}-linux-gnu.so"
EMULATOR = "qemu-aarch64-static"
_PACKAGES = "libstdc++6,ca-certificates,python3.11-dev"
# Of the wheels on PyPI, those that a glibc of 2.36 takes.
_GLIBCS = (17, 27, 28, 31)
_PLATFORMS = ("manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in _GLIBCS))


def missing() -> list[str]:
    """Debian's packages that are needed and not here."""
    programs = {EMULATOR: "qemu-user-static", "mmdebstrap": "mmdebstrap"}
    return [package for program, package in programs.items() if shutil.which(program) is None]


def root(folder: Path) -> Path:
    """A folder with Debian 12's arm64 Python and its headers; one that is there stays."""
    if not (folder / "usr" / "bin" / f"python{PYTHON}").exists():
        shutil.rmtree(folder, ignore_errors=True)
        # Unpacked alone: no script of a package runs.
        options = ("--architectures=arm64", "--variant=extract", f"--include={_PACKAGES}")
        call("mmdebstrap", *options, "bookworm", folder)
    return folder


def headers(root: Path, folder: Path) -> Path:
    """Python's headers without those of the C library beside them, which the compiler has."""
    shutil.rmtree(folder, ignore_errors=True)
    of_all = root / "usr" / "include"
    for name in (f"python{PYTHON}", f"{MACHINE}-linux-gnu/python{PYTHON}"):
        shutil.copytree(of_all / name, folder / name)
    # Debian's pyconfig.h has its own machine's beside it.
    for each in (folder / f"{MACHINE}-linux-gnu").iterdir():
        target = folder / f"python{PYTHON}" / f"{MACHINE}-linux-gnu" / each.name
        shutil.copytree(each, target)
    return folder / f"python{PYTHON}"


def variables() -> dict[str, str]:
    """The environment that has scikit-build-core name modules and wheel for the other machine."""
    return {
        "_PYTHON_HOST_PLATFORM": f"linux-{MACHINE}",
        "SETUPTOOLS_EXT_SUFFIX": _SUFFIX,
    }


def defines(include: Path) -> str:
    """What tells CMake that it compiles for another machine."""
    system = f"CMAKE_SYSTEM_NAME=Linux;CMAKE_SYSTEM_PROCESSOR={MACHINE}"
    # pybind11 asks the interpreter here for the suffix where none is given.
    return f"{system};Python_INCLUDE_DIR={include};PYTHON_MODULE_EXTENSION={_SUFFIX}"


def install(pip: Path, site: Path, *needs: object) -> None:
    """Unpacks wheels for the other machine into a folder, by this machine's pip."""
    platforms = [word for each in _PLATFORMS for word in ("--platform", each)]
    options = ("--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp")
    words = ("--disable-pip-version-check", "-q", "install", "--upgrade", "--target", site)
    variables = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    call(pip, "-m", "pip", *words, *platforms, *options, *needs, env=variables)


def interpreter(root: Path) -> tuple[str, ...]:
    """The words that run the other machine's Python."""
    return (EMULATOR, "-L", str(root), str(root / "usr" / "bin" / f"python{PYTHON}"))
