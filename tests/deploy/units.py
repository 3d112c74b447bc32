# SPDX-License-Identifier: Apache-2.0
"""Units of systemd, for what runs on hosts."""

from __future__ import annotations

import configparser
import shlex

from tests.deploy.chart_files import ROOT

PROXY = ROOT / "deploy/systemd/koord-runtime-proxy.service"


def proxy_command() -> list[str]:
    """What the proxy's unit runs."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(PROXY.read_text(encoding="utf-8"))
    return shlex.split(unit["Service"]["ExecStart"])
