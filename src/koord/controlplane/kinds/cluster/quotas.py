# SPDX-License-Identifier: Apache-2.0
"""LimitRanges, ResourceQuotas and ServiceAccounts; admission enforces the first two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of
from koord.controlplane.kinds.validation.causes import IMMUTABLE, Causes
from koord.controlplane.kinds.validation.quantities import is_whole, normalise, parsed
from koord.controlplane.kinds.validation.resources import COUNTED, check_amount, faults_of_name
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_PODS = frozenset(("pods",))
_COMPUTE = frozenset(
    (
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    )
)
# By scope, the resources that it can be applied to.
_SCOPES = {
    "BestEffort": _PODS,
    "NotBestEffort": _PODS | _COMPUTE,
    "Terminating": _PODS | _COMPUTE,
    "NotTerminating": _PODS | _COMPUTE,
    "PriorityClass": _PODS | _COMPUTE,
    "CrossNamespacePodAffinity": _PODS | _COMPUTE,
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
}
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_EXCLUSIVE = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITHOUT_VALUES = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}


class LimitRangeStrategy(Strategy):
    """LimitRanges."""

    columns = (NAME, Column("Created At", type="date"))

    def default(self, document: Document) -> None:
        """Defaults of containers follow from the bounds."""
        for item in document.setdefault("spec", {}).setdefault("limits", []):
            for bound in _BOUNDS:
                if bound in item:
                    normalise(item[bound])
            if item.get("type") == "Container":
                limits = {**(item.get("max") or {}), **(item.get("default") or {})}
                requests = {**limits, **(item.get("defaultRequest") or {})}
                for name, least in (item.get("min") or {}).items():
                    requests.setdefault(name, least)
                for bound, amounts in (("default", limits), ("defaultRequest", requests)):
                    if amounts:
                        item[bound] = amounts

    def validate(self, document: Document) -> list[StatusCause]:
        """Least, default and most are in this order."""
        causes = Causes()
        seen: set[str] = set()
        for index, item in enumerate(document["spec"]["limits"]):
            path, kind = f"spec.limits[{index}]", item.get("type", "")
            if kind in seen:
                causes.duplicate(f"{path}.type", kind)
            seen.add(kind)
            if kind == "Pod":
                for bound in ("default", "defaultRequest"):
                    if item.get(bound):
                        why = "may not be specified when `type` is 'Pod'"
                        causes.forbidden(f"{path}.{bound}", why)
                item = {**item, "default": {}, "defaultRequest": {}}
            _check_order(item, path, causes)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        return [metadata["name"], metadata.get("creationTimestamp")]


def _check_order(item: Document, path: str, causes: Causes) -> None:
    most, least = item.get("max") or {}, item.get("min") or {}
    default, request = item.get("default") or {}, item.get("defaultRequest") or {}
    for name in most.keys() | least.keys() | default.keys() | request.keys():
        for small, small_word, small_path, large, large_word in (
            (least, "min", "min", most, "max"),
            (least, "min", "min", request, "default request"),
            (request, "default request", "defaultRequest", most, "max"),
            (least, "min", "min", default, "default"),
            (default, "default", "default", most, "max"),
            (request, "default request", "defaultRequest", default, "default limit"),
        ):
            low, high = small.get(name), large.get(name)
            if low is not None and high is not None and parsed(low) > parsed(high):
                why = f"{small_word} value {low} is greater than {large_word} value {high}"
                shown = high if (small_path, large_word) == ("default", "max") else low
                causes.invalid(f"{path}.{small_path}[{name}]", shown, why)


class ResourceQuotaStrategy(Strategy):
    """ResourceQuotas."""

    returns_deleted = True
    status_subresource = True
    columns = (NAME, Column("Request"), Column("Limit"), AGE)

    def default(self, document: Document) -> None:
        """Amounts in their canonical text."""
        normalise(document.setdefault("spec", {}).get("hard") or {})
        for key in ("hard", "used"):
            normalise(section(document, "status").get(key) or {})

    def prepare_create(self, document: Document, context: Context) -> None:
        """A new one has an empty status."""
        document["status"] = {}

    def validate(self, document: Document) -> list[StatusCause]:
        """Names and amounts, scopes."""
        causes = Causes()
        spec = document["spec"]
        _check_amounts(spec.get("hard") or {}, "spec.hard", causes)
        _check_scopes(spec, causes)
        _check_selector(spec, causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Scopes are fixed."""
        causes = Causes(self.validate(document))
        scopes, before = (set(each["spec"].get("scopes") or ()) for each in (document, old))
        if scopes != before:
            causes.invalid("spec.scopes", document["spec"].get("scopes"), IMMUTABLE)
        return causes

    def validate_subresource(
        self, subresource: str, document: Document, old: Document
    ) -> list[StatusCause]:
        """What a status says is limited and used."""
        causes = Causes()
        for key in ("hard", "used"):
            amounts = section(document, "status").get(key) or {}
            _check_amounts(amounts, f"status.{key}", causes)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        status = section(document, "status")
        hard, used = status.get("hard") or {}, status.get("used") or {}
        requests: list[str] = []
        limits: list[str] = []
        for name in sorted(hard):
            text = f"{name}: {used.get(name, '0')}/{hard[name]}"
            (limits if name.startswith("limits.") else requests).append(text)
        return [
            document["metadata"]["name"],
            ", ".join(requests),
            ", ".join(limits),
            age_of(document, now_seconds),
        ]


