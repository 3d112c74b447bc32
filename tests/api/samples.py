# SPDX-License-Identifier: Apache-2.0
"""Objects and data files that several test modules use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from koord.api import Node, Pod, decode_as

DATA = Path(__file__).resolve().parent.parent / "data"


def manifest_files() -> list[Path]:
    """Every example manifest."""
    folders = ("guide", "releases", "scenarios")
    return sorted(path for folder in folders for path in (DATA / folder).glob("*.yaml"))


def make_pod(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    containers: list[dict[str, Any]] | None = None,
    priority: int | None = None,
    status: dict[str, Any] | None = None,
) -> Pod:
    """A pod ``default/web``; containers are given by their resources."""
    named = [{"name": f"c{i}", "resources": each} for i, each in enumerate(containers or [])]
    spec: dict[str, Any] = {"containers": named}
    if priority is not None:
        spec["priority"] = priority
    metadata = {
        "namespace": "default",
        "name": "web",
        "labels": labels or {},
        "annotations": annotations or {},
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return decode_as({**document, "status": status or {}}, Pod)


def make_node(
    *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> Node:
    """A node ``n1``."""
    metadata = {"name": "n1", "labels": labels or {}, "annotations": annotations or {}}
    return decode_as({"kind": "Node", "metadata": metadata}, Node)
