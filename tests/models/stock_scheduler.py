# SPDX-License-Identifier: Apache-2.0
"""The stock plugins by brute force: every pod looks at every node and every pod afresh.

Works on wire documents (dicts), so that it shares no reading of them with the code it checks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
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


@dataclass
class Cluster:
    """Nodes, pods on them, and what else is in the cluster."""

    nodes: dict[str, Document] = field(default_factory=dict)
    placed: list[tuple[Document, str]] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    hard_weight: int = 1

    def on(self, name: str) -> list[Document]:
        return [pod for pod, node in self.placed if node == name]

    def term_selects(self, term: Document, owner: Document, pod: Document) -> bool:
        namespaces = set(term.get("namespaces", []))
        selector = term.get("namespaceSelector")
        if not namespaces and selector is None:
            namespaces = {owner["metadata"]["namespace"]}
        own = pod["metadata"]["namespace"]
        inside = own in namespaces or (
            selector is not None and selected(selector, self.namespaces.get(own, {}))
        )
        return inside and selected(term.get("labelSelector"), labels_of(pod))

    # Filters, in the default order; each says why not, and whether preemption could help.

    def refusal(self, pod: Document, name: str) -> tuple[tuple[str, ...], bool] | None:
        node = self.nodes[name]
        for check in (
            self.cordoned, self.tainted, self.unwanted, self.ports, self.fit, self.spread,
            self.pods_near,
        ):  # fmt: skip
            found = check(pod, node)
            if found is not None:
                return found
        return None

    def cordoned(self, pod: Document, node: Document) -> tuple[tuple[str, ...], bool] | None:
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if node["spec"].get("unschedulable") and not tolerated(
            taint, pod["spec"].get("tolerations", [])
        ):
            return ("node(s) were unschedulable",), True
        return None

    def tainted(self, pod: Document, node: Document) -> tuple[tuple[str, ...], bool] | None:
        found = untolerated(pod, node, ("NoSchedule", "NoExecute"))
        if found:
            text = f"{{{found[0]['key']}: {found[0].get('value', '')}}}"
            return (f"node(s) had untolerated taint {text}",), True
        return None

    def unwanted(self, pod: Document, node: Document) -> tuple[tuple[str, ...], bool] | None:
        if required_nodes(pod, node):
            return None
        return ("node(s) didn't match Pod's node affinity/selector",), True

    def ports(self, pod: Document, node: Document) -> tuple[tuple[str, ...], bool] | None:
        taken = [port for other in self.on(node["metadata"]["name"]) for port in ports_of(other)]
        if any(same_port(a, b) for a in ports_of(pod) for b in taken):
            return ("node(s) didn't have free ports for the requested pod ports",), False
        return None

    def fit(self, pod: Document, node: Document) -> tuple[tuple[str, ...], bool] | None:
        has = {k: amount(k, v) for k, v in node["status"]["allocatable"].items()}
        others = self.on(node["metadata"]["name"])
        reasons, never = [], False
        if len(others) + 1 > has.get("pods", 0):
            reasons.append("Too many pods")
        for resource, wanted in sorted(requests_of(pod).items()):
            used = sum(requests_of(other).get(resource, 0) for other in others)
            if wanted and used + wanted > has.get(resource, 0):
                reasons.append(f"Insufficient {resource}")
                never = never or wanted > has.get(resource, 0)
        return (tuple(reasons), never) if reasons else None

    def counts_for(self, pod: Document, each: Document, node: Document) -> bool:
        if each.get("nodeAffinityPolicy", "Honor") == "Honor" and not required_nodes(pod, node):
            return False
        return each.get("nodeTaintsPolicy") != "Honor" or not untolerated(
            pod, node, ("NoSchedule", "NoExecute")
        )

    def matching(self, pod: Document, each: Document, name: str) -> int:
        return sum(
            other["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and not other["metadata"].get("deletionTimestamp")
            and spread_selects(each, pod, other)
            for other in self.on(name)
        )

    def spread(self, pod: Document, node: Document) -> tuple[tuple[str, ...], bool] | None:
        hard = constraints(pod, "DoNotSchedule")
        keys = [each["topologyKey"] for each in hard]
        for each in hard:
            text = "node(s) didn't match pod topology spread constraints"
            key = each["topologyKey"]
            value = labels_of(node).get(key)
            if value is None:
                return (f"{text} (missing required label)",), True
            domains: dict[str, int] = {}
            for name, other in self.nodes.items():
                labels = labels_of(other)
                if all(k in labels for k in keys) and self.counts_for(pod, each, other):
                    here = self.matching(pod, each, name)
                    domains[labels[key]] = domains.get(labels[key], 0) + here
            fewest = min(domains.values(), default=(1 << 31) - 1)
            if len(domains) < (each.get("minDomains") or 1):
                fewest = 0
            own = int(spread_selects(each, pod, pod))
            if domains.get(value, 0) + own - fewest > each["maxSkew"]:
                return (text,), False
        return None

    def pods_near(self, pod: Document, node: Document) -> tuple[tuple[str, ...], bool] | None:
        labels = labels_of(node)
        terms = affinity_terms(pod, "podAffinity", "required")

        def all_match(other: Document) -> bool:
            return all(self.term_selects(term, pod, other) for term in terms)

        pairs = {
            (term["topologyKey"], labels_of(self.nodes[name])[term["topologyKey"]])
            for other, name in self.placed
            if terms and all_match(other)
            for term in terms
            if term["topologyKey"] in labels_of(self.nodes[name])
        }
        for term in terms:
            if term["topologyKey"] not in labels:
                return ("node(s) didn't match pod affinity rules",), True
        missing = any((t["topologyKey"], labels[t["topologyKey"]]) not in pairs for t in terms)
        if missing and (pairs or not all_match(pod)):
            return ("node(s) didn't match pod affinity rules",), True
        for owner, guest, text in (
            *(
                (pod, other, "node(s) didn't match pod anti-affinity rules")
                for other in self.placed
            ),
        ):
            for term in affinity_terms(owner, "podAntiAffinity", "required"):
                if self.shares(term, node, guest[1]) and self.term_selects(term, pod, guest[0]):
                    return (text,), False
        for other, name in self.placed:
            for term in affinity_terms(other, "podAntiAffinity", "required"):
                if self.shares(term, node, name) and self.term_selects(term, other, pod):
                    return ("node(s) didn't satisfy existing pods anti-affinity rules",), False
        return None

    def shares(self, term: Document, node: Document, name: str) -> bool:
        key = term["topologyKey"]
        value = labels_of(node).get(key)
        return value is not None and labels_of(self.nodes[name]).get(key) == value

    # Scores, normalised and weighted.

    def totals(self, pod: Document, feasible: list[str]) -> dict[str, int]:
        total = dict.fromkeys(feasible, 0)
        for part in (
            weighted(3, reversed_percent(self.disliked(pod, feasible))),
            weighted(2, percent(self.liked(pod, feasible))),
            weighted(1, self.least(pod, feasible)),
            weighted(1, self.balanced(pod, feasible)),
            weighted(2, spread_percent(self.crowded(pod, feasible))),
            weighted(2, min_max(self.near(pod, feasible))),
        ):
            for name, score in part.items():
                total[name] += score
        return total

    def best(self, pod: Document) -> str | None:
        feasible = [name for name in sorted(self.nodes) if self.refusal(pod, name) is None]
        if not feasible:
            return None
        total = self.totals(pod, feasible)
        return max(feasible, key=lambda name: (total[name], [-ord(c) for c in name]))

    def disliked(self, pod: Document, feasible: list[str]) -> dict[str, int]:
        return {n: len(untolerated(pod, self.nodes[n], ("PreferNoSchedule",))) for n in feasible}

    def liked(self, pod: Document, feasible: list[str]) -> dict[str, int]:
        terms = node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution", [])
        return {
            name: sum(
                term["weight"]
                for term in terms
                if term_matches(term["preference"], self.nodes[name])
            )
            for name in feasible
        }

    def least(self, pod: Document, feasible: list[str]) -> dict[str, int]:
        found = {}
        for name in feasible:
            has = self.nodes[name]["status"]["allocatable"]
            parts = []
            for resource in ("cpu", "memory"):
                held = amount(resource, has.get(resource, "0"))
                used = nonzero_of(pod)[resource]
                used += sum(nonzero_of(other)[resource] for other in self.on(name))
                if held:
                    parts.append(max(0, held - used) * 100 // held)
            found[name] = sum(parts) // len(parts) if parts else 0
        return found

    def balanced(self, pod: Document, feasible: list[str]) -> dict[str, int]:
        own = requests_of(pod)
        if not own.get("cpu") and not own.get("memory"):
            return dict.fromkeys(feasible, 0)
        found = {}
        for name in feasible:
            has = self.nodes[name]["status"]["allocatable"]
            fractions = []
            for resource in ("cpu", "memory"):
                held = amount(resource, has.get(resource, "0"))
                used = own.get(resource, 0)
                used += sum(requests_of(other).get(resource, 0) for other in self.on(name))
                if held:
                    fractions.append(min(1.0, used / held))
            off = abs(fractions[0] - fractions[1]) / 2 if len(fractions) == 2 else 0.0
            found[name] = int((1 - off) * 100)
        return found

    def crowded(self, pod: Document, feasible: list[str]) -> dict[str, int | None] | None:
        soft = constraints(pod, "ScheduleAnyway")
        if not soft:
            return None
        keys = [each["topologyKey"] for each in soft]

        def complete(name: str) -> bool:
            return all(key in labels_of(self.nodes[name]) for key in keys)

        rated = [name for name in feasible if complete(name)]
        found: dict[str, int | None] = dict.fromkeys(feasible, None)
        for name in rated:
            total = 0.0
            for each in soft:
                key = each["topologyKey"]
                if key == HOSTNAME:
                    size, count = len(rated), self.matching(pod, each, name)
                else:
                    size = len({labels_of(self.nodes[other])[key] for other in rated})
                    value = labels_of(self.nodes[name])[key]
                    count = sum(
                        self.matching(pod, each, other)
                        for other, node in self.nodes.items()
                        if complete(other)
                        and labels_of(node)[key] == value
                        and self.counts_for(pod, each, node)
                    )
                total += count * math.log(size + 2) + each["maxSkew"] - 1
            found[name] = math.floor(total) + (total - math.floor(total) >= 0.5)
        return found

    def near(self, pod: Document, feasible: list[str]) -> dict[str, int]:
        found = dict.fromkeys(feasible, 0)
        for other, place in self.placed:
            for name in feasible:
                node = self.nodes[name]
                for sign, kind in ((1, "podAffinity"), (-1, "podAntiAffinity")):
                    for owner, guest in ((pod, other), (other, pod)):
                        for each in affinity_terms(owner, kind, "preferred"):
                            term = each["podAffinityTerm"]
                            if self.shares(term, node, place) and self.term_selects(
                                term, owner, guest
                            ):
                                found[name] += sign * each["weight"]
                for term in affinity_terms(other, "podAffinity", "required"):
                    if self.shares(term, node, place) and self.term_selects(term, other, pod):
                        found[name] += self.hard_weight
        return found


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
