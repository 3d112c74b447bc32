# SPDX-License-Identifier: Apache-2.0
"""HorizontalPodAutoscaler: how many pods a workload should have, and what the status says of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api.kinds.registry import Kind
from koord.base.documents import Document
from koord.controlplane.controllers.autoscaling import rate_limits
from koord.controlplane.controllers.autoscaling.rate_limits import ScaleHistory
from koord.controlplane.controllers.autoscaling.replica_calculator import (
    MetricError,
    MetricProposal,
    MetricTarget,
    PodUsage,
    Tolerances,
    milli_of,
    proposal,
)
from koord.controlplane.controllers.base import conditions
from koord.controlplane.controllers.base.objects import Owner, timestamp
from koord.controlplane.controllers.base.plans import ObjectEvent
from koord.kernels.quantity import Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.pod import Pod


SCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, "meta.Object"
)
_FIELDS = {"Resource": "resource", "ContainerResource": "containerResource"}
_NO_API = {"Pods": "custom", "Object": "custom", "External": "external"}

MetricUsage = dict[tuple[str, str], "Mapping[str, PodUsage]"]
"""By resource and container (empty for the whole pod): by name of the pod, what it uses."""


@dataclass(frozen=True)
class WorkloadScale:
    """What a scaler finds of its workload.

    Attributes:
        replicas: how many pods there should be.
        selected: the pods that there are.
        figures: what they use.
    """

    replicas: int
    selected: Sequence[Pod]
    figures: MetricUsage


@dataclass
class ScaleDecision:
    """What a scaler decides.

    Attributes:
        replicas: the new number; None to leave it.
        reason: of the change.
        status: of the scaler.
    """

    status: Document
    replicas: int | None = None
    reason: str = ""
    notes: list[ObjectEvent] = field(default_factory=list)

    def condition(self, kind: str, status: bool, reason: str, message: str, now: float) -> None:
        """Sets a condition; its time moves with its status."""
        new = conditions.condition(kind, status, reason, message)
        known = self.status.setdefault("conditions", [])
        old = conditions.find(known, kind)
        moved = old is None or old["status"] != new["status"]
        new["lastTransitionTime"] = timestamp(now) if moved or not old else (
            old.get("lastTransitionTime") or timestamp(now))  # fmt: skip
        if old is None:
            known.append(new)
        else:
            known[known.index(old)] = new


def decide(owner: Owner, scale: WorkloadScale, history: ScaleHistory, now: float) -> ScaleDecision:
    """How many pods there should be.

    Args:
        owner: the HorizontalPodAutoscaler.
        scale: what there is of its workload.
        history: what it has recommended and done; takes note of what it recommends.
        now: wall seconds.
    """
    outcome = begun(owner)
    said = "the HPA controller was able to get the target's current scale"
    outcome.condition("AbleToScale", True, "SucceededGetScale", said, now)
    if not history.recommended:
        history.recommended.append((now, scale.replicas))
    spec, current = owner.spec, scale.replicas
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 1)
    status = outcome.status
    status["currentReplicas"] = current
    if current == 0 and least != 0:
        said = "scaling is disabled since the replica count of the target is zero"
        outcome.condition("ScalingActive", False, "ScalingDisabled", said, now)
        wanted = 0
    elif current > most:
        wanted, outcome.reason = most, "Current number of replicas above Spec.MaxReplicas"
    elif current < least:
        wanted, outcome.reason = least, "Current number of replicas below Spec.MinReplicas"
    else:
        recommended, name = _recommended(owner, scale, outcome, now)
        if recommended is None:
            return outcome
        outcome.reason = f"{name} above target"
        if recommended < current:
            outcome.reason = "All metrics below target"
        pace = rate_limits.pace(
            current, recommended, least, most, spec.get("behavior"), history, now
        )
        outcome.condition("AbleToScale", True, *pace.able, now)
        outcome.condition("ScalingLimited", pace.limited, *pace.why, now)
        wanted = pace.replicas
    status["desiredReplicas"] = wanted
    if wanted != current:
        outcome.replicas = wanted
    return outcome


def begun(owner: Owner) -> ScaleDecision:
    """An outcome that leaves everything as it is."""
    status = copy.deepcopy(owner.status)
    status.setdefault("desiredReplicas", 0)
    return ScaleDecision(status)


def scaled(outcome: ScaleDecision, current: int, history: ScaleHistory, now: float) -> None:
    """Takes note that the workload has its new number."""
    assert outcome.replicas is not None
    said = f"the HPA controller was able to update the target scale to {outcome.replicas}"
    outcome.condition("AbleToScale", True, "SucceededRescale", said, now)
    told = f"New size: {outcome.replicas}; reason: {outcome.reason}"
    outcome.notes.append(ObjectEvent("SuccessfulRescale", told))
    outcome.status["lastScaleTime"] = timestamp(now)
    history.changes.append((now, outcome.replicas - current))


def targets(owner: Owner) -> list[tuple[str, MetricTarget | None, str]]:
    """The metrics of a scaler: type, what is aimed at, and why there can be no figures."""
    found: list[tuple[str, MetricTarget | None, str]] = []
    for metric in owner.spec.get("metrics") or ():
        kind = metric.get("type", "")
        source = metric.get(_FIELDS.get(kind, ""))
        if source is None:
            api = _NO_API.get(kind, "such")
            name = ((metric.get(kind.lower()) or {}).get("metric") or {}).get("name", "")
            why = f"unable to get metric {name}: there is no {api} metrics API here"
            found.append((kind, None, why))
            continue
        aim, container = source.get("target") or {}, source.get("container", "")
        resource, amount = source.get("name", ""), aim.get("averageValue")
        if amount is not None:
            milli = milli_of(Quantity.parse(amount))
            found.append((kind, MetricTarget(resource, 0, milli, container), ""))
        else:
            percent = aim.get("averageUtilization") or 0
            found.append((kind, MetricTarget(resource, percent, 0, container), ""))
    return found


def _recommended(
    owner: Owner, scale: WorkloadScale, outcome: ScaleDecision, now: float
) -> tuple[int | None, str]:
    """The largest of what the metrics ask for, and which it is; None if nobody can tell."""
    best: tuple[int, str] | None = None
    failures: list[tuple[str, str]] = []
    current: list[Document] = []
    tolerances = _tolerances(owner.spec.get("behavior") or {})
    listed = targets(owner)
    for kind, target, why in listed:
        try:
            if target is None:
                raise MetricError(why)
            found = _propose(target, scale, tolerances, now)
        except MetricError as error:
            failures.append((f"FailedGet{kind}Metric", str(error)))
            current.append({"type": ""})
            continue
        assert target is not None
        current.append(_current(kind, target, found))
        if best is None or found.replicas > best[0]:
            best = found.replicas, _name(kind, target)
    outcome.status["currentMetrics"] = current
    for reason, message in failures:
        outcome.notes.append(ObjectEvent(reason, message, "Warning"))
    if best is None or (failures and best[0] < scale.replicas):
        reason, message = failures[0] if failures else ("InvalidMetricSourceType", "no metrics")
        said = f"the HPA was unable to compute the replica count: {message}"
        outcome.condition("ScalingActive", False, reason, said, now)
        first = f"invalid metrics ({len(failures)} invalid out of {len(listed)})"
        told = f"{first}, first error is: {message}"
        outcome.notes.append(ObjectEvent("FailedComputeMetricsReplicas", told, "Warning"))
        return None, ""
    said = f"the HPA was able to successfully calculate a replica count from {best[1]}"
    outcome.condition("ScalingActive", True, "ValidMetricFound", said, now)
    return best


def _propose(
    target: MetricTarget, scale: WorkloadScale, tolerances: Tolerances, now: float
) -> MetricProposal:
    what = "utilization" if target.percent else "usage"
    try:
        used = scale.figures.get((target.resource, target.container), {})
        if not used:
            why = "no metrics returned from resource metrics API"
            raise MetricError(f"unable to get metrics for resource {target.resource}: {why}")
        return proposal(scale.replicas, target, scale.selected, used, tolerances, now)
    except MetricError as error:
        raise MetricError(f"failed to get {target.resource} {what}: {error}") from None


def _current(kind: str, target: MetricTarget, proposal: MetricProposal) -> Document:
    form = Format.BINARY_SI if target.resource == "memory" else Format.DECIMAL_SI
    value: Document = {"averageValue": str(Quantity.from_milli(proposal.milli, form))}
    if proposal.percent is not None:
        value["averageUtilization"] = proposal.percent
    source: Document = {"name": target.resource, "current": value}
    if target.container:
        source["container"] = target.container
    return {"type": kind, _FIELDS[kind]: source}


def _name(kind: str, target: MetricTarget) -> str:
    if not target.percent:
        return f"{target.resource} resource"
    inner = "container resource" if kind == "ContainerResource" else "resource"
    return f"{target.resource} {inner} utilization (percentage of request)"


def _tolerances(behavior: Document) -> Tolerances:
    given = {
        way: milli_of(Quantity.parse(rules["tolerance"])) / 1000
        for way, rules in behavior.items()
        if rules and rules.get("tolerance") is not None
    }
    default = Tolerances()
    return Tolerances(given.get("scaleDown", default.down), given.get("scaleUp", default.up))
