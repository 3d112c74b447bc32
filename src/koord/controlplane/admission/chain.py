# SPDX-License-Identifier: Apache-2.0
"""All rules in the order in which kube-apiserver applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.admission.claims import DefaultStorageClass
from koord.controlplane.admission.lifecycle import NamespaceLifecycle
from koord.controlplane.admission.limits import LimitRanger
from koord.controlplane.admission.nodes import TaintNewNodes
from koord.controlplane.admission.pods import DefaultTolerationSeconds
from koord.controlplane.admission.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.clock import Clock
    from koord.controlplane.admission.rule import Rule
    from koord.controlplane.extension import Attributes, Reader


class Chain:
    """Rules one after the other; the first that refuses ends it.

    Args:
        rules: built-in ones, in order.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._mutating = [rule for rule in rules if rule.mutates]
        self._validating = [rule for rule in rules if rule.validates]

    async def mutate(self, attributes: Attributes) -> None:
        """Changes the document; see :class:`koord.controlplane.extension.Admission`."""
        for rule in self._mutating:
            rule.mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Refuses, or does nothing."""
        for rule in self._validating:
            rule.validate(attributes)


def chain(reader: Reader, clock: Clock) -> Chain:
    """The rules of the embedded server."""
    del clock
    return Chain(
        (
            NamespaceLifecycle(reader),
            TaintNewNodes(),
            Priority(reader),
            DefaultTolerationSeconds(),
            LimitRanger(reader),
            DefaultStorageClass(reader),
        )
    )
