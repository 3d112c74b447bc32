# SPDX-License-Identifier: Apache-2.0
"""Answers ``/mutate-reservation``: new Reservations.

Rule: docs/reference/admission.md#profiles-on-reservations.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from koord.api.kinds.reservation import Reservation
from koord.api.protocol import keys
from koord.base.errors import KoordError
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    RuleEffect,
    denied,
)
from koord.controllers.webhook.framework.admission_request import Operation, ResourceName
from koord.controllers.webhook.options import NAMESPACE_SCOPE
from koord.controllers.webhook.profiles import application
from koord.controllers.webhook.profiles.profile_choice import ChosenProfiles, ProfileChoice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import HandlerDependencies

RESERVATIONS = ResourceName("scheduling.koordinator.sh", "reservations")


class ReservationMutationHandler:
    """Changes new Reservations.

    Args:
        dependencies: what it works with.
    """

    def __init__(self, dependencies: HandlerDependencies) -> None:
        self._profiles = ProfileChoice(dependencies, with_namespaces=False)
        self._by_namespace = dependencies.options.reservation_scope == NAMESPACE_SCOPE

    def admit(self, request: AdmissionRequest) -> AdmissionDecision | Awaitable[AdmissionDecision]:
        """The Reservation as it is to be.

        Raises:
            KoordError: it cannot be read.
        """
        if request.resource != RESERVATIONS or request.operation is not Operation.CREATE:
            return ALLOWED
        reservation = request.decode(Reservation)
        has_template = reservation.spec.template is not None
        chosen = self._profiles.of(
            reservation.metadata, with_classes=has_template, review=request.uid
        )
        if isinstance(chosen, ChosenProfiles):
            return self._decided(request, reservation, chosen)
        return self._waited(request, reservation, chosen)

    async def _waited(
        self,
        request: AdmissionRequest,
        reservation: Reservation,
        chosen: Awaitable[ChosenProfiles],
    ) -> AdmissionDecision:
        try:
            found = await chosen
        except KoordError as error:
            return denied([error], HTTPStatus.INTERNAL_SERVER_ERROR)
        return self._decided(request, reservation, found)

    def _decided(
        self, request: AdmissionRequest, reservation: Reservation, chosen: ChosenProfiles
    ) -> AdmissionDecision:
        drawn = chosen.drawn
        effects: list[RuleEffect] = []
        warnings = [str(error) for error in unreachable(reservation)] if self._by_namespace else []
        document = None
        if drawn:
            found = application.apply(
                request.document(), drawn, chosen.classes, application.RESERVATIONS, request.title
            )
            effects, document = found.effects, found.document
            for usable, error in found.failures:
                self._profiles.report(usable.profile, error)
                warnings.append(f"not applied: {error}")
        return AdmissionDecision(
            warnings=tuple(warnings), document=document if effects else None, effects=tuple(effects)
        )


def unreachable(reservation: Reservation) -> Iterator[KoordError]:
    """Owners without a namespace, where a Reservation has to name one.

    Rule: docs/reference/reservations.md#reach.
    """
    if reservation.metadata.annotations.get(keys.OWNER_NAMESPACE):
        return
    for index, owner in enumerate(reservation.spec.owners):
        named = (owner.object and owner.object.namespace) or (
            owner.controller and owner.controller.namespace
        )
        if not named:
            expected = f"a namespace, or the annotation {keys.OWNER_NAMESPACE}"
            yield KoordError(reservation.title, f"spec.owners[{index}]", "no namespace", expected)
