# SPDX-License-Identifier: Apache-2.0
"""koord-webhook's command line; it and koord-manager beside a cluster: reviews are answered over
TLS, and the process ends in order.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from koord.cli.daemons.webhook import main, parse
from koord.controllers.webhook.framework.webhook_table import MUTATE_POD
from koord.controllers.webhook.program_options import WebhookProgramOptions
from tests.cli.daemons.program import PATIENCE_SECONDS, answer, usage_error
from tests.contract.embedded import start_embedded
from tests.controllers.webhook.reviews import review
from tests.real.plane import free_port


def test_flags_have_the_managers_defaults() -> None:
    options, kubeconfig, verbosity = parse([])
    assert (options, kubeconfig, verbosity) == (WebhookProgramOptions(), None, 2)
    assert options.health_listen() == ("127.0.0.1", 8000)
    told, _, _ = parse(["--feature-gates=NodeMutatingWebhook=true", "--enable-pprof", "-v=4"])
    assert told.gates().enabled("NodeMutatingWebhook")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--feature-gates=PodMutatingWebhok=true"], "such as PodMutatingWebhook"),
        (["--metrics-addr=x"], "--metrics-addr: got 'x', expected HOST:PORT"),
        (["--nothing"], "expected a known flag, as koord-webhook --help lists them"),
        (["--quota-update-max-retries=-1"], "--quota-update-max-retries: got '-1'"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in usage_error(main, ["koord-webhook", *words], monkeypatch, capsys)


@pytest.mark.parametrize(
    ("program", "dry_run"), [("webhook", False), ("webhook", True), ("manager", False)]
)
def test_it_answers_beside_a_cluster_and_ends(tmp_path: Path, program: str, dry_run: bool) -> None:
    ports = [free_port() for _ in range(3)]
    with start_embedded(tmp_path, controllers=False) as plane:
        words = [
            sys.executable, "-m", f"koord.cli.daemons.{program}",
            f"--kubeconfig={plane.kubeconfig}",
            f"--metrics-addr=127.0.0.1:{ports[1]}", f"--health-probe-addr=127.0.0.1:{ports[2]}",
            f"--dry-run={str(dry_run).lower()}", "--leader-election-namespace=default",
        ]  # fmt: skip
        environment = {
            "WEBHOOK_PORT": str(ports[0]), "WEBHOOK_HOST": "127.0.0.1",
            "WEBHOOK_CERT_DIR": str(tmp_path / "certs"),
        }  # fmt: skip
        process = subprocess.Popen(words, env={**os.environ, **environment}, stderr=subprocess.PIPE)
        try:
            assert answer(f"http://127.0.0.1:{ports[2]}/readyz?verbose").startswith("[+]ping ok")
            anything = ssl.create_default_context()
            anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
            assert answer(f"https://127.0.0.1:{ports[0]}/healthz", anything) == "ok\n"
            review_url = f"https://127.0.0.1:{ports[0]}{MUTATE_POD}"
            answered = json.loads(answer(review_url, anything, json.dumps(review()).encode()))
            assert answered["response"]["allowed"]
            metrics = f"http://127.0.0.1:{ports[1]}"
            tree = json.loads(answer(f"{metrics}/elasticQuota"))
            assert tree["quotaHierarchyInfo"] == {"koordinator-root-quota": []}
            told = "/metrics" if program == "webhook" else "/internal-metrics"
            assert f"koord_{program}_failures_total" in answer(f"{metrics}{told}")
            assert 'requests_total{code="200",webhook="/mutate-pod"} 1.0' in answer(
                f"{metrics}/metrics"
            )
            # Nothing is written in a dry run, not to this machine either.
            assert (tmp_path / "certs").exists() is not dry_run
        finally:
            process.terminate()
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said
    # The server has no kind of koord's: what that means is one line of each component.
    lines = [each for each in said.decode().splitlines() if "kinds are not served" in each]
    assert len(lines) == (2 if program == "manager" else 1)
    assert any("ClusterColocationProfile: " in each for each in lines)
    assert all('remedy="koord crds install"' in each for each in lines)
