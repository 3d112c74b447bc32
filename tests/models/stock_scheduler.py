# SPDX-License-Identifier: Apache-2.0
"""The stock plugins by brute force: every pod looks at every node and every pod afresh.

Works on wire documents (dicts), so that it shares no reading of them with the code it checks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.models.pod_requests import NONZERO, counted_of
from tests.models.stock_reading import (
    HOSTNAME,
    Document,
    affinity_terms,
    amount,
    constraints,
    labels_of,
    min_max,
    node_affinity,
    nonzero_of,
    percent,
    ports_of,
    requests_of,
    required_nodes,
    reversed_percent,
    same_port,
    selected,
    spread_percent,
    spread_selects,
    term_matches,
    tolerated,
    untolerated,
    weighted,
)


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
        if untolerated(pod, node, ("NoSchedule", "NoExecute")):
            return ("node(s) had untolerated taint(s)",), True
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
            used = sum(counted_of(other).get(resource, 0) for other in others)
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
                used += sum(counted_of(other, NONZERO)[resource] for other in self.on(name))
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
                used += sum(counted_of(other).get(resource, 0) for other in self.on(name))
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
