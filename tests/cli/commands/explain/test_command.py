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

from tests.cli.conftest import Run

POD = {
    "pod": "default/p", "state": "unschedulable", "since": 0.0, "nodes": 2,
    "last": {"at": 60.0, "message": "0/2 nodes are available: 2 Insufficient cpu."},
    "filters": [
        {"plugin": "NodeResourcesFit", "nodes": 2, "first": 1,
         "reasons": {"Insufficient cpu": 1}},
    ],
    "nearest": [
        {"node": "a", "plugins": ["NodeResourcesFit"],
         "reasons": ["annotations[x]: Insufficient cpu"], "missing": {"cpu": 1500},
         "lacks": ["2 of 4 CPUs free to bind"]},
    ],
    "changes": [{"text": "ask for cpu 2, not 3500m", "nodes": 1}],
}  # fmt: skip
BOUND = {
    "pod": "default/b", "state": "bound", "since": 0.0, "nodes": 1, "node": "a", "fitting": 1,
    "best": [{"node": "a", "total": 90, "byPlugin": {"Fit": 90}}], "chosen": "a",
    "allocations": {"NodeNUMAResource": {"cpuset": "0-1"},
                    "DeviceShare": [{"type": "gpu", "minor": 0}]},
}  # fmt: skip
MEMBER = {
    "pod": "default/m", "state": "unschedulable", "since": 0.0, "nodes": 3, "fitting": 2,
    "gang": {
        "members": [{"gang": "default/g", "pods": 4, "minimum": 4, "bound": 1, "held": 0}],
        "tried": 3, "placed": 2, "missing": 1, "first": "default/n", "chosen": "a",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    },
}  # fmt: skip
GATED = {
    "pod": "default/h", "state": "gated by Coscheduling", "since": 0.0, "nodes": 1, "fitting": 1,
    "refused": "child pod not collect enough",
    "gang": {
        "members": [
            {"gang": "default/g", "pods": 1, "minimum": 3, "bound": 0, "held": 0, "lacks": 2},
            {"gang": "default/h", "pods": 0, "minimum": 0, "bound": 0, "held": 0,
             "problem": "there is neither a pod nor a PodGroup of it"},
        ],
        "refused": "memberGangs [default/h] doesn't exists",
    },
}  # fmt: skip
NODE = {
    "nodeName": "a", "pods": ["default/b"], "allocatable": {"cpu": 4000, "memory": 1 << 30},
    "requested": {"cpu": 500, "memory": 0}, "remaining": {"cpu": 3500, "memory": 1 << 30},
}  # fmt: skip
QUOTA = {
    "name": "team", "parentName": "root", "min": {"cpu": "1"},
    "max": {"cpu": "9223372036854775807m"}, "runtime": {"cpu": "2"}, "used": {"cpu": "1"},
    "request": {"cpu": "1"},
    "podCache": {"default/b": {"isAssigned": True, "resource": {"cpu": "1"}, "node": "a"}},
}  # fmt: skip
SPOILED = {"name": "shop/team", "problem": "ElasticQuota shop/team: spec.min[cpu]: got '4'"}
PODS = {
    "pods": [
        {"pod": "shop/train-0", "state": "waits on permit", "node": "gpu-1", "quota": "team",
         "devices": [{"type": "gpu", "minor": 0,
                      "resources": {"koordinator.sh/gpu-core": "100"}},
                     {"type": "gpu", "minor": 2,
                      "resources": {"koordinator.sh/gpu-core": "50"}}]},
        {"pod": "shop/train-1", "state": "unschedulable", "quota": "team",
         "message": "0/2 nodes are available: 2 Insufficient cpu."},
        {"pod": "shop/train-2", "state": "unschedulable", "quota": "team",
         "message": "0/2 nodes are available: 2 Insufficient cpu."},
    ],
    "quotas": [{"name": "team", "used": {"cpu": "1"}, "runtime": {"cpu": "2"},
                "max": {"cpu": "4"}}],
    "notShown": 2,
}  # fmt: skip
GANG = {
    "gang": "shop/train", "problem": "", "phase": "Scheduling", "minimum": 3, "mode": "Strict",
    "plan": {"members": [{"gang": "shop/train", "pods": 3, "minimum": 3, "bound": 0, "held": 1}],
             "tried": 2, "missing": 2, "first": "shop/train-1", "message": "too small."},
    **PODS,
}  # fmt: skip
RESERVATION = {
    "reservation": "later", "problem": "", "phase": "Available", "node": "a",
    "allocatable": {"cpu": "4"}, "allocated": {"cpu": "1"}, "conditions": [],
    "pods": [{"pod": "shop/web", "state": "bound", "node": "a", "reservation": "later"}],
}  # fmt: skip
ODD = {"reservation": "odd", "problem": "Reservation odd: spec.ttl: got '1hour'"}
DEVICE = {
    "node": "gpu-1", "problem": "",
    "deviceTotalDetail": {"gpu": {"0": {"koordinator.sh/gpu-core": "100"},
                                  "10": {"koordinator.sh/gpu-core": "100"}}},
    "deviceFreeDetail": {"gpu": {"0": {"koordinator.sh/gpu-core": "50"}}},
    "unhealthy": {"gpu": [10]}, "pods": PODS["pods"][:1], "quotas": [],
}  # fmt: skip
GI = 1 << 30


