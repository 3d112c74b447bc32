# SPDX-License-Identifier: Apache-2.0
"""deploy/webhook is what the table says, and stops no cluster."""

from __future__ import annotations

from pathlib import Path

import yaml

from koord.controllers.webhook.deploygen import manifests
from koord.controllers.webhook.framework.default_configurations import FAIL, default_configurations
from koord.controllers.webhook.framework.webhook_table import WEBHOOKS

FILE = Path(__file__).parents[4] / "deploy" / "webhook" / "koord-webhook.yaml"


def test_the_file_is_what_is_generated() -> None:
    assert FILE.read_text("utf-8") == manifests()


def test_every_entry_is_there_and_none_stops_a_cluster() -> None:
    service, *configurations = yaml.safe_load_all(manifests())
    assert service["kind"] == "Service"
    entries = [each for found in configurations for each in found["webhooks"]]
    assert {each["name"] for each in entries} == {each.name for each in WEBHOOKS}
    for each in entries:
        assert (each["failurePolicy"], each["timeoutSeconds"]) == ("Ignore", 3)
        if each["rules"][0]["resources"][0].startswith("pods"):
            outside = each["namespaceSelector"]["matchExpressions"][-1]
            assert outside["operator"] == "NotIn"
            assert outside["values"] == ["kube-system", "koordinator-system"]


def test_with_fail_nodes_and_bindings_still_go_on() -> None:
    entries = [
        each for found in default_configurations(failure_policy=FAIL) for each in found["webhooks"]
    ]
    ignoring = {each["name"] for each in entries if each["failurePolicy"] == "Ignore"}
    assert {"vpodbinding.koordinator.sh", "mnode-status.koordinator.sh"} <= ignoring
    assert "vpod.koordinator.sh" not in ignoring
