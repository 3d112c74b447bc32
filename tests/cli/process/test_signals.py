# SPDX-License-Identifier: Apache-2.0
"""Every program and every verb, as the parser and the package know them, ends on a signal."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from koord.cli import main
from koord.controlplane.credentials import kubeconfig
from tests.cli.process.used_cpu import ResultSeconds, cpu_seconds

ROOT = Path(__file__).resolve().parents[3]
OPENB = ROOT / "examples" / "openb"
NODES = str(OPENB / "openb_node_list_gpu_node.csv")
PODS = str(OPENB / "openb_pod_list_default.csv")
PROFILE = ROOT / "examples" / "scheduler" / "fragmentation-aware.yaml"
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
# Alone on a machine people's commands take two seconds at most; tests share theirs with others.
PEOPLE_SECONDS, DAEMON_SECONDS = 20.0, 30.0
START_SECONDS = 120.0
# Tests run on the host, which koordlet does not guess.
ENVIRONMENT = {**os.environ, "agent_mode": "hostMode"}

Ready = Callable[["Scene", "subprocess.Popen[bytes]"], bool]


class Scene(NamedTuple):
    """What a program meets.

    Attributes:
        fifo: a file whose writer never says anything.
        server: accepts connections and never answers.
    """

    folder: Path
    fifo: Path
    server: socket.socket
    accepted: list[socket.socket]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.getsockname()[1]}"


def reads(scene: Scene, process: subprocess.Popen[bytes]) -> bool:
    """It has opened the file, and waits for what is in it.

    A signal between the two would be seen only after the read. Where the kernel tells nothing of
    what a process waits for, to have opened the file must do.
    """
    try:
        os.open(scene.fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    waits_in = Path(f"/proc/{process.pid}/wchan").read_text()
    return "pipe_read" in waits_in or waits_in in ("", "0")


def asks(scene: Scene, _: subprocess.Popen[bytes]) -> bool:
    """It waits for an answer."""
    return bool(scene.accepted)


def listens(scene: Scene, _: subprocess.Popen[bytes]) -> bool:
    """It says that it serves."""
    return "part=proxy" in (scene.folder / "err").read_text()


def says(_: Scene, process: subprocess.Popen[bytes]) -> bool:
    """It has said something."""
    assert process.stdout is not None
    return bool(process.stdout.readline())


def computes(seconds: float) -> Ready:
    """It has had so much CPU, or is done."""

    def check(_: Scene, process: subprocess.Popen[bytes]) -> bool:
        return process.poll() is not None or cpu_seconds(process.pid) >= seconds

    return check


def keeps_results(seconds: float) -> Ready:
    """It has had so much CPU since it began what it can show a part of."""
    of_results = ResultSeconds()

    def check(_: Scene, process: subprocess.Popen[bytes]) -> bool:
        return of_results.of(process.pid) >= seconds

    return check


class Case(NamedTuple):
    """How a verb is kept busy, and when it is.

    Attributes:
        brief: it may be done by itself before the signal comes.
    """

    words: str
    ready: Ready
    brief: bool = False


# Where nothing can be waited for, the verb is met on its way.
VERBS = {
    "up": Case("-o json --nodes 1", says),
    "status": Case("--data {folder}", computes(0.2), brief=True),
    "down": Case("--data {folder}", computes(0.2), brief=True),
    "completion": Case("bash", computes(0.2), brief=True),
    "topology show": Case("", computes(0.2), brief=True),
    "topology pick": Case("1", computes(0.2), brief=True),
    "quota runtime": Case("{fifo} --total cpu=1", reads),
    "resctrl plan": Case("--vendor intel --cbm-mask 3ff --l3-ids 0-1 --config {fifo}", reads),
    "simulate openb": Case(
        f"--nodes {NODES} --pods {PODS} --policy random,fgd --seeds 1-60", keeps_results(0.5)
    ),
    "simulate colocation": Case("--nodes 20", keeps_results(1.5)),
    "check": Case("{fifo}", reads),
    "admission review": Case("-f {fifo} --profiles {fifo}", reads),
    "deschedule plan": Case("--config {fifo}", reads),
    "migrate": Case("web-0 --kubeconfig {kubeconfig} --wait", asks),
    "explain pod": Case("web --kubeconfig {kubeconfig}", asks),
    "explain node": Case("node-1 --kubeconfig {kubeconfig}", asks),
    "explain profile": Case("batch --kubeconfig {kubeconfig}", asks),
    "explain quota": Case("team --server {url}", asks),
    "explain gang": Case("team --server {url}", asks),
    "explain reservation": Case("team --server {url}", asks),
    "explain device": Case("node-1 --server {url}", asks),
    "crds install": Case("--kubeconfig {kubeconfig}", asks),
    "crds check": Case("--kubeconfig {kubeconfig}", asks),
    "node status": Case("--server {url} --watch", asks),
    "support-bundle": Case("--file {folder}/bundle.tar.gz --kubeconfig {kubeconfig}", asks),
    "node restore": Case("--root {folder}", computes(0.2), brief=True),
}
FURTHER = {
    "check --from": Case("--from koordinator --kubeconfig {kubeconfig}", asks),
    "up --colocation": Case("--colocation --nodes 2 --speed 0 --report {folder}/report", says),
    "simulate openb --through-scheduler": Case(
        f"--nodes {NODES} --pods {PODS} --policy random --seeds 1 --through-scheduler {PROFILE}",
        keeps_results(2.0),
    ),
}
DAEMONS = {
    "koord-scheduler": Case("--kubeconfig {kubeconfig} --port 0", asks),
    "koord-manager": Case(
        "--kubeconfig {kubeconfig} --metrics-addr 127.0.0.1:0 --health-probe-addr 127.0.0.1:0",
        asks,
    ),
    "koord-webhook": Case(
        "--kubeconfig {kubeconfig} --metrics-addr 127.0.0.1:0 --health-probe-addr 127.0.0.1:0",
        asks,
    ),
    "koord-descheduler": Case("--kubeconfig {kubeconfig} --port 0", asks),
    "koordlet": Case("--kubeconfig {kubeconfig} --node-name n --addr 127.0.0.1:0 --dry-run", asks),
    "koord-runtime-proxy": Case(
        "--koord-runtimeproxy-endpoint {folder}/kubelet.sock --addr 127.0.0.1:0 "
        "--remote-runtime-service-endpoint {folder}/runtime.sock --state-dir {folder}/pods "
        "--runtime-hook-config-dir {folder}/hooks",
        listens,
    ),
}


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path)
    for name, each in (below or {}).items():
        yield from leaves(each, (*path, name))


def test_every_verb_and_every_program_is_tried() -> None:
    assert sorted(VERBS) == sorted(leaves(typer.main.get_command(main.build())))
    assert sorted(["koord", *DAEMONS]) == sorted(SCRIPTS)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    fifo, accepted = tmp_path / "fifo", []
    os.mkfifo(fifo)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    accepted.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        made = Scene(tmp_path, fifo, server, accepted)
        (tmp_path / "kubeconfig").write_text(kubeconfig.text(made.url, None))
        yield made
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    for each in accepted:
        each.close()


@contextmanager
def busy(program: str, case: Case, scene: Scene) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, at its work."""
    words = case.words.format(
        fifo=scene.fifo, url=scene.url, folder=scene.folder, kubeconfig=scene.folder / "kubeconfig"
    )
    module, _, function = SCRIPTS[program.split()[0]].partition(":")
    code = f"from {module} import {function}; {function}()"
    with (scene.folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *program.split()[1:], *words.split()],
            stdout=subprocess.PIPE, stderr=err, start_new_session=True, env=ENVIRONMENT,
        )  # fmt: skip
    try:
        end = time.monotonic() + START_SECONDS
        while not case.ready(scene, process):
            assert case.brief or process.poll() is None, (scene.folder / "err").read_text()
            assert time.monotonic() < end, "it never got to its work"
            time.sleep(0.02)
        yield process
    finally:
        for pid in in_session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def in_session(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # What ends meanwhile has an empty file.
        if fields and fields[0] not in "ZX" and int(fields[3]) == session:
            found.append(int(stat.parent.name))
    return found


def ended(process: subprocess.Popen[bytes], number: int, seconds: float) -> int:
    """Sends the signal to the process alone; gives the exit status once all of it is gone."""
    start = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=seconds)
    print(f"ended after {time.monotonic() - start:.2f} s")
    end = time.monotonic() + 5.0  # what ends when its parent has
    while in_session(process.pid):
        assert time.monotonic() < end, "it left a child"
        time.sleep(0.02)
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", [*VERBS, *FURTHER])
def test_a_verb_ends(verb: str, number: signal.Signals, scene: Scene) -> None:
    case = VERBS.get(verb) or FURTHER[verb]
    with busy(f"koord {verb.partition(' --')[0]}", case, scene) as process:
        status = ended(process, number, PEOPLE_SECONDS)
    err = (scene.folder / "err").read_text()
    assert "Traceback" not in err
    in_order = verb.startswith("up") or (verb == "node status" and number == signal.SIGINT)
    assert status == (0 if in_order else 128 + number) or (case.brief and status in (0, 1, 2)), err
    if verb.startswith("simulate"):
        assert err.splitlines()[-1].startswith("interrupted: partial result: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_ends_within_its_grace_period(
    name: str, number: signal.Signals, scene: Scene
) -> None:
    """Even where the API server has stopped answering."""
    with busy(name, DAEMONS[name], scene) as process:
        status = ended(process, number, DAEMON_SECONDS)
    err = (scene.folder / "err").read_text()
    assert "Traceback" not in err
    assert status in (0, 1), err


def test_what_a_killed_simulation_left_ends_too(scene: Scene) -> None:
    """SIGKILL cannot be handled: the second process finds out that it is alone."""
    verb = "simulate colocation"
    with busy(f"koord {verb}", VERBS[verb], scene) as process:
        assert len(in_session(process.pid)) > 1
        process.kill()
        process.wait()
        end = time.monotonic() + PEOPLE_SECONDS
        while in_session(process.pid):
            assert time.monotonic() < end
            time.sleep(0.05)


_SLOW_END = """
import os, signal, time
from koord.cli.process import signals

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(0.6)

signals.PATIENCE_SECONDS = 0.2
signals.end_by_signals()
kept = Slow()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
except KeyboardInterrupt:
    raise SystemExit(130)
"""


def test_the_timer_does_not_kill_an_interpreter_that_is_slow_to_end() -> None:
    assert subprocess.run([sys.executable, "-c", _SLOW_END]).returncode == 130
