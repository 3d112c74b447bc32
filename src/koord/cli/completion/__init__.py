# SPDX-License-Identifier: Apache-2.0
"""Completion of the command lines of all programs, for bash, zsh and fish.

The shell's script (:mod:`scripts`) runs the program itself, with a flag and behind it the words so
far; :mod:`answer` prints what the last of them may become. A flag, since a program that does not
know it must end, and not do what the words say.
"""

from __future__ import annotations

ASKED = "--complete="
"""What the first word begins with where a shell asks; behind it stands the shell's name."""

FILES_STATUS = 3
"""The exit status of an answer that the shell is to give: names of files."""

PROGRAMS = ("koord", "koord-scheduler", "koord-manager", "koordlet")
"""The programs, by the names of their scripts."""
