# SPDX-License-Identifier: Apache-2.0
"""What pods use of a ResourceQuota, which scopes they are in, and what a quota asks of them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from koord.api.protocol.qos import qos_from_resources
from koord.api.selectors import holds
from koord.base.documents import Document
from koord.controlplane.quotas.amounts import (
    ONE,
    QuotaAmounts,
    added,
    amounts_of,
    largest,
    only,
    section,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


COUNT = "count/pods"
_OF_QUOTAS = frozenset(
    (
        COUNT,
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
    )
)
_REQUIRED = (
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_FINISHED = ("Failed", "Succeeded")
_HUGE_PAGES, _HUGE_PAGE_REQUESTS = "hugepages-", "requests.hugepages-"
_PLAIN_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort")


def counts(name: str) -> bool:
    """Whether a name in a quota is about pods."""
    if name in _OF_QUOTAS or name.startswith((_HUGE_PAGES, _HUGE_PAGE_REQUESTS)):
        return True
    return name.startswith("requests.") and _is_foreign(name)


def usage(pod: Document, now: float) -> QuotaAmounts:
    """What a pod uses: finished pods, and those past their deletion, count as objects alone.

    Args:
        pod: the document.
        now: wall seconds.
    """
    if section(pod, "status").get("phase") in _FINISHED or _is_overdue(pod["metadata"], now):
        return {COUNT: ONE}
    requests, limits = _total(pod, "requests"), _total(pod, "limits")
    return {COUNT: ONE, **_named(requests, limits)}


def missing(pod: Document, names: Iterable[str]) -> str:
    """What a quota on some names wants a pod to say, in words; empty if it says all.

    A pod with amounts for the whole of it is asked nothing.
    """
    spec = pod["spec"]
    if _of_the_whole(spec, "requests") or _of_the_whole(spec, "limits"):
        return ""
    wanted = [name for name in _REQUIRED if name in set(names)]
    lacking: dict[str, set[str]] = {}
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests"), resources.get("limits")
        said = _named(amounts_of(requests), amounts_of(limits))
        for name in wanted:
            if name not in said:
                lacking.setdefault(name, set()).add(container.get("name", ""))
    parts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
    return f"must specify {'; '.join(parts)}" if parts else ""


def is_in_scope(pod: Document, requirement: Document) -> bool:
    """Whether a pod satisfies one requirement of a scope selector."""
    spec, scope = pod["spec"], requirement.get("scopeName", "")
    if scope in _PLAIN_SCOPES:
        within = is_terminating(pod) if scope.endswith("Terminating") else _is_best_effort(spec)
        return within is not scope.startswith("Not")
    if scope == "PriorityClass":
        name, operator = spec.get("priorityClassName") or None, requirement.get("operator", "")
        return holds(operator, requirement.get("values") or (), name)
    if scope == "CrossNamespacePodAffinity":
        return any(map(_crosses, _affinity_terms(spec.get("affinity") or {})))
    return False


def is_terminating(pod: Document) -> bool:
    """Whether a pod has a time after which it ends."""
    deadline = section(pod, "spec").get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _is_overdue(metadata: Document, now: float) -> bool:
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if not deleted or grace is None:
        return False
    return now > datetime.fromisoformat(deleted).timestamp() + float(grace)


def _named(requests: QuotaAmounts, limits: QuotaAmounts) -> QuotaAmounts:
    """Requests and limits under the names that quotas know them by."""
    result: QuotaAmounts = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            result[name] = result[f"requests.{name}"] = requests[name]
        if name in limits:
            result[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(_HUGE_PAGES):
            result[name] = result[f"requests.{name}"] = amount
        elif _is_foreign(name) and not name.startswith("requests."):
            result[f"requests.{name}"] = amount
    return result


def _total(pod: Document, part: str) -> QuotaAmounts:
    """A pod's requests or limits: the containers, at least what starting takes; its overhead."""
    spec = pod["spec"]
    states = _states(pod)
    result: QuotaAmounts = {}
    for container in spec.get("containers") or ():
        result = added(result, _effective(container, states, part))
    sidecars: QuotaAmounts = {}
    peak: QuotaAmounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            own = _effective(container, states, part)
            result, sidecars = added(result, own), added(sidecars, own)
            peak = largest(peak, sidecars)
        else:
            own = amounts_of((container.get("resources") or {}).get(part))
            peak = largest(peak, added(own, sidecars))
    result = {**largest(result, peak), **_of_the_whole(spec, part)}
    overhead = amounts_of(spec.get("overhead"))
    if part == "limits":
        overhead = {name: amount for name, amount in overhead.items() if result.get(name)}
    return added(result, overhead)


def _states(pod: Document) -> dict[str, Document]:
    status = section(pod, "status")
    listed: Sequence[Document] = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]
    return {state.get("name", ""): state for state in listed if state.get("resources")}


def _effective(container: Document, states: dict[str, Document], part: str) -> QuotaAmounts:
    """What a container asks for, or still has from before it was resized."""
    asked = amounts_of((container.get("resources") or {}).get(part))
    state = states.get(container.get("name", ""))
    if state is None:
        return asked
    result = largest(asked, amounts_of(state["resources"].get(part)))
    if part == "requests":
        result = largest(result, amounts_of(state.get("allocatedResources")))
    return result


def _of_the_whole(spec: Document, part: str) -> QuotaAmounts:
    given = amounts_of(section(spec, "resources").get(part))
    return {n: a for n, a in given.items() if n in ("cpu", "memory") or n.startswith(_HUGE_PAGES)}


def _is_foreign(name: str) -> bool:
    """Whether a resource is a device or the like, not one of Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name


def _is_best_effort(spec: Document) -> bool:
    """Whether a pod says nothing of CPU and memory."""
    whole = spec.get("resources")
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    owners = [whole] if whole is not None else [each.get("resources") or {} for each in containers]
    said = ((_cpu_and_memory(each, "requests"), _cpu_and_memory(each, "limits")) for each in owners)
    return qos_from_resources(said).value == "BestEffort"


def _cpu_and_memory(resources: Document, part: str) -> QuotaAmounts:
    return only(amounts_of(resources.get(part)), ("cpu", "memory"))


def _affinity_terms(affinity: Document) -> list[Document]:
    terms: list[Document] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms += rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for entry in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            terms.append(entry.get("podAffinityTerm") or {})
    return terms


def _crosses(term: Document) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None
