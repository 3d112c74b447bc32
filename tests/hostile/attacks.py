# SPDX-License-Identifier: Apache-2.0
"""What a tenant with one namespace can throw at a cluster, drawn with a seed.

Every attack sends a bounded number of requests of a bounded size and takes any answer: a refusal is
as good as an acceptance. What it may not do is told by those who look at the others meanwhile.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from tests.contract.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Api, Document, at

SCHEDULER = "koord-scheduler"
_QUOTAS = "scheduling.sigs.k8s.io/v1alpha1/elasticquotas"
_GANGS = "scheduling.sigs.k8s.io/v1alpha1/podgroups"
_RESERVATIONS = "scheduling.koordinator.sh/v1alpha1/reservations"
_REQUEST_ERRORS = (OSError, http.client.HTTPException)
_PODS_AT_MOST = 60
_PENDING_PODS, _PENDING_CLIENTS, _PENDING_CPUS = 200, 4, 1000


class Tenant:
    """A namespace and who attacks from it.

    Args:
        seed: of everything drawn.
        connect: a fresh connection to the API server.
        address: port and trust, for connections that are no requests.
        crowds: it may open many connections at once as well. How kube-apiserver shares itself is
            not koord's, and on two cores with it there is nothing left for anybody.
    """

    def __init__(
        self,
        seed: int,
        connect: Callable[[], Api],
        address: tuple[int, ssl.SSLContext],
        namespace: str = "mallory",
        *,
        crowds: bool = True,
    ) -> None:
        self.attacks = [each for each in ATTACKS if crowds or each is not many_connections]
        self.random = random.Random(seed)
        self.namespace = namespace
        self.connect = connect
        self._port, self._tls = address
        self.api = connect()
        self.api.post(at("namespaces"), _object("Namespace", namespace))
        self._left: list[Callable[[Tenant], None]] = []
        self._pods: list[str] = []
        self._sockets: list[socket.socket] = []
        self._number = 0

    def attack(self) -> str:
        """One attack, drawn among those not made since all were; gives its name."""
        self._left = self._left or self.random.sample(self.attacks, len(self.attacks))
        attack = self._left.pop()
        try:
            attack(self)
        except _REQUEST_ERRORS:
            # Refused by closing the connection: fine too.
            self.api.close()
        return attack.__name__

    def close(self) -> None:
        """Takes everything back."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()
        self.api.delete(at("pods", self.namespace), {"gracePeriodSeconds": 0})
        self._pods.clear()
        for plural in (_QUOTAS, _GANGS, "configmaps"):
            self.api.delete(at(plural, self.namespace))
        self.api.close()

    def name(self) -> str:
        """One not used before."""
        self._number += 1
        return f"m-{self._number}"

    def pod(self, spec: Document | None = None, **metadata: Any) -> str:
        """Creates a pod; the oldest ones go when there are too many."""
        name = self.name()
        container = {
            "name": "c",
            "image": f"image-{name}",
            "resources": {"requests": {"cpu": "1m"}},
        }
        body = _object(
            "Pod",
            name,
            spec={"schedulerName": SCHEDULER, "containers": [container], **(spec or {})},
        )
        body["metadata"].update(metadata)
        if self.api.post(at("pods", self.namespace), body).code < http.HTTPStatus.BAD_REQUEST:
            self._pods.append(name)
        while len(self._pods) > _PODS_AT_MOST:
            old = self._pods.pop(0)
            self.api.delete(at("pods", self.namespace, old), {"gracePeriodSeconds": 0})
        return name

    def any_pod(self) -> str:
        """One of the tenant's."""
        return self.random.choice(self._pods) if self._pods else self.pod()

    def words(self, count: int) -> list[str]:
        """Names that nobody has used."""
        return [f"w{self.random.getrandbits(48):x}" for _ in range(count)]

    def hold(self, sent: bytes, *, encrypted: bool) -> None:
        """A connection that says so much and then nothing."""
        raw = socket.create_connection(("127.0.0.1", self._port), timeout=5)
        held = self._tls.wrap_socket(raw, server_hostname="127.0.0.1") if encrypted else raw
        held.sendall(sent)
        self._sockets.append(held)
        while len(self._sockets) > 200:
            self._sockets.pop(0).close()


def _object(kind: str, name: str, **rest: Any) -> Document:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **rest}


def resource_names(tenant: Tenant) -> None:
    """Thousands of resources that no node has."""
    amounts = {f"example.com/{word}": "1" for word in tenant.words(4000)}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    tenant.pod({"containers": [container]})


