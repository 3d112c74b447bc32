# SPDX-License-Identifier: Apache-2.0
"""What is asked of devices is read once for pods that ask for the same."""

from __future__ import annotations

from typing import Any

from koord.controllers.cluster.pods import PodShape
from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import (
    DeviceRequest,
    device_request_of,
)
from koord.controllers.scheduler.plugins.deviceshare.state.request_table import (
    REQUESTS,
    DeviceRequestTable,
)
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster

ISOLATED = {"koordinator.sh/gpu-isolation-provider": "x"}
HINT = {"scheduling.koordinator.sh/device-allocate-hint": '{"gpu": {"exclusivePolicy": "x"}}'}


def _shape(cluster: Cluster, **more: Any) -> PodShape:
    return cluster.pod(**more).shape


def test_pods_that_ask_for_the_same_share_one_request() -> None:
    table, cluster = DeviceRequestTable(), Cluster()
    first = _shape(cluster, gpu=50, cpu="100m")
    found = table.of(first)
    assert isinstance(found, DeviceRequest)
    assert found == device_request_of(first.pod, first.request)
    assert table.of(_shape(cluster, gpu=50, cpu="200m", labels={"app": "x"})) is found
    assert table.of(_shape(cluster, gpu=25)) != found
    assert table.of(_shape(cluster, cpu="100m")) is None


def test_pods_that_say_more_are_read_by_themselves() -> None:
    table, cluster = DeviceRequestTable(), Cluster()
    plain = table.of(_shape(cluster, gpu=50))
    for more in ({"labels": ISOLATED}, {"annotations": HINT}):
        shape = _shape(cluster, gpu=50, **more)
        assert table.of(shape) == device_request_of(shape.pod, shape.request) != plain
    ignoring = {"scheduling.koordinator.sh/reservation-ignored": "true"}
    found = table.of(_shape(cluster, gpu=50, labels=ignoring))
    assert isinstance(found, DeviceRequest)
    assert found.reservations_ignored


def test_what_cannot_be_asked_is_told_each_time() -> None:
    table, cluster = DeviceRequestTable(), Cluster()
    for number in range(2):
        found = table.of(_shape(cluster, gpu=150, cpu=f"{100 + number}m"))
        assert isinstance(found, str)
        assert "150" in found


def test_a_bounded_number_of_requests_is_remembered() -> None:
    table, cluster = DeviceRequestTable(), Cluster()
    for number in range(REQUESTS + 20):
        table.of(_shape(cluster, gpu=1 + number))
    assert len(table) == REQUESTS
