# SPDX-License-Identifier: Apache-2.0
"""A real disk that is full, in a mount namespace of the test's own: nobody is held up, it is told,
nothing is half written, and all is well by itself when there is room again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_FULL = "No space left on device"
_SECONDS = 300


def _namespaces_are_missing() -> bool:
    if os.geteuid() or shutil.which("unshare") is None or shutil.which("mount") is None:
        return True
    return subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if _namespaces_are_missing():
        pytest.skip("no mount namespace can be made here: that takes root and unshare")
    folder = tmp_path_factory.mktemp("d")
    command = ["unshare", "--mount", sys.executable, "-m", "tests.delivery.full_disk_scene"]
    done = subprocess.run(
        [*command, str(folder)], capture_output=True, text=True, check=False, timeout=_SECONDS,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"log": done.stderr.splitlines()}


def test_containers_are_made_and_kept_once_there_is_room(seen: Any) -> None:
    found = seen["proxy_store"]
    assert found["made"] == ["c0", "c1", "c2"]
    assert (found["told"], found["left"]) == (_FULL, [])
    assert found["kept"] == ["pods/s0.pod", "pods/s1.pod", "pods/s2.pod"]
    # Once, however often it was tried.
    assert seen["log"].count("pods are not kept on disk") == 1


def test_the_journal_on_disk_stays_as_it_was(seen: Any) -> None:
    assert seen["journal"] == {
        "told": _FULL, "left": ["state/executor.journal"], "found": 1, "again": 2
    }  # fmt: skip


def test_a_checkpoint_is_whole_or_not_there(seen: Any) -> None:
    assert seen["checkpoints"] == {"told": _FULL, "left": [], "written": ["__node__"]}


def test_lost_events_spoil_no_others(seen: Any) -> None:
    found = seen["audit"]
    assert found["names"] == ["after", "before"]
    assert (found["lost"], found["lines"]) == (60, 2)
    assert seen["log"].count("audit events lost") == 1


def test_the_hook_server_says_why_it_does_not_serve_and_serves_by_itself(seen: Any) -> None:
    found = seen["hook_server"]
    assert _FULL in found["told"]
    assert (found["left"], found["written"], found["error"]) == ([], True, "")
    assert seen["log"].count("hooks are not served to a proxy") == 1
