# SPDX-License-Identifier: Apache-2.0
"""What the manager's controllers write events with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object


class EventWriter(Protocol):
    """Writes an event; :meth:`koord.kube.events.EventRecorder.event` is one."""

    def __call__(
        self, about: Object, kind: Literal["Normal", "Warning"], reason: str, message: str, /
    ) -> None:
        """Says something of an object.

        Args:
            about: the object.
            kind: how bad it is.
            reason: one word in CamelCase.
            message: for people.
        """
        ...
