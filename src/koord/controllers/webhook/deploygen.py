# SPDX-License-Identifier: Apache-2.0
"""Writes deploy/webhook: ``python -m koord.controllers.webhook.deploygen deploy``."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from koord.controllers.webhook.framework.default_configurations import (
    NAMESPACE,
    SERVICE,
    default_configurations,
)

_HEADER = """\
# SPDX-License-Identifier: Apache-2.0
# Whom API servers ask before objects are stored, and the Service in front of those who answer.
# Written by `python -m koord.controllers.webhook.deploygen deploy`. koord writes whom to trust.
"""


def manifests() -> str:
    """The Service and both configurations, as YAML."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {
            "selector": {"koord-app": "koord-webhook"},
            "ports": [{"name": "webhook", "port": 443, "targetPort": 9876}],
        },
    }
    documents = [service, *default_configurations()]
    return _HEADER + yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True)


def main(folder: Path) -> None:
    """Writes the file below a folder."""
    path = folder / "webhook" / "koord-webhook.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(manifests(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
