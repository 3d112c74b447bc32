# SPDX-License-Identifier: Apache-2.0
"""All handlers of admission, by path: the one place where the packages' lists are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.webhook import (
    config_maps,
    elasticquotas,
    extras,
    nodes,
    pods,
    reservations,
)
from koord.controllers.webhook.framework.webhook_table import VALIDATE_POD_BINDING, WEBHOOKS
from koord.controllers.webhook.pods.validation import binding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.base.feature_gates import FeatureGates
    from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies
    from koord.controllers.webhook.options import WebhookOptions

    Makers = Mapping[str, Callable[[HandlerDependencies], Handler]]


def all_makers() -> Makers:
    """What makes the handler of each path."""
    return {
        **pods.HANDLERS,
        **reservations.HANDLERS,
        **elasticquotas.HANDLERS,
        **nodes.HANDLERS,
        **config_maps.HANDLERS,
        **extras.HANDLERS,
    }


def enabled_makers(makers: Makers, gates: FeatureGates, options: WebhookOptions) -> Makers:
    """Those whose webhooks' gates are on; none without ``WebhookFramework``.

    Bindings are asked about only where they are judged: a call for each pod that is bound is dear.
    """
    if not gates.enabled("WebhookFramework"):
        return {}
    on = {each.path for each in WEBHOOKS if gates.enabled(each.gate)}
    if not binding.judges(gates, options):
        on.discard(VALIDATE_POD_BINDING)
    return {path: maker for path, maker in makers.items() if path in on}
