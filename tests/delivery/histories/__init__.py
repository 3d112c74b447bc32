# SPDX-License-Identifier: Apache-2.0
"""What a runtime, a kubelet, a proxy or a stranger on the socket may send, in any order, from a
seed: over NRI (:mod:`.nri`), through the CRI proxy (:mod:`.cri`) and to the hook service
(:mod:`.hook_service`).
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.delivery.histories import cri, hook_service, nri

EDGES = (nri.play, cri.play, hook_service.play)


def live(seed: int, messages: int) -> None:
    """Plays so many messages, shared by the edges; raises where something does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        for number, play in enumerate(EDGES):
            place = Path(folder, str(number))
            place.mkdir()
            play(place, random.Random(f"{seed} {number}"), messages // len(EDGES))
