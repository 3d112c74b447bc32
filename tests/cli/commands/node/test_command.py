# SPDX-License-Identifier: Apache-2.0
"""``koord node``: a bare machine, an agent that answers, and files put back."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from koord.agent.executor.claim import Claim
from koord.agent.executor.startup import open_executor
from koord.base.clock import VirtualClock
from koord.cli.commands.node import status_text
from koord.cli.terminal.output import stdout
from tests.agent.machine_tree import Group, MachineTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Run = "Callable[..., tuple[int, str, str]]"
POD = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice"
CONTAINER = f"{POD}/cri-containerd-abc.scope"

RUNTIME: dict[str, Any] = {
    "way": "NRI", "socket": "/var/run/nri/nri.sock", "connected": True, "synchronized": True,
    "runtime": "containerd 2.4.2", "connections": 1, "error": "", "unknownPods": 2,
    "lastUnknownPod": "d/late",
    "calls": [{"method": "CreateContainer", "count": 7, "failures": 1, "at": "2026-01-01T00:00:00Z",
               "tookMilliseconds": 1.25, "error": "RuntimeError: bug"}],
    "missingOnHost": 3, "lastMissingOnHost": "/usr/local/vgpu/libvgpu.so",
    "hookServer": {
        "socket": "/var/run/koordlet/koordlet.sock", "serving": True, "stepsAside": True,
        "stages": ["PreCreateContainer"], "error": "", "unknownPods": 1, "lastUnknownPod": "d/new",
        "calls": [{"method": "PreCreateContainer", "count": 2, "failures": 0,
                   "at": "2026-01-01T00:00:01Z", "tookMilliseconds": 0.5, "error": ""}],
    },
}  # fmt: skip
STATUS: dict[str, Any] = {
    "node": "n1",
    "time": "2026-01-01T00:00:00Z",
    "ready": True,
    "dryRun": True,
    "machine": {
        "cgroups": "v2", "driver": "systemd", "kubepods": "kubepods.slice", "cpus": 16,
        "cores": 8, "sockets": 2, "numaNodes": None, "threadsPerCore": 2,
        "memoryBytes": 64 * 2**30,
        "features": {"cpu burst": {"there": True, "why": ""},
                     "resctrl": {"there": False, "why": "the flags lack cat_l3"}},
    },
    "states": {"node": {"seen": True, "ageSeconds": 1.5}, "slo": {"seen": False}},
    "collectors": [{"name": "node", "intervalSeconds": 1.0, "lastGoodSeconds": 0.5, "error": ""},
                   {"name": "gpu", "intervalSeconds": 1.0, "lastGoodSeconds": None,
                    "error": "the driver went away"}],
    "usage": {"nodeCpuCores": 8.0, "nodeMemoryBytes": 32 * 2**30, "systemCpuCores": 0.5,
              "bestEffortMilli": {"usage": 2000.0, "request": 4000.0, "real-limit": 4000.0}},
    "pods": [{"pod": "d/idle", "qos": "LS", "cpuCores": None, "memoryBytes": None, "cgroup": "a"},
             {"pod": "d/busy", "qos": "BE", "cpuCores": 2.0, "memoryBytes": 2.0**30,
              "cgroup": "b"}],
    "strategies": [{"name": "cpusuppress", "at": "", "error": "",
                    "decided": {"allowed_milli": 4000, "why": {"margin": 0.35}}},
                   {"name": "cpuburst", "at": "", "error": "no NodeSLO", "decided": {}}],
    "files": [{"subject": "d/busy main", "resource": "cpu.cfs_quota_us", "directory": "b",
               "value": "400000",
               "claims": ["cpusuppress (quota): CAP 400000: room"]}],
    "failures": [{"subject": "kubepods", "resource": "cpu.idle", "directory": "x",
                  "attempts": 3, "error": "[Errno 16] busy"}],
    "unsupported": ["memory.min"],
    "hookProblems": [{"hook": "Resctrl", "scope": "node", "error": "no room"}],
    "parts": [{"name": "topology", "running": 1, "failures": 7, "error": "TypeError: odd",
               "lastFailureSeconds": 2.0},
              {"name": "hooks", "running": 1, "failures": 1, "error": "",
               "lastFailureSeconds": 99.0}],
    "runtime": RUNTIME,
    "writes": [{"at_seconds": "2026-01-01T00:00:00Z", "what": "planned", "subject": "d/busy",
                "resource": "cpu.idle", "directory": "b",
                "value": "1", "why": "GroupIdentity: class"}],
    "memory": {"series": 3, "seriesBytes": 100},
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    made = MachineTree(tmp_path)
    made.group(POD, Group(usage_ns=5, anon=2**30))
    made.group(CONTAINER, Group(usage_ns=5, anon=2**30))
    return made


@pytest.fixture
def agent() -> Iterator[str]:
    """Something that answers as koordlet does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/status"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(STATUS).encode() if found else b"")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_bare_machine_is_looked_at(koord: Any, tree: MachineTree) -> None:
    status, text, error = koord("node", "status", "--root", tree.root)
    assert (status, error) == (0, "")
    first, second, *rest = text.splitlines()
    assert first == "no koordlet answers here; the machine itself"
    assert second.startswith(
        "4 CPUs, 4 cores, 2 sockets, 2 NUMA nodes, 16.0 GiB; cgroup v1, systemd"
    )
    assert any(line.startswith("resctrl") and " no " in line for line in rest)
    assert any(line.startswith("1-2 ") and POD in line for line in rest)