def _check_amounts(amounts: Document, where: str, causes: Causes) -> None:
    for name, amount in amounts.items():
        path = f"{where}[{name}]"
        whys = faults_of_name(name)
        causes.invalid_all(path, name, whys)
        if whys and "/" not in name:
            causes.invalid(path, name, "must be a standard resource for quota")
        check_amount(name, amount, path, causes)
        if name in COUNTED and not is_whole(amount):
            causes.invalid(path, amount, "must be an integer")


def _check_scopes(spec: Document, causes: Causes) -> None:
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            causes.invalid("spec.scopes", scopes, "unsupported scope")
        for _ in _not_for(scope, spec):
            causes.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _EXCLUSIVE):
        causes.invalid("spec.scopes", scopes, "conflicting scopes")


def _check_selector(spec: Document, causes: Causes) -> None:
    selector = spec.get("scopeSelector")
    if selector is None:
        return
    path, named = "spec.scopeSelector.matchExpressions", set()
    for requirement in selector.get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        named.add(scope)
        if scope not in _SCOPES:
            causes.invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in _not_for(scope, spec):
            causes.invalid(path, selector, "unsupported scope applied to resource")
        if scope in _WITHOUT_VALUES and operator != "Exists":
            causes.invalid(f"{path}.operator", operator, _MUST_EXIST)
        _check_operator(operator, requirement.get("values") or [], path, causes)
    if any(pair <= named for pair in _EXCLUSIVE):
        causes.invalid(path, spec.get("scopes"), "conflicting scopes")


def _check_operator(operator: str, values: list[str], path: str, causes: Causes) -> None:
    if operator in ("In", "NotIn"):
        if not values:
            why = "must be at least one value when `operator` is 'In' or 'NotIn'"
            causes.required(f"{path}.values", f"{why} for scope selector")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "must be no value when `operator` is 'Exist' or 'DoesNotExist'"
            causes.invalid(f"{path}.values", values, f"{why} for scope selector")
    else:
        causes.invalid(f"{path}.operator", operator, "not a valid selector operator")


def _not_for(scope: str, spec: Document) -> list[str]:
    """The limited resources that a scope has nothing to do with."""
    allowed = _SCOPES.get(scope)
    if allowed is None:
        return []
    standard = [name for name in sorted(spec.get("hard") or ()) if not faults_of_name(name)]
    return [name for name in standard if "/" not in name and name not in allowed]


class ServiceAccountStrategy(Strategy):
    """ServiceAccounts."""

    returns_deleted = True
    columns = (NAME, AGE)
