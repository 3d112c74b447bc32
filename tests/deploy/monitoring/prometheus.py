# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus: fetched by apt into a cache, not installed; started on loopback.

``python -m tests.deploy.monitoring.prometheus`` fetches it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.real.plane import free_port

_PACKAGE = "prometheus"
_START_SECONDS, _ANSWER_SECONDS = 60.0, 30.0


class MissingPrometheusError(Exception):
    """It is not there, and how to get it."""


def cache_folder() -> Path:
    """``KOORD_PROMETHEUS_CACHE``, by default a folder of the user's cache."""
    if chosen := os.environ.get("KOORD_PROMETHEUS_CACHE"):
        return Path(chosen)
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user) / "koord" / "prometheus"


def find(program: str) -> Path:
    """``prometheus`` or ``promtool``: of the cache, else of the machine.

    Raises:
        MissingPrometheusError: neither has it.
    """
    kept = cache_folder() / "root" / "usr" / "bin" / program
    if kept.exists():
        return kept
    if installed := shutil.which(program):
        return Path(installed)
    raise MissingPrometheusError(
        f"{program}: missing; `python -m tests.deploy.monitoring.prometheus` fetches it by apt"
    )


def fetch() -> Path:
    """Fetches the package, where it is not there yet, and unpacks it.

    Raises:
        MissingPrometheusError: apt has none.
    """
    try:
        return find("promtool")
    except MissingPrometheusError:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
    try:
        _run("apt-get", "download", _PACKAGE, where=folder)
        (package,) = folder.glob(f"{_PACKAGE}_*.deb")
        _run("dpkg-deb", "-x", package.name, "root", where=folder)
    except (OSError, ValueError) as error:
        raise MissingPrometheusError(f"{_PACKAGE}: {error}") from None
    return find("promtool")


def _run(*call: str, where: Path) -> None:
    done = subprocess.run(call, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(call)}: {done.stderr.strip()}")


class Prometheus:
    """One that runs.

    Args:
        url: where it listens.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **arguments: object) -> Any:
        """The data of an answer of its API.

        Raises:
            ValueError: it refused; with its reason.
        """
        query = urllib.parse.urlencode({name: str(value) for name, value in arguments.items()})
        try:
            with urllib.request.urlopen(
                f"{self.url}/api/v1/{path}?{query}", timeout=_ANSWER_SECONDS
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error).get("error", str(error))) from None

    def over(self, expression: str, begin: float, end: float, step: float) -> list[Any]:
        """The series of a query over a time."""
        data = self.ask("query_range", query=expression, start=begin, end=end, step=step)
        found: list[Any] = data["result"]
        return found


@contextmanager
def prometheus(
    folder: Path, targets: dict[str, tuple[str, str]], interval: str
) -> Iterator[Prometheus]:
    """One that scrapes, until the end.

    Args:
        folder: of its configuration, data and log.
        targets: address (``host:port``) and path by the name of the job.
        interval: of scrapes.
    """
    port = free_port()
    jobs = [
        {"job_name": job, "metrics_path": path, "static_configs": [{"targets": [address]}]}
        for job, (address, path) in targets.items()
    ]
    written = {"global": {"scrape_interval": interval}, "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(written), encoding="utf-8")
    call = [
        str(find("prometheus")), f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
        # Its page is not looked at, and its files lie elsewhere than Debian's program looks.
        "--web.console.templates=none", "--web.console.libraries=none",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(call, stdout=log, stderr=log)
        try:
            made = Prometheus(f"http://127.0.0.1:{port}")
            _wait_until_ready(made, process, folder / "prometheus.log")
            yield made
        finally:
            process.terminate()
            process.wait(timeout=_START_SECONDS)


def _wait_until_ready(made: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{made.url}/-/ready", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise MissingPrometheusError(f"prometheus did not start: {log.read_text()[-2000:]}")


def promtool(*arguments: str, where: Path) -> str:
    """Runs it; gives what it prints, where it says that all is well.

    Raises:
        ValueError: it does not; with what it said.
    """
    call: Sequence[str] = [str(find("promtool")), *arguments]
    done = subprocess.run(call, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stdout + done.stderr)
    return done.stdout


if __name__ == "__main__":
    try:
        print(fetch())
    except MissingPrometheusError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