def labels_and_values(tenant: Tenant) -> None:
    """Pods whose labels, images, priorities and selectors are all new."""
    for _ in range(10):
        words = tenant.words(40)
        selector = {words[0]: words[1]}
        tenant.pod(
            {"nodeSelector": selector if tenant.random.random() < 0.5 else {}},
            labels=dict(zip(words[2::2], words[3::2], strict=True)),
        )


def affinity_terms(tenant: Tenant) -> None:
    """Hundreds of affinity terms and preferred ones."""
    count = tenant.random.choice([100, 800, 1500])
    terms = [
        {
            "weight": 1 + number % 100,
            "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]},
        }
        for number, key in enumerate(tenant.words(count))
    ]
    apart = [
        {"labelSelector": {"matchLabels": {key: "x"}}, "topologyKey": key}
        for key in tenant.words(count // 2)
    ]
    node = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": apart}
    tenant.pod({"affinity": {"nodeAffinity": node, "podAntiAffinity": anti}})


def tolerations_and_ports(tenant: Tenant) -> None:
    """Thousands of tolerations and host ports."""
    tolerations = [{"key": key, "operator": "Exists"} for key in tenant.words(5000)]
    ports = [{"containerPort": 1 + n, "hostPort": 1 + n} for n in range(3000)]
    tenant.pod(
        {"tolerations": tolerations, "containers": [{"name": "c", "image": "i", "ports": ports}]}
    )


def containers(tenant: Tenant) -> None:
    """Thousands of containers."""
    many = [{"name": f"c{number}", "image": "i"} for number in range(5000)]
    tenant.pod({"containers": many})


def json_patch_copies(tenant: Tenant) -> None:
    """Copies of copies."""
    name = tenant.name()
    tenant.api.post(
        at("configmaps", tenant.namespace), _object("ConfigMap", name, data={"a": "x" * 500})
    )
    copies = [
        {"op": "copy", "from": "/metadata/annotations", "path": f"/metadata/annotations/k{n}"}
        for n in range(40)
    ]
    first = {"op": "add", "path": "/metadata/annotations", "value": {"a": "x" * 100}}
    tenant.api.patch(at("configmaps", tenant.namespace, name), [first, *copies], JSON_PATCH)


@cache
def _packed() -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    spaces = b" " * (1 << 20)
    return b"".join([*(packer.compress(spaces) for _ in range(300)), packer.flush()])


def packed_bodies(tenant: Tenant) -> None:
    """300 MB in 300 KB."""
    headers = {"Content-Encoding": "gzip"}
    tenant.api.call("POST", at("configmaps", tenant.namespace), _packed(), headers=headers)


def deep_documents(tenant: Tenant) -> None:
    """Brackets in brackets, aliases of aliases."""
    depth = tenant.random.choice([1_000, 100_000])
    path = at("configmaps", tenant.namespace)
    tenant.api.call("POST", path, b'{"a":' * depth + b"1" + b"}" * depth)
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    tenant.api.call(
        "PATCH", f"{path}/{tenant.name()}", "\n".join(lines).encode(),
        content=APPLY_PATCH, fieldManager="m",
    )  # fmt: skip


def shared_applies(tenant: Tenant) -> None:
    """Several managers of one large object."""
    name = tenant.name()
    data = dict.fromkeys(tenant.words(4000), "x" * 40)
    for manager in ("one", "two", "three"):
        body = _object("ConfigMap", name, data=data)
        tenant.api.apply(at("configmaps", tenant.namespace, name), body, manager, force=True)


def forged_tokens(tenant: Tenant) -> None:
    """Continue tokens, versions and selectors that nobody gave out."""
    pods = at("pods", tenant.namespace)
    tenant.api.get(pods, **{"continue": "A" * tenant.random.choice([10, 30_000]), "limit": 1})
    tenant.api.get(pods, resourceVersion="9" * 400)
    tenant.api.get(pods, labelSelector=",".join(f"{w}!=x" for w in tenant.words(1500)))
    tenant.api.get(pods, labelSelector="((((((((")


def many_connections(tenant: Tenant) -> None:
    """Small requests over dozens of connections, all at once and without a pause."""

    def ask(number: int, api: Api) -> None:
        try:
            for step in range(6):
                name = f"many-{number}-{step}"
                api.get(at("pods", tenant.namespace))
                path = at("configmaps", tenant.namespace)
                api.post(path, _object("ConfigMap", name))
                api.delete(f"{path}/{name}")
        except _REQUEST_ERRORS:
            pass  # Refused by closing the connection: fine too.
        finally:
            api.close()

    clients = [tenant.connect() for _ in range(30)]
    with ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(ask, range(len(clients)), clients))


