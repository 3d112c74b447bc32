# SPDX-License-Identifier: Apache-2.0
"""HorizontalPodAutoscalers as ``autoscaling/v1`` has them; ``kubectl autoscale`` writes these.

What this version has no field for stands in annotations, and is taken back from there.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.documents import Document
from koord.controlplane.kinds.autoscaling.v2 import HorizontalPodAutoscalerStrategy
from koord.controlplane.schema import core_schema
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


_PREFIX = "autoscaling.alpha.kubernetes.io/"
# By annotation: the part of a v2 object that it holds as JSON.
_KEPT = {
    "metrics": ("spec", "metrics"),
    "behavior": ("spec", "behavior"),
    "current-metrics": ("status", "currentMetrics"),
    "conditions": ("status", "conditions"),
}
_SHARE = "targetCPUUtilizationPercentage"
_CURRENT_SHARE = "currentCPUUtilizationPercentage"
_DEFAULT_PERCENT = 80


class HorizontalPodAutoscalerV1Strategy(HorizontalPodAutoscalerStrategy):
    """The same scalers under ``autoscaling/v1``."""

    converts = True

    def default(self, document: Document) -> None:
        """One pod at least, 80 % of the CPU requests where no other metric is told."""
        spec = document.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        annotations = (document.get("metadata") or {}).get("annotations") or {}
        if f"{_PREFIX}metrics" not in annotations:
            spec.setdefault(_SHARE, _DEFAULT_PERCENT)

    def prepare_create(self, document: Document, context: Context) -> None:
        """A new one has done nothing."""
        document["status"] = {"currentReplicas": 0, "desiredReplicas": 0}

    def validate(self, document: Document) -> list[StatusCause]:
        """As in the newer version."""
        newer = copy.deepcopy(document)
        self.to_storage(newer)
        return super().validate(newer)

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """As in the newer version."""
        newer = copy.deepcopy(document)
        self.to_storage(newer)
        return super().row(newer, now_seconds)

    def to_storage(self, document: Document) -> None:
        """The share of the CPU is one metric; the others come from annotations."""
        spec, metadata = document.setdefault("spec", {}), document.get("metadata") or {}
        status = document.setdefault("status", {})
        annotations = dict(metadata.get("annotations") or {})
        for name, (part, key) in _KEPT.items():
            text = annotations.pop(f"{_PREFIX}{name}", None)
            found = _read(part, key, text) if text is not None else None
            if found is not None:
                document[part][key] = found
        share = spec.pop(_SHARE, None)
        if share is not None:
            target = {"type": "Utilization", "averageUtilization": share}
            metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
            spec["metrics"] = [*(spec.get("metrics") or ()), metric]
        status.pop(_CURRENT_SHARE, None)
        if annotations:
            metadata["annotations"] = annotations
        else:
            metadata.pop("annotations", None)
        super().default(document)

    def from_storage(self, document: Document) -> None:
        """What has no field here goes into annotations."""
        spec, status = document.get("spec") or {}, document.get("status") or {}
        metrics = spec.get("metrics") or []
        cpu = [metric for metric in metrics if _share_of(metric, "target") is not None]
        if cpu:
            spec[_SHARE] = _share_of(cpu[0], "target")
        spec["metrics"] = [metric for metric in metrics if metric not in cpu]
        for metric in status.get("currentMetrics") or ():
            share = _share_of(metric, "current")
            if share is not None:
                status[_CURRENT_SHARE] = share
                break
        annotations = dict(document["metadata"].get("annotations") or {})
        for name, (part, key) in _KEPT.items():
            found = (document.get(part) or {}).pop(key, None)
            if found:
                annotations[f"{_PREFIX}{name}"] = msgspec.json.encode(found).decode()
        if annotations:
            document["metadata"]["annotations"] = annotations


def _read(part: str, key: str, text: str) -> Any:
    """What an annotation holds, if it is what the newer version has there."""
    try:
        body = msgspec.json.encode({part: {key: msgspec.json.decode(text)}})
        schema = core_schema("autoscaling", "v2", "HorizontalPodAutoscaler")
        document, _ = schema.decode(body, "Ignore")
    except (msgspec.DecodeError, RecursionError, ApiError):
        return None
    return (document.get(part) or {}).get(key)


def _share_of(metric: Document, where: str) -> int | None:
    """The share of the CPU requests that a metric is about."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    share: int | None = (resource.get(where) or {}).get("averageUtilization")
    return share
