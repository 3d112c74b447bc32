# SPDX-License-Identifier: Apache-2.0
"""A queue in which flows take turns: first in, first out is the rule within a flow alone."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class TurnQueue(Generic[T]):
    """Items by the flow that they belong to, such as a namespace.

    One of each flow is taken in a round. A flow that had its turn, or that has just come, waits for
    that of all others, so that who puts in a thousand items holds up nobody else by more than one.
    """

    __slots__ = ("_flows", "_number")

    def __init__(self) -> None:
        # Whose turn is next first; none is empty.
        self._flows: OrderedDict[str, deque[T]] = OrderedDict()
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def push(self, flow: str, item: T) -> None:
        """Adds an item behind those of its flow."""
        items = self._flows.get(flow)
        if items is None:
            items = self._flows[flow] = deque()
        items.append(item)
        self._number += 1

    def pop(self) -> T:
        """Takes the next item out.

        Raises:
            KeyError: there is none.
        """
        flow, items = self._flows.popitem(last=False)
        self._number -= 1
        item = items.popleft()
        if items:
            self._flows[flow] = items
        return item

    def clear(self) -> None:
        """Takes all items out."""
        self._flows.clear()
        self._number = 0
