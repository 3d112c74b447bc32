# SPDX-License-Identifier: Apache-2.0
"""Where NodeResourceTopologies of koord and of the original differ, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from koord.kernels.quantity import Quantity
from tests.vectors.agent import documents
from tests.vectors.area import Difference
from tests.vectors.reports.topology_cases import DIVIDED, SYSTEM, is_malformed

if TYPE_CHECKING:
    from collections.abc import Callable

_GPU = "koordinator.sh/gpu"
_ENDED = ("Succeeded", "Failed")


def differences(answer: Callable[[Any], Any]) -> dict[str, Difference]:
    """By name; ``answer`` is the area's."""
    return {
        "reports-topology-follows-node": Difference(
            "the original leaves what the node has no more as {}, null, or as it was",
            adjusted=_without_what_is_gone,
        ),
        "reports-zone-ids": Difference(
            "the original numbers zones from 0, and needs as many NUMA nodes with CPUs as in all",
            adjusted=_by_id,
        ),
        "reports-zone-capacity": Difference(
            "the original writes what a zone has left as its capacity too",
            adjusted=_with_capacity,
        ),
        "reports-zone-huge-pages": Difference(
            "the original counts huge pages as plain memory while it does not tell them",
            adjusted=_without_huge_pages,
        ),
        "reports-zone-others": Difference(
            "the original writes at every look where others keep GPUs in a zone",
            adjusted=_quiet_gpu,
        ),
        "reports-malformed-system": Difference(
            "a malformed system-qos-resource keeps the original's reports from being made",
            adjusted=_despite_system,
        ),
        "reports-ended-pods": Difference(
            "the original takes pods that ended for such that hold their CPUs",
            adjusted=lambda case, theirs, ours: _as_if_running(answer, case, theirs, ours),
        ),
    }


def _rounds(case: Any, theirs: Any, ours: Any) -> Any:
    """A copy of theirs, and its rounds that have objects, each with the case's and koord's."""
    copy = json.loads(json.dumps(theirs))
    triples = zip(case["rounds"], copy, ours, strict=True)
    return copy, [each for each in triples if each[1] != "error" and each[2] != "error"]


def _without_what_is_gone(case: Any, theirs: Any, ours: Any) -> Any:
    copy, rounds = _rounds(case, theirs, ours)
    before: dict[str, str] = {}
    for given, told, own in rounds:
        metadata, found = given["node"]["metadata"], told["object"]
        for key in {documents.RESERVATION, SYSTEM} - metadata["annotations"].keys():
            if found["annotations"].get(key) in ({}, None):
                found["annotations"].pop(key, None)
            if key in before:
                told["written"] = own["written"]
        if not metadata["labels"].get(DIVIDED) and found["labels"].pop(DIVIDED, ""):
            told["written"] = own["written"]
        before = metadata["annotations"]
    return copy


def _despite_system(case: Any, theirs: Any, ours: Any) -> Any:
    return [
        own if told == "error" and is_malformed(given["node"]) else told
        for given, told, own in zip(case["rounds"], theirs, ours, strict=True)
    ]


def _has_plain_ids(case: Any) -> bool:
    """Whether NUMA nodes are numbered from 0 and all have CPUs."""
    with_memory = [each["id"] for each in case["memory"]]
    with_cpus = {each[3] for each in case["cpus"]}
    return with_memory == list(range(len(with_memory))) and set(with_memory) == with_cpus


def _by_id(case: Any, theirs: Any, ours: Any) -> Any:
    with_memory = {each["id"] for each in case["memory"]}
    with_cpus = {each[3] for each in case["cpus"]}
    if _has_plain_ids(case):
        return theirs
    if len(with_memory) != len(with_cpus) or not with_cpus <= with_memory:
        return ours
    copy, rounds = _rounds(case, theirs, ours)
    for _, told, own in rounds:
        told["written"], told["object"]["zones"] = own["written"], own["object"]["zones"]
    return copy


def _with_capacity(case: Any, theirs: Any, ours: Any) -> Any:
    copy, rounds = _rounds(case, theirs, ours)
    memory = {f"node-{each['id']}": each for each in case["memory"]}
    for _, told, _ in rounds if _has_plain_ids(case) else []:
        for zone in told["object"]["zones"]:
            cpus = sum(1 for each in case["cpus"] if f"node-{each[3]}" == zone["name"])
            of = memory[zone["name"]]
            bytes_ = 1024 * of["kib"] - (_huge_bytes(of) if case["hugePages"] else 0)
            amounts = zone["resources"]
            if amounts["cpu"][0] == amounts["cpu"][1]:
                amounts["cpu"][0] = str(cpus)
            if amounts["memory"][0] == amounts["memory"][1]:
                amounts["memory"][0] = str(Quantity.parse(f"{bytes_ // 1024}Ki"))
    return copy


def _huge_bytes(of: Any) -> int:
    return sum(int(kib) * 1024 * count for kib, count in of["pages"].items())


def _without_huge_pages(case: Any, theirs: Any, ours: Any) -> Any:
    copy, rounds = _rounds(case, theirs, ours)
    memory = {f"node-{each['id']}": each for each in case["memory"]}
    for _, told, _ in rounds if _has_plain_ids(case) and not case["hugePages"] else []:
        for zone in told["object"]["zones"]:
            held = Quantity.parse(f"{_huge_bytes(memory[zone['name']]) // 1024}Ki")
            amounts = zone["resources"]["memory"]
            for at, text in enumerate(amounts):
                left = Quantity.parse(text) - held
                amounts[at] = str(left if left > Quantity() else Quantity())
    return copy


def _quiet_gpu(case: Any, theirs: Any, ours: Any) -> Any:
    copy, rounds = _rounds(case, theirs, ours)
    for _, told, own in rounds:
        if any(_GPU in zone["resources"] for zone in told["object"]["zones"]):
            told["written"] = own["written"]
    return copy


def _as_if_running(answer: Callable[[Any], Any], case: Any, theirs: Any, ours: Any) -> Any:
    """koord's own rounds, where it gives the original's as long as those pods run."""
    twin = json.loads(json.dumps(case))
    statuses = [pod["status"] for each in twin["rounds"] for pod in each["pods"]]
    ended = [each for each in statuses if each["phase"] in _ENDED]
    for status in ended:
        status["phase"] = "Running"
    if not ended:
        return theirs
    running = json.loads(json.dumps(answer(twin)))
    rounds = zip(running, theirs, ours, strict=True)
    return [own if same == told else told for same, told, own in rounds]
