# SPDX-License-Identifier: Apache-2.0
"""Answers what is asked about slo-controller-config.

Rule: docs/reference/admission.md#slo-controller-config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from koord.api.kinds.cluster import ConfigMap
from koord.api.sloconfig import checks, sections
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    denied,
)
from koord.controllers.webhook.framework.admission_request import Operation
from koord.controllers.webhook.framework.webhook_table import VALIDATE_CONFIG_MAP

if TYPE_CHECKING:
    from koord.base.errors import KoordError
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies


class ValidateConfigMap:
    """Judges the sections that a write changes."""

    def __init__(self, given: HandlerDependencies) -> None:
        self._place = (given.options.config_namespace, given.options.slo_config_name)
        self._need_names = given.options.node_strategy_name_need_check

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """See :class:`koord.controllers.webhook.framework.handler.Handler`."""
        if (request.namespace, request.name) != self._place:
            return ALLOWED
        if request.operation is Operation.DELETE:
            line = f"{request.title}: without it all nodes have the defaults of every section"
            return AdmissionDecision(warnings=(line,))
        data = request.decode(ConfigMap).data
        before = {}
        if request.operation is Operation.UPDATE:
            before = request.decode_old(ConfigMap).data
        return denied(changed_problems(data, before, request.title, need_names=self._need_names))


def changed_problems(
    data: Mapping[str, str], before: Mapping[str, str], title: str, *, need_names: bool = False
) -> list[KoordError]:
    """What is wrong with the sections that are not as before.

    A section that is as before may be wrong only since another changed: what it was not told of
    before is told, too.

    Args:
        data: of the ConfigMap as it is to be.
        before: as it is; empty for a new one.
        title: of the ConfigMap.
        need_names: whether node strategies need names.
    """
    changed = {key for key in sections.SECTIONS if data.get(key, "") != before.get(key, "")}
    if not changed:
        return []
    judged = changed | ({sections.QOS} if sections.SYSTEM in changed else set())
    wrong = checks.validate(data, title, need_names=need_names, only=judged)
    if judged == changed:
        return wrong
    known = {
        (each.field, repr(each.value))
        for each in checks.validate(before, title, need_names=need_names, only={sections.QOS})
    }
    field = f"data.{sections.QOS}"
    return [
        each
        for each in wrong
        if not each.field.startswith(field) or (each.field, repr(each.value)) not in known
    ]


HANDLERS: Mapping[str, Callable[[HandlerDependencies], Handler]] = {
    VALIDATE_CONFIG_MAP: ValidateConfigMap
}
