# SPDX-License-Identifier: Apache-2.0
"""Grows and frees a table many times, and looks at what stays and at what a step costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

STEPS = 100_000
_SOAK = os.environ.get("KOORD_PROFILE") == "soak"
_CHUNKS = 50


def at_least(steps: int) -> int:
    """So many steps, where one takes the decoding of an object; all of them in ``make soak``."""
    return STEPS if _SOAK else steps


def entries(*roots: Any) -> int:
    """How many entries the containers have that can be reached from some objects of koord's."""
    seen: set[int] = set()
    found = 0
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (str, bytes, int, float, type)):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            found += value.size
        elif isinstance(value, dict):
            found += len(value)
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list) and value and isinstance(value[-1], int):
            continue  # a journal of numbers, which cuts itself off
        elif isinstance(value, (list, tuple, set, frozenset)):
            found += len(value)
            waiting += value
        elif type(value).__module__.startswith("koord.controllers"):
            waiting += _attributes(value)
    return found


def _attributes(value: Any) -> list[Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, n, None) for n in slots)]


def churn(step: Callable[[int], object], *tables: Any, steps: int = STEPS) -> None:
    """Takes a step many times; each writes something new and takes it back.

    After the first tenth the tables have as many entries as ever after, but for some slack where
    they tidy up now and then, and a step costs as much as before.
    """
    costs, sizes = [], []
    chunk = steps // _CHUNKS
    for number in range(_CHUNKS):
        begun = time.process_time()
        for i in range(number * chunk, (number + 1) * chunk):
            step(i)
        costs.append(time.process_time() - begun)
        if number >= _CHUNKS // 10:
            sizes.append(entries(*tables))
    half = len(sizes) // 2
    assert max(sizes[half:]) <= 1.2 * max(sizes[:half]) + 16, sizes
    # The best of many: others may use the machine meanwhile.
    assert min(costs[-20:]) <= 3 * min(costs[5:25]), costs
