# SPDX-License-Identifier: Apache-2.0
"""Runs kubectl on two servers and tells where its output differs."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract.conftest import Server
from tests.real.binaries import find

TIMEOUT_SECONDS = 60.0
# What two servers cannot have in common, and what stands for it.
_NORMAL = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"-[bcdf0-9]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-HASH"),
    (r"-[bcdf0-9]{8,10}\b", "-HASH"),
    (r"(pod-template-hash=)\w+", r"\1HASH"),
    (r"10\.96\.\d+\.\d+", "ADDRESS"),
    (r"(resourceVersion\"?: \")\d+", r"\1N"),
    (r"(Resource Version:\s+)\d+", r"\1N"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", "TIME"),
    (r"/(LIVE|MERGED)-\d+", r"/\1"),
    (r"https://127\.0\.0\.1:\d+", "SERVER"),
    (r"\b\d+(\.\d+)?(ms|s|m)( ago)?\b", "AGE"),
    (r"<(invalid|unknown)>", "AGE"),
    (r"[ \t]+", " "),
)


@dataclass(frozen=True)
class Outcome:
    """What one call of kubectl came to."""

    status: int
    output: str
    errors: str


def normal(text: str) -> list[str]:
    """The lines of an output without what differs from server to server anyway."""
    for pattern, stand_in in _NORMAL:
        text = re.sub(pattern, stand_in, text)
    return [line.rstrip() for line in text.splitlines()]


@dataclass
class Pair:
    """The same kubectl, once for each of two servers.

    Attributes:
        differences: what each step since the start differed in, for people.
    """

    program: str
    servers: list[Server]
    namespace: str
    home: Path
    differences: list[str] = field(default_factory=list)

    def run(
        self, line: str, stdin: str = "", *, editor: str = "", sort: bool = False, only: str = ""
    ) -> str:
        """Runs one command line on both; gives the output on the first server.

        Args:
            line: arguments, split at blanks; ``_`` stands for a blank within one that holds ``*``.
            stdin: text for ``-f -``.
            editor: a shell command that edits the file it is given.
            sort: lines may come in any order.
            only: compares only lines in which this pattern is found.
        """
        found = [self._call(server, line, stdin, editor) for server in self.servers]
        shown = []
        for outcome in found:
            lines = normal(outcome.output) + normal(outcome.errors)
            lines = [line for line in lines if re.search(only, line)]
            shown.append([f"exit {outcome.status}", *(sorted(lines) if sort else lines)])
        if shown[0] != shown[1]:
            told = [f"$ kubectl {line}"]
            for server, lines in zip(self.servers, shown, strict=True):
                told += [f"  {server.name}:", *(f"    {text}" for text in lines)]
            self.differences.append("\n".join(told))
        return found[0].output

    def ask(self, server: Server, line: str) -> str:
        """The output of a command line on one server, where the two are meant to differ."""
        return self._call(server, line, "", "").output

    def check(self) -> None:
        """Fails where the servers did not agree."""
        assert not self.differences, "\n".join(self.differences)

    def _call(self, server: Server, line: str, stdin: str, editor: str) -> Outcome:
        environment = {
            **os.environ,
            "KUBECONFIG": str(server.kubeconfig),
            "HOME": str(self.home / server.name),
            "KUBE_EDITOR": editor,
        }
        words = [word.replace("_", " ") if "*" in word else word for word in line.split()]
        call = [str(find(self.program)), f"--namespace={self.namespace}", *words]
        done = subprocess.run(
            call,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=TIMEOUT_SECONDS,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)
