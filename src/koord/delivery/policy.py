# SPDX-License-Identifier: Apache-2.0
"""What is asked of hooks when a container is made, and what their failures are to the runtime.

Rule: docs/reference/delivery.md#failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.hooks.hook import HookStage


class HookFailureError(Exception):
    """A hook failed, and its failures are the container's: told to the runtime, in one line."""


@dataclass(frozen=True)
class DeliveryPolicy:
    """One agent's, however its hooks reach a container.

    Attributes:
        fails: whether a hook's failure is the container's; else it is left out.
        disabled: stages that are not served.
    """

    fails: bool = False
    disabled: frozenset[HookStage] = frozenset()

    def serves(self, stage: HookStage) -> bool:
        """Whether hooks are asked in a stage."""
        return stage not in self.disabled

    def judge(self, failed: Sequence[str]) -> None:
        """Looks at what hooks failed of.

        Raises:
            HookFailureError: something, and that is the container's failure.
        """
        if failed and self.fails:
            raise HookFailureError("; ".join(failed))
