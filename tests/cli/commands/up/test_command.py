# SPDX-License-Identifier: Apache-2.0
"""``koord up`` as a process: what it says, what it leaves, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from koord.api import ConfigMap, Namespace, Node, Pod, PriorityClass, decode_as
from koord.api.kinds.cluster import Lease
from koord.api.kinds.storage import PersistentVolumeClaim
from koord.base.errors import KoordError
from koord.cli.commands.up.components import COMPONENTS, ComponentEntry
from koord.kube.client import Client
from koord.kube.daemon.lifecycle import Component
from koord.kube.patches import Patch
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from tests.cli.conftest import Run

T = TypeVar("T")
MAIN = "from koord.cli.main import main; main()"
END_SECONDS = 30.0


class Up:
    """A running ``koord up``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.line: dict[str, Any] = json.loads(process.stdout.readline() or "{}")
        self.kubeconfig = Path(self.line.get("kubeconfig", ""))

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Ends it; gives the exit status and what it said on standard error."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=END_SECONDS)
        return self.process.returncode, err

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        async def run() -> T:
            transport = HttpTransport(load_cluster_config(self.kubeconfig))
            try:
                return await question(Client(transport))
            finally:
                await transport.close()

        return asyncio.run(run())


@contextmanager
def up(*words: object) -> Iterator[Up]:
    command = [sys.executable, "-c", MAIN, "up", "-o", "json", *map(str, words)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Up(process)
        finally:
            process.kill()


async def _until(check: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + END_SECONDS
    while not await check():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def test_a_cluster_comes_up_and_ends() -> None:
    with up("--nodes", 2, "--seed", 5) as running:
        line, path = running.line, running.kubeconfig
        assert line["pid"] == running.process.pid
        assert line["url"].startswith("https://127.0.0.1:")
        assert line["nodes"] == 2
        assert line["components"] == ["controllers", "scheduler", "manager", "webhooks", "nodes"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

        async def look(client: Client) -> None:
            nodes = (await client.list(Node)).items
            assert [node.metadata.name for node in nodes] == ["node-001", "node-002"]
            classes = {each.metadata.name for each in (await client.list(PriorityClass)).items}
            assert {"koord-prod", "koord-mid", "koord-batch", "koord-free"} <= classes
            await client.get(Namespace, "koordinator-system")
            container = {"name": "app", "image": "app"}
            pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
                   "spec": {"containers": [container]}}  # fmt: skip
            await client.create(decode_as(pod, Pod), "default")

            async def runs() -> bool:
                return (await client.get(Pod, "web", "default")).status.phase == "Running"

            await _until(runs)
            # A claim that names no class gets a volume where its first pod goes.
            asked = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                     "metadata": {"name": "data"}, "spec": asked}  # fmt: skip
            await client.create(decode_as(claim, PersistentVolumeClaim), "default")
            pod["metadata"] = {"name": "db"}
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
            pod["spec"] = {"containers": [container], "volumes": [volume]}
            await client.create(decode_as(pod, Pod), "default")

            async def has_volume() -> bool:
                bound = await client.get(PersistentVolumeClaim, "data", "default")
                pod = await client.get(Pod, "db", "default")
                return (bound.status.phase, pod.status.phase) == ("Bound", "Running")

            await _until(has_volume)
            bound = await client.get(PersistentVolumeClaim, "data", "default")
            assert bound.spec.storage_class_name == "standard"
            # One ConfigMap, and what is idle is offered.
            config = {"apiVersion": "v1", "kind": "ConfigMap",
                      "metadata": {"name": "slo-controller-config"},
                      "data": {"colocation-config": '{"enable": true}'}}  # fmt: skip
            await client.create(decode_as(config, ConfigMap), "koordinator-system")

            async def offers() -> bool:
                nodes = (await client.list(Node)).items
                return all("kubernetes.io/batch-cpu" in n.status.allocatable for n in nodes)

            await _until(offers)

        running.ask(look)
        status, err = running.end()
        assert status == 0
        first = "API server,definitions and priority classes,controllers,scheduler,manager"
        steps = [*first.split(","), "webhooks", "nodes"]
        assert err.splitlines() == [f"starting: {step}" for step in steps]
        assert not path.exists()


def test_a_second_start_goes_on_where_the_first_was(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up("--nodes", 1, "--data", data) as running:
        assert running.kubeconfig == data / "kubeconfig"
        first = running.kubeconfig.read_bytes()

        async def write(client: Client) -> str:
            metadata = {"name": "kept", "namespace": "default"}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            await client.create({**document, "data": {"a": "b"}})
            return (await client.get(Node, "node-001")).metadata.uid

        uid = running.ask(write)
        status, said = running.end(signal.SIGTERM)
        assert status == 0, said
    with up("--data", data) as running:
        # The machines of the state, not the three of an empty cluster: others would be dead nodes.
        assert running.line["nodes"] == 1
        # The same address too, so that whoever had it goes on.
        assert running.kubeconfig.read_bytes() == first

        async def read(client: Client) -> str:
            assert (await client.get(ConfigMap, "kept", "default")).data == {"a": "b"}
            return (await client.get(Node, "node-001")).metadata.uid

        assert running.ask(read) == uid
        assert running.end()[0] == 0


def _pod(name: str, requests: dict[str, str]) -> Pod:
    container = {"name": "app", "image": "app", "resources": {"requests": requests,
                 "limits": requests}}  # fmt: skip
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"containers": [container]}}  # fmt: skip
    return decode_as(document, Pod)


