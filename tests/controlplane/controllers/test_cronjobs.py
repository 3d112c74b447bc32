# SPDX-License-Identifier: Apache-2.0
"""CronJobs: starts by the clock, policies for those that overlap, what is kept, what was missed."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from koord.api import codec
from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import JOB, Owner, timestamp
from koord.controlplane.controllers.base.plans import Create, Delete, ObjectEvent, Plan
from koord.controlplane.controllers.cron.cronjobs import CRON_JOB, plan
from tests.controlplane.scene import START, Scene, play

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp()
MINUTE = 60.0


def cron(schedule: str, created: float = NOON, **spec: Any) -> Owner:
    status = spec.pop("status", {})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"backoffLimit": 0}}
    limits = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
    whole = {"schedule": schedule, "concurrencyPolicy": "Allow", "jobTemplate": template, **limits}
    metadata = {"name": "c", "namespace": "ns", "uid": "u", "creationTimestamp": timestamp(created)}
    document = {"metadata": metadata, "spec": {**whole, **spec}, "status": status}
    return codec.convert(document, Owner, "c")


def job(name: str, ended: str = "", at: float = NOON, **metadata: Any) -> Owner:
    key = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7",
            "annotations": {key: timestamp(at)}, **metadata}  # fmt: skip
    status: Document = {"startTime": timestamp(at)}
    if ended:
        status["conditions"] = [{"type": ended, "status": "True"}]
        if ended == "Complete":
            status["completionTime"] = timestamp(at + 30)
    return codec.convert({"metadata": meta, "spec": {}, "status": status}, Owner, name)


def reference(name: str) -> Document:
    return {"apiVersion": "batch/v1", "kind": "Job", "namespace": "ns", "name": name,
            "uid": f"uid-{name}", "resourceVersion": "7"}  # fmt: skip


def made(result: Plan) -> list[Document]:
    return [action.document for action in result.actions if isinstance(action, Create)]


def removed(result: Plan) -> list[str]:
    return [action.name for action in result.actions if isinstance(action, Delete)]


def told(result: Plan) -> list[tuple[str, str]]:
    notes = [action for action in result.actions if isinstance(action, ObjectEvent)]
    return [(note.reason, note.message) for note in notes]


def test_nothing_starts_before_its_time() -> None:
    result = plan(cron("*/5 * * * *"), [], NOON + 10)
    assert result.actions == []
    assert result.again_seconds == pytest.approx(290.1)


def test_a_start_makes_a_job_named_after_its_minute() -> None:
    result = plan(cron("*/5 * * * *", timeZone="Asia/Tokyo"), [], NOON + 301)
    assert made(result) == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "c-31558325",
                "namespace": "ns",
                "annotations": {
                    "batch.kubernetes.io/cronjob-scheduled-timestamp": "2030-01-01T21:05:00+09:00"
                },
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1",
                        "kind": "CronJob",
                        "name": "c",
                        "uid": "u",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
                "labels": {"a": "b"},
            },
            "spec": {"backoffLimit": 0},
        }
    ]
    assert result.again_seconds == pytest.approx(299.1)
    # What has been made is recorded, and not made again.
    after = plan(cron("*/5 * * * *"), [job("c-31558325", at=NOON + 300)], NOON + 301)
    assert made(after) == []
    assert after.status == {
        "active": [reference("c-31558325")],
        "lastScheduleTime": "2030-01-01T12:05:00Z",
    }


def test_of_many_missed_starts_only_the_last_is_made_up_for() -> None:
    owner = cron("* * * * *", status={"lastScheduleTime": timestamp(NOON)})
    begun = time.process_time()
    for minutes, warned in ((100, False), (101, True), (3_000_000, True)):
        result = plan(owner, [], NOON + minutes * MINUTE + 1)
        assert [d["metadata"]["name"] for d in made(result)] == [f"c-{31558320 + minutes}"]
        said = ("TooManyMissedTimes", "too many missed start times. Set or decrease "
                ".spec.startingDeadlineSeconds or check clock skew")  # fmt: skip
        assert told(result) == ([said] if warned else [])
    # Kubernetes looks for the last start near now, by the distance of the first two.
    result = plan(cron("* * 1 1 *"), [], NOON + 2 * 365 * 86_400 + 43_200)
    assert result.actions == []
    assert time.process_time() - begun < 5


def test_a_start_too_late_is_let_go() -> None:
    owner = cron("0 * * * *", startingDeadlineSeconds=60, created=NOON - 1)
    assert len(made(plan(owner, [], NOON + 59))) == 1
    assert made(plan(owner, [], NOON + 60)) == []


def test_policies_for_starts_that_overlap() -> None:
    running = job("c-31558320")
    status = {"active": [reference("c-31558320")], "lastScheduleTime": timestamp(NOON)}
    now = NOON + 301
    allowed = plan(cron("*/5 * * * *", status=status), [running], now)
    assert (len(made(allowed)), removed(allowed)) == (1, [])
    forbidden = plan(cron("*/5 * * * *", status=status, concurrencyPolicy="Forbid"), [running], now)
    assert (made(forbidden), removed(forbidden)) == ([], [])
    assert told(forbidden) == [
        ("JobAlreadyActive", "Not starting job because prior execution is running and concurrency "
         "policy is Forbid")
    ]  # fmt: skip
    assert forbidden.status == status
    replaced = plan(cron("*/5 * * * *", status=status, concurrencyPolicy="Replace"), [running], now)
    assert (len(made(replaced)), removed(replaced)) == (1, ["c-31558320"])
    assert suspended(status, running, now) == []


def suspended(status: Document, running: Owner, now: float) -> list[Document]:
    return made(plan(cron("*/5 * * * *", status=status, suspend=True), [running], now))


def test_jobs_that_ended_are_noted_and_the_oldest_go() -> None:
    owned = [job(f"c-{n}", "Complete", NOON + n * MINUTE) for n in range(5)]
    owned += [job(f"f-{n}", "Failed", NOON + n * MINUTE) for n in range(2)]
    status = {"active": [reference("c-4"), reference("gone")], "lastScheduleTime": timestamp(NOON)}
    result = plan(cron("0 0 1 1 *", status=status), owned, NOON + 600)
    assert removed(result) == ["c-0", "c-1", "f-0"]
    assert result.status == {
        "lastScheduleTime": "2030-01-01T12:00:00Z",
        "lastSuccessfulTime": "2030-01-01T12:04:30Z",
    }
    assert told(result)[:2] == [
        ("SawCompletedJob", "Saw completed job: c-4, condition: Complete"),
        ("MissingJob", "Active job went missing: gone"),
    ]


def test_what_cannot_be_scheduled_is_told() -> None:
    never = plan(cron("0 0 31 2 *"), [], NOON)
    assert [reason for reason, _ in told(never)] == ["InvalidSchedule"]
    zone = plan(cron("* * * * *", timeZone="Europe/Atlantis"), [], NOON)
    assert told(zone) == [
        (
            "UnknownTimeZone",
            'invalid timeZone: "Europe/Atlantis": unknown time zone Europe/Atlantis',
        )
    ]
    by_hand = plan(cron("0 0 1 1 *"), [job("x", annotations={})], NOON)
    assert told(by_hand) == [
        ("UnexpectedJob", "Saw a job that the controller did not create or forgot: x")
    ]
    assert by_hand.status == {}


def test_an_hour_of_runs_with_controllers_that_restart() -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    pod = {"metadata": {"labels": {"ends": "Succeeded"}}, "spec": spec}
    body = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": pod}}},
    }

    async def story(scene: Scene) -> None:
        await scene.add_nodes(1)
        await scene.client.create(body, kind=CRON_JOB)
        for _ in range(6):
            await asyncio.sleep(595)
            await scene.restart()
            await asyncio.sleep(5)
        await asyncio.sleep(30)
        jobs = (await scene.client.list(JOB, namespace="default")).items
        first = int(START) // 600 * 10  # START is a whole multiple of no ten minutes
        names = sorted(each["metadata"]["name"] for each in jobs)
        assert names == [f"c-{first + 10 * n}" for n in (4, 5, 6)]
        found = await scene.get(CRON_JOB, "c")
        assert found is not None
        assert "active" not in found["status"]
        assert found["status"]["lastScheduleTime"] == timestamp((first + 60) * 60)
        created = [message for name, reason, message in scene.events
                   if (name, reason) == ("c", "SuccessfulCreate")]  # fmt: skip
        assert created == [f"Created job c-{first + 10 * n}" for n in range(1, 7)]

    play(story)
