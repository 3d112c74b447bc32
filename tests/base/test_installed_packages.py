# SPDX-License-Identifier: Apache-2.0
"""What is installed: as ``importlib.metadata`` tells it, which is asked only where it must be."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from koord.base import installed_packages

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GROUP = "koord.agent.strategies"


def _install(place: Path, record: str, entries: str) -> None:
    folder = place / record
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: fancy\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(entries)


def test_the_version_is_what_the_metadata_says() -> None:
    assert installed_packages.koord_version() == metadata.version("koord")


def test_a_bare_checkout_has_no_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert installed_packages.koord_version() == "0"


def test_a_plugin_of_another_package_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _install(tmp_path, "fancy-1.0.dist-info", f"[{GROUP}]\nfancy = fancy.strategy:Fancy\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    found = list(installed_packages.plugins(GROUP))
    assert [(each.name, each.value) for each in found] == [("fancy", "fancy.strategy:Fancy")]


def test_a_plugin_in_an_archive_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import zipfile

    archive = tmp_path / "fancy.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("fancy-1.0.dist-info/METADATA", "Name: fancy\nVersion: 1.0\n")
        file.writestr("fancy-1.0.dist-info/entry_points.txt", f"[{GROUP}]\nfancy = fancy:Fancy\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])
    assert [each.name for each in installed_packages.plugins(GROUP)] == ["fancy"]


def test_a_finder_of_somebody_elses_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Finder:
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, context: object) -> tuple[()]:
            asked.append(context)
            return ()

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert not list(installed_packages.plugins(GROUP))
    assert asked


def test_without_plugins_nothing_is_loaded_to_find_them() -> None:
    script = (
        "import sys\n"
        "from koord.base.installed_packages import koord_version, plugins\n"
        "assert koord_version()\n"
        "assert not list(plugins('koord.agent.hooks'))\n"
        "assert 'importlib.metadata' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-I", "-c", script], check=True)
