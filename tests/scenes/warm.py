# SPDX-License-Identifier: Apache-2.0
"""Imports all that the programs of scenes use: processes forked from one that has it start at once.

Under emulation an agent spends most of its start on imports, many of them late.
"""

from __future__ import annotations

import importlib
import pkgutil

_WHOLE = ("koord.agent", "koord.controlplane", "koord.kube")
_OTHERS = (
    "aiohttp.web", "cryptography.x509", "jsonschema_rs", "koord.cli.daemons.koordlet",
    "kubernetes.client.api_client", "kubernetes.config", "numpy.ma", "tests.scenes.daemon",
    "tests.scenes.owntree", "tests.scenes.world",
)  # fmt: skip


# The kernel's scenes start neither agent nor server.
_WITHOUT = frozenset({"contention", "kernel"})


def warm(experiment: str) -> None:
    """Imports what an experiment's programs use; nothing the second time."""
    if experiment in _WITHOUT:
        return
    for name in _OTHERS:
        importlib.import_module(name)
    for name in _WHOLE:
        package = importlib.import_module(name)
        for each in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not each.name.endswith("__main__"):
                importlib.import_module(each.name)
