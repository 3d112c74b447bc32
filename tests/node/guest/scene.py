# SPDX-License-Identifier: Apache-2.0
"""The scene of NRI in the guest; `tests.node.guest.prepare` runs it."""

from __future__ import annotations

from tests.node import scene
from tests.node.guest.machine import GuestNode
from tests.node.inside import write_figures

if __name__ == "__main__":
    write_figures(lambda folder, _: scene.run(GuestNode(folder)))