def _lines(*terms: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"what": what, "amount": amount} for what, amount in terms]


OFFERS = {
    "node": "a", "nowSeconds": 7200.0, "cpuSpeed": 1.2,
    "thirdParties": [{"name": "yarn", "cpuMilli": 2000, "memoryBytes": GI}],
    "applied": {"kubernetes.io/batch-cpu": _lines(("speed", 1000), ("thirdParties", -2000)),
                "kubernetes.io/batch-memory": _lines(("thirdParties", -GI)),
                "kubernetes.io/mid-cpu": [], "kubernetes.io/mid-memory": []},
    "shown": {"kubernetes.io/batch-cpu": 4000, "kubernetes.io/batch-memory": 3 * GI,
              "kubernetes.io/mid-cpu": 500, "kubernetes.io/mid-memory": 0},
    "account": {
        "node": "a", "reason": "", "message": "", "reportedSeconds": 7170.0,
        "expiresSeconds": 8070.0,
        "reserved": {"cpu": {"kubelet": 500, "annotation": 0},
                     "memory": {"kubelet": GI, "annotation": 2 * GI}},
        "batch": {
            "cpu": {
                "offered": 5000, "policy": "usage",
                "lines": _lines(("capacity", 10_000), ("margin", -3500), ("prodPods", -1500)),
                "pods": [{"pod": "default/w", "group": "prodPods", "by": "usage", "amount": 1500}],
            },
            "memory": {
                "offered": 4 * GI, "policy": "request",
                "lines": _lines(("capacity", 8 * GI), ("prodPods", -4 * GI)),
                "pods": [{"pod": "default/w", "group": "prodPods", "by": "request",
                          "amount": 4 * GI}],
            },
        },
        "mid": {"cpu": {"offered": 500, "policy": "static", "lines": _lines(("static", 500)),
                        "pods": []},
                "memory": {"offered": 0, "policy": "static", "lines": _lines(("static", 0)),
                           "pods": []}},
        "zones": [{"number": 1,
                   "cpu": {"offered": 1000, "policy": "usage", "pods": [],
                           "lines": _lines(("capacity", 4000), ("system", -3000))},
                   "memory": {"offered": 1000 * GI, "policy": "usage", "pods": [],
                              "lines": _lines(("capacity", 1000 * GI))}}],
    },
    "usage": [{"what": "LS", "cpuMilli": 1500, "memoryBytes": GI, "pods": 1,
               "requestCpuMilli": 2000, "requestMemoryBytes": 2 * GI}],
    "strategy": {"enable": True},
    "history": {"sinceSeconds": 5400.0, "steps": [
        {"seconds": 5400.0, "reason": "expired", "batchCpuMilli": 0, "batchMemoryBytes": 0,
         "midCpuMilli": 0, "midMemoryBytes": 0},
        {"seconds": 6300.0, "reason": "", "batchCpuMilli": 5000, "batchMemoryBytes": 4 * GI,
         "midCpuMilli": 500, "midMemoryBytes": 0}]},
}  # fmt: skip
SILENT = OFFERS | {
    "node": "silent", "usage": [], "history": {"sinceSeconds": None, "steps": []},
    "account": OFFERS["account"] | {  # type: ignore[operator]
        "reason": "noMetric", "message": "the node has no NodeMetric", "batch": None, "mid": None,
        "zones": [], "reportedSeconds": None, "expiresSeconds": None},
}  # fmt: skip
MOVED = {
    "name": "default/p", "node": "a", "since": 0.0, "rounds": 3,
    "counts": {"evicted": 1, "refused": 1}, "omitted": 2, "errors": ["x/Y: ValueError: z"],
    "outcomes": [
        {"round": 3, "at": 60.0, "dryRun": True, "pod": "default/p", "node": "a", "plugin": "S",
         "reason": "it is old", "result": "evicted"},
        {"round": 2, "at": 0.0, "pod": "default/p", "node": "a", "plugin": "S", "result": "refused",
         "message": "the limit"},
    ],
    "migrations": [{"job": "j", "pod": "default/p", "newPod": "q", "node": "b",
                    "phase": "Succeeded", "trigger": "koord migrate", "reason": "Complete"}],
    "verdicts": [{"profile": "x", "strategies": ["S", "T"], "refusal": "E: minReplicas"},
                 {"profile": "y"}],
}  # fmt: skip
QUIET = {"name": "a", "since": 0.0, "rounds": 1, "verdicts": [{"profile": "x"}]}
ANSWERS: dict[str, tuple[int, Any]] = {
    "/moves/apis/v1/explain/pods/default/p": (200, MOVED),
    "/moves/apis/v1/explain/pods/default/gone": (200, MOVED | {"exists": False}),
    "/moves/apis/v1/explain/nodes/a": (200, QUIET),
    "/moves/apis/v1/explain/nodes/b": (503, {"message": "the instance is not leader"}),
    "/apis/v1/explain/pods/default/p": (200, POD),
    "/apis/v1/explain/pods/default/b": (200, BOUND),
    "/apis/v1/explain/pods/default/m": (200, MEMBER),
    "/apis/v1/explain/pods/default/h": (200, GATED),
    "/apis/v1/nodes/a": (200, NODE),
    "/apis/v1/nodes/b": (200, NODE | {"nodeName": "b"}),
    "/apis/v1/explain/nodes/a": (200, OFFERS),
    "/apis/v1/explain/nodes/alone": (200, OFFERS | {"node": "alone"}),
    "/apis/v1/explain/nodes/silent": (200, SILENT),
    "/apis/v1/nodes/..%2Fx": (404, {"message": "cannot find node ../x"}),
    "/apis/v1/nodes/follower": (503, {"message": "the instance is not leader"}),
    "/apis/v1/nodes/odd": (404, None),
    "/apis/v1/explain/quotas/team": (200, QUOTA),
    "/apis/v1/explain/quotas/team?namespace=shop": (200, SPOILED),
    "/apis/v1/explain/gangs/shop/train": (200, GANG),
    "/apis/v1/explain/reservations/later": (200, RESERVATION),
    "/apis/v1/explain/reservations/odd": (200, ODD),
    "/apis/v1/explain/devices/gpu-1": (200, DEVICE),
    "/apis/v1/explain/devices/cpu-1": (200, {"node": "cpu-1", "problem": "node cpu-1 has none"}),
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
    assert "a annotations[x]: Insufficient cpu cpu 1500m, 2 of 4 CPUs free to bind" in lines
    assert lines[-1] == "One change would let it onto 1 node: ask for cpu 2, not 3500m."


def test_what_a_bound_pod_would_get(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "pod", "b", "--server", server + "/")
    assert "default/b: bound on a" in out
    assert "No attempt is remembered" in out
    assert "Now: 1 of 1 node would take it." in out
    assert "It would go to a." in out
    assert "  NodeNUMAResource: cpuset 0-1\n" in out
    assert "  DeviceShare: (type gpu, minor 0)\n" in out


def test_a_member_of_a_gang_is_told_of_the_whole(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "pod", "m", "--server", server)
    assert out.splitlines()[2:] == [
        "Now, by itself: 2 of 3 nodes would take it.",
        "",
        "Gang default/g: 4 pods; it needs 4; 1 bound, 0 holding a node.",
        "Together now: 2 of 3 pods would get a node, 1 more must.",
        "  default/n is the first that would get none: "
        "0/3 nodes are available: 3 Insufficient cpu.",
        "  This pod would go to a.",
    ]


def test_a_gated_gang_says_what_it_lacks(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "pod", "h", "--server", server)
    assert out.splitlines()[5:] == [
        "Gang default/g: 1 pod; it needs 3 and lacks 2; 0 bound, 0 holding a node.",
        "Gang default/h: 0 pods; there is neither a pod nor a PodGroup of it.",
        "The gang cannot be tried: memberGangs [default/h] doesn't exists",
    ]


def test_a_node_and_a_quota(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "node", "a", "--server", server, "--manager", server)
    lines = [line.split() for line in out.splitlines()]
    assert lines[lines.index(["scheduler"]) :] == [
        ["scheduler"], ["a:", "1", "pod"], [],
        ["RESOURCE", "ALLOCATABLE", "REQUESTED", "FREE"],
        ["cpu", "4", "500m", "3500m"],
        ["memory", "1024Mi", "0", "1024Mi"], [],
        ["POD"], ["default/b"],
    ]  # fmt: skip
    _, out, _ = koord("explain", "quota", "team", "--server", server)
    lines = [line.split() for line in out.splitlines()]
    assert ["cpu", "1", "no", "limit", "2", "1", "1"] in lines
    assert ["default/b", "a", "yes", "cpu", "1"] in lines


def test_what_a_node_offers_is_a_sum_that_adds_up(koord: Run, server: str) -> None:
    status, out, _ = koord("explain", "node", "a", "--server", server, "--manager", server)
    lines = [line.split() for line in out.splitlines()]
    assert status == 0
    for line in (
        "capacity 10 8.00", "kept free for peaks - 3.5 -", "prod pods (1) - 1.5 - 4.00",
        "= batch, raw CPU 5 4.00", "times 1.20, the CPUs' speed 1 -", "held by yarn - 2 - 1.00",
        "= shown on the node, normalised CPU 4 3.00", "counted by usage by request",
        "by the kubelet 0.5 1.00", "by the node's annotation 0 2.00",
        "= the larger of both 0.5 2.00",
        "default/w prod 1.5 used 4.00 asked for", "LS 1 1.5 1.00 2 2.00",
        "CPU cores zone 1", "capacity 4", "system - 3", "= batch 1", "memory GiB zone 1",
        "capacity 1.00", "= batch 1.00",
    ):  # fmt: skip
        assert line.split() in lines, line
    # A cell is a fiftieth of the node: what is used, what is kept free, what is offered.
    bar = next(line for line in out.splitlines() if line.startswith("CPU  ")).split()[1]
    assert [bar.count(glyph) for glyph in "▓·░"] == [8, 17, 25]
    # Of the last hour the first half is not known, the next quarter is silent.
    course = next(line for line in out.splitlines() if line.startswith("batch CPU"))
    assert (course.count("·"), course.count("█")) == (10, 11)
    assert "the last report was too old" in out


def test_a_node_that_offers_nothing_says_why(koord: Run, server: str) -> None:
    status, out, _ = koord("explain", "node", "silent", "--server", server, "--manager", server)
    assert status == 0
    assert out.splitlines()[0] == "silent  offers nothing: the node has no NodeMetric"
    assert "nothing is remembered yet" in out
    assert out.splitlines()[-1] == (
        "koord-scheduler cannot be asked: nothing at /apis/v1/nodes/silent"
    )


def test_each_part_says_when_its_component_cannot_be_asked(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "node", "b", "--server", server, "--manager", server)
    first = "b: koord-manager cannot be asked: nothing at /apis/v1/explain/nodes/b"
    assert out.splitlines()[0] == first
    assert "b: 1 pod" in out
    _, out, _ = koord("explain", "node", "alone", "--server", server, "--manager", server)
    assert out.startswith("alone  batch 4 cores, 3.00 GiB  mid 0.5 cores, 0.00 GiB")
    assert "koord-scheduler cannot be asked: nothing at /apis/v1/nodes/alone" in out


def test_a_quota_that_is_not_in_force_says_why(koord: Run, server: str) -> None:
    status, out, _ = koord("explain", "quota", "team", "-n", "shop", "--server", server)
    assert (status, out.splitlines()) == (0, [
        "shop/team",
        "What is wrong: ElasticQuota shop/team: spec.min[cpu]: got '4'.",
        "It is not in force: pods that name it are refused.",
    ])  # fmt: skip


def test_a_gang_with_its_pods_nodes_and_quotas(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "gang", "train", "-n", "shop", "--server", server)
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "gang shop/train; it needs 3, Strict; its PodGroup is Scheduling",
        "",
        "Gang shop/train: 3 pods; it needs 3; 0 bound, 1 holding a node.",
        "Together now: 0 of 2 pods would get a node, 2 more must.",
        "shop/train-1 is the first that would get none: too small.",
        "",
        "POD STATE NODE QUOTA DEVICES",
        "shop/train-0 waits on permit gpu-1 team gpu 0, gpu 2 (50%)",
        "shop/train-1 unschedulable - team -",
        "shop/train-2 unschedulable - team -",
        "and 2 pods more",
        "",
        "shop/train-1 and 1 more: 0/2 nodes are available: 2 Insufficient cpu.",
        "",
        "QUOTA RESOURCE MAX RUNTIME USED",
        "team cpu 4 2 1",
    ]