async def _nodes_of(client: Client, names: list[str]) -> list[str]:
    """The nodes of these pods of the namespace default, once all run."""

    async def run() -> bool:
        pods = (await client.list(Pod, namespace="default")).items
        return sum(pod.status.phase == "Running" for pod in pods) >= len(names)

    await _until(run)
    return [(await client.get(Pod, name, "default")).spec.node_name for name in names]


async def _lead_for_an_hour(client: Client) -> None:
    """Has every Lease of a component last for so long, once the scheduler has its own."""

    async def run() -> bool:
        leases = (await client.list(Lease, namespace="koordinator-system")).items
        held = [lease.metadata.name for lease in leases if lease.spec.holder_identity]
        for name in held:
            hour = Patch.merge({"spec": {"leaseDurationSeconds": 3600}})
            await client.patch(Lease, name, hour, "koordinator-system")
        return "koord-scheduler" in held

    await _until(run)


def test_after_a_kill_the_next_start_leads_at_once(koord: Run, tmp_path: Path) -> None:
    """The dead scheduler's Lease is of a process that held the folder, which is gone.

    It is one of an hour, so that whoever waited for its end would still wait when this test ends.
    """
    words = ("--nodes", 1, "--data", tmp_path / "data")
    with up(*words) as running:
        running.ask(lambda client: client.create(_pod("first", {"cpu": "1"}), "default"))
        running.ask(_lead_for_an_hour)
        running.process.kill()
        running.process.wait()
    with up(*words) as running:

        async def place(client: Client) -> list[str]:
            await client.create(_pod("second", {"cpu": "1"}), "default")
            return await _nodes_of(client, ["first", "second"])

        assert running.ask(place) == ["node-001", "node-001"]
        status, out, err = koord("explain", "pod", "second", "--kubeconfig", running.kubeconfig)
        assert (status, err) == (0, "")
        assert "node-001" in out
        assert running.end()[0] == 0


def test_pods_without_cards_leave_machines_with_cards_to_others() -> None:
    """Of ten machines one has eight cards; a share of a card can be had without any switch."""
    with up("--nodes", 10) as running:
        names = [f"web-{number}" for number in range(18)]

        async def place(client: Client) -> None:
            share = {"koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-memory-ratio": "50",
                     "koordinator.sh/gpu-core": "50", "cpu": "1"}  # fmt: skip
            for name in names:
                await client.create(_pod(name, {"cpu": "2", "memory": "4Gi"}), "default")
            await client.create(_pod("train", share), "default")
            found = await _nodes_of(client, [*names, "train"])
            assert found[-1] == "node-gpu-001"
            assert all("gpu" not in node for node in found[:-1])

        running.ask(place)
        assert running.end()[0] == 0


