# SPDX-License-Identifier: Apache-2.0
"""CronJobs: what a start makes, and what the status says of it."""

from __future__ import annotations

import time

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.controllers.test_controllers import eventually, items, pods
from tests.contract.documents import document, template

HOUR = 3600
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


@pytest.fixture
def api(cluster: Server) -> Api:
    """Requests to a server with controllers."""
    return cluster.api


@pytest.fixture
def namespace(api: Api) -> str:
    return make_namespace(api)


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def missed(api: Api, namespace: str, **spec: object) -> str:
    """A CronJob of the hour that has missed two starts; its path."""
    job = {"template": {"spec": template(restartPolicy="Never")["spec"]}}
    whole = {
        "schedule": "0 * * * *",
        "suspend": True,
        "jobTemplate": {"metadata": {"labels": {"of": "c"}}, "spec": job},
        **spec,
    }
    path = f"{at('cronjobs', namespace)}/c"
    body = document("batch/v1", "CronJob", "c", spec=whole)
    api.post(at("cronjobs", namespace), body).ok  # noqa: B018
    past = {"status": {"lastScheduleTime": stamp(time.time() - 2 * HOUR - 1)}}
    api.patch(f"{path}/status", past).ok  # noqa: B018
    return path


def test_a_start_that_was_missed_is_made_up_for(api: Api, namespace: str) -> None:
    path = missed(api, namespace)
    hour = int(time.time()) // HOUR * HOUR
    if time.time() > hour + HOUR - 30:  # The hour must not end meanwhile.
        time.sleep(31)
        hour += HOUR
    api.patch(path, {"spec": {"suspend": False}}).ok  # noqa: B018
    (job,) = eventually(lambda: items(api, "jobs", namespace), lambda found: len(found) == 1)
    name = f"c-{hour // 60}"
    metadata = job["metadata"]
    assert metadata["name"] == name
    assert metadata["annotations"] == {SCHEDULED: stamp(hour)}
    assert metadata["labels"]["of"] == "c"
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "c", True)

    def status() -> Document:
        found: Document = api.get(path).ok.get("status", {})
        return found

    found = eventually(status, lambda now: "active" in now)
    (active,) = found["active"]
    assert active.pop("resourceVersion")
    assert active == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "namespace": namespace,
        "uid": metadata["uid"],
    }
    assert found["lastScheduleTime"] == stamp(hour)
    (pod,) = pods(api, namespace, 1)
    ended = f"{at('pods', namespace)}/{pod['metadata']['name']}/status"
    api.patch(ended, {"status": {"phase": "Succeeded"}}).ok  # noqa: B018
    done = eventually(status, lambda now: "active" not in now and "lastSuccessfulTime" in now)
    assert done["lastScheduleTime"] == stamp(hour)
    # Nothing is due again before the next hour.
    api.patch(path, {"metadata": {"labels": {"touched": "yes"}}}).ok  # noqa: B018
    time.sleep(1)
    assert len(items(api, "jobs", namespace)) == 1


def test_what_is_kept_of_jobs_that_ended(api: Api, namespace: str) -> None:
    path = missed(api, namespace, successfulJobsHistoryLimit=0)
    api.patch(path, {"spec": {"suspend": False}}).ok  # noqa: B018
    (pod,) = pods(api, namespace, 1)
    ended = f"{at('pods', namespace)}/{pod['metadata']['name']}/status"
    api.patch(ended, {"status": {"phase": "Succeeded"}}).ok  # noqa: B018
    eventually(lambda: items(api, "jobs", namespace), lambda found: not found)