def test_a_reservation_and_one_that_cannot_be_read(koord: Run, server: str) -> None:
    # Cluster-wide kinds take a namespace, as kubectl does, and have none.
    _, out, _ = koord("explain", "reservation", "later", "-n", "shop", "--server", server)
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "reservation later: Available on a", "", "RESOURCE HELD USED", "cpu 4 1", "",
        "POD STATE NODE RESERVATION", "shop/web bound a later",
    ]  # fmt: skip
    _, out, _ = koord("explain", "reservation", "odd", "--server", server)
    assert out.splitlines() == [
        "reservation odd", "What is wrong: Reservation odd: spec.ttl: got '1hour'."
    ]  # fmt: skip


def test_the_cards_of_a_node(koord: Run, server: str) -> None:
    _, out, _ = koord("explain", "device", "gpu-1", "-n", "shop", "--server", server)
    assert koord("explain", "device", "cpu-1", "--server", server)[1] == "node cpu-1 has none.\n"
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "devices of node gpu-1", "", "TYPE MINOR HEALTHY RESOURCE ALL FREE",
        "gpu 0 yes koordinator.sh/gpu-core 100 50", "gpu 10 no koordinator.sh/gpu-core 100 0", "",
        "POD STATE NODE QUOTA DEVICES",
        "shop/train-0 waits on permit gpu-1 team gpu 0, gpu 2 (50%)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("pod", "p"), POD),
        (("pod", "m"), MEMBER),
        (
            ("node", "b"),
            {
                "manager": None,
                "scheduler": NODE | {"nodeName": "b"},
                "problems": {"manager": "nothing at /apis/v1/explain/nodes/b"},
            },
        ),
        (("quota", "team"), QUOTA),
    ],
)
def test_json_is_the_answer_itself(
    koord: Run, server: str, words: tuple[str, ...], answer: Any
) -> None:
    manager = ("--manager", server) if words[0] == "node" else ()
    status, out, _ = koord("explain", *words, "--server", server, *manager, "-o", "json")
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


