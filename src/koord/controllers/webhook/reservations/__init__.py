# SPDX-License-Identifier: Apache-2.0
"""Profiles on new Reservations, and a word on whom they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.webhook.framework.webhook_table import MUTATE_RESERVATION
from koord.controllers.webhook.reservations.handler import ReservationMutationHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies

HANDLERS: Mapping[str, Callable[[HandlerDependencies], Handler]] = {
    MUTATE_RESERVATION: ReservationMutationHandler,
}
"""Who answers which path."""
