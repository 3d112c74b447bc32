# SPDX-License-Identifier: Apache-2.0
"""Answers what is asked about nodes and their status.

Rules: docs/reference/admission.md#node-status-resource-amplification and #node-labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from koord.api.kinds.cluster import ConfigMap
from koord.api.kinds.node import Node
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    denied,
)
from koord.controllers.webhook.framework.admission_request import Operation
from koord.controllers.webhook.framework.webhook_table import MUTATE_NODE_STATUS, VALIDATE_NODE
from koord.controllers.webhook.nodes.amplification import amplify
from koord.controllers.webhook.nodes.strategy_overlap import (
    SelectedStrategy,
    overlap_problems,
    selected_strategies,
)

if TYPE_CHECKING:
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies


class MutateNodeStatus:
    """Amplifies what a node offers."""

    def __init__(self, given: HandlerDependencies) -> None:
        del given

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """See :class:`koord.controllers.webhook.framework.handler.Handler`."""
        if request.operation is not Operation.UPDATE:
            return ALLOWED
        document = request.document()
        old = request.decode_old(Node)
        effects = tuple(amplify(document, old, request.requester.username, request.title))
        return AdmissionDecision(document=document if effects else None, effects=effects)


class ValidateNode:
    """Refuses labels by which a node has two strategies of one section; a new node is warned of."""

    def __init__(self, given: HandlerDependencies) -> None:
        namespace, name = given.options.config_namespace, given.options.slo_config_name
        self._key = f"{namespace}/{name}"
        self._config = given.views.view_of(ConfigMap, namespace, name)
        self._read_from: ConfigMap | None = None
        self._strategies: Mapping[str, list[SelectedStrategy]] = {}

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """See :class:`koord.controllers.webhook.framework.handler.Handler`."""
        node = request.decode(Node)
        if request.operation is Operation.UPDATE:
            old = request.decode_old(Node)
            if old.metadata.labels == node.metadata.labels:
                return ALLOWED
        wrong = list(overlap_problems(self._current(), node.metadata.labels, node.title))
        if request.operation is Operation.UPDATE:
            return denied(wrong)
        return AdmissionDecision(warnings=tuple(map(str, wrong)))

    def _current(self) -> Mapping[str, list[SelectedStrategy]]:
        """The strategies of the ConfigMap as it is, read once for each of its states."""
        config = self._config.get(self._key)
        if config is not self._read_from:
            self._read_from = config
            self._strategies = {} if config is None else selected_strategies(config.data)
        return self._strategies


HANDLERS: Mapping[str, Callable[[HandlerDependencies], Handler]] = {
    MUTATE_NODE_STATUS: MutateNodeStatus,
    VALIDATE_NODE: ValidateNode,
}