def test_a_bare_machine_for_scripts(koord: Any, tree: MachineTree) -> None:
    status, text, _ = koord("node", "status", "--root", tree.root, "-o", "json")
    found = json.loads(text)
    assert (status, found["agent"]) == (0, False)
    assert found["machine"]["memoryBytes"] == 16 * 2**30
    (pod,) = found["pods"]
    assert (pod["pod"], pod["qos"], pod["memoryBytes"]) == ("1-2", "BestEffort", 2.0**30)


def test_the_way_hooks_come_is_shown(koord: Any, agent: str) -> None:
    lines = koord("node", "status", "--server", agent)[1].splitlines()
    start = lines.index("container runtime")
    head, columns, call, failure, unknown = lines[start + 1 : start + 6]
    assert head == "hooks come by NRI  containerd 2.4.2"
    assert columns.split() == ["CALL", "COUNT", "FAILED", "LAST", "TOOK"]
    assert call.split() == ["CreateContainer", "7", "1", "2026-01-01T00:00:00Z", "1.25", "ms"]
    assert failure == "CreateContainer failed last: RuntimeError: bug"
    assert unknown == "pods not known in time: 2, last d/late"
    server, _, call, unknown, left_out = lines[start + 6 : start + 11]
    assert server == (
        "hook server /var/run/koordlet/koordlet.sock  answers change nothing: NRI serves"
    )
    assert call.split() == ["PreCreateContainer", "2", "0", "2026-01-01T00:00:01Z", "0.5", "ms"]
    assert unknown == "pods not known in time: 1, last d/new"
    assert left_out == "left out, for the host lacks it: 3, last /usr/local/vgpu/libvgpu.so"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"serving": True, "stepsAside": False, "calls": RUNTIME["calls"]}, "serves a proxy"),
        ({"serving": True, "stepsAside": False, "calls": []}, "no proxy has called yet"),
        ({"serving": False, "error": "no proxy is there"}, "not served: no proxy is there"),
    ],
)
def test_a_hook_server_that_serves_or_does_not(
    server: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"socket": "/k.sock", "error": "", **server}
    runtime = {"way": "hook server", "socket": "/n.sock", "error": "none", "hookServer": told}
    stdout().print(status_text.page({**STATUS, "runtime": runtime}), soft_wrap=True)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    start = lines.index("container runtime")
    assert lines[start + 1] == "hooks come by hook server  no NRI: /n.sock: none"
    assert lines[start + 2] == f"hook server /k.sock  {said}"


def test_an_agent_is_asked(koord: Any, agent: str) -> None:
    status, text, _ = koord("node", "status", "--server", agent)
    assert status == 0
    assert text.splitlines()[0] == (
        "koordlet of n1  ready  dry run: nothing is written  2026-01-01T00:00:00Z"
    )
    assert json.loads(koord("node", "status", "--server", agent, "-o", "json")[1]) == STATUS


def test_a_node_that_was_deleted_is_said_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    gone = {"seen": True, "ageSeconds": 1.5, "gone": True}
    states = {"node": gone, "slo": {"seen": True, "ageSeconds": 2.5}}
    stdout().print(status_text.page({**STATUS, "states": states}), soft_wrap=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "koordlet of n1  ready  no Node of that name is in the cluster any more  dry run"
    )
    said = [line.split(maxsplit=1) for line in lines if line.startswith(("node ", "slo "))]
    assert [words[1].strip() for words in said[:2]] == [
        "gone from the cluster; what it said last stays in force",
        "2.5 s ago",
    ]


