# SPDX-License-Identifier: Apache-2.0
"""Whether a pod can have each reservation of a node, what it is worth, and which one it gets.

Reasons are compared in the order of their text, since the original walks a map of reservations.
Of equals, which take turns there, only the order and the score are compared.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.protocol import keys
from koord.api.protocol import reservations as protocol
from koord.controllers.scheduler.config.args_gangs_and_quota import ReservationArgs
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.reservation import reasons
from koord.controllers.scheduler.plugins.reservation.evaluation.cycle_state import state_of
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    PLUGIN,
    ReservationAllocation,
)
from koord.controllers.scheduler.plugins.reservation.state import fit
from koord.kernels.quantity import Quantity
from tests.controllers.scheduler.plugins.reservation.bench import Bench
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )

SEED = 20262

_CASES = 700
_GPU, _NIC = "example.com/gpu", "other.io/nic"
_NAMES = ["cpu", "memory", "ephemeral-storage", _GPU, _NIC]
_TEXTS = {
    "cpu": ["1", "2", "3", "500m", "1999m", "2001m", "4"],
    "memory": ["1Gi", "2Gi", "2147483649", "3Gi", "500M"],
    "ephemeral-storage": ["1Gi", "2Gi", "1500Mi"],
    _GPU: ["1", "2", "3"],
    _NIC: ["1", "2"],
}
_SCHEME = {"app": "R"}


def inputs(draw: random.Random) -> list[Json]:
    """A node with few reservations, pods in them and beside them, and a pod that comes."""
    return [_case(draw) for _ in range(_CASES)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    bench = _bench(case)
    cycle = Cycle(bench.info(convert(case["pod"], Pod, "pod")), bench.table)
    refusal = bench.plugin.pre_filter(cycle)
    if refusal is not None:
        return {"stops": sorted(refusal.reasons)}
    if not bench.plugin.applies(cycle):
        return {"filter": []}
    return _answer(bench, cycle)


def _bench(case: Json) -> Bench:
    args = ReservationArgs(
        ignored_resources=case["ignored"], ignored_resource_groups=case["groups"]
    )
    gates = "SkipReservationFitsNode=true" if case["skipNode"] else ""
    bench = Bench(convert(case["node"], Node, "node"), args=args, gates=gates)
    bench.put(*(convert(each, Reservation, "Reservation") for each in case["reservations"]))
    for each in case["others"]:
        bench.bound(convert(each, Pod, "pod"), "n")
    for owners in case["owners"].values():
        for each in owners:
            _put_owner(bench, convert(each, Pod, "pod"))
    return bench


def _put_owner(bench: Bench, pod: Pod) -> None:
    """An owner, though the reservation may be for others by its entries."""
    info, found = bench.info(pod), protocol.reservation_allocated(pod)
    if found is not None:
        info.allocations[PLUGIN] = ReservationAllocation(found.uid, found.name)
    bench.world.accounts.add(0, info)


def _answer(bench: Bench, cycle: Cycle) -> Json:
    attempt, chooser = state_of(cycle).attempt, bench.plugin.chooser
    records = attempt.records(0)
    refusal = chooser.rejection(cycle, attempt, 0)
    lacking = sorted(refusal.reasons) if refusal is not None else []
    if not records or attempt.request.ignores:
        return {"filter": lacking}
    fits, scores = {}, {}
    for each in records:
        fits[each.name] = _fits(chooser, cycle, attempt, each)
        scores[each.name] = chooser.score(cycle, each)
    _check_columns(bench, cycle, lacking, scores)
    nominated = chooser.nominate(cycle, attempt, 0)
    found: dict[str, Any] = {"fits": fits, "scores": scores, "filter": lacking}
    found["nominated"] = None
    if not any(each.order for each in records):
        found["worth"] = scores[nominated.name] if nominated is not None else 0
    if nominated is not None:
        score = scores[nominated.name]
        score = -1 if nominated.order and len(records) > 1 else score
        found["nominated"] = [nominated.order, score]
    return found


def _fits(chooser: Any, cycle: Cycle, attempt: Any, record: ReservationInfo) -> list[str]:
    """As at nomination: the pod may have this reservation and no other."""
    wish = attempt.request
    if not wish.required and not fit.shares_resources(record, cycle.shape.request):
        return [reasons.NONE_MEETS]
    node, own = chooser._shortfalls(cycle, 0, record, detailed=bool(wish.name), of=1)
    return sorted(reasons.by_node(node) + own)


def _check_columns(bench: Bench, cycle: Cycle, lacking: list[str], scores: dict[str, int]) -> None:
    """What is said of many nodes at once is what is said of one."""
    attempt = state_of(cycle).attempt
    if len(scores) != 1 or not len(attempt.flat().rows):
        return
    flat, chooser = attempt.flat(), bench.plugin.chooser
    assert chooser.passes(cycle, attempt, flat).tolist() == [not lacking]
    if attempt.request.required:
        assert chooser.scores(cycle, attempt, flat).tolist() == list(scores.values())


def _amounts(draw: random.Random, least: int, most: int) -> dict[str, str]:
    chosen = draw.sample(_NAMES, draw.randint(least, most))
    if "cpu" not in chosen and draw.random() < 0.7:
        chosen.append("cpu")
    return {name: draw.choice(_TEXTS[name]) for name in chosen}


def _pod(name: str, amounts: dict[str, str], **meta: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **meta},
        "spec": {
            "nodeName": meta.pop("node", ""),
            "containers": [{"name": "main", "resources": {"requests": amounts}}],
        },
    }


def _reservation(draw: random.Random, number: int) -> Json:
    held = _amounts(draw, 1, 3)
    allocatable: dict[str, str] = dict(held)
    if draw.random() < 0.15:
        allocatable["pods"] = draw.choice(["1", "2"])
    notes = {}
    if draw.random() < 0.2:
        names = draw.sample(_NAMES, draw.randint(0, 2))
        notes[keys.RESERVATION_RESTRICTED_OPTIONS] = json.dumps({"resources": names})
    if draw.random() < 0.2:
        withheld = {name: draw.choice(_TEXTS[name]) for name in draw.sample(sorted(held), 1)}
        notes[keys.NODE_RESERVATION] = json.dumps({"resources": withheld})
    labels = {}
    if draw.random() < 0.2:
        labels[keys.RESERVATION_ORDER] = draw.choice(["1", "2", "0", "x", "-1"])
    name = f"r{number}"
    return {
        "metadata": {
            "name": name, "uid": f"uid-{name}", "labels": labels, "annotations": notes,
            "creationTimestamp": "2023-11-14T22:13:20Z",
        },
        "spec": {
            "template": {"spec": {"containers": [{"name": "m", "resources": {"requests": held}}]}},
            "owners": [{"labelSelector": {"matchLabels": (
                _SCHEME if draw.random() < 0.8 else {"app": "other"}
            )}}],
            "ttl": "24h",
            "allocateOnce": draw.random() < 0.15,
            "allocatePolicy": draw.choice(["", "Aligned", "Restricted", "Restricted"]),
            "unschedulable": draw.random() < 0.05,
        },
        "status": {"phase": "Available", "nodeName": "n", "allocatable": allocatable},
    }  # fmt: skip


def _case(draw: random.Random) -> Json:
    reservations = [_reservation(draw, number) for number in range(draw.randint(1, 3))]
    owners = {}
    for each in reservations:
        uid = each["metadata"]["uid"]
        notes = {keys.RESERVATION_ALLOCATED: json.dumps({"name": uid[4:], "uid": uid})}
        wide = draw.random() < 0.06
        owners[uid] = [
            _pod(f"{uid}-{number}", _within(draw, each, wide=wide), annotations=notes)
            for number in range(draw.choice([0, 0, 1, 1, 2]))
        ]
        if each["spec"]["allocateOnce"] and draw.random() < 0.7:
            owners[uid] = []
    others = [_pod(f"o{number}", _amounts(draw, 1, 2)) for number in range(draw.randint(0, 2))]
    pods = 110
    if len(reservations) == 1 and not owners["uid-r0"]:
        pods = len(others) + draw.randint(0, 2)
    return {
        "node": _node(draw, reservations, others, pods), "reservations": reservations,
        "owners": owners, "others": others, "pod": _comer(draw, reservations),
        "ignored": draw.choice([[], [], [], [_GPU], [_NIC]]),
        "groups": draw.choice([[], [], [], ["example.com"], ["other"]]),
        "skipNode": draw.random() < 0.15,
    }  # fmt: skip


def _within(draw: random.Random, reservation: Json, *, wide: bool) -> dict[str, str]:
    """What an owner asks for: mostly less than half of what is held, or anything."""
    if wide:
        return _amounts(draw, 1, 3)
    held = reservation["status"]["allocatable"]
    parts = {"cpu": "200m", "memory": "200M", "ephemeral-storage": "400Mi"}
    parts.update({name: "1" for name in (_GPU, _NIC) if held.get(name) in ("2", "3")})
    return {name: parts[name] for name in held if name in parts and draw.random() < 0.7}


def _node(draw: random.Random, reservations: list[Json], others: list[Json], pods: int) -> Json:
    """Has room for all that is held and for the others, and a little more."""
    lists = [each["status"]["allocatable"] for each in reservations]
    lists += [each["spec"]["containers"][0]["resources"]["requests"] for each in others]
    amounts = {"pods": str(pods)}
    for name in _NAMES:
        held = sum((Quantity.parse(each[name]) for each in lists if name in each), Quantity())
        more = draw.choice(["0", *_TEXTS[name], *_TEXTS[name]])
        amounts[name] = str(held + Quantity.parse(more))
    if draw.random() < 0.1 and not any(_NIC in each for each in lists):
        del amounts[_NIC]
    labels = {"kubernetes.io/hostname": "n"}
    return {
        "metadata": {"name": "n", "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _comer(draw: random.Random, reservations: list[Json]) -> Json:
    notes: dict[str, str] = {}
    labels = dict(_SCHEME)
    chance = draw.random()
    if chance < 0.35:
        notes[keys.RESERVATION_AFFINITY] = "{}"
    elif chance < 0.5:
        name = draw.choice(reservations)["metadata"]["name"]
        notes[keys.RESERVATION_AFFINITY] = json.dumps({"name": name})
    elif chance < 0.55:
        labels[keys.RESERVATION_IGNORED] = "true"
    amounts = _amounts(draw, 1, 3) if draw.random() < 0.95 else {}
    return _pod("p", amounts, labels=labels, annotations=notes)


def _counts_otherwise(case: Json, theirs: Json, ours: Json) -> bool:
    """Some reservation and its owners are not summed up alike."""
    return any(_uneven(each, case["owners"][each["metadata"]["uid"]]) for each in _each(case))


def _each(case: Json) -> list[Json]:
    found: list[Json] = case["reservations"]
    return found


def _uneven(reservation: Json, owners: list[Json]) -> bool:
    held, spec = reservation["status"]["allocatable"], reservation["spec"]
    lists = [each["spec"]["containers"][0]["resources"]["requests"] for each in owners]
    more = any(
        sum((Quantity.parse(each[name]) for each in lists if name in each), Quantity())
        > Quantity.parse(amount)
        for name, amount in held.items()
    )
    return more or (spec["allocateOnce"] and bool(owners))


def _counts_only_listed(case: Json, theirs: Json, ours: Json) -> bool:
    """What is not listed is withheld, or taken by owners, or all that the pod asks for."""
    wanted = set(case["pod"]["spec"]["containers"][0]["resources"]["requests"])
    for each in _each(case):
        options = each["metadata"]["annotations"].get(keys.RESERVATION_RESTRICTED_OPTIONS)
        listed = json.loads(options)["resources"] if options else []
        held = set(each["status"]["allocatable"])
        if each["spec"]["allocatePolicy"] != "Restricted" or not held & set(listed):
            continue
        withheld = each["metadata"]["annotations"].get(keys.NODE_RESERVATION)
        if withheld and set(json.loads(withheld)["resources"]) - set(listed):
            return True
        if wanted & held and not wanted & held & set(listed):
            return True
        for owner in case["owners"][each["metadata"]["uid"]]:
            asked = set(owner["spec"]["containers"][0]["resources"]["requests"])
            if asked & held - set(listed):
                return True
    return False


def _is_full(case: Json, theirs: Json, ours: Json) -> bool:
    """The node has no place but the reservation's, and no answer of koord's is more lenient."""
    places = int(case["node"]["status"]["allocatable"]["pods"])
    text = "Insufficient pods by node"
    return places <= len(case["others"]) + 1 and (text in ours["filter"] or case["skipNode"])


def _lacks_what_is_not_asked(case: Json, theirs: Json, ours: Json) -> bool:
    asked = case["pod"]["spec"]["containers"][0]["resources"]["requests"]
    texts = {f"Insufficient {name} by node" for name in _NAMES if name not in asked}
    told = [theirs["filter"], *theirs["fits"].values()]
    return bool(texts & {text for each in told for text in each})


def _nominates_what_does_not_fit(case: Json, theirs: Json, ours: Json) -> bool:
    rest = {"nominated", "worth"}
    alike = all(theirs[name] == ours.get(name) for name in theirs if name not in rest)
    return case["skipNode"] and alike


DIFFERENCES: dict[str, Difference] = {
    "reservation-greater-counts": Difference(
        "of a reservation and its owners the greater counts", _counts_otherwise,
    ),
    "reservation-owners-count-all": Difference(
        "owners count in all resources that are held", _counts_only_listed,
    ),
    "reservation-one-place": Difference(
        "the place of a reservation is freed once for a pod that may have it", _is_full,
    ),
    "reservation-not-asked": Difference(
        "what a pod does not ask for does not keep it off a node", _lacks_what_is_not_asked,
    ),
    "reservation-nominated-fits": Difference(
        "a reservation is nominated only if the pod fits the node with it",
        _nominates_what_does_not_fit,
    ),
}  # fmt: skip

_RESERVE_PODS = "the rest is for reserve pods, pre-allocation and preemption"
_LISTS = "the rest is for hints, indexes, node affinity and errors"
_CLUSTER = "the rest is for taints, affinities and exact matches, which do not concern amounts"
_LOGS = "the rest is told in logs, or for errors"
COVERAGE = {
    "frameworkext/reservation_info.go:AddAssignedPod": _LOGS,
    "frameworkext/reservation_info.go:IsMatchable": "the rest is for pods in operating mode",
    "reservation/nominator.go:prioritizeReservations": _LOGS,
    "reservation/plugin.go:Filter": _RESERVE_PODS,
    "reservation/plugin.go:FilterNominateReservation": _RESERVE_PODS,
    "reservation/plugin.go:PreFilter": _RESERVE_PODS,
    "reservation/plugin.go:fitsNodeAndReservation": _LOGS,
    "reservation/transformer.go:checkReservationMatchedOrIgnored": _CLUSTER,
    "reservation/transformer.go:preRestoreReservationResourcesForNode": _RESERVE_PODS,
    "reservation/transformer.go:prepareMatchReservationStateForNormalPod": _LISTS,
    "reservation/transformer.go:restoreMatchedReservation": "the rest is for host ports",
}
