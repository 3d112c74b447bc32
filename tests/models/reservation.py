# SPDX-License-Identifier: Apache-2.0
"""Reservations, slowly and obviously: what is requested of a node, and where a pod may go.

No index, no overlay, nothing kept: everything is summed up anew from lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Amounts = dict[str, int]


@dataclass
class Held:
    """A reservation that holds resources of a node."""

    name: str
    node: str
    amounts: Amounts
    app: str
    allocate_once: bool = False
    restricted: bool = False
    created: int = 0
    order: int = 0


@dataclass
class Running:
    """A pod on a node, in a reservation or in none."""

    name: str
    node: str
    amounts: Amounts
    seat: str = ""


@dataclass
class Cluster:
    """Nodes with what they offer (``pods`` included), reservations, pods."""

    nodes: dict[str, Amounts]
    held: dict[str, Held] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)

    def owners(self, held: Held) -> list[Running]:
        """Who sits in a reservation."""
        return [p for p in self.running.values() if p.seat == held.name and p.node == held.node]

    def used(self, held: Held, resource: str) -> int:
        """What its owners ask for."""
        if resource == "pods":
            return len(self.owners(held))
        return sum(p.amounts.get(resource, 0) for p in self.owners(held))

    def holds(self, held: Held, resource: str) -> int:
        """What it holds; of places one, as long as nobody sits there."""
        return 1 if resource == "pods" else held.amounts.get(resource, 0)

    def requested(self, node: str, resource: str) -> int:
        """What is taken of a node, as a pod sees it that matches no reservation."""
        total = 0
        seated: list[str] = []
        for held in self.held.values():
            if held.node == node:
                total += max(self.holds(held, resource), self.used(held, resource))
                seated += [p.name for p in self.owners(held)]
        for pod in self.running.values():
            if pod.node == node and pod.name not in seated:
                total += 1 if resource == "pods" else pod.amounts.get(resource, 0)
        return total

    def remaining(self, held: Held, resource: str) -> int:
        """What is left of a reservation."""
        return max(0, self.holds(held, resource) - self.used(held, resource))

    def fits_node(self, node: str, amounts: Amounts, held: Held | None) -> bool:
        """Whether a pod fits a node, with the rest of one reservation or without."""
        for resource, wanted in {**amounts, "pods": 1}.items():
            free = self.nodes[node].get(resource, 0) - self.requested(node, resource)
            if held is not None:
                free += self.remaining(held, resource)
            if wanted > 0 and wanted > free:
                return False
        return True

    def fits(self, amounts: Amounts, held: Held) -> bool:
        """Whether a pod may sit in a reservation."""
        if held.allocate_once and self.owners(held):
            return False
        if not self.fits_node(held.node, amounts, held):
            return False
        if not held.restricted:
            return True
        return all(
            amounts.get(name, 0) == 0 or amounts[name] <= held.amounts[name] - self.used(held, name)
            for name in held.amounts
        )

    def seats(self, amounts: Amounts, app: str, node: str, *, required: bool) -> list[Held]:
        """The reservations of a node that a pod may sit in.

        One that holds nothing the pod asks for is only for pods that insist on a reservation.
        """
        return [
            held
            for held in self.held.values()
            if held.node == node
            and held.app == app
            and self.fits(amounts, held)
            and (required or any(name in held.amounts for name in amounts))
        ]

    def feasible(self, amounts: Amounts, app: str, *, required: bool) -> set[str]:
        """The nodes a pod may go to."""
        return {
            node
            for node in self.nodes
            if self.seats(amounts, app, node, required=required)
            or (not required and self.fits_node(node, amounts, None))
        }

    def choice(self, amounts: Amounts, app: str, node: str, *, required: bool) -> Held | None:
        """The reservation a pod gets on a node: by order, then the fullest, then the oldest."""
        seats = self.seats(amounts, app, node, required=required)
        seats.sort(key=lambda h: (h.created, h.name))
        ordered = [held for held in seats if held.order]
        if len(seats) > 1 and ordered:
            return min(ordered, key=lambda h: h.order)
        return max(seats, key=lambda h: self.score(amounts, h), default=None)

    def score(self, amounts: Amounts, held: Held) -> int:
        """How full the reservation would be."""
        parts = []
        for name, capacity in held.amounts.items():
            wanted = amounts.get(name, 0) + self.used(held, name)
            parts.append(100 * wanted // capacity if wanted <= capacity else 0)
        return sum(parts) // len(parts)

    def over_committed(self) -> list[str]:
        """Nodes whose pods alone ask for more than there is."""
        return [
            node
            for node, offered in self.nodes.items()
            for name in offered
            if name != "pods"
            and sum(p.amounts.get(name, 0) for p in self.running.values() if p.node == node)
            > offered[name]
        ]
