# SPDX-License-Identifier: Apache-2.0
"""How a pod may change after it was made (core ``ValidatePodUpdate``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.pod.spec_validation import check_pod
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes

if TYPE_CHECKING:
    from collections.abc import Iterable


_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
    "set to 1 if it was previously negative)"
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_change(pod: Document, old: Document) -> Causes:
    """What is wrong with a changed pod, or its changed status."""
    spec, before = pod["spec"], old["spec"]
    causes = Causes()
    if spec is before:
        _check_status(section(pod, "status"), section(old, "status"), causes)
        _check_nominated(pod, old, causes)
        return causes
    if spec == before:
        return causes
    check_pod(pod, causes)
    for kind in ("containers", "initContainers"):
        new_ones, old_ones = spec.get(kind) or (), before.get(kind) or ()
        if len(new_ones) != len(old_ones):
            causes.forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            return causes
        for index, container in enumerate(new_ones):
            if not container.get("image"):
                causes.required(f"spec.{kind}[{index}].image")
    if not _check_deadline(spec, before, causes):
        return causes
    _check_tolerations(spec.get("tolerations") or [], before.get("tolerations") or [], causes)
    _check_gates(spec.get("schedulingGates") or (), before.get("schedulingGates") or (), causes)
    if before.get("schedulingGates"):
        _check_gated(spec, before, causes)
    if _fixed_part(spec, before) != _fixed_part(before, before):
        causes.forbidden("spec", _FIXED)
    return causes


def _check_deadline(spec: Document, before: Document, causes: Causes) -> bool:
    path = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if new is None:
        if old is not None:
            causes.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= new < 2**31:
        causes.invalid(path, new, "must be between 0 and 2147483647, inclusive")
        return False
    if old is not None and new > old:
        causes.invalid(path, new, "must be less than or equal to previous value")
        return False
    return True


def _check_tolerations(new: list[Document], old: list[Document], causes: Causes) -> None:
    def without_seconds(entry: Document) -> Document:
        return {key: value for key, value in entry.items() if key != "tolerationSeconds"}

    kept = [without_seconds(entry) for entry in new]
    if any(without_seconds(entry) not in kept for entry in old):
        why = "existing toleration can not be modified except its tolerationSeconds"
        causes.forbidden("spec.tolerations", why)


def _check_gates(new: Iterable[Document], old: Iterable[Document], causes: Causes) -> None:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        name = gate.get("name")
        if name not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{name}'"
            causes.forbidden(f"spec.schedulingGates[{index}].name", why)


def _check_gated(spec: Document, before: Document, causes: Causes) -> None:
    """While gated, a pod's choice of nodes may become narrower."""
    new, old = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(new.get(key) != value for key, value in old.items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        causes.invalid("spec.nodeSelector", new, why)
    wanted = section(spec, "affinity", "nodeAffinity", _REQUIRED).get("nodeSelectorTerms") or []
    terms = section(before, "affinity", "nodeAffinity", _REQUIRED).get("nodeSelectorTerms") or []
    if not terms:
        return
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if len(wanted) != len(terms):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        causes.invalid(path, _go_json(wanted), why)
        return
    for index, (new_term, old_term) in enumerate(zip(wanted, terms, strict=True)):
        for key in ("matchExpressions", "matchFields"):
            added, kept = new_term.get(key) or [], old_term.get(key) or []
            if added[: len(kept)] != kept:
                why = "only additions are allowed (no mutations or deletions)"
                causes.invalid(f"{path}[{index}]", _term_as_go(new_term), why)
                break


def _go_json(terms: list[Document]) -> list[Document]:
    return [_term_as_go(term) for term in terms]


def _term_as_go(term: Document) -> Document:
    """A term as the original's message shows it: under the names of its Go fields."""

    def requirements(key: str) -> list[Document] | None:
        return [
            {"Key": e.get("key", ""), "Operator": e.get("operator", ""), "Values": e.get("values")}
            for e in term.get(key) or ()
        ] or None

    return {
        "MatchExpressions": requirements("matchExpressions"),
        "MatchFields": requirements("matchFields"),
    }


def _fixed_part(spec: Document, before: Document) -> Document:
    """The part of a spec that no update changes."""
    fixed = {key: value for key, value in spec.items() if key not in _CHECKED_ELSEWHERE}
    for kind in ("containers", "initContainers"):
        if kind in fixed:
            fixed[kind] = [{**container, "image": ""} for container in fixed[kind]]
    if (
        before.get("terminationGracePeriodSeconds", 0) < 0
        and fixed.get("terminationGracePeriodSeconds") == 1
    ):
        fixed["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        fixed.pop("nodeSelector", None)
        rest = {k: v for k, v in (fixed.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
        if rest:
            fixed["affinity"] = rest
    return fixed


_CHECKED_ELSEWHERE = frozenset(("activeDeadlineSeconds", "tolerations", "schedulingGates"))


def _check_status(status: Document, before: Document, causes: Causes) -> None:
    for index, entry in enumerate(status.get("conditions") or ()):
        kind = entry.get("type", "")
        causes.invalid_all(f"status.conditions[{index}].Type", kind, names.label_key(kind))
    causes.fixed("status.qosClass", status.get("qosClass"), before.get("qosClass"))


def _check_nominated(pod: Document, old: Document, causes: Causes) -> None:
    path = "status.nominatedNodeName"
    name = section(pod, "status").get("nominatedNodeName")
    if name and name != section(old, "status").get("nominatedNodeName"):
        causes.invalid_all(path, name, names.dns_subdomain(name))
        if old["spec"].get("nodeName"):
            causes.forbidden(path, "may not be set on pods that are already bound to a node")
