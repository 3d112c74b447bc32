# SPDX-License-Identifier: Apache-2.0
"""Who holds which cards of one node, summed up anew whenever somebody asks."""

from __future__ import annotations

from dataclasses import dataclass, field

Card = tuple[str, int]
Amounts = tuple[int, ...]


@dataclass
class Pod:
    held: dict[Card, Amounts]
    sits_in: str = ""


@dataclass
class Node:
    """A reservation is a pod too; its uid is what others sit in."""

    total: dict[Card, Amounts]
    pods: dict[str, Pod] = field(default_factory=dict)

    def remained(self, reservation: str) -> dict[Card, Amounts]:
        """What the owners of a reservation left of it."""
        pod = self.pods.get(reservation)
        if pod is None:
            return {}
        left = {}
        for card, amounts in pod.held.items():
            taken = [
                owner.held.get(card, (0,) * len(amounts))
                for uid, owner in self.pods.items()
                if owner.sits_in == reservation and uid != reservation
            ]
            # Owners are taken off one by one, never below zero.
            for each in taken:
                amounts = tuple(max(0, a - b) for a, b in zip(amounts, each, strict=True))
            left[card] = amounts
        return left

    def used(self, card: Card) -> Amounts:
        """As a pod sees it that matches no reservation."""
        width = len(next(iter(self.total.values())))
        sums = [0] * width
        for uid in self.pods:
            for place, amount in enumerate(self.remained(uid).get(card, (0,) * width)):
                sums[place] += amount
        return tuple(sums)