def test_the_page_has_everything_that_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    stdout().print(status_text.page(STATUS), soft_wrap=True)
    text = capsys.readouterr().out
    for told in (
        "? NUMA nodes", "50 %  8.00 of 16.0 cores", "2.00 of 4.0 cores", "the flags lack cat_l3",
        "slo", "not seen", "the driver went away", "allowed_milli 4000, why (margin 0.35)",
        "no NodeSLO", "cpusuppress (quota): CAP 400000: room", "[Errno 16] busy", "no room",
        "topology (failed 7 times)", "TypeError: odd",
        "GroupIdentity: class", "memory.min", "d/busy main  cpu.cfs_quota_us",
    ):  # fmt: skip
        assert told in text, told
    # The busiest pod comes first.
    assert text.index("d/busy") < text.index("d/idle")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--watch", "-o", "json"], "error: --watch: got 'with -o json', expected one of the two"),
        (["--server", "x"], "error: --server: got 'x', expected http://HOST:PORT"),
        (["--server", "http://"], "error: --server: got 'http://', expected http://HOST:PORT"),
        (
            ["--root", "/nowhere"],
            "error: --root: got '/nowhere', expected a directory that holds a machine's files:"
            " proc, sys and so on",
        ),
        (["--every", "5s"], "error: --every: got '5s', expected --watch beside it"),
        (
            ["--alone", "--server", "http://127.0.0.1:1"],
            "error: --server: got 'http://127.0.0.1:1', expected none beside --alone",
        ),
    ],
)
def test_what_cannot_be_meant(koord: Any, words: list[str], message: str) -> None:
    status, text, error = koord("node", "status", *words)
    assert (status, text) == (2, "")
    assert message in error
    assert error.count("\n") == 1


def test_who_was_named_and_does_not_answer_is_no_bare_machine(koord: Any) -> None:
    """The figures of this machine would pass for those of the one that was asked for."""
    assert koord("node", "status", "--server", "http://127.0.0.1:1") == (
        1,
        "",
        "error: --server: got 'http://127.0.0.1:1', expected a koordlet that answers (Connection"
        " refused)\n",
    )
    status, _, error = koord("node", "status", "--server", "http://127.0.0.1:99999")
    assert (status, error.count("\n")) == (1, 1)


def test_another_program_is_no_koordlet(koord: Any, agent: str) -> None:
    STATUS["machine"], machine = None, STATUS["machine"]
    try:
        found = koord("node", "status", "--server", agent)
    finally:
        STATUS["machine"] = machine
    told = f"error: {agent}/status: got 'the status of another program', expected that of a"
    assert found == (2, "", f"{told} koordlet\n")


def test_lines_end_where_their_text_does(koord: Any, agent: str) -> None:
    """In a terminal of 80 columns spaces up to the 100th would be a line of their own."""
    _, text, _ = koord("node", "status", "--server", agent)
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_journal_that_is_not_there_is_said(koord: Any, tree: MachineTree) -> None:
    assert koord("node", "restore", "--root", tree.root, "--state-dir", "/no/such") == (
        2,
        "",
        "error: --state-dir: got '/no/such', expected the directory that koordlet had, if any\n",
    )


def test_files_are_put_back(koord: Any, tree: MachineTree) -> None:
    words = ("node", "restore", "--root", tree.root)
    assert koord(*words) == (0, "nothing to put back\n", "")
    executor = open_executor(tree.machine(), VirtualClock())
    executor.state("cpusuppress", "quota", [Claim("cpu.cfs_quota_us", tree.tier, 200_000, "room")])
    executor.settle()
    file = tree.root / "sys/fs/cgroup/cpu" / tree.tier / "cpu.cfs_quota_us"
    assert file.read_text().strip() == "200000"
    status, text, _ = koord(*words)
    assert (status, "to do" in text) == (0, True)
    assert file.read_text().strip() == "200000"
    status, text, _ = koord(*words, "--yes", "-o", "json")
    (deed,) = json.loads(text)
    assert (status, deed["value"], deed["outcome"]) == (0, "-1", "done")
    assert file.read_text().strip() == "-1"
    assert koord(*words)[1] == "nothing to put back\n"
