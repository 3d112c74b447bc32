# SPDX-License-Identifier: Apache-2.0
"""How pods and nodes are read and scores normalised, by brute force; for ``stock_scheduler``."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]
HOSTNAME = "kubernetes.io/hostname"
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def amount(resource: str, text: str) -> int:
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(text[: -len(unit)]) * factor
    if text.endswith("m"):
        return int(text[:-1])
    return int(text) * (1000 if resource == "cpu" else 1)


def requests_of(pod: Document) -> dict[str, int]:
    found: dict[str, int] = {}
    for container in pod["spec"]["containers"]:
        for resource, text in container.get("resources", {}).get("requests", {}).items():
            found[resource] = found.get(resource, 0) + amount(resource, text)
    return found


def nonzero_of(pod: Document) -> dict[str, int]:
    found = {"cpu": 0, "memory": 0}
    for container in pod["spec"]["containers"]:
        requests = container.get("resources", {}).get("requests", {})
        for resource, least in (("cpu", 100), ("memory", 200 << 20)):
            text = requests.get(resource)
            found[resource] += least if text is None else amount(resource, text)
    return found


def labels_of(thing: Document) -> dict[str, str]:
    return thing["metadata"].get("labels", {})


def selected(selector: Document | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in selector.get("matchLabels", {}).items()):
        return False
    for each in selector.get("matchExpressions", []):
        value = labels.get(each["key"])
        ok = {
            "In": value is not None and value in each.get("values", []),
            "NotIn": value is None or value not in each.get("values", []),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[each["operator"]]
        if not ok:
            return False
    return True


def integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def expression(each: Document, labels: dict[str, str]) -> bool | None:
    """None for one that does not parse."""
    value, values = labels.get(each["key"]), each.get("values", [])
    operator = each["operator"]
    if operator in ("Gt", "Lt"):
        if len(values) != 1 or integer(values[0]) is None:
            return None
        number = integer(value) if value is not None else None
        if number is None:
            return False
        return number > int(values[0]) if operator == "Gt" else number < int(values[0])
    if operator in ("In", "NotIn"):
        if not values:
            return None
        return (value in values) if operator == "In" else value not in values
    if operator not in ("Exists", "DoesNotExist") or values:
        return None
    return (value is not None) == (operator == "Exists")


def term_matches(term: Document, node: Document) -> bool:
    expressions = [expression(e, labels_of(node)) for e in term.get("matchExpressions", [])]
    for each in term.get("matchFields", []):
        if len(each["values"]) != 1 or each["operator"] not in ("In", "NotIn"):
            return False
        equal = each["values"][0] == node["metadata"]["name"]
        expressions.append(equal == (each["operator"] == "In"))
    return bool(expressions) and None not in expressions and all(expressions)


def node_affinity(pod: Document) -> Document:
    return pod["spec"].get("affinity", {}).get("nodeAffinity", {})


def required_nodes(pod: Document, node: Document) -> bool:
    labels = labels_of(node)
    if any(labels.get(k) != v for k, v in pod["spec"].get("nodeSelector", {}).items()):
        return False
    selector = node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    if selector is None:
        return True
    return any(term_matches(term, node) for term in selector["nodeSelectorTerms"])


def tolerated(taint: Document, tolerations: list[Document]) -> bool:
    for each in tolerations:
        if each.get("effect") and each["effect"] != taint["effect"]:
            continue
        if each.get("key") and each["key"] != taint["key"]:
            continue
        if each.get("operator") == "Exists" or (
            each.get("operator", "Equal") == "Equal"
            and each.get("value", "") == taint.get("value", "")
        ):
            return True
    return False


def untolerated(pod: Document, node: Document, effects: tuple[str, ...]) -> list[Document]:
    tolerations = pod["spec"].get("tolerations", [])
    taints = node["spec"].get("taints", [])
    return [t for t in taints if t["effect"] in effects and not tolerated(t, tolerations)]


def ports_of(pod: Document) -> list[tuple[str, int, str]]:
    return [
        (port.get("protocol", "TCP"), port["hostPort"], port.get("hostIP") or "0.0.0.0")
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if port.get("hostPort")
    ]


def same_port(a: tuple[str, int, str], b: tuple[str, int, str]) -> bool:
    return a[:2] == b[:2] and (a[2] == b[2] or "0.0.0.0" in (a[2], b[2]))


def affinity_terms(pod: Document, kind: str, strength: str) -> list[Document]:
    found = pod["spec"].get("affinity", {}).get(kind, {})
    return found.get(f"{strength}DuringSchedulingIgnoredDuringExecution", [])


def constraints(pod: Document, action: str) -> list[Document]:
    wished = pod["spec"].get("topologySpreadConstraints", [])
    return [each for each in wished if each["whenUnsatisfiable"] == action]


def spread_selects(each: Document, pod: Document, other: Document) -> bool:
    own = labels_of(pod)
    same = {key: own[key] for key in each.get("matchLabelKeys", []) if key in own}
    selector = each.get("labelSelector")
    if selector is None and same:
        selector = {}
    return selected(selector, labels_of(other)) and all(
        labels_of(other).get(key) == value for key, value in same.items()
    )


def weighted(weight: int, scores: dict[str, int]) -> dict[str, int]:
    return {name: weight * score for name, score in scores.items()}


def percent(scores: dict[str, int]) -> dict[str, int]:
    most = max(scores.values())
    return {name: score * 100 // most if most else 0 for name, score in scores.items()}


def reversed_percent(scores: dict[str, int]) -> dict[str, int]:
    return {name: 100 - score for name, score in percent(scores).items()}


def min_max(scores: dict[str, int]) -> dict[str, int]:
    least, most = min(scores.values()), max(scores.values())
    if least == most:
        return dict.fromkeys(scores, 0)
    return {name: (score - least) * 100 // (most - least) for name, score in scores.items()}


def spread_percent(scores: dict[str, int | None] | None) -> dict[str, int]:
    if scores is None:
        return {}
    counted = [score for score in scores.values() if score is not None]
    most, least = max(counted, default=0), min(counted, default=0)

    def one(score: int | None) -> int:
        if score is None:
            return 0
        return 100 * (most + least - score) // most if most else 100

    return {name: one(score) for name, score in scores.items()}
