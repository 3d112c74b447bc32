# SPDX-License-Identifier: Apache-2.0
"""How a scene ends: figures for the test outside, and what the programs said."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LOG_CHARACTERS = 6000


def write_figures(scene: Callable[[Path, dict[str, Any]], dict[str, Any]]) -> None:
    """Runs a scene in the node and ends this process.

    Args:
        scene: gives figures, of a folder of its own and its order.
    """
    order = json.loads(sys.argv[1])
    folder = Path(order["scratch"])
    try:
        result: dict[str, Any] = {"figures": scene(folder, order)}
    except BaseException as error:
        traceback.print_exc()
        result = {"failure": f"{type(error).__name__}: {error}"}
    for log in sorted(folder.glob("*.log")):
        words = log.read_text(encoding="utf-8", errors="replace")
        print(f"--- {log.name}\n{words[-_LOG_CHARACTERS:]}")
    Path(order["result"]).write_text(json.dumps(result), encoding="utf-8")
    sys.stdout.flush()
    # Without waiting for threads of channels; what it started ends with the namespace.
    os._exit(0)
