# SPDX-License-Identifier: Apache-2.0
"""Devices that no machine has."""

from __future__ import annotations

from koord.api.kinds.device import Device, DeviceInfo, DeviceSpec
from koord.api.kinds.meta import ObjectMeta
from koord.controllers.scheduler.plugins.deviceshare.objects.device import read_device


def test_ten_thousand_minors_are_one_line_with_a_count():
    rows = [DeviceInfo(type="gpu", id=f"g{at}", minor=at, health=True) for at in range(10_000)]
    found = read_device(Device(metadata=ObjectMeta(name="n1"), spec=DeviceSpec(devices=rows)))
    assert len(found.cards["gpu"]) == 64
    assert found.problems == [
        "Device n1: spec.devices[64].minor: got 64, expected 0 to 63 (and 9935 more like it)"
    ]


def test_what_is_wrong_in_other_ways_is_said_too():
    rows = [DeviceInfo(type="gpu", id=f"g{minor}", minor=minor) for minor in (0, 0, 0, 99, None)]
    found = read_device(Device(metadata=ObjectMeta(name="n1"), spec=DeviceSpec(devices=rows)))
    assert found.problems == [
        "Device n1: spec.devices[1].minor: got 0, expected each minor once (and 1 more like it)",
        "Device n1: spec.devices[3].minor: got 99, expected 0 to 63 (and 1 more like it)",
    ]
