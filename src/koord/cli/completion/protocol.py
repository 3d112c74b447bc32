# SPDX-License-Identifier: Apache-2.0
"""What the scripts of shells and the programs agree on."""

from __future__ import annotations

COMPLETION_FLAG = "--complete="
"""What the first word begins with where a shell asks; behind it stands the shell's name."""

FILES_STATUS = 3
"""The exit status of an answer that the shell is to give: names of files."""

PROGRAMS = (
    "koord", "koord-scheduler", "koord-manager", "koord-webhook", "koord-descheduler", "koordlet",
    "koord-runtime-proxy",
)  # fmt: skip
"""The programs, by the names of their scripts."""
