# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import json
import logging
from itertools import count
from pathlib import Path

import pytest

from koord.agent.executor.audit import FILE_BYTES, AuditLog, AuditSubject, reporter
from koord.agent.executor.audit_reader import AuditReader
from koord.agent.executor.claim import Layer
from koord.base import faults
from koord.base.clock import VirtualClock
from koord.base.faults import FaultPlan, FaultRule
from tests.agent.executor.rig import QUOTA, SHARES, Rig, want
from tests.kube.harness import logged

ONE = "kubepods/pod1/c1"


class Log:
    """An audit log on virtual time, and a reader of it."""

    def __init__(self, path: Path, **settings: int) -> None:
        self.clock = VirtualClock(1_700_000_000)
        self.audit = AuditLog(path, self.clock, **settings)
        numbers = count()
        self.reader = AuditReader(self.audit, self.clock, lambda: f"token-{next(numbers)}")

    def record(self, *numbers: int, verbosity: int = 1) -> None:
        for number in numbers:
            subject = AuditSubject("pod", "default", f"pod-{number}", "main")
            self.audit.record(verbosity, subject, "Written", f"event {number}")

    def names(self, body: bytes) -> list[str]:
        return [json.loads(line)["name"] for line in body.splitlines()]


def test_an_event_has_the_originals_names(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.record(1)
    (event,) = log.audit.events()
    assert event == {
        "createdAt": "2023-11-14T22:13:20+00:00", "type": "pod", "namespace": "default",
        "name": "pod-1", "container": "main", "reason": "Written", "message": "event 1",
    }  # fmt: skip


def test_verbosity_drops_events_and_0_keeps_all(tmp_path: Path) -> None:
    log = Log(tmp_path / "a", verbose=3)
    log.record(1, verbosity=3)
    log.record(2, verbosity=4)
    assert [e["name"] for e in log.audit.events()] == ["pod-1"]
    log = Log(tmp_path / "b", verbose=0)
    log.record(1, verbosity=9)
    assert len(list(log.audit.events())) == 1


def test_a_disk_that_stays_full_is_told_of_once_and_counted(tmp_path: Path) -> None:
    log = Log(tmp_path / "a")
    (tmp_path / "a").write_text("no directory")
    with logged("koord.agent.audit", logging.INFO) as records:
        for number in range(3):
            log.record(number)
            log.audit.flush()
        (tmp_path / "a").unlink()
        log.record(4)
        log.audit.flush()
    told = [(r.getMessage(), vars(r)["koord_fields"].get("lost")) for r in records]
    assert told == [("audit events lost", None), ("audit log written again", 3)]


def test_files_hold_2_mib_and_the_oldest_go(tmp_path: Path) -> None:
    log = Log(tmp_path, disk_mb=4)
    for number in range(9):
        log.audit.record(1, AuditSubject(), "R", f"{number}" * 1_000_000)
        log.audit.flush()
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert len(sizes) == 2
    assert max(sizes) <= FILE_BYTES
    # Two to a file, and the ninth in one of its own.
    assert [str(e["message"])[0] for e in log.audit.events()] == ["8", "7", "6"]


def test_waiting_events_are_written_after_5_seconds(tmp_path: Path) -> None:
    log = Log(tmp_path / "audit")
    log.record(1)
    assert not (tmp_path / "audit").exists()
    log.clock.advance(5)
    log.record(2)
    (path,) = (tmp_path / "audit").iterdir()
    assert len(path.read_text().splitlines()) == 2


def test_a_full_disk_costs_events_only(tmp_path: Path) -> None:
    log = Log(tmp_path)
    full = OSError(errno.ENOSPC, "no space left")
    with faults.inject(FaultPlan(1, {"audit.write": FaultRule(1.0, full)})):
        log.record(1, 2)
        log.audit.flush()
    assert log.audit.dropped == 2
    log.record(3)
    assert [e["name"] for e in log.audit.events()] == ["pod-3"]


def test_pages_go_back_in_time_and_end(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.record(*range(5))
    page = log.reader.answer({"size": "2"})
    assert (page.status, log.names(page.body)) == (200, ["pod-4", "pod-3"])
    token = page.headers["Next-Page-Token"]
    log.record(99)  # A reader goes on where it was.
    page = log.reader.answer({"size": "2", "pageToken": token}, "application/json")
    document = json.loads(page.body)
    assert [event["name"] for event in document["Events"]] == ["pod-2", "pod-1"]
    assert document["NextPageToken"] == token
    page = log.reader.answer({"size": "2", "pageToken": token})
    assert log.names(page.body) == ["pod-0"]
    assert "Next-Page-Token" not in page.headers
    assert log.reader.answer({"pageToken": token}).status == 409


def test_sizes_tokens_and_idle_readers(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.record(*range(400))
    assert log.reader.answer({"size": "2049"}).status == 400
    assert len(log.names(log.reader.answer({"size": "many"}).body)) == 256
    assert log.reader.answer({"pageToken": "guess"}).status == 409
    tokens = [log.reader.answer({"size": "1"}).headers["Next-Page-Token"] for _ in range(5)]
    assert log.reader.answer({"pageToken": tokens[0]}).status == 409
    log.clock.advance(601)
    assert log.reader.answer({"pageToken": tokens[4]}).status == 409


def test_lines_that_are_no_events_are_skipped(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.record(1)
    log.audit.flush()
    with next(tmp_path.iterdir()).open("ab") as file:
        file.write(b'{"cut off')
    assert len(list(log.audit.events())) == 1


def test_an_executor_tells_who_wanted_what_and_why(tmp_path: Path) -> None:
    log = Log(tmp_path / "audit")
    rig = Rig(tmp_path / "state", ["kubepods", "kubepods/pod1", ONE])
    rig.executor._reporter = reporter(log.audit, lambda t: AuditSubject("pod", "ns", t.directory))
    claims = [want(QUOTA, ONE, 50000, reason="limits"), want(SHARES, "kubepods/none", 5)]
    rig.executor.state("BatchResource", "pod1", claims)
    rig.executor.state("CPUBurst", "node", [want(QUOTA, ONE, 90000, Layer.RAISE, "throttled")])
    rig.settle()

    def refuse() -> None:
        raise OSError(errno.EBUSY, "refused")

    rig.kernel.before_write = refuse
    rig.executor.state("BatchResource", "shares", [want(SHARES, ONE, 5)])
    rig.settle()
    rig.executor.withdraw("BatchResource", "shares")
    rig.kernel.before_write = lambda: None
    rig.settle(2)
    rig.kernel.put(QUOTA, ONE, "7000")
    rig.settle(61)
    rig.executor.withdraw("BatchResource")
    rig.executor.withdraw("CPUBurst")
    rig.settle()
    told = [(e["reason"], e["message"]) for e in log.audit.events()]
    assert told == [
        ("GivenBack", f"{ONE}/{QUOTA} = -1 for nobody: as it was before"),
        ("EditedByHand", f"{ONE}/{QUOTA} = 90000 for BatchResource, CPUBurst: throttled"),
        ("WriteFailed", f"{ONE}/{SHARES}: [Errno {errno.EBUSY}] refused"),
        ("Written", f"{ONE}/{QUOTA} = 90000 for BatchResource, CPUBurst: throttled"),
        ("Gone", f"kubepods/none/{SHARES}: its cgroup is not there"),
    ]


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31m"])
def test_messages_stay_on_one_line(tmp_path: Path, text: str) -> None:
    log = Log(tmp_path)
    log.audit.record(1, AuditSubject(), "R", text)
    (event,) = log.audit.events()
    assert str(event["message"]).isprintable()
