# SPDX-License-Identifier: Apache-2.0
"""A cluster of one node before koord: ``python -m tests.node.installed.control_plane ORDER``.

As for `tests.node.cluster`, but kube-scheduler and all controllers of Kubernetes run, pods have
accounts, and services have addresses and names. koord comes by its chart
(`tests.node.installed.story`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from functools import partial
from pathlib import Path

from tests.deploy.admin import Admin
from tests.deploy.pod_network import API_ADDRESS, ip
from tests.deploy.services import Services
from tests.node.cluster.control_plane import Cluster, play
from tests.node.installed.dns import serve

DNS_ADDRESS = "10.96.0.10"
_PAUSE_SECONDS = 0.2
STORY_SECONDS = 600.0


class BareCluster(Cluster):
    """All but the node; nothing of koord."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, server_addresses=(API_ADDRESS,), accounts=True)
        self._names: dict[str, str] = {}

    def start(self) -> None:
        """Starts all, and waits until it serves."""
        self.start_plane()
        self.plane.start_controller_manager()
        self.plane.start_scheduler()
        ip("addr", "add", f"{DNS_ADDRESS}/32", "dev", "lo")
        for work in (self._follow, partial(serve, DNS_ADDRESS, lambda: self._names)):
            threading.Thread(target=work, daemon=True).start()

    def _follow(self) -> None:
        services = Services(Admin(self.plane), self.plane.port)
        while True:
            try:
                self._names = services.look()
            except Exception:  # the next look is soon
                traceback.print_exc()
            time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    status = play(BareCluster, "tests.node.installed.story", STORY_SECONDS)
    sys.stdout.flush()
    # What it started ends with the namespace.
    os._exit(status)
