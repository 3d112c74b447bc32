# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from zipfile import ZipFile

import pytest

from koord.base.distributions import koord_version, other_entry_points

GROUP = "koord.agent.hooks"
ENTRY = f"[{GROUP}]\nmine = outside:Hook\n"


def install(folder: Path, name: str, text: str) -> Path:
    """The metadata of a package with entry points."""
    info = folder / name
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(text)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    return folder


def names() -> set[str]:
    return {point.name for point in other_entry_points(GROUP)}


def test_the_version_is_that_of_the_metadata() -> None:
    assert koord_version() == version("koord")


def test_without_metadata_there_is_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    assert koord_version() == "0"


def test_koords_own_entry_points_are_no_others() -> None:
    assert {point.name for point in entry_points(group=GROUP)}, "koord has some"
    assert names() == set()


@pytest.mark.parametrize("name", ["outside-1.0.dist-info", "Koord_More-1.0.dist-info",
                                  "outside-1.0.egg-info", "EGG-INFO"])  # fmt: skip
def test_another_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / "outside-1.0.egg" if name == "EGG-INFO" else tmp_path
    monkeypatch.syspath_prepend(install(folder, name, ENTRY))
    assert "mine" in names()
    assert names() == {point.name for point in entry_points(group=GROUP)}


def test_a_package_with_other_groups_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[console_scripts]\nmine = outside:main\n"
    monkeypatch.syspath_prepend(install(tmp_path, "outside-1.0.dist-info", text))
    assert names() == set()


def test_a_package_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "outside-1.0.dist-info", ENTRY)
    with ZipFile(tmp_path / "outside.zip", "w") as archive:
        for file in (tmp_path / "outside-1.0.dist-info").iterdir():
            archive.write(file, f"outside-1.0.dist-info/{file.name}")
    monkeypatch.syspath_prepend(tmp_path / "outside.zip")
    assert "mine" in names()


def test_a_package_that_another_finder_knows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        """As tools for editable installs bring it."""

        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            return None

        @staticmethod
        def find_distributions(context: object) -> list[object]:
            return []

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    assert names() == {point.name for point in entry_points(group=GROUP)}


def test_the_agent_runs_without_what_tells_of_packages() -> None:
    """A megabyte, which nothing else that koordlet imports brings back."""
    code = (
        "import sys, koord.agent.app, koord.kube.transport.http\n"
        "from koord.base.distributions import koord_version, other_entry_points\n"
        "koord_version(), other_entry_points('koord.agent.hooks')\n"
        "print('importlib.metadata' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n", told
