# SPDX-License-Identifier: Apache-2.0
"""The specs of the original's end-to-end suite: which there are, and one of them run.

Each is run by a process of its own, so that one that hangs ends alone and progress can be told.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.original.source import Source

PASSED = "passed"
GRACE_SECONDS = 60
_META = re.compile(r"([\\.+*?()|\[\]{}^$])")
# What surrounds a name there and says nothing.
_NOISE = re.compile(r"\s*\[(Conformance|koordinator\.sh)\]")
_FLAGS = (
    "--koordinator-component-namespace=koordinator-system",
    "--koord-scheduler-name=koord-scheduler",
    "--allowed-not-ready-nodes=1",
    "--system-pods-startup-timeout=10s",
    "--e2e-verify-service-account=false",
    "--dump-logs-on-failure=false",
    "--provider=skeleton",
)


@dataclass(frozen=True)
class Spec:
    """One spec.

    Attributes:
        text: its whole name, as Ginkgo matches it.
    """

    text: str

    @property
    def name(self) -> str:
        """The name for people."""
        return " ".join(_NOISE.sub("", self.text).split())


@dataclass(frozen=True)
class Outcome:
    """How a spec ended.

    Attributes:
        state: Ginkgo's word, ``passed`` where it did.
        seconds: it took.
        message: of the failure, and where.
    """

    state: str
    seconds: float
    message: str = ""

    @property
    def passed(self) -> bool:
        """Whether it did."""
        return self.state == PASSED


def listed(source: Source) -> list[Spec]:
    """All specs, by name: the suite's own order changes with its seed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        _ginkgo(source, report, Path(folder) / "kubeconfig", "--ginkgo.dry-run", limit=300)
        found = [Spec(_text(each)) for each in _reports(report)]
    return sorted(found, key=lambda spec: spec.text)


def run(source: Source, spec: Spec, kubeconfig: Path, log: Path, limit: int) -> Outcome:
    """Runs one spec.

    Args:
        kubeconfig: of the cluster.
        log: gets what it says.
        limit: seconds that it may take.
    """
    pattern = _META.sub(r"\\\1", spec.text) + "$"
    report = log.with_suffix(".json")
    arguments = (f"--ginkgo.focus={pattern}", f"--ginkgo.timeout={limit}s", "--ginkgo.v")
    said = _ginkgo(source, report, kubeconfig, *arguments, limit=limit + GRACE_SECONDS)
    log.write_text(said, encoding="utf-8")
    ran = [each for each in _reports(report) if _text(each) == spec.text]
    if not ran:
        lines = said.strip().splitlines()[-3:]
        return Outcome("not run", limit, " ".join(lines))
    found = ran[0]
    failure = found.get("Failure") or {}
    message = " ".join(str(failure.get("Message", "")).split())
    where = failure.get("Location") or {}
    if message and where:
        message += f" ({Path(where.get('FileName', '')).name}:{where.get('LineNumber', 0)})"
    return Outcome(str(found["State"]), found["RunTime"] / 1e9, message)


def _ginkgo(source: Source, report: Path, kubeconfig: Path, *arguments: str, limit: int) -> str:
    report.unlink(missing_ok=True)
    call = [
        str(source.program("e2e.test")), f"--kubeconfig={kubeconfig}",
        f"--ginkgo.json-report={report}", "--ginkgo.no-color", *arguments, *_FLAGS,
    ]  # fmt: skip
    # Manifests are looked for from the folder of the suite.
    folder = source.folder / "test" / "e2e"
    process = subprocess.Popen(
        call, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
    finally:
        process.kill()
    return said.decode(errors="replace")


def _reports(path: Path) -> list[dict[str, Any]]:
    """Of specs, none where there is no report."""
    if not path.is_file():
        return []
    suites = json.loads(path.read_text(encoding="utf-8"))
    found = [each for suite in suites for each in suite.get("SpecReports") or ()]
    return [each for each in found if each["LeafNodeType"] == "It"]


def _text(report: dict[str, Any]) -> str:
    hierarchy = report.get("ContainerHierarchyTexts") or ()
    return " ".join(text for text in (*hierarchy, report["LeafNodeText"]) if text)
