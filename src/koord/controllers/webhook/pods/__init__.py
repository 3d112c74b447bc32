# SPDX-License-Identifier: Apache-2.0
"""Pods: what is changed of new ones (`mutation`), what is refused (`validation`). Begin with
`mutation.pod_mutation` and `validation.pod_rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.webhook.framework.webhook_table import (
    MUTATE_POD,
    VALIDATE_POD,
    VALIDATE_POD_BINDING,
)
from koord.controllers.webhook.pods.mutation.handler import PodMutationHandler
from koord.controllers.webhook.pods.validation.binding import BindingHandler
from koord.controllers.webhook.pods.validation.handler import PodValidationHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies

HANDLERS: Mapping[str, Callable[[HandlerDependencies], Handler]] = {
    MUTATE_POD: PodMutationHandler,
    VALIDATE_POD: PodValidationHandler,
    VALIDATE_POD_BINDING: BindingHandler,
}
"""Who answers which path."""
