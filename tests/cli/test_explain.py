# SPDX-License-Identifier: Apache-2.0
"""``koord explain``: what it asks, what it shows, how it fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

POD = {
    "pod": "default/p", "state": "unschedulable", "since": 0.0, "nodes": 2,
    "last": {"at": 60.0, "message": "0/2 nodes are available: 2 Insufficient cpu."},
    "filters": [
        {"plugin": "NodeResourcesFit", "nodes": 2, "first": 1,
         "reasons": {"Insufficient cpu": 1}},
    ],
    "nearest": [
        {"node": "a", "plugins": ["NodeResourcesFit"],
         "reasons": ["annotations[x]: Insufficient cpu"], "missing": {"cpu": 1500}},
    ],
    "changes": [{"text": "ask for cpu 2, not 3500m", "nodes": 1}],
}  # fmt: skip
BOUND = {
    "pod": "default/b", "state": "bound", "since": 0.0, "nodes": 1, "node": "a", "fitting": 1,
    "best": [{"node": "a", "total": 90, "byPlugin": {"Fit": 90}}], "chosen": "a",
    "allocations": {"NodeNUMAResource": {"cpuset": "0-1"},
                    "DeviceShare": [{"type": "gpu", "minor": 0}]},
}  # fmt: skip
NODE = {
    "nodeName": "a", "pods": ["default/b"], "allocatable": {"cpu": 4000, "memory": 1 << 30},
    "requested": {"cpu": 500, "memory": 0}, "remaining": {"cpu": 3500, "memory": 1 << 30},
}  # fmt: skip
QUOTA = {
    "name": "team", "parentName": "root", "min": {"cpu": "1"},
    "max": {"cpu": "9223372036854775807m"}, "runtime": {"cpu": "2"}, "used": {"cpu": "1"},
    "request": {"cpu": "1"},
    "podCache": {"default/b": {"isAssigned": True, "resource": {"cpu": "1"}}},
}  # fmt: skip
ANSWERS: dict[str, tuple[int, Any]] = {
    "/apis/v1/explain/pods/default/p": (200, POD),
    "/apis/v1/explain/pods/default/b": (200, BOUND),
    "/apis/v1/nodes/a": (200, NODE),
    "/apis/v1/nodes/..%2Fx": (404, {"message": "cannot find node ../x"}),
    "/apis/v1/nodes/follower": (503, {"message": "the instance is not leader"}),
    "/apis/v1/nodes/odd": (404, None),
    "/apis/v1/plugins/ElasticQuota/quotas/team": (200, QUOTA),
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = ANSWERS.get(self.path, (404, {"message": f"nothing at {self.path}"}))
        data = b"<html>" if self.path.endswith("/html") else json.dumps(body).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Something that answers as a scheduler does."""
    with HTTPServer(("127.0.0.1", 0), _Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def test_a_pod_that_fits_nowhere(koord: Run, server: str) -> None:
    status, out, err = koord("explain", "pod", "p", "--server", server)
    assert (status, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "default/p: unschedulable"
    assert lines[1].endswith(": 0/2 nodes are available: 2 Insufficient cpu.")
    assert "Now: 0 of 2 nodes would take it." in lines
    assert "NodeResourcesFit 2 1 1 Insufficient cpu" in lines
    # Brackets are text, not markup.
    assert "a annotations[x]: Insufficient cpu cpu 1500m" in lines
    assert lines[-1] == "One change would let it onto 1 node: ask for cpu 2, not 3500m."


def test_what_a_bound_pod_would_get(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "pod", "b", "--server", server + "/")
    assert "default/b: bound on a" in out
    assert "No attempt is remembered" in out
    assert "Now: 1 of 1 node would take it." in out
    assert "It would go to a." in out
    assert "  NodeNUMAResource: cpuset 0-1\n" in out
    assert "  DeviceShare: (type gpu, minor 0)\n" in out


def test_a_node_and_a_quota(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "node", "a", "--server", server)
    assert [line.split() for line in out.splitlines()] == [
        ["a:", "1", "pod"], [],
        ["RESOURCE", "ALLOCATABLE", "REQUESTED", "FREE"],
        ["cpu", "4", "500m", "3500m"],
        ["memory", "1024Mi", "0", "1024Mi"], [],
        ["POD"], ["default/b"],
    ]  # fmt: skip
    _, out, _ = koord("explain", "quota", "team", "--server", server)
    lines = [line.split() for line in out.splitlines()]
    assert ["cpu", "1", "no", "limit", "2", "1", "1"] in lines
    assert ["default/b", "yes", "cpu", "1"] in lines


@pytest.mark.parametrize(
    ("words", "answer"),
    [(("pod", "p"), POD), (("node", "a"), NODE), (("quota", "team"), QUOTA)],
)
def test_json_is_the_answer_itself(
    koord: Run, server: str, words: tuple[str, ...], answer: Any
) -> None:
    status, out, _ = koord("explain", *words, "--server", server, "-o", "json")
    assert (status, json.loads(out)) == (0, answer)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("node", "../x"), 2, "error: cannot find node ../x"),
        (("node", "follower"), 1, "error: the instance is not leader"),
        (("node", "odd"), 2, "error: {server}: HTTP status 404"),
        (("node", "html"), 1, "error: {server}: this is not koord-scheduler that answers"),
        (("node", ".."), 2, "error: NAME: got '..', expected the name of an object"),
        (("pod", ""), 2, "error: NAME: got '', expected the name of an object"),
    ],
)
def test_a_failure_is_one_line(
    koord: Run, server: str, words: tuple[str, ...], status: int, message: str
) -> None:
    found, out, err = koord("explain", *words, "--server", server)
    assert (found, out, err) == (status, "", message.format(server=server) + "\n")


def test_nobody_there(koord: Run, tmp_path: Path) -> None:
    status, _, err = koord("explain", "pod", "p", "--server", "http://127.0.0.1:1")
    assert status == 1
    assert err.startswith("error: http://127.0.0.1:1: ")
    assert err.count("\n") == 1
    status, _, err = koord("explain", "pod", "p", "--server", "localhost")
    assert status == 2
    assert "expected a URL such as" in err
    status, _, err = koord("explain", "pod", "p", "--kubeconfig", tmp_path / "none")
    assert status == 2
    assert err.count("\n") == 1
