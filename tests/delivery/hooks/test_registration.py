# SPDX-License-Identifier: Apache-2.0
"""The file that a proxy reads: whole at any time, and only one's own is taken away."""

from __future__ import annotations

import os
from pathlib import Path

from koord.agent.hooks.hook import HookStage
from koord.delivery.hooks.registration import Registration

STAGES = (HookStage.PRE_RUN_POD_SANDBOX, HookStage.PRE_UPDATE_CONTAINER_RESOURCES)

# As Koordinator's agent writes it of these stages.
ORIGINAL = (
    '{\n\t"remote-endpoint": "/var/run/koordlet/koordlet.sock",\n\t"failure-policy": "Ignore",\n'
    '\t"runtime-hooks": [\n\t\t"PreRunPodSandbox",\n\t\t"PreUpdateContainerResources"\n\t]\n}\n'
)


def registration(folder: Path, policy: str = "Ignore") -> Registration:
    return Registration(folder, "/var/run/koordlet/koordlet.sock", policy, STAGES)


def test_it_is_written_as_the_original_does(tmp_path: Path) -> None:
    registration(tmp_path).write()
    place = tmp_path / "koordlet.json"
    assert place.read_text() == ORIGINAL
    before = place.stat().st_ino
    registration(tmp_path).write()
    assert place.stat().st_ino == before
    with place.open() as held:  # whose inode is not given to another meanwhile
        registration(tmp_path).write(anew=True)
        assert place.stat().st_ino != os.fstat(held.fileno()).st_ino
        assert place.read_text() == held.read()
    registration(tmp_path, "Fail").write()
    assert '"Fail"' in place.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["koordlet.json"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "koordlet.json").symlink_to(target)
    (tmp_path / ".koordlet.json.new").symlink_to(target)
    registration(tmp_path).write()
    assert target.read_text() == "precious"
    assert not (tmp_path / "koordlet.json").is_symlink()
    assert (tmp_path / "koordlet.json").read_text() == ORIGINAL


def test_another_agents_file_stays(tmp_path: Path) -> None:
    registration(tmp_path, "Fail").write()
    registration(tmp_path).remove()
    assert (tmp_path / "koordlet.json").exists()
    registration(tmp_path, "Fail").remove()
    registration(tmp_path).remove()
    assert list(tmp_path.iterdir()) == []
