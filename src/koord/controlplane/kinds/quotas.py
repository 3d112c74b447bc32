# SPDX-License-Identifier: Apache-2.0
"""LimitRanges, ResourceQuotas (stored, not enforced) and ServiceAccounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.kinds.causes import Causes
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.quantities import is_whole, normalise, parsed
from koord.controlplane.kinds.resource_rules import COUNTED, check_amount, faults_of_name
from koord.controlplane.kinds.rows import AGE, NAME, age_of
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

Document = dict[str, Any]

_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


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
        """Names and amounts."""
        causes = Causes()
        for name, amount in (document["spec"].get("hard") or {}).items():
            path = f"spec.hard[{name}]"
            whys = faults_of_name(name)
            causes.each(path, name, whys)
            if whys and "/" not in name:
                causes.invalid(path, name, "must be a standard resource for quota")
            check_amount(name, amount, path, causes)
            if name in COUNTED and not is_whole(amount):
                causes.invalid(path, amount, "must be an integer")
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


class ServiceAccountStrategy(Strategy):
    """ServiceAccounts."""

    returns_deleted = True
    columns = (NAME, AGE)
