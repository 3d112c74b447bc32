# SPDX-License-Identifier: Apache-2.0
"""HorizontalPodAutoscalers, as ``autoscaling/v2`` has them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import NONE, section
from koord.controlplane.kinds.table_cells import AGE, NAME, UNSET, age_of
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import NOT_NEGATIVE, Causes
from koord.controlplane.kinds.validation.quantities import canonical, parsed
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800
_UTILIZATION_PERCENT = 80
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_FIELDS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""By type of a metric, the field that says more of it."""
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
_NO_UTILIZATION = "must set either a target raw value or a target utilization"
_BOTH = "may not set both a target raw value and a target utilization"
_PRINTED_METRICS = 2


class HorizontalPodAutoscalerStrategy(Strategy):
    """HorizontalPodAutoscalers."""

    status_subresource = True
    columns = (
        NAME,
        *map(Column, ("Reference", "Targets", "MinPods", "MaxPods", "Replicas")),
        AGE,
    )

    def default(self, document: Document) -> None:
        """One pod at least, 80 % of the CPU requests, Kubernetes' own rates."""
        spec = document.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": _UTILIZATION_PERCENT}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        if (behavior := spec.get("behavior")) is not None:
            for way, rules in (("scaleUp", _UP), ("scaleDown", _DOWN)):
                behavior[way] = {**copy.deepcopy(rules), **(behavior.get(way) or {})}
        for metric in spec["metrics"]:
            for field in _FIELDS.values():
                amounts: Document = section(metric, field).get("target") or {}
                for key in ("value", "averageValue"):
                    if key in amounts:
                        amounts[key] = canonical(amounts[key])

    def prepare_create(self, document: Document, context: Context) -> None:
        """A new one has done nothing."""
        document["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def validate(self, document: Document) -> list[StatusCause]:
        """Bounds, target, metrics, rates."""
        causes = Causes()
        spec = document["spec"]
        least, most = spec["minReplicas"], spec.get("maxReplicas", 0)
        if least < 1:
            causes.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
        if most < 1:
            causes.invalid("spec.maxReplicas", most, "must be greater than 0")
        if most < least:
            why = "must be greater than or equal to `minReplicas`"
            causes.invalid("spec.maxReplicas", most, why)
        _check_reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", causes)
        for index, metric in enumerate(spec["metrics"]):
            _check_metric(metric, f"spec.metrics[{index}]", causes)
        if least == 0 and not {"Object", "External"} & {m.get("type") for m in spec["metrics"]}:
            why = "must specify at least one Object or External metric to support scaling to zero"
            causes.forbidden("spec.metrics", f"{why} replicas")
        for way, rules in section(spec, "behavior").items():
            _check_rules(rules or {}, f"spec.behavior.{way}", causes)
        return causes

    def validate_subresource(
        self, subresource: str, document: Document, old: Document
    ) -> list[StatusCause]:
        """Numbers are not negative."""
        causes = Causes()
        for key in ("currentReplicas", "desiredReplicas"):
            causes.negative(f"status.{key}", section(document, "status").get(key))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = section(document, "spec"), section(document, "status")
        target = section(spec, "scaleTargetRef")
        return [
            document["metadata"]["name"],
            f"{target.get('kind', '')}/{target.get('name', '')}",
            _targets(spec.get("metrics") or [], status.get("currentMetrics") or []),
            str(spec.get("minReplicas", UNSET)),
            spec.get("maxReplicas", 0),
            status.get("currentReplicas", 0),
            age_of(document, now_seconds),
        ]


def _check_reference(reference: Document, path: str, causes: Causes) -> None:
    for key in ("kind", "name"):
        value = reference.get(key, "")
        if not value:
            causes.required(f"{path}.{key}")
        else:
            causes.invalid_all(f"{path}.{key}", value, names.path_segment(value))
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        causes.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif "/" not in version and reference.get("kind") != "ReplicationController":
        causes.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _check_metric(metric: Document, path: str, causes: Causes) -> None:
    kind = metric.get("type", "")
    if not kind:
        causes.required(f"{path}.type", "must specify a metric source type")
    if kind not in _FIELDS:
        causes.not_supported(f"{path}.type", kind, tuple(_FIELDS))
    present = [field for field in _FIELDS.values() if metric.get(field) is not None]
    if present:
        _check_source(present[0], metric[present[0]], f"{path}.{present[0]}", causes)
    expected = _FIELDS.get(kind)
    if expected is None:
        causes.not_supported(f"{path}.type", kind, tuple(_FIELDS))
    elif expected not in present:
        why = "must populate information for the given metric source"
        causes.required(f"{path}.{expected}", why)
    if len(present) != 1:
        for field in present:
            if field != expected:
                why = "must populate the given metric source only"
                causes.forbidden(f"{path}.{field}", why)


def _check_source(kind: str, source: Document, path: str, causes: Causes) -> None:
    target = source.get("target") or {}
    where = f"{path}.target"
    if kind in ("resource", "containerResource"):
        if not source.get("name"):
            causes.required(f"{path}.name", "must specify a resource name")
        if kind == "containerResource" and not source.get("container"):
            causes.required(f"{path}.container", "must specify a container")
        _check_target(target, where, causes)
        said = [key for key in ("averageUtilization", "averageValue") if key in target]
        if not said:
            causes.required(f"{where}.averageUtilization", _NO_UTILIZATION)
        elif len(said) > 1:
            causes.forbidden(f"{where}.averageValue", _BOTH)
        return
    if not section(source, "metric").get("name"):
        causes.required(f"{path}.metric.name", "must specify a metric name")
    _check_target(target, where, causes)
    if kind == "pods" and "averageValue" not in target:
        causes.required(f"{where}.averageValue", "must specify a positive target averageValue")


def _check_target(target: Document, path: str, causes: Causes) -> None:
    kind = target.get("type", "")
    if not kind:
        causes.required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGET_TYPES:
        why = "must be either Utilization, Value, or AverageValue"
        causes.invalid(f"{path}.type", kind, why)
    for key in ("value", "averageValue"):
        if key in target and not parsed(target[key]) > parsed("0"):
            causes.invalid(f"{path}.{key}", target[key], "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        causes.invalid(f"{path}.averageUtilization", share, "must be greater than 0")


def _check_rules(rules: Document, path: str, causes: Causes) -> None:
    window, select = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    where = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        causes.invalid(where, window, "must be greater than or equal to zero")
    if window is not None and window > _LONGEST_WINDOW:
        causes.invalid(where, window, f"must be less than or equal to {_LONGEST_WINDOW}")
    if select is not None and select not in ("Disabled", "Max", "Min"):
        causes.not_supported(f"{path}.selectPolicy", select, ("Disabled", "Max", "Min"))
    if not rules.get("policies"):
        causes.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        where, period = f"{path}.policies[{index}]", policy.get("periodSeconds", 0)
        if policy.get("type") not in ("Percent", "Pods"):
            causes.not_supported(f"{where}.type", policy.get("type", ""), ("Percent", "Pods"))
        for key in ("value", "periodSeconds"):
            if policy.get(key, 0) <= 0:
                causes.invalid(f"{where}.{key}", policy.get(key, 0), "must be greater than zero")
        if period > _LONGEST_PERIOD:
            why = f"must be less than or equal to {_LONGEST_PERIOD}"
            causes.invalid(f"{where}.periodSeconds", period, why)
    tolerance = rules.get("tolerance")
    if tolerance is not None and parsed(tolerance) < parsed("0"):
        causes.invalid(f"{path}.tolerance", tolerance, NOT_NEGATIVE)


def _targets(metrics: list[Document], current: list[Document]) -> str:
    if not metrics:
        return NONE
    listed = []
    for index, metric in enumerate(metrics):
        field = _FIELDS.get(metric.get("type", ""), "")
        now = current[index] if index < len(current) else {}
        listed.append(_target(field, metric.get(field) or {}, section(now, field, "current")))
    more = f" + {len(listed) - _PRINTED_METRICS} more..." if len(listed) > _PRINTED_METRICS else ""
    return ", ".join(listed[:_PRINTED_METRICS]) + more


def _target(field: str, source: Document, current: Document) -> str:
    """``cpu: 12%/80%``, or what is known of it."""
    target = section(source, "target")
    if field in ("resource", "containerResource"):
        name = source.get("name", "")
        if "averageValue" in target:
            now = current.get("averageValue", "<unknown>")
            return f"{name}: {now}/{target['averageValue']}"
        share, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        now = "<unknown>" if share is None else f"{share}%"
        return f"{name}: {now}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if field in ("external", "object"):
        key, suffix = ("averageValue", " (avg)") if "averageValue" in target else ("value", "")
        return f"{current.get(key, '<unknown>')}/{target.get(key, '')}{suffix}"
    if field == "pods":
        return f"{current.get('averageValue', '<unknown>')}/{target.get('averageValue', '')}"
    return "<unknown type>"
