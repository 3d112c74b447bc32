# SPDX-License-Identifier: Apache-2.0
"""deploy/dashboards, deploy/alerts and the run-books, from the descriptions here.

``python -m tests.deploy.monitoring.monitoring_files`` writes them; a test keeps them in step.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.deploy.chart_files import ROOT
from tests.deploy.chart_files import main as copy_to_chart
from tests.deploy.monitoring import alert_files
from tests.deploy.monitoring.cluster_dashboards import CLUSTER, DESCHEDULER, NODE
from tests.deploy.monitoring.grafana import document
from tests.deploy.monitoring.scheduler_dashboards import QUOTAS, SCHEDULER

DASHBOARDS = (CLUSTER, SCHEDULER, NODE, QUOTAS, DESCHEDULER)
RULES = Path("deploy/alerts/koord.yaml")
_LICENSE = "# SPDX-License-Identifier: Apache-2.0\n"


def contents() -> dict[Path, str]:
    """Path from the repository's root, and text, of each."""
    found = {
        Path(f"deploy/dashboards/{each.name}.json"): json.dumps(document(each), indent=1) + "\n"
        for each in DASHBOARDS
    }
    found[RULES] = _LICENSE + yaml.safe_dump(alert_files.rules(), sort_keys=False, width=100)
    found[Path("docs") / alert_files.RUNBOOKS] = alert_files.runbooks()
    return found


def main() -> None:
    """Writes them, and copies what the chart has of them."""
    for path, text in contents().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
    copy_to_chart()


if __name__ == "__main__":
    main()
