# SPDX-License-Identifier: Apache-2.0
"""koord-descheduler's command line, and the program beside a cluster: rounds, answers, its end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from koord.api.kinds.cluster import Event, Lease
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.cli.daemons.descheduler import main, parse
from koord.controllers.descheduler.app import NAME
from koord.controllers.descheduler.config.load import load
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.options import DeschedulerOptions
from koord.controllers.descheduler.unused_flags import UNUSED
from koord.kube.client import Client
from koord.kube.patches import Patch
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.cli.conftest import Run
from tests.cli.pages import compatibility
from tests.contract.embedded import start_embedded
from tests.real.plane import free_port

PATIENCE_SECONDS, SYSTEM = 60.0, "koordinator-system"
EVICTOR = {"enabled": [{"name": "DefaultEvictor"}], "disabled": [{"name": "*"}]}
ORIGINALS = [
    "--config=/config/koord-descheduler.yaml", "--leader-elect=true",
    "--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=20s",
    "--leader-elect-retry-period=4s", "--leader-elect-resource-lock=leases",
    "--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=kube-system",
    "--address=10.0.0.1", "--port=10252", "--feature-gates=DisablePVCReservation=true",
    "--secure-port=0", "--logging-format=text", "--disabled-metrics=a", "-v=4",
]  # fmt: skip


def configuration(folder: Path, name: str = "config.yaml", **more: Any) -> Path:
    """A file by which pods that do not tolerate their node's taints go by the eviction API."""
    document = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration",
        "deschedulingInterval": "1s",
        "profiles": [{
            "plugins": {"deschedule": {"enabled": [{"name": "RemovePodsViolatingNodeTaints"}]},
                        "filter": EVICTOR, "evict": EVICTOR},
        }],
        **more,
    }  # fmt: skip
    path = folder / name
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_originals_deployment_starts_as_it_is(tmp_path: Path) -> None:
    options, _, verbosity = parse([*ORIGINALS, "--kubeconfig=/k"])
    assert (verbosity, options.port, options.address) == (4, 10252, "10.0.0.1")
    assert options.leader_elect_lease_duration == 30.0
    held = DeschedulerOptions(config=str(configuration(tmp_path)), leader_elect_lease_duration=30.0)
    found = held.configuration(PluginRegistry([]), ["leader_elect_lease_duration"])
    assert str(found.leader_election.lease_duration) == "30s"
    assert found.leader_election.resource_name == NAME


