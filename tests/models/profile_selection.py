# SPDX-License-Identifier: Apache-2.0
"""Whether a ClusterColocationProfile is for an object in admission, from plain documents."""

from __future__ import annotations

from typing import Any


def selects(
    spec: dict[str, Any],
    labels: dict[str, str],
    namespace: dict[str, str] | None,
    *,
    with_namespaces: bool = True,
) -> bool:
    """Both selectors hold; one that is missing or empty holds of everything.

    Args:
        spec: of the profile.
        labels: of the object.
        namespace: labels of its namespace; None if it is not known.
        with_namespaces: whether namespaces count.
    """
    if not _holds(spec.get("selector"), labels):
        return False
    chosen = spec.get("namespaceSelector") if with_namespaces else None
    if namespace is None:
        return not chosen or not any(chosen.values())
    return _holds(chosen, namespace)


def _holds(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return True
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key, object()) != value:
            return False
    for each in selector.get("matchExpressions", []):
        there, operator = each["key"] in labels, each["operator"]
        listed = there and labels[each["key"]] in each.get("values", [])
        wanted = {"In": listed, "NotIn": not listed, "Exists": there, "DoesNotExist": not there}
        if not wanted[operator]:
            return False
    return True