def test_who_is_asked_and_does_not_answer_is_named(koord: Run) -> None:
    status, out, err = koord("explain", "pod", "p", "--server", "http://127.0.0.1:1")
    assert (status, out) == (1, "")
    assert err.startswith("error: http://127.0.0.1:1: cannot be reached from here (")
    assert err.count("\n") == 1


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


def test_a_pod_with_what_the_descheduler_did(koord: Run, server: str) -> None:
    words = ("explain", "pod", "p", "--server", server, "--descheduler", f"{server}/moves")
    status, out, err = koord(*words)
    assert (status, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "default/p: unschedulable"
    lines = lines[lines.index("descheduler") + 1 :]
    assert lines[0].startswith("In 3 rounds since ")
    assert lines[0].endswith(": evicted 1, refused 1.")
    assert lines[1] == "The last round: x/Y: ValueError: z"
    assert [line.split(maxsplit=1)[1] for line in lines[4:6]] == [
        "would go a S it is old", "refused a S the limit",
    ]  # fmt: skip
    assert lines[6:] == [
        "and 2 more, earlier", "",
        "Migration j of default/p: Succeeded, to b, as q, asked for by koord migrate (Complete).",
        "Profile x (S, T): kept: E: minReplicas.",
        "Profile y (no strategy): may go, if a strategy wants it to.",
    ]  # fmt: skip
    _, out, _ = koord(*words, "-o", "json")
    assert json.loads(out)["moves"] == MOVED


def test_a_pod_that_is_gone_is_still_told_of(koord: Run, server: str) -> None:
    words = ("explain", "pod", "gone", "--server", server, "--descheduler", f"{server}/moves")
    status, out, _ = koord(*words)
    assert status == 0
    assert out.startswith("koord-scheduler: nothing at ")
    assert "It is gone." in out
    # Where neither knows it, the scheduler's words are the answer.
    words = ("explain", "pod", "never", "--server", server, "--descheduler", f"{server}/moves")
    status, out, err = koord(*words)
    assert (status, out) == (2, "")
    assert "nothing at /apis/v1/explain/pods/default/never" in err


def test_a_node_with_what_the_descheduler_did(koord: Run, server: str) -> None:
    ask = ("--server", server, "--manager", server, "--descheduler", f"{server}/moves")
    _, out, _ = koord("explain", "node", "a", *ask)
    assert out.splitlines()[-2:] == [
        out.splitlines()[-2], "Profile x (no strategy): looked at.",
    ]  # fmt: skip
    assert "no strategy wanted a pod of it to go." in out
    _, out, _ = koord("explain", "node", "b", *ask)
    assert "koord-descheduler cannot be asked: the instance is not leader" in out
