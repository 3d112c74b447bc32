# SPDX-License-Identifier: Apache-2.0
"""Wheels and releases, without building any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.release import answers, arm64, compiler, dry_run, wheels
from tests.release.engine import ROOT, Engine, EngineError, call


def test_a_changelog_has_the_newest_first() -> None:
    former = "# Changelog\n\nWhat this is.\n\n## 0.1.0 (2026-01-01)\n\n- First.\n"
    text = dry_run.changelog("0.2.0", "2026-02-01", former, ["One.\nMore of it.\n", "Two.\n"])
    assert text == (
        "# Changelog\n\nWhat this is.\n\n## 0.2.0 (2026-02-01)\n\n- One.\n  More of it.\n- Two.\n"
        "\n## 0.1.0 (2026-01-01)\n\n- First.\n"
    )


def test_the_first_changelog() -> None:
    text = dry_run.changelog("0.1.0", "2026-01-01", "# Changelog\n", ["One.\n"])
    assert text == "# Changelog\n\n## 0.1.0 (2026-01-01)\n\n- One.\n"


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3.dev4"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    assert f"{version}: expected a version as 1.2.3 or 1.2.3rc1" in dry_run.faults(version)


def test_what_a_wheel_asks_for_has_a_version() -> None:
    required = {part.name: part.version for part in dry_run.requirements()}
    assert set(required) == {"msgspec", "numpy", "typer", "rich", "pyyaml"}
    assert all(required.values())


def test_the_compilers_take_our_options(tmp_path: Path) -> None:
    """``-march=x86-64-v2`` is an error to zig, which has another name for it."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    programs = compiler.write(tmp_path / "compilers", python, "x86_64")
    words = call(programs["CXX"], "-O3", "-march=x86-64-v2", "-c", "a b.cpp").strip()
    target = "-m ziglang c++ -target x86_64-linux-gnu.2.28"
    assert words == f"{target} -O3 -mcpu=x86_64_v2 -c a b.cpp"


def test_another_machines_headers_stand_alone(tmp_path: Path) -> None:
    """Debian's ``pyconfig.h`` includes its machine's by a path beneath ``/usr/include``."""
    root, machine = tmp_path / "root", f"aarch64-linux-gnu/python{arm64.PYTHON}/pyconfig.h"
    for name in (f"python{arm64.PYTHON}/Python.h", machine, "stdio.h"):
        path = root / "usr" / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    include = arm64.headers(root, tmp_path / "include")
    assert (include / "Python.h").is_file()
    assert (include / machine).is_file()
    assert not (tmp_path / "include" / "stdio.h").exists()
    assert f"Python_INCLUDE_DIR={include};" in arm64.defines(include)
    assert arm64.defines(include).endswith(arm64.variables()["SETUPTOOLS_EXT_SUFFIX"])


def test_checksums_are_what_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "b.tar.gz").write_bytes(b"b")
    assert wheels.checksums(tmp_path) == wheels.checksums(tmp_path)
    assert "a.whl: OK" in call("sha256sum", "-c", "SHA256SUMS", cwd=tmp_path)


def test_the_first_example_is_one_that_needs_no_extra() -> None:
    command = answers.first_example()
    assert command[:3] == ["koord", "simulate", "openb"]
    assert "--report" not in command


def test_an_interpreter_is_of_its_version() -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    python = wheels.interpreter(version)
    if python is not None:
        text = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout
        assert text.startswith(f"Python {version}.")
    assert wheels.interpreter("3.99") is None


def test_what_a_tool_said_last_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no there-is-none here"):
        call("there-is-none")
    with pytest.raises(EngineError, match="sh -c"):
        call("sh", "-c", "exit 3", cwd=tmp_path)


def test_a_build_that_fails_leaves_no_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes gigabytes."""
    buildah = tmp_path / "buildah"
    buildah.write_text('#!/bin/sh\ncase "$*" in *bud*) exit 3;; esac\n', encoding="utf-8")
    buildah.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with (
        pytest.raises(EngineError, match="buildah"),
        Engine(tmp_path / "storage") as engine,
    ):
        engine.import_base(tmp_path / "base.tar")
    assert not (tmp_path / "storage").exists()


def test_a_wheel_is_not_compiled_where_an_editable_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMake keeps the compiler that it found first: gcc, which no old C library takes."""
    commands: list[tuple[object, ...]] = []

    def called(*words: object, **_: object) -> str:
        commands.append(words)
        if "venv" in words:
            (tmp_path / "build-3.11/bin").mkdir(parents=True)
            (tmp_path / "build-3.11/bin/python").touch()
        if "--wheel" in words:
            (tmp_path / "out-3.11").mkdir(parents=True)
            (tmp_path / "out-3.11/koord-1-cp311-cp311-linux_x86_64.whl").touch()
        if "auditwheel" in words:
            (tmp_path / f"koord-1-cp311-cp311-{wheels.TAG}_x86_64.whl").touch()
        return ""

    monkeypatch.setattr(wheels, "call", called)
    monkeypatch.setattr(wheels, "WORK", tmp_path)
    monkeypatch.setattr(wheels, "DIST", tmp_path)
    wheels.build("3.11", Path(sys.executable), Path(sys.executable))
    (command,) = (each for each in commands if "--wheel" in each)
    assert f"-Cbuild-dir={tmp_path / 'cmake-3.11'}" in command


def test_what_a_wheel_is_compiled_with_is_made_anew_where_it_would_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New headers of the same text would have everything compiled again."""
    made: list[tuple[object, ...]] = []

    def environment(folder: Path, python: Path, *needs: object) -> Path:
        made.append(needs)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / "python").touch()
        return folder / "bin" / "python"

    monkeypatch.setattr(wheels, "environment", environment)
    for needs in (("a",), ("a",), ("a", "b")):
        wheels.kept_environment(tmp_path / "kept", Path(sys.executable), *needs)
    assert made == [("a",), ("a", "b")]


def test_the_workflow_builds_what_the_target_builds() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "Untried" in text
    matrix = yaml.safe_load(text)["jobs"]["wheels"]["strategy"]["matrix"]
    # The wheel for another machine is compiled by hand so far.
    assert (*matrix["python"], wheels.ARM64) == wheels.PYTHONS
