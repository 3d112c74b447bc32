# SPDX-License-Identifier: Apache-2.0
"""What hooks cost a container's start, in the guest; `tests.node.guest.prepare` runs it."""

from __future__ import annotations

from tests.node import start_cost_scene
from tests.node.guest.machine import GuestNode
from tests.node.inside import write_figures

if __name__ == "__main__":
    write_figures(lambda folder, order: start_cost_scene.run(GuestNode(folder), order))
