# SPDX-License-Identifier: Apache-2.0
"""resctrl: the lines of cache ways and memory bandwidth of each class's group."""

from __future__ import annotations

from random import Random
from typing import Any

from koord.agent.strategies.resctrl.capabilities import ResctrlCapabilities
from koord.agent.strategies.resctrl.strategy import _by_group, _planned
from koord.base.errors import KoordError
from koord.kernels.resctrl import Info, Limits, Vendor
from tests.vectors.agent.scene import slo_of
from tests.vectors.area import Difference

SEED = 20266
_COUNT = 500
_MASKS = [0x7FF, 0x7FF, 0xFFF, 0xFFFFF, 0xFF, 0xF, 0x3, 0x1, 0x3FF, 0x7FFF]
_PERCENTS = [0, 0, 1, 10, 20, 30, 33, 50, 67, 90, 99, 100, 100, None]
_GROUPS = {"lsrClass": "LSR", "lsClass": "LS", "beClass": "BE"}


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Machines of one to four caches, of both vendors."""
    return [_case(rng) for _ in range(_COUNT)]


def answer(case: dict[str, Any]) -> object:
    """Lines by group."""
    ids = case["domains"]
    amd = case["vendor"] == "AuthenticAMD"
    info = Info(Limits(case["mask"]), True, True, ids)
    strategy = slo_of({"slo": {"resourceQOSStrategy": case["strategy"]}}).resource_qos_strategy
    assert strategy is not None, "every case has one"
    facts = ResctrlCapabilities(Vendor.AMD if amd else Vendor.INTEL, info)
    try:
        groups = _planned(facts, _by_group(strategy))
    except KoordError:
        return "error"
    return {group.name: [line.strip() for line in group.lines] for group in groups}


def _case(rng: Random) -> dict[str, Any]:
    return {
        "mask": rng.choice(_MASKS),
        "vendor": rng.choice(["GenuineIntel", "GenuineIntel", "AuthenticAMD", ""]),
        "domains": rng.choice([[0], [0, 1], [0, 1], [0, 1, 2, 3], [0, 8], [1, 3]]),
        "strategy": {name: _class(rng) for name in _GROUPS if rng.random() < 0.95},
    }


def _class(rng: Random) -> dict[str, Any]:
    if rng.random() < 0.05:
        return {}
    start, end = sorted((rng.choice(_PERCENTS) for _ in range(2)), key=lambda n: (n is None, n))
    if start == end and rng.random() < 0.9:
        start, end = 0, rng.choice([30, 50, 100])
    found = {
        "catRangeStartPercent": start, "catRangeEndPercent": end,
        "mbaPercent": rng.choice([100, 100, 0, 1, 10, 15, 33, 50, 90, 99, 101, -5, None]),
    }  # fmt: skip
    return {"resctrlQOS": {key: value for key, value in found.items() if value is not None}}


def _no_way(case: Any, theirs: Any, ours: Any) -> bool:
    """Whether all that differs are lines in which the original gives no way at all."""
    for group in theirs:
        if len(theirs[group]) != len(ours[group]):
            return False
        for before, after in zip(theirs[group], ours[group], strict=True):
            masks = {each.rpartition("=")[2] for each in before.strip(";").split(";")}
            if before != after and (not before.startswith("L3:") or masks != {"0"}):
                return False
    return True


DIFFERENCES = {
    "cgroup-resctrl-mask": Difference(
        "the original gives an empty mask for a range between two ways",
        _no_way,
    ),
}  # fmt: skip

COVERAGE = {
    "resctrl_reconcile.go:getResourceQOSForResctrlGroup":
        "what is left is a missing strategy and an unknown group",
}  # fmt: skip