def test_what_is_left_out_does_not_run(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    left_out = "nodes,scheduler,manager,webhooks,binder"
    words = ("--without", left_out, "--insecure", "--kubeconfig", path)
    with up(*words) as running:
        assert running.line["components"] == ["controllers"]
        assert running.line["url"].startswith("http://127.0.0.1:")
        assert running.line["nodes"] == 0
        assert running.ask(lambda client: client.list(Node)).items == []
        assert running.end()[0] == 0
    # A file that was asked for stays.
    assert path.exists()


def test_an_end_before_it_is_up_is_an_interrupt(
    koord: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await forever()

    entry = ComponentEntry("never ready", lambda cluster: Component("stuck", forever, interrupted))
    monkeypatch.setitem(COMPONENTS, "stuck", entry)
    status, out, err = koord("up", "--nodes", 0)
    assert (status, out) == (130, "")
    assert err.splitlines()[-1] == "starting: stuck"


def test_a_second_interrupt_waits_for_nothing(koord: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.1)

    entry = ComponentEntry("slow to end", lambda cluster: Component("slow", interrupted))
    monkeypatch.setitem(COMPONENTS, "slow", entry)
    status, _, err = koord("up", "--nodes", 0)
    assert status == 130
    assert "Traceback" not in err


def test_a_component_that_fails_ends_everything(
    koord: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise KoordError("stuck", "", "this", "that")

    entry = ComponentEntry("fails", lambda cluster: Component("stuck", fail))
    monkeypatch.setitem(COMPONENTS, "stuck", entry)
    status, _, err = koord("up", "--nodes", 0)
    assert status == 2
    assert err.splitlines()[-1] == "error: stuck: got 'this', expected that"


def refused(koord: Run, *words: object) -> tuple[int, str]:
    """The exit status and the one line that is neither progress nor data."""
    status, out, err = koord("up", "--nodes", 0, *words)
    assert out == ""
    (line,) = [line for line in err.splitlines() if not line.startswith("starting")]
    return status, line


def test_a_taken_port_is_one_line_and_leaves_nothing(
    koord: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, line = refused(koord, "--port", port)
    assert status == 2
    said = "got 'address already in use', expected a free port"
    assert line == f"error: 127.0.0.1:{port}: {said}"
    assert list(tmp_path.iterdir()) == []


def test_a_data_folder_that_cannot_be_is_one_line(koord: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    status, line = refused(koord, "--data", file)
    assert status == 2
    assert str(file) in line


def test_somebody_elses_kubeconfig_is_not_overwritten(koord: Run, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\ncurrent-context: production\n")
    status, line = refused(koord, "--kubeconfig", path)
    assert status == 2
    assert line.startswith(f"error: {path}")
    assert "production" in path.read_text()


def test_a_kubeconfig_with_more_than_koord_in_it_is_not_overwritten(
    koord: Run, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    both = {kind: [{"name": "koord"}, {"name": "prod"}] for kind in ("clusters", "users")}
    document = {**both, "contexts": [{"name": "koord"}], "current-context": "koord"}
    path.write_text(json.dumps(document))
    status, line = refused(koord, "--kubeconfig", path)
    assert status == 2
    assert "expected a new one, or one that koord up wrote" in line
    assert json.loads(path.read_text()) == document


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--without", "nods"], "--without: got 'nods', expected a component, such as nodes"),
        (["--without", "x"], "expected one of controllers, scheduler, manager, webhooks"),
        (["--nodes", "-1"], "--nodes: got '-1', expected a whole number from 0 to 10000"),
        (["--nodes", "many"], "--nodes: got 'many'"),
        (["--port", "70000"], "--port: got '70000'"),
        (["--pools", "no-such-file.yaml"], "no-such-file.yaml"),
        (["--nodes", "3", "--pools", "a.yaml"], "--nodes: got 3, expected no number beside"),
        (["--speed", "30"], "--speed: got '30', expected --colocation beside it"),
        (["--speed", "0"], "--speed: got '0', expected --colocation beside it"),
        (["--hours", "2"], "--hours: got '2', expected --colocation beside it"),
        (["--report", "out"], "--report: got 'out', expected --colocation beside it"),
        (["extra"], "unexpected extra argument"),
    ],
)
def test_wrong_words_are_one_line(koord: Run, words: list[str], expected: str) -> None:
    status, out, err = koord("up", *words)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert expected in err


def test_help_has_examples(koord: Run) -> None:
    status, out, _ = koord("up", "--help")
    assert status == 0
    assert "koord up --nodes 100" in out
    for option in ("--pools", "--data", "--kubeconfig", "--port", "--insecure", "--without"):
        assert option in out


def test_looking_at_the_help_loads_no_server() -> None:
    code = (
        "import sys; import koord.cli.main, koord.simulator;"
        "print([m for m in sys.modules if m.startswith(('aiohttp', 'koord.controlplane',"
        " 'koord.kube', 'koord.simulator.nodes', 'cryptography', 'jsonschema_rs'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout == "[]\n"
