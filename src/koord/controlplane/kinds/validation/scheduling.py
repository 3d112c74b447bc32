# SPDX-License-Identifier: Apache-2.0
"""Where a pod may go: tolerations, taints, node selectors, affinity, topology spread, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.object_meta import check_labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controlplane.kinds.validation.causes import Causes


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NOT_AN_OPERATOR = "not a valid selector operator"
_VALUES_NEEDED = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def check_tolerations(tolerations: Iterable[Document], path: str, causes: Causes) -> None:
    """Adds what is wrong with ``spec.tolerations``."""
    for index, toleration in enumerate(tolerations):
        key, operator = toleration.get("key"), toleration.get("operator", "")
        effect, value = toleration.get("effect"), toleration.get("value", "")
        where = f"{path}[{index}]"
        if key:
            if whys := names.label_key(key):
                causes.invalid_all(f"{where}.key", key, whys)
        elif operator != "Exists":
            why = (
                "operator must be Exists when `key` is empty, "
                'which means "match all values and all keys"'
            )
            causes.invalid(f"{where}.operator", operator, why)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.invalid(f"{where}.effect", effect or "", why)
        if operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                causes.invalid(f"{where}.operator", value, why)
        elif operator not in ("Equal", ""):
            causes.not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
        elif whys := names.label_value(value):
            causes.invalid(f"{where}.operator", value, ";".join(whys))
        if effect and effect not in EFFECTS:
            causes.not_supported(f"{where}.effect", effect, EFFECTS)


def check_taints(taints: Iterable[Document], path: str, causes: Causes) -> None:
    """Adds what is wrong with a node's ``spec.taints``."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        if whys := names.label_key(key):
            causes.invalid_all(f"{where}.key", key, whys)
        if whys := names.label_value(value):
            causes.invalid(f"{where}.value", value, ";".join(whys))
        if not effect:
            causes.required(f"{where}.effect")
        elif effect not in EFFECTS:
            causes.not_supported(f"{where}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            causes.duplicate(where, _as_in_go(taint))
            causes[-1].message += ": taints must be unique by key and effect pair"
        seen.add((key, effect))


def _as_in_go(taint: Document) -> Document:
    """The taint as the original shows it: its internal struct has no names for JSON."""
    names = ("key", "value", "effect")
    shown: Document = {name.capitalize(): taint.get(name, "") for name in names}
    return {**shown, "TimeAdded": taint.get("timeAdded")}


def check_selector(selector: Document | None, path: str, causes: Causes) -> None:
    """Adds what is wrong with a label selector."""
    if not selector:
        return
    if labels := selector.get("matchLabels"):
        check_labels(labels, f"{path}.matchLabels", causes)
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values")
        if operator in ("In", "NotIn"):
            if not values:
                causes.required(f"{where}.values", _VALUES_NEEDED)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                causes.forbidden(f"{where}.values", _NO_VALUES)
        else:
            causes.invalid(f"{where}.operator", operator, _NOT_AN_OPERATOR)
        _check_key_and_values(requirement, where, causes)


def _check_key_and_values(requirement: Document, where: str, causes: Causes) -> None:
    key = requirement.get("key", "")
    if whys := names.label_key(key):
        causes.invalid_all(f"{where}.key", key, whys)
    for number, value in enumerate(requirement.get("values") or ()):
        if whys := names.label_value(value):
            causes.invalid_all(f"{where}.values[{number}]", value, whys)


def check_affinity(affinity: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with ``spec.affinity``."""
    if nodes := affinity.get("nodeAffinity"):
        where = f"{path}.nodeAffinity"
        if (required := nodes.get(_REQUIRED)) is not None:
            check_node_selector(required, f"{where}.{_REQUIRED}", causes)
        for index, entry in enumerate(nodes.get(_PREFERRED) or ()):
            inside = f"{where}.{_PREFERRED}[{index}]"
            _check_weight(entry, inside, causes)
            _check_term(entry.get("preference") or {}, f"{inside}.preference", causes)
    for kind in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(kind):
            where = f"{path}.{kind}"
            for index, term in enumerate(pods.get(_REQUIRED) or ()):
                _check_pod_term(term, f"{where}.{_REQUIRED}[{index}]", causes)
            for index, entry in enumerate(pods.get(_PREFERRED) or ()):
                inside = f"{where}.{_PREFERRED}[{index}]"
                _check_weight(entry, inside, causes)
                term = entry.get("podAffinityTerm") or {}
                _check_pod_term(term, f"{inside}.podAffinityTerm", causes)


def check_node_selector(selector: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with a node selector: terms of which one must match."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        why = "must have at least one node selector term"
        causes.required(f"{path}.nodeSelectorTerms", why)
        return
    for index, term in enumerate(terms):
        _check_term(term, f"{path}.nodeSelectorTerms[{index}]", causes)


def _check_term(term: Document, path: str, causes: Causes) -> None:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                causes.required(f"{where}.values", _VALUES_NEEDED)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                causes.forbidden(f"{where}.values", _NO_VALUES)
        elif operator in ("Gt", "Lt"):
            if len(values) != 1:
                why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                causes.required(f"{where}.values", why)
        else:
            causes.invalid(f"{where}.operator", operator, _NOT_AN_OPERATOR)
        _check_key_and_values(requirement, where, causes)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        where = f"{path}.matchFields[{index}]"
        operator, values = requirement.get("operator", ""), requirement.get("values") or ()
        if operator not in ("In", "NotIn"):
            causes.invalid(f"{where}.operator", operator, _NOT_AN_OPERATOR)
        elif len(values) != 1:
            why = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            causes.required(f"{where}.values", why)
        key = requirement.get("key", "")
        if key != "metadata.name":
            causes.invalid(f"{where}.key", key, "not a valid field selector key")
        else:
            for number, value in enumerate(values):
                causes.invalid_all(f"{where}.values[{number}]", value, names.dns_subdomain(value))


def _check_weight(entry: Document, path: str, causes: Causes) -> None:
    weight = entry.get("weight", 0)
    if not 1 <= weight <= 100:
        causes.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_pod_term(term: Document, path: str, causes: Causes) -> None:
    selector = term.get("labelSelector")
    check_selector(selector, f"{path}.labelSelector", causes)
    check_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector", causes)
    for name in term.get("namespaces") or ():
        causes.invalid_all(f"{path}.namespace", name, names.dns_label(name))
    _check_label_keys(term, selector, path, causes)
    key = term.get("topologyKey", "")
    if not key:
        causes.required(f"{path}.topologyKey", "can not be empty")
    causes.invalid_all(f"{path}.topologyKey", key, names.label_key(key))


def _check_label_keys(term: Document, selector: Document | None, path: str, causes: Causes) -> None:
    for key in ("matchLabelKeys", "mismatchLabelKeys"):
        if not (labels := term.get(key)):
            continue
        if selector is None:
            why = "must not be specified when labelSelector is not set"
            causes.forbidden(f"{path}.{key}", why)
        for index, label in enumerate(labels):
            causes.invalid_all(f"{path}.{key}[{index}]", label, names.label_key(label))


def check_spread(constraints: list[Document], path: str, causes: Causes) -> None:
    """Adds what is wrong with ``spec.topologySpreadConstraints``."""
    kinds = [(entry.get("topologyKey"), entry.get("whenUnsatisfiable")) for entry in constraints]
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        skew, key = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        action = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            causes.invalid(f"{where}.maxSkew", skew, "must be greater than zero")
        if not key:
            causes.required(f"{where}.topologyKey", "can not be empty")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            allowed = ("DoNotSchedule", "ScheduleAnyway")
            causes.not_supported(f"{where}.whenUnsatisfiable", action, allowed)
        if (key, action) in kinds[index + 1 :]:
            causes.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        if (domains := constraint.get("minDomains")) is not None:
            if domains <= 0:
                causes.invalid(f"{where}.minDomains", domains, "must be greater than zero")
            if action != "DoNotSchedule":
                why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                causes.invalid(f"{where}.minDomains", domains, why)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(policy) not in (None, "Honor", "Ignore"):
                causes.not_supported(f"{where}.{policy}", constraint[policy], ("Honor", "Ignore"))
        selector = constraint.get("labelSelector")
        _check_label_keys(constraint, selector, where, causes)
        check_selector(selector, f"{where}.labelSelector", causes)


def check_gates(gates: Iterable[Document], path: str, causes: Causes) -> None:
    """Adds what is wrong with ``spec.schedulingGates``."""
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        causes.invalid_all(f"{path}[{index}]", name, names.label_key(name))
        if name in seen:
            causes.duplicate(f"{path}[{index}]", name)
        seen.add(name)
