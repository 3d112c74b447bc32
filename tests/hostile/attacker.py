# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.hostile.attacker FOLDER KUBECONFIG SEED SECONDS PLACE``: one tenant.

Every attack is made once at least, however few seconds. A process of its own, so that what the
attacks cost to make is nobody else's. Prints how often each attack was made, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

from tests.hostile.attacks import Tenant
from tests.hostile.places import Place


def main(arguments: list[str]) -> None:
    """See the head of this file."""
    folder, kubeconfig, seed, seconds, name = arguments
    place = Place(Path(folder), Path(kubeconfig))
    port, tls, _ = place.address()
    tenant = Tenant(
        int(seed), lambda: place.api("mallory"), (port, tls), f"mallory-{seed}",
        crowds=name == "embedded",
    )  # fmt: skip
    counts: Counter[str] = Counter()
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end or len(counts) < len(tenant.attacks):
        counts[tenant.attack()] += 1
    tenant.close()
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1:])