def idle_connections(tenant: Tenant) -> None:
    """Connections that say half of something, and watches that nobody reads."""
    for _ in range(30):
        tenant.hold(b"\x16\x03\x01", encrypted=False)
    request = f"GET {at('pods', tenant.namespace)}?watch=true HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    for _ in range(5):
        tenant.hold(request.encode(), encrypted=True)


def forged_annotations(tenant: Tenant) -> None:
    """Protocol annotations of bound pods, written later."""
    devices = {
        "gpu": [{"minor": n, "resources": {"koordinator.sh/gpu-core": "100"}} for n in range(500)]
    }
    forged = {
        "scheduling.koordinator.sh/device-allocated": json.dumps(devices),
        "scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": "0-100000"}),
        "scheduling.koordinator.sh/reservation-allocated": json.dumps({"name": "x", "uid": "y"}),
        "gang.scheduling.koordinator.sh/name": "z" * 200,
        "gang.scheduling.koordinator.sh/min-available": "999999999999",
        "koordinator.sh/networkQOS": "[" * 5000,
        "node.koordinator.sh/resource-amplification-ratio": '{"cpu": 1e308}',
    }
    for _ in range(5):
        chosen = {key: forged[key] for key in forged if tenant.random.random() < 0.7}
        labels = {"quota.scheduling.koordinator.sh/name": tenant.name()}
        body = {"metadata": {"annotations": chosen, "labels": labels}}
        tenant.api.patch(at("pods", tenant.namespace, tenant.any_pod()), body, MERGE_PATCH)


def gangs(tenant: Tenant) -> None:
    """Gangs of a billion, and of names that nobody else has."""
    for _ in range(20):
        name = tenant.name()
        body = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": tenant.random.choice([-5, 0, 3, 2**31 - 1])},
        }
        tenant.api.post(at(_GANGS, tenant.namespace), body)
        tenant.pod(labels={"pod-group.scheduling.sigs.k8s.io": name})


def quotas(tenant: Tenant) -> None:
    """Quotas that are their own parents, larger than anything, less than nothing."""
    for _ in range(20):
        name = tenant.name()
        amount = tenant.random.choice(["1e30", "-5", "9223372036854775807", "0", "1n"])
        body = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": name, "labels": {"quota.scheduling.koordinator.sh/parent": name}},
            "spec": {"min": {"cpu": amount}, "max": {"cpu": "1"}},
        }
        tenant.api.post(at(_QUOTAS, tenant.namespace), body)


def pending_pods(tenant: Tenant) -> None:
    """Hundreds of pods that no node has room for, each of its own size; they stay."""

    def create(first: int, api: Api) -> None:
        for number in range(first, _PENDING_PODS, _PENDING_CLIENTS):
            amounts = {"cpu": f"{_PENDING_CPUS + number}"}
            container = {"name": "c", "image": "i", "resources": {"requests": amounts}}
            spec = {"schedulerName": SCHEDULER, "containers": [container]}
            api.post(at("pods", tenant.namespace), _object("Pod", f"pending-{number}", spec=spec))
        api.close()

    clients = [tenant.connect() for _ in range(_PENDING_CLIENTS)]
    with ThreadPoolExecutor(_PENDING_CLIENTS) as threads:
        list(threads.map(create, range(_PENDING_CLIENTS), clients))


def absurd_amounts(tenant: Tenant) -> None:
    """Numbers at and beyond what fits."""
    for amount in ("9223372036854775807", "1e18", "0.0000001n", "-1", "1E", "٣", "9" * 500):
        requests = {"cpu": amount, "memory": amount, "koordinator.sh/gpu": amount}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        tenant.pod({"containers": [container]})


def odd_requests(tenant: Tenant) -> None:
    """Paths, methods and headers that no client sends."""
    for path in ("/api/v1/../../etc/passwd", "/%2e%2e/%2e%2e", "/api/v1/" + "a" * 60_000, "//"):
        tenant.api.call("GET", path)
    tenant.api.call("GET", "/api", headers={f"X-{n}": "y" * 100 for n in range(90)})
    tenant.api.call("DELETE", at("pods", tenant.namespace, "none"), b"\x00\xff\xfe")


ATTACKS: list[Callable[[Tenant], None]] = [
    resource_names, labels_and_values, affinity_terms, tolerations_and_ports, containers,
    json_patch_copies, packed_bodies, deep_documents, shared_applies, forged_tokens,
    idle_connections, many_connections, forged_annotations, gangs, quotas, absurd_amounts,
    odd_requests, pending_pods,
]  # fmt: skip