def test_flags_hold_above_the_file_and_only_where_they_are_given(tmp_path: Path) -> None:
    path = configuration(tmp_path, leaderElection={"leaderElect": False}, dryRun=True)
    options = DeschedulerOptions(policy_config_file=str(path), descheduling_interval=7.0)
    found = options.configuration(PluginRegistry([]), [])
    assert (found.interval_seconds, found.dry_run) == (1.0, True)
    assert not found.leader_election.leader_elect
    found = options.configuration(PluginRegistry([]), ["descheduling_interval"])
    assert found.interval_seconds == 7.0
    shipped = DeschedulerOptions(port=9).configuration(PluginRegistry([]), [])
    assert (shipped.healthz_address, shipped.interval_seconds) == ("127.0.0.1:9", 0.0)
    assert shipped.profiles[0].plugins["evict"] == ["MigrationController"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config=/nowhere/x.yaml"], "/nowhere/x.yaml"),
        (["--config=a", "--policy-config-file=b"], "--policy-config-file: got 'b', expected one"),
        (["--rounds=walked"], "--rounds: got 'walked', expected planned or one-by-one"),
        (["--port=70000"], "--port: got 70000, expected a whole number from 0 to 65535"),
        (["--node-selector=a in"], "--node-selector: got 'a in', expected a label selector"),
        (["--feature-gates=DisablePVCReservations=true"], "such as DisablePVCReservation"),
        (["--polcy-config-file=x"], "a known flag, such as --policy-config-file"),
        (["--leader-elect-renew-deadline=20s"], "leaseDuration: got '15s', expected more than"),
        (["--leader-elect-resource-lock=x"], "resourceLock: got 'x', expected one of leases"),
        (["here"], "koord-descheduler: got 'here', expected flags alone"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in _refused(words, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dryrun": True}, "got 'dryrun', expected a known field, such as dryRun"),
        ({"deschedulingInterval": "10"}, "deschedulingInterval: got '10'"),
        ({"healthzBindAddress": "127.0.0.1:x"}, "healthzBindAddress: got '127.0.0.1:x'"),
        ({"metricsBindAddress": "127.0.0.1:"}, "metricsBindAddress: got '127.0.0.1:'"),
        ({"profiles": [{"plugins": {"balance": {"enabled": [{"name": "LowNodeLode"}]}}}]},
         "profiles[0].plugins.balance.enabled: got 'LowNodeLode', expected a known plugin, such"),
        ({"maxNoOfPodsToEvictTotal": -1}, "maxNoOfPodsToEvictTotal: got -1, expected an integer"),
    ],
)  # fmt: skip
def test_a_bad_configuration_is_one_line_with_file_and_path(
    change: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = configuration(tmp_path, **change)
    error = _refused([f"--config={path}"], monkeypatch, capsys)
    assert str(path) in error
    assert message in error


def _refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr("sys.argv", [NAME, *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    output, error = capsys.readouterr()
    assert (stopped.value.code, output) == (2, "")
    assert error.count("\n") == 1
    return error


def test_what_is_in_force_is_written_and_read_again_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, path = PluginRegistry([]), configuration(tmp_path, maxNoOfPodsToEvictPerNode=3)
    written = tmp_path / "written.yaml"
    monkeypatch.setattr("sys.argv", [NAME, f"--config={path}", f"--write-config-to={written}"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    assert load(written, registry) == load(path, registry)


def test_the_page_on_compatibility_has_every_flag_and_gate() -> None:
    rows = compatibility("Descheduler: flags")
    flags = {f"--{name.replace('_', '-')}" for name in vars(DeschedulerOptions())}
    unused = {f"--{name}": f"no effect: {why}" for name, why in UNUSED.items()}
    gates = {gate.name: gate for gate in DeschedulerOptions().gates().known()}
    assert set(rows) == flags | set(unused) | set(gates)
    assert {name: rows[name] for name in unused} == unused
    for name, gate in gates.items():
        assert rows[name] == f"{'on' if gate.default else 'off'}: {gate.doc}", name


class Cluster:
    """An embedded server with two nodes, and a file for a descheduler of it."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig, self.folder = kubeconfig, folder
        self.url = f"http://127.0.0.1:{free_port()}"

    def do(self, work: Callable[[Client], Awaitable[Any]]) -> Any:
        """Does something as the administrator."""

        async def run() -> Any:
            transport = HttpTransport(load_cluster_config(self.kubeconfig))
            try:
                return await work(Client(transport, "admin"))
            finally:
                await transport.close()

        return asyncio.run(run())

    @contextmanager
    def descheduler(self, *words: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
        """The program; killed where it still runs."""
        address = self.url.removeprefix("http://")
        times = {"leaseDuration": "60s", "renewDeadline": "50s", "retryPeriod": "500ms"}
        path = configuration(
            self.folder, healthzBindAddress=address, metricsBindAddress=address,
            leaderElection=times, **more,
        )  # fmt: skip
        command = [sys.executable, "-m", "koord.cli.daemons.descheduler", f"--config={path}",
                   f"--kubeconfig={self.kubeconfig}", *words]  # fmt: skip
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def asked(self, path: str, until: Callable[[Any], bool] = bool) -> Any:
        """What is answered, once it is as wished."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        found: Any = None
        while True:
            try:
                with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                    text, kind = answer.read().decode(), answer.headers.get_content_type()
                    found = json.loads(text) if kind == "application/json" else text
                    if until(found):
                        return found
            except (OSError, urllib.error.URLError):
                pass
            assert time.monotonic() < deadline, (path, found)
            time.sleep(0.05)


async def _filled(client: Client) -> None:
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    ready = [{"type": "Ready", "status": "True"}]
    for name in ("n1", "n2"):
        await client.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
             "spec": {"taints": [{"key": "drain", "effect": "NoSchedule"}]},
             "status": {"capacity": amounts, "allocatable": amounts, "conditions": ready}}
        )  # fmt: skip
    await client.patch(Node, "n2", Patch.merge({"spec": {"taints": None}}))


async def _pod(client: Client, name: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u"}
    await client.create(
        {"apiVersion": "v1", "kind": "Pod",
         "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
         "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0,
                  "containers": [{"name": "c", "image": "i"}]}}
    )  # fmt: skip


def test_a_life_beside_a_cluster(tmp_path: Path, koord: Run) -> None:
    with start_embedded(tmp_path, controllers=False) as plane:
        cluster = Cluster(plane.kubeconfig, tmp_path)
        cluster.do(_filled)
        cluster.do(lambda client: _pod(client, "old"))
        _it_judges_in_a_dry_run(cluster)
        _it_acts_answers_and_ends_with_its_lead(cluster, koord)
        _another_goes_on_and_ends_on_a_signal(cluster)
        _one_round_and_no_more(cluster)


def _it_judges_in_a_dry_run(cluster: Cluster) -> None:
    async def written(client: Client) -> list[str]:
        leases = [each.metadata.name for each in (await client.list(Lease)).items]
        events = [each.reason for each in (await client.list(Event)).items]
        return [*leases, *events]

    before = cluster.do(lambda client: client.list(Pod))
    with cluster.descheduler("--dry-run") as process:
        told = cluster.asked("/debug/rounds", lambda found: "rounds" in found and found["rounds"])
        assert told["rounds"][-1]["counts"] == {"evicted": 1}
        assert told["rounds"][-1]["dryRun"]
        process.terminate()
        said = process.communicate(timeout=PATIENCE_SECONDS)[1].decode()
    assert process.returncode == 0, said
    (line,) = (each for each in said.splitlines() if "kinds are not served" in each)
    assert "NodeMetric: nodes are not judged by their use" in line
    assert 'remedy="koord crds install"' in line
    assert "would move a pod" in said
    assert "target=n2" in said
    assert "no --scheduler-config: koord's own decides" in said
    assert cluster.do(written) == []
    after = cluster.do(lambda client: client.list(Pod))
    assert after.items == before.items


def _it_acts_answers_and_ends_with_its_lead(cluster: Cluster, koord: Run) -> None:
    with cluster.descheduler() as process:
        assert cluster.asked("/readyz?verbose").startswith("[+]ping ok")
        told = cluster.asked("/debug/rounds", lambda found: bool(found.get("rounds")))
        (outcome,) = told["rounds"][-1]["outcomes"]
        assert (outcome["name"], outcome["result"]) == ("old", "evicted")
        assert [step["target"] for step in told["rounds"][-1]["plan"]["steps"]] == ["n2"]
        assert {node["name"] for node in cluster.asked("/debug/plan")["nodes"]} == {"n1", "n2"}
        assert cluster.do(lambda client: client.list(Pod)).items == []
        metrics = cluster.asked("/metrics")
        assert 'descheduler_pods_evicted{namespace="default",node="n1",result="success"' in metrics
        assert "koord_descheduler_is_leader 1.0" in metrics
        assert 'leader_election_master_status{name="koord-descheduler"} 1.0' in metrics
        assert "[+]leaderElection ok" in cluster.asked("/healthz?verbose")
        assert cluster.asked("/configz")["deschedulingInterval"] == "1s"
        assert "rounds" in {part["name"] for part in cluster.asked("/debug/parts")}
        # Found by its Lease; nobody else is there to be asked.
        status, out, err = koord("explain", "pod", "old", "--kubeconfig", cluster.kubeconfig)
        assert (status, err) == (0, "")
        assert "evicted" in out
        assert "It is gone." in out
        stolen = {"spec": {"holderIdentity": "somebody else", "leaseDurationSeconds": 1}}
        cluster.do(lambda client: client.patch(Lease, NAME, Patch.merge(stolen), SYSTEM))
        said = process.communicate(timeout=PATIENCE_SECONDS)[1].decode()
    assert process.returncode == 1, said
    assert "Traceback" not in said


def _another_goes_on_and_ends_on_a_signal(cluster: Cluster) -> None:
    cluster.do(lambda client: _pod(client, "next"))
    with cluster.descheduler() as process:
        cluster.asked("/debug/rounds", lambda found: bool(found.get("rounds")))
        assert cluster.do(lambda client: client.list(Pod)).items == []
        process.terminate()
        said = process.communicate(timeout=PATIENCE_SECONDS)[1].decode()
    assert process.returncode == 0, said


def _one_round_and_no_more(cluster: Cluster) -> None:
    cluster.do(lambda client: _pod(client, "last"))
    words = "--leader-elect=false", "--descheduling-interval=0", "--rounds=one-by-one"
    with cluster.descheduler(*words) as process:
        said = process.communicate(timeout=PATIENCE_SECONDS)[1].decode()
    assert process.returncode == 0, said
    assert cluster.do(lambda client: client.list(Pod)).items == []
