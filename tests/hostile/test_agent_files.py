# SPDX-License-Identifier: Apache-2.0
"""What somebody put where koordlet keeps its own files."""

from __future__ import annotations

import json
import os
import stat
import zlib

import pytest

from koord.agent.executor.audit import AuditLog, AuditSubject
from koord.agent.executor.journal import NAME, Journal
from koord.agent.executor.target import Target
from koord.agent.prediction.checkpoints import Checkpoints
from koord.agent.prediction.usage_models import UsageModels
from koord.agent.states.pod_poller import pod_states
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import Driver
from tests.agent.hooks.build import CgroupLayout, pod

NOW_MS = 1_700_000_000_000
QUOTA = Target("cpu.cfs_quota_us", "kubepods/pod1")


def mode(path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def checkpoint(folder, **changes) -> dict:
    """Writes one of a pod ``a``, and gives its document."""
    models = UsageModels()
    models.add("a", 1.0, 1e9, NOW_MS)
    Checkpoints(folder).step(models, NOW_MS)
    document = json.loads((folder / "a").read_text())
    document["model"] |= changes
    text = json.dumps(document["model"], sort_keys=True)
    document["crc32"] = zlib.crc32(text.encode())
    return document


@pytest.mark.parametrize(
    "time", [float("inf"), float("nan"), -1, 2**70, 1e300, "1", True, None, [1]]
)
def test_a_checkpoint_with_a_time_that_is_none(tmp_path, time):
    document = checkpoint(tmp_path, updatedMilliseconds=time)
    (tmp_path / "a").write_text(json.dumps(document))
    models = UsageModels()
    assert Checkpoints(tmp_path).restore(models, {"a"}) == []
    assert models.by_name == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"model":' * 100_000, "9" * 5000, '{"version": 1e999, "model": {}}',
     " " * (2 << 20), "null", '"x"', "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")],
)  # fmt: skip
def test_a_crafted_checkpoint_is_deleted_and_the_others_are_read(tmp_path, text):
    checkpoint(tmp_path)
    (tmp_path / "0").write_text(text)
    assert Checkpoints(tmp_path).restore(UsageModels(), {"0", "a"}) == ["a"]
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_no_checkpoint_is_read_through_a_link_or_from_a_fifo(tmp_path):
    folder = tmp_path / "checkpoints"
    document = checkpoint(folder)
    outside = tmp_path / "outside"
    outside.write_text(json.dumps(document))
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    known = {"a", "link", "fifo", "folder"}
    assert Checkpoints(folder).restore(UsageModels(), known) == ["a"]
    # The link went, what it names did not; a folder is nobody's checkpoint and stays.
    assert outside.exists()
    assert sorted(each.name for each in folder.iterdir()) == ["a", "folder"]


def test_a_checkpoint_is_not_written_through_a_link(tmp_path):
    folder, outside = tmp_path / "checkpoints", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("mine")
    (folder / "a.tmp").symlink_to(outside)
    checkpoint(folder)
    assert outside.read_text() == "mine"
    assert not (folder / "a").is_symlink()


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        Checkpoints(link).restore(UsageModels(), set())
    audit = AuditLog(link, VirtualClock(0.0))
    audit.record(1, AuditSubject(), "Written", "text")
    audit.flush()
    assert audit.dropped == 1
    journal = Journal(link, "boot")
    journal.add([(QUOTA, -1)])
    with pytest.raises(OSError, match="link"):
        journal.commit()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_folders_and_files_are_koordlets_alone(tmp_path):
    before = os.umask(0)
    try:
        for name in ("checkpoints", "audit"):
            (tmp_path / name).mkdir(mode=0o777)
        checkpoints = Checkpoints(tmp_path / "checkpoints")
        checkpoints.restore(UsageModels(), set())
        checkpoint(tmp_path / "checkpoints")
        log = tmp_path / "audit" / "audit-000000001.log"
        log.touch(mode=0o644)
        audit = AuditLog(tmp_path / "audit", VirtualClock(0.0))
        audit.record(1, AuditSubject(), "Written", "text")
        audit.flush()
        journal = Journal(tmp_path / "state", "boot")
        journal.add([(QUOTA, -1)])
        journal.commit()
    finally:
        os.umask(before)
    files = ("checkpoints/a", "audit/audit-000000001.log", f"state/{NAME}")
    assert [mode(tmp_path / name) for name in files] == [0o600] * 3
    assert [mode(tmp_path / name) for name in ("checkpoints", "audit", "state")] == [0o700] * 3


def test_strange_files_in_the_audit_folder(tmp_path):
    audit = AuditLog(tmp_path, VirtualClock(0.0))
    audit.record(1, AuditSubject(), "Written", "text")
    audit.flush()
    (tmp_path / "audit-1x2.log").write_text("{}")
    (tmp_path / "audit-000000002.log").write_text("[" * 100_000 + '\n7\n{"reason": "Kept"}\n')
    os.mkfifo(tmp_path / "audit-000000003.log")
    assert [event["reason"] for event in audit.events()] == ["Kept", "Written"]
    # A FIFO that nobody reads holds nobody up; what cannot be written is counted.
    audit.record(1, AuditSubject(), "Written", "more")
    audit.flush()
    assert audit.dropped == 0 or audit.dropped == 1


@pytest.mark.parametrize("kind", ["link", "fifo", "brackets"])
def test_a_journal_that_is_none_of_ours_is_named(tmp_path, kind):
    path = tmp_path / NAME
    if kind == "link":
        (tmp_path / "other").write_text("{}")
        path.symlink_to(tmp_path / "other")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        body = b"[" * 100_000
        head = f"koord-executor-journal 1 {zlib.crc32(body):08x} boot\n"
        path.write_bytes(head.encode() + body)
    with pytest.raises(KoordError, match=f"remove {path}"):
        Journal(tmp_path, "boot")


@pytest.mark.parametrize("driver", list(Driver))
@pytest.mark.parametrize(
    "uid", ["u" * 129, "ü" * 100, "u" * 5000, "../x", "a/b", "", "a\0b", "a\nb", "\ud800"]
)
def test_a_pod_with_an_unusable_uid_is_left_out_alone(driver, uid, caplog):
    good, bad = pod("LS", uid="good").pod, pod("LS", uid="bad").pod
    bad.metadata.uid = uid
    states = pod_states([bad, good], CgroupLayout(driver))
    assert [state.uid for state in states] == ["good"]
    assert [record.message for record in caplog.records] == ["pod left out"]


@pytest.mark.parametrize("driver", list(Driver))
def test_a_container_id_that_is_no_name_leaves_its_pod_out(driver):
    good, bad = pod("LS", uid="good").pod, pod("LS", uid="bad").pod
    bad.status.container_statuses[0].container_id = "containerd://" + "h" * 300
    assert [each.uid for each in pod_states([bad, good], CgroupLayout(driver))] == ["good"]
