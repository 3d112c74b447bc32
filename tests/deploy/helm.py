# SPDX-License-Identifier: Apache-2.0
"""helm, built from its Go module."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.deploy.chart_files import CHART
from tests.real.binaries import KUBERNETES, find


class HelmError(Exception):
    """helm refused; what it said."""


def helm(*arguments: object, home: Path, kubeconfig: Path | None = None) -> str:
    """Runs it with a home of its own; gives what it prints.

    Raises:
        HelmError: it ended with another status than 0.
    """
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "KUBECONFIG": str(kubeconfig or home / "none"),
    }
    call = [str(find("helm")), *map(str, arguments)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise HelmError(f"{done.stdout}\n{done.stderr}")
    return done.stdout


def rendered(*arguments: object, home: Path, version: str = KUBERNETES) -> str:
    """What the chart makes of values.

    Raises:
        HelmError: values that the schema refuses, among others.
    """
    return helm("template", "koord", CHART, "--kube-version", version, *arguments, home=home)
