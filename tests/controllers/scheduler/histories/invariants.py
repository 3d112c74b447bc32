# SPDX-License-Identifier: Apache-2.0
"""What must hold of a quiet cluster, by its documents alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from tests.controllers.scheduler.histories.documents import (
    CPU_FORMS,
    MINIMA,
    QUOTA,
    Document,
    members,
)
from tests.controllers.scheduler.histories.room import (
    MODELLED,
    Room,
    bound_to,
    cards_used,
    cpus_of,
    is_active,
    label,
    name_of,
    owners_of,
    rest,
)
from tests.models.stock_scheduler import amount, requests_of


def no_overcommit(nodes: dict[str, Document], pods: list[Document], held: list[Document]) -> None:
    there = [*pods, *(rest(r, pods) for r in held if is_active(r))]
    for name, node in nodes.items():
        used: Counter[str] = Counter()
        for each in there:
            if bound_to(each) == name:
                used.update(requests_of(each))
        for resource, text in node["status"]["allocatable"].items():
            total = amount(resource, text)
            assert used[resource] <= total, f"{name}: {used[resource]} of {total} {resource}"


def cpus_once(pods: list[Document], nodes: Collection[str]) -> None:
    """Every pod that binds CPUs has as many as it wants, to itself."""
    taken: dict[tuple[str, int], str] = {}
    for each in pods:
        node, cpus = bound_to(each), cpus_of(each)
        if node not in nodes:
            continue
        binds = label(each, "form") in CPU_FORMS
        assert len(cpus) * 1000 == (requests_of(each)["cpu"] if binds else 0), name_of(each)
        for cpu in cpus:
            other = taken.setdefault((node, cpu), name_of(each))
            assert other == name_of(each), f"{node} CPU {cpu}: {other} and {name_of(each)}"


def cpus_kept(pods: list[Document], held: list[Document]) -> None:
    """A Reservation's CPUs are nobody's but its owners'."""
    for reservation in (each for each in held if is_active(each)):
        kept, owners = set(cpus_of(reservation)), owners_of(reservation, pods)
        for each in pods:
            if bound_to(each) == reservation["status"]["nodeName"] and each not in owners:
                taken = kept.intersection(cpus_of(each))
                assert not taken, f"{name_of(each)} has CPUs {taken} of {name_of(reservation)}"


def devices_once(pods: list[Document], held: list[Document]) -> None:
    """No card is given away twice, to pods or for Reservations."""
    active = [each for each in held if is_active(each)]
    for node in {bound_to(each) for each in pods} - {""}:
        there = [each for each in active if each["status"]["nodeName"] == node]
        for key, value in cards_used(node, pods, there).items():
            assert value <= 100, f"{node} {key}: {value} of 100"


def quota_use(found: list[Document], pods: list[Document], quota: str) -> int:
    """Milli CPUs that bound pods of a quota, and of those below it, ask for."""
    below = {name_of(q) for q in found if label(q, QUOTA + "parent") == quota}
    there = (p for p in pods if bound_to(p))
    mine = (p for p in there if label(p, QUOTA + "name") in {quota, *below})
    return sum(requests_of(each)["cpu"] for each in mine)


def quotas(found: list[Document], pods: list[Document], floors: dict[str, int]) -> None:
    """No use above max and hard, but what there was before; and what the object tells is true."""
    for quota in found:
        name, spec = name_of(quota), quota["spec"]
        if name not in MINIMA:
            continue
        used = quota_use(found, pods, name)
        limits = [amount("cpu", str(spec[p]["cpu"])) for p in ("max", "hard") if p in spec]
        allowed = max(min(limits), floors.get(name, 0))
        assert used <= allowed, f"{name}: {used} m of {limits} CPU"
        told = quota.get("status", {}).get("used", {}).get("cpu", "0")
        assert amount("cpu", str(told)) == used, f"{name} tells of {told} CPU, {used} m are used"


def pod_groups(found: list[Document], pods: list[Document]) -> None:
    """What PodGroups tell is true; members that have ended had a node too."""
    for group in found:
        mine = members(pods, name_of(group))
        status = group.get("status", {})
        if status.get("phase") in ("Scheduling", "Scheduled", "Running"):
            bound = sum(1 for each in mine if bound_to(each))
            assert status.get("scheduled", 0) == bound, f"{name_of(group)}: {status} of {bound}"


def reservations(held: list[Document], pods: list[Document]) -> None:
    for reservation in held:
        status, name = reservation.get("status", {}), name_of(reservation)
        owners = owners_of(reservation, pods)
        if reservation["spec"].get("allocateOnce", True):
            assert len(owners) <= 1, f"{name} has {len(owners)} owners"
        if not is_active(reservation):
            continue
        assert all(bound_to(each) == status["nodeName"] for each in owners), name
        listed = sorted(each["name"] for each in status.get("currentOwners", []))
        assert listed == sorted(name_of(each) for each in owners), name
        used: Counter[str] = Counter()
        for each in owners:
            used.update(requests_of(each))
        told = {k: amount(k, str(v)) for k, v in status.get("allocated", {}).items()}
        restricted = reservation["spec"].get("allocatePolicy") == "Restricted"
        for resource, text in status["allocatable"].items():
            assert told.get(resource, 0) == used[resource], f"{name}: {resource}"
            within = used[resource] <= amount(resource, str(text))
            assert within or not restricted, f"{name}: {used[resource]} of {text} {resource}"


def gangs(
    whole: dict[str, int],
    least: dict[str, int],
    broken: set[str],
    room: Room,
    pods: list[Document],
) -> None:
    """All or nothing; of a gang that a fault broke apart, the rest waits only for want of room."""
    for gang, size in whole.items():
        found = members(pods, gang)
        bound = sum(1 for p in found if bound_to(p))
        if len(found) != size or bound == 0 or bound >= least.get(gang, size):
            continue
        assert gang in broken, f"{gang}: {bound} of {size} are bound"
        for each in found:
            if bound_to(each) or label(each, "form") not in MODELLED:
                continue
            fits = room.for_pod(each)
            assert not fits, f"{name_of(each)} of {gang} waits, and fits on {fits}"


def told(pods: list[Document]) -> None:
    """Who waits knows why."""
    for each in pods:
        if bound_to(each) or not name_of(each).startswith("pod-"):
            continue
        conditions = each.get("status", {}).get("conditions", [])
        said = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
        assert said, f"{name_of(each)} waits, and nobody said why"
