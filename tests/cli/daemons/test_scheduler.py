# SPDX-License-Identifier: Apache-2.0
"""``koord-scheduler`` as a program: it schedules, answers for itself, and says what is wrong."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from koord.api import Pod, decode_as
from koord.kube.client import Client
from tests.cli.commands.up.test_command import END_SECONDS, _until, up

MAIN = "from koord.cli.daemons.scheduler import main; main()"
EXPLAIN = "from koord.cli.main import main; main()"


def said(code: str, *words: object) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=END_SECONDS * 2,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "{folder}/none.yaml"), "none.yaml"),
        (("--config", "{folder}/bad.yaml"), "NodeResourceFit"),
        (("--feature-gates", "Nope=true"), "Nope"),
        (("--port", "70000"), "expected a whole number from 0 to 65535"),
        (("--quota-scope", "all"), "--quota-scope: got 'all', expected cluster or namespace"),
        (("--queue-fairness", "all"), "--queue-fairness: got 'all', expected none or namespace"),
        (("--kubeconfig", "{folder}/none"), "none"),
        (("--scheduling-timeout", "soon"), "expected a duration such as 30s, or 0"),
        (("--nope",), "--nope"),
        (
            ("--kubeconfig", "{folder}/config", "--bind-address", "no.such.name.invalid"),
            "--bind-address: got 'no.such.name.invalid', expected an address of this machine (",
        ),
    ],
)
def test_wrong_input_is_one_line(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- schedulerName: mine\n"
        "  plugins: {filter: {enabled: [{name: NodeResourceFit}]}}\n"
    )
    (tmp_path / "config").write_text(
        "kind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "users: [{name: a, user: {}}]\n"
    )
    status, out, err = said(MAIN, *(word.format(folder=tmp_path) for word in words))
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_help_names_the_options() -> None:
    status, out, _ = said(MAIN, "--help")
    assert status == 0
    assert "--feature-gates" in out
    # A dry run does not stand for election.
    assert "lead nobody and write nothing" in " ".join(out.split())


def test_it_schedules_and_explains(tmp_path: Path) -> None:
    path, config = tmp_path / "kubeconfig", tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine}]\n"
    )
    words = ("--nodes", 2, "--without", "scheduler", "--kubeconfig", path)
    with up(*words) as running:
        command = [sys.executable, "-c", MAIN, "--kubeconfig", path, "--config", config]
        with subprocess.Popen(
            [*map(str, command), "--port", "0", "-v", "0"], stderr=subprocess.PIPE, text=True
        ) as process:
            try:

                async def work(client: Client) -> None:
                    for name, cpu in (("small", "1"), ("big", "400")):
                        requests = {"requests": {"cpu": cpu}}
                        container = {"name": "app", "image": "app", "resources": requests}
                        spec = {"schedulerName": "mine", "containers": [container]}
                        document = {"apiVersion": "v1", "kind": "Pod",
                                    "metadata": {"name": name}, "spec": spec}  # fmt: skip
                        await client.create(decode_as(document, Pod), "default")

                    async def done() -> bool:
                        small = await client.get(Pod, "small", "default")
                        big = await client.get(Pod, "big", "default")
                        return bool(small.spec.node_name and big.status.conditions)

                    await _until(done)

                running.ask(work)
                status, out, err = said(EXPLAIN, "explain", "pod", "big", "--kubeconfig", path)
                assert (status, err) == (0, "")
                assert "default/big: unschedulable" in out
                assert "Now: 0 of 2 nodes would take it." in out
                status, _, err = said(EXPLAIN, "explain", "pod", "nope", "--kubeconfig", path)
                assert (status, err) == (2, "error: cannot find pod default/nope\n")
                process.terminate()
                began = time.monotonic()
                assert process.wait(END_SECONDS) == 0
                assert time.monotonic() - began < END_SECONDS
            finally:
                process.kill()
        status, _, err = said(EXPLAIN, "explain", "pod", "big", "--kubeconfig", path)
        assert status == 1, "who led is gone"
        assert err.count("\n") == 1
