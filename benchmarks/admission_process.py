# SPDX-License-Identifier: Apache-2.0
"""What admission costs as a program: ``python -m benchmarks.admission_process``.

``koord-webhook`` runs as the process that it is in a cluster, beside an API server that has 200
profiles, 1,000 quotas, 10,000 namespaces and 20,000 pods (``admission_cluster``); another process
asks (``admission_load``). Prints one JSON document: reviews a second of the server's CPU, as fast
as they come and at 500 a second with their latencies; a bare aiohttp server under the same load;
resident memory above a bare interpreter's; with ``--gates EnableQuotaAdmission=true`` what charging
pods costs (two API writers in all: the quota's patch is one). The machine's load average says what
ran beside.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from benchmarks.admission_cluster import server_context
from benchmarks.agent_process import cpu_seconds, interpreter, memory
from tests.scenes.daemon import free_port

# As in its pod: a kubeconfig would load a package of 35 MiB that no Deployment needs.
_START = """
import sys
from koord.kube.transport import credentials
credentials._SERVICE_ACCOUNT = sys.argv.pop(1)
from koord.cli.daemons.webhook import main
main()
"""
_BARE = "from benchmarks.admission_process import bare; bare({})"
_PATIENCE_SECONDS = 180.0


class Serving(NamedTuple):
    """A server that answers reviews.

    Attributes:
        pid: of its process.
        port: where it listens.
    """

    pid: int
    port: int


@contextmanager
def cluster(folder: Path, namespaces: int, pods: int) -> Iterator[int]:
    """An API server in a process of its own; its port."""
    words = ["benchmarks.admission_cluster", str(folder)]
    words += [f"--namespaces={namespaces}", f"--pods={pods}"]
    with _process([sys.executable, "-m", *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


@contextmanager
def webhook(folder: Path, api_port: int, gates: str = "") -> Iterator[Serving]:
    """koord-webhook, ready."""
    port, metrics, health = free_port(), free_port(), free_port()
    words = [
        sys.executable, "-c", _START, str(folder), "--enable-leader-election=false",
        f"--metrics-addr=127.0.0.1:{metrics}", f"--health-probe-addr=127.0.0.1:{health}",
        f"--feature-gates={gates}", "--rest-config-qps=10000", "--rest-config-burst=10000",
    ]  # fmt: skip
    told = {
        "WEBHOOK_PORT": str(port), "WEBHOOK_HOST": "127.0.0.1",
        "WEBHOOK_CERT_DIR": str(folder / "certs"),
        "KUBERNETES_SERVICE_HOST": "localhost", "KUBERNETES_SERVICE_PORT": str(api_port),
    }  # fmt: skip
    environment = {**os.environ, **told}
    environment.pop("KUBECONFIG", None)
    with _process(words, env=environment, stderr=subprocess.DEVNULL) as process:
        _until_ready(f"http://127.0.0.1:{health}/readyz", process)
        yield Serving(process.pid, port)


@contextmanager
def bare_server() -> Iterator[Serving]:
    """aiohttp alone: decodes the review, answers a patch that stands ready."""
    port = free_port()
    with _process([sys.executable, "-c", _BARE.format(port)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield Serving(process.pid, port)


def bare(port: int) -> None:
    """The process of :func:`bare_server`."""
    patch = [{"op": "add", "path": "/metadata/labels/koordinator.sh~1qosClass", "value": "BE"}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()

    async def answer(request: web.Request) -> web.Response:
        asked = json.loads(await request.read())
        response = {"uid": asked["request"]["uid"], "allowed": True, "patchType": "JSONPatch",
                    "patch": encoded}  # fmt: skip
        return web.json_response({**asked, "request": None, "response": response})

    async def made() -> web.Application:
        app = web.Application()
        app.router.add_post("/{path}", answer)
        return app

    web.run_app(
        made(), host="127.0.0.1", port=port, ssl_context=server_context(), access_log=None,
        print=lambda *_: print("listening", flush=True),
    )  # fmt: skip


def asked(serving: Serving, seconds: float, *words: str) -> dict[str, Any]:
    """What a load costs the server, and what the client saw."""
    command = [sys.executable, "-m", "benchmarks.admission_load", str(serving.port)]
    command += [f"--seconds={seconds}", *words]
    spent = sum(cpu_seconds(serving.pid))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    spent = sum(cpu_seconds(serving.pid)) - spent
    told = json.loads(done.stdout)
    latencies = told["latencies"]
    return {
        "reviews": len(latencies), "refused": told["refused"],
        "a_cpu_second": round(len(latencies) / spent),
        "cpu_us": round(spent / len(latencies) * 1e6),
        "a_second": round(len(latencies) / seconds),
        "p50_ms": _ms(latencies, 0.5), "p99_ms": _ms(latencies, 0.99),
        "most_ms": _ms(latencies, 1),
    }  # fmt: skip


def above_bare(pid: int) -> int:
    """Resident KiB of a process above an interpreter that has imported nothing."""
    with interpreter(dict(os.environ)) as nothing:
        return memory(pid)["Rss"] - memory(nothing)["Rss"]


def _ms(latencies: list[float], part: float) -> float:
    return round(latencies[min(len(latencies) - 1, int(len(latencies) * part))] * 1e3, 2)


@contextmanager
def _process(words: list[str], **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(words, **more)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError, urllib.error.URLError), urllib.request.urlopen(url, timeout=20):
            return
        time.sleep(0.1)
    raise TimeoutError(f"{url} is not ready")


def measure(told: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        api = held.enter_context(cluster(folder, told.namespaces, told.pods))
        serving = held.enter_context(webhook(folder, api, told.gates))
        found: dict[str, Any] = {"load_average": os.getloadavg()[0]}
        found["resident_mib_above_bare"] = round(above_bare(serving.pid) / 1024, 1)
        more = ["--validate-only"] if "EnableQuotaAdmission=true" in told.gates else []
        asked(serving, 2.0, *more)
        found["as_they_come"] = asked(serving, told.seconds, *more)
        rate = f"--rate={told.rate}"
        found[f"at_{told.rate:g}_a_second"] = asked(serving, told.seconds, rate, *more)
        found["resident_mib_above_bare_after"] = round(above_bare(serving.pid) / 1024, 1)
        other = held.enter_context(bare_server())
        asked(other, 1.0)
        found["bare_aiohttp"] = asked(other, told.seconds)
        found["bare_aiohttp_paced"] = asked(other, told.seconds, rate)
        found["load_average_after"] = os.getloadavg()[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespaces", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--rate", type=float, default=500.0, help="reviews a second, paced")
    parser.add_argument("--gates", default="", help="of koord-webhook")
    print(json.dumps(measure(parser.parse_args()), indent=2))


if __name__ == "__main__":
    main()
