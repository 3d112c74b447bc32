# SPDX-License-Identifier: Apache-2.0
"""Which webhooks are configured: those whose handlers can have something to say."""

from __future__ import annotations

import pytest

from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.webhook.framework.webhook_table import VALIDATE_POD, VALIDATE_POD_BINDING
from koord.controllers.webhook.handler_makers import all_makers, enabled_makers
from koord.controllers.webhook.options import WebhookOptions

GATE = "BindingAdmissionWebhook=true"


@pytest.mark.parametrize(
    ("gates", "names", "asked"),
    [("", "", False), (GATE, "", False), ("", "koord", False), (GATE, "koord", True)],
)
def test_bindings_are_asked_about_where_they_are_judged(
    gates: str, names: str, asked: bool
) -> None:
    options = WebhookOptions(binding_admission_user_name=names)
    found = enabled_makers(all_makers(), feature_gates(gates), options)
    assert (VALIDATE_POD_BINDING in found) is asked
    assert VALIDATE_POD in found
