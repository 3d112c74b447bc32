# SPDX-License-Identifier: Apache-2.0
"""Files that name hook servers: what they say now counts, and one that is wrong is told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.delivery.cri.hook_servers import (
    MOST_FILES,
    FailurePolicy,
    HookServer,
    HookServers,
)

# As koordlet writes it, with a stage that the service has no call for.
_LITERAL = """{"remote-endpoint":"/var/run/koordlet/koordlet.sock","failure-policy":"Ignore",\
"runtime-hooks":["PreRunPodSandbox","PreCreateContainer","PreRemoveRunPodSandbox"]}"""


def _write(folder: Path, name: str = "a.json", **content: Any) -> None:
    whole = {"remote-endpoint": "/s", "failure-policy": "Fail", "runtime-hooks": [], **content}
    # Renamed, as a new file has another number: times of files are coarse.
    (folder / "new").write_text(json.dumps(whole))
    (folder / "new").replace(folder / name)


def test_a_file_as_koordlet_writes_it(tmp_path: Path) -> None:
    (tmp_path / "koordlet.json").write_text(_LITERAL)
    assert [server._replace(version=0) for server in HookServers(tmp_path).all()] == [
        HookServer(
            "koordlet.json",
            "/var/run/koordlet/koordlet.sock",
            FailurePolicy.IGNORE,
            frozenset({"PreRunPodSandbox", "PreCreateContainer"}),
        )
    ]


def test_files_come_change_and_go(tmp_path: Path) -> None:
    servers = HookServers(tmp_path / "later")
    assert servers.all() == []
    servers.make_directory()
    folder = servers.directory
    _write(folder, "b.json", **{"runtime-hooks": ["PreCreateContainer"]})
    (folder / "notes.txt").write_text("no server")
    assert servers.of_stage("PreStartContainer") is None
    assert (found := servers.of_stage("PreCreateContainer")) is not None
    assert found.name == "b.json"
    # The first by name is called, and no other.
    _write(folder, "a.json", **{"runtime-hooks": ["PreCreateContainer"]})
    assert (found := servers.of_stage("PreCreateContainer")) is not None
    assert found.name == "a.json"
    _write(folder, "a.json")
    assert (found := servers.of_stage("PreCreateContainer")) is not None
    assert found.name == "b.json"
    (folder / "b.json").unlink()
    assert servers.of_stage("PreCreateContainer") is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"failure-policy": "Explode"}, "failure-policy: got 'Explode', expected Fail or Ignore"),
        ({"runtime-hooks": ["PreLunch"]}, "runtime-hooks: got 'PreLunch', expected a stage"),
        ({"runtime-hooks": "PreRunPodSandbox"}, "Expected `array`, got `str`"),
        ({"remote-endpoint": "tcp:1"}, "remote-endpoint: got 'tcp:1', expected the path"),
        ({"remote-endpoint": "/" + "x" * 200}, "at most 107 bytes"),
        ({"remote-endpoint": "/\udc80"}, ""),
        ({"x": "y" * 70_000}, "expected a file of at most"),
    ],
)
def test_of_a_file_that_is_wrong_what_it_said_before_counts(
    tmp_path: Path, content: dict[str, Any], words: str
) -> None:
    _write(tmp_path)
    servers = HookServers(tmp_path)
    before = servers.all()
    assert len(before) == 1
    _write(tmp_path, **content)
    assert servers.all() == before
    assert words in servers.errors["a.json"]
    _write(tmp_path, **{"remote-endpoint": "unix:///t", "later": 1})
    assert [server.endpoint for server in servers.all()] == ["/t"]
    assert servers.errors == {}


def test_no_more_files_are_read_than_there_may_be(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 2):
        _write(tmp_path, f"{number:02}.json")
    (tmp_path / "0.json").mkdir()
    servers = HookServers(tmp_path)
    assert len(servers.all()) == MOST_FILES - 1
    assert servers.errors[""] == f"more than {MOST_FILES} files"
    assert "expected a file" in servers.errors["0.json"]
