# SPDX-License-Identifier: Apache-2.0
"""kubectl's sessions come out alike on both servers: 1.32 and 1.35."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
import yaml

from tests.contract.api import Document, at
from tests.contract.clients.kubectl import Pair
from tests.contract.conftest import Server, running_server
from tests.contract.documents import (
    budget,
    config_map,
    container,
    deployment,
    document,
    lease,
    node,
    pod,
    priority_class,
    service,
    template,
    workload,
)
from tests.controlplane.schema.client_bodies import COMMANDS
from tests.real.fixtures import need

pytestmark = pytest.mark.real
PROGRAMS = ("kubectl", "kubectl-1.32")
CLUSTER_WIDE = ("namespace", "priorityclass", "clusterrole", "clusterrolebinding")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """The embedded and the real server, both without controllers."""
    need(*PROGRAMS)
    with (
        running_server("embedded", False, tmp_path_factory.mktemp("embedded")) as embedded,
        running_server("real", False, tmp_path_factory.mktemp("real")) as real,
    ):
        yield [embedded, real]


@pytest.fixture(params=PROGRAMS)
def both(
    request: pytest.FixtureRequest, servers: list[Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """kubectl in a fresh namespace of the same name on both."""
    namespace = f"session-{next(_numbers)}"
    for server in servers:
        body = document("v1", "Namespace", namespace)
        server.api.post(at("namespaces"), body).ok["metadata"]
    home = tmp_path_factory.getbasetemp() / f"home-{request.param}"
    pair = Pair(request.param, servers, namespace, home)
    yield pair
    pair.check()


def text(*documents: Document) -> str:
    return yaml.safe_dump_all(documents)


def web(**spec: object) -> Document:
    body = template("web", containers=[container(resources={"requests": {"cpu": "1"}})])
    return deployment("web", template=body, **spec)


def test_apply_on_the_client_side(both: Pair) -> None:
    both.run("apply -f -", text(web(replicas=2), service("web"), config_map("c", data={"a": "1"})))
    both.run("apply -f -", text(web(replicas=2)))
    both.run("diff -f -", text(web(replicas=3)))
    both.run("apply -f -", text(web(replicas=3)))
    both.run("apply --dry-run=server -f -", text(web(replicas=4)))
    both.run("get deployments,services,configmaps")
    both.run("get deployment web -o yaml")
    both.run("get deployment web -o jsonpath={.spec.replicas}")
    both.run("apply -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {b: '2'}\n")
    both.run("get configmap c -o jsonpath={.data}")


def test_apply_on_the_server_side(both: Pair) -> None:
    both.run("apply --server-side -f -", text(web(replicas=2)))
    both.run("scale deployment web --replicas=5")
    both.run("apply --server-side -f -", text(web(replicas=2)))
    both.run("apply --server-side --force-conflicts -f -", text(web(replicas=2)))
    both.run("apply --server-side --field-manager=other -f -", text(web(replicas=3)))
    both.run("diff --server-side -f -", text(web(replicas=2)))
    both.run("get deployment web -o yaml")


def test_create_get_and_delete(both: Pair) -> None:
    both.run("create -f -", text(pod("a"), pod("b", labels={"k": "v"}), lease("l")))
    both.run("create -f -", text(pod("a")))
    both.run("create configmap from-literal --from-literal=a=b")
    both.run("create secret generic s --from-literal=a=b")
    both.run("get pods")
    both.run("get pods -o wide")
    both.run("get pods --show-labels")
    both.run("get pods -L k")
    both.run("get pods -l k=v -o name")
    both.run("get pods --field-selector metadata.name=a")
    both.run("get pods --sort-by=.metadata.name")
    both.run("get pods,leases,secrets,cm")
    both.run("get pod a -o json")
    both.run("get pod a -o custom-columns=N:.metadata.name,P:.status.phase")
    both.run("get pod nope")
    both.run("get nopes")
    both.run("get all")
    both.run("delete pod a b --wait=false", sort=True)
    both.run("delete pod a")
    both.run("delete configmap --all", sort=True)


BY_FLAGS = (
    "namespace x-{}",
    "deployment w --image=a --replicas=2",
    "job j --image=a",
    "cronjob cj --image=a --schedule=0/5_*_*_*_*",
    "service clusterip s --tcp=80",
    "serviceaccount sa",
    "poddisruptionbudget p --min-available=1 --selector=app=w",
    "priorityclass pc-{} --value=5",
    "role r --verb=get --resource=pods",
    "rolebinding rb --role=r --user=me",
    "quota q --hard=cpu=1",
)


@pytest.mark.parametrize("line", BY_FLAGS, ids=lambda line: line.split()[0])
def test_creation_by_flags(both: Pair, line: str) -> None:
    """These go as protobuf: kubectl's typed clients speak nothing else to built-in kinds."""
    line = line.format(both.namespace)
    kind, name = line.replace(" clusterip", "").split()[:2]
    both.run(f"create {line}")
    both.run(f"create {line}")
    both.run(f"get {kind} {name} -o yaml")


def test_run_and_expose(both: Pair) -> None:
    both.run("run r --image=a --port=80 --labels=app=r")
    both.run("expose pod r --port=80")
    both.run("get pods,services")
    both.run("events")


def test_validation_before_and_at_the_server(both: Pair) -> None:
    odd = pod("odd", nodname="x")
    both.run("create -f -", text(odd))
    both.run("create --validate=false -f -", text(odd))
    both.run("create --validate=warn -f -", text(pod("odder", nodname="x")))
    both.run("create -f -", text(pod("none", containers=[])))
    both.run("create -f -", text(config_map("c", data={"a": 1})))
    both.run("create -f -", "apiVersion: v1\nkind: Nope\nmetadata: {name: c}\n")
    both.run("apply -f -", text(deployment("d", replicas=-1)))


def test_describe(both: Pair) -> None:
    documents = (
        pod("a", labels={"k": "v"}),
        web(),
        service("web"),
        config_map("c", data={"a": "1"}),
        budget("web", minAvailable=1),
        lease("l", holderIdentity="me"),
        workload("StatefulSet", "db"),
    )
    both.run("create -f -", text(*documents))
    for what in ("pod a", "deployment web", "configmap c", "pdb web", "lease l", "sts db"):
        both.run(f"describe {what}")
    both.run("describe pod nope")


def test_edit_patch_label_and_annotate(both: Pair) -> None:
    both.run("create -f -", text(web(), config_map("c", data={"a": "1"})))
    both.run("edit configmap c", editor="sed -i s/a:./b:/")
    both.run("edit configmap c", editor="true")
    both.run("get configmap c -o jsonpath={.data}")
    both.run('patch configmap c --type=merge -p {"data":{"z":"9"}}')
    both.run('patch deployment web -p {"spec":{"replicas":4}}')
    both.run('patch deployment web --type=json -p [{"op":"remove","path":"/spec/nope"}]')
    both.run("label configmap c k=v")
    both.run("label configmap c k=w")
    both.run("label configmap c k=w --overwrite")
    both.run("label configmap c k-")
    both.run("annotate configmap c note=x")
    both.run("set image deployment/web main=other:2")
    both.run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}")
    both.run("get configmap c --show-labels")


def test_scale_and_rollout(both: Pair) -> None:
    both.run("create -f -", text(web(), workload("StatefulSet", "db")))
    both.run("scale deployment web --replicas=3")
    both.run("scale deployment web --current-replicas=9 --replicas=1")
    both.run("scale statefulset db --replicas=2")
    both.run("rollout status deployment web --watch=false")
    both.run("rollout restart deployment web")
    both.run("rollout pause deployment web")
    both.run("rollout pause deployment web")
    both.run("rollout history deployment web")
    both.run("wait deployment web --for=jsonpath={.spec.replicas}=3 --timeout=5s")
    both.run("wait deployment web --for=condition=Available --timeout=1s")
    both.run("wait deployment nope --for=delete --timeout=1s")


def test_nodes(both: Pair) -> None:
    name = f"node-{both.namespace}"
    both.run("create -f -", text(node(name), priority_class(f"p-{both.namespace}", 5)))
    both.run(f"get node {name}")
    both.run(f"cordon {name}")
    both.run(f"cordon {name}")
    both.run(f"get node {name}")
    both.run(f"taint node {name} a=b:NoSchedule")
    both.run("create -f -", text(pod("a", nodeName=name)))
    both.run(f"drain {name} --timeout=1s")
    both.run(f"drain {name} --force --grace-period=0 --timeout=5s")
    both.run(f"uncordon {name}")
    both.run(f"describe node {name}")
    both.run(f"get priorityclass p-{both.namespace}")
    both.run(f"delete node {name}")
    both.run(f"delete priorityclass p-{both.namespace}")


def test_generators(both: Pair) -> None:
    """What ``kubectl create`` makes itself it sends in protobuf."""
    for command in COMMANDS:
        kind, *rest = command.split()
        if kind in CLUSTER_WIDE:  # Other sessions have theirs.
            rest[0] = f"{rest[0]}-{both.namespace}"
        both.run(f"create {kind} {' '.join(rest)}")
        if kind in CLUSTER_WIDE:
            both.run(f"get {kind} {rest[0]} -o yaml")
            both.run(f"delete {kind} {rest[0]} --wait=false")
    kinds = "configmap,secret,deployment,quota,job,cronjob,pdb,role,rolebinding,serviceaccount"
    for kind in kinds.split(","):
        both.run(f"get {kind} -o json", sort=True)
    both.run("get service c e h --no-headers")
    both.run("create configmap c")
    both.run("create configmap odd --from-literal=a")
    both.run("create deployment Odd --image=a")
    both.run("create quota odd --hard=cpu=x")
    both.run("delete deployment d e --grace-period=0")


def test_watch(both: Pair) -> None:
    both.run("create -f -", text(config_map("c")))
    both.run("get configmaps --watch --request-timeout=1s")
    both.run("get configmaps -w --output-watch-events --request-timeout=1s")


def test_what_there_is(both: Pair) -> None:
    for group in ("apps", "policy", "coordination.k8s.io", "scheduling.k8s.io"):
        both.run(f"api-resources --api-group={group} --no-headers", sort=True)
    for field in ("pod", "pod.spec.containers", "deployment.spec.strategy", "pdb.spec", "pod.nope"):
        # The embedded server knows fields and types, not their descriptions.
        both.run(f"explain {field}", only=r"^ \w+ <|^(KIND|VERSION|FIELD|GROUP|error)")
    both.run("auth can-i create pods")
    both.run("version")


def test_custom_resources(both: Pair) -> None:
    """Koord's definitions, and what names mean where two groups share a plural."""
    folder = resources.files("koord.api") / "crds"
    definitions = [Path(str(item)) for item in folder.iterdir() if item.name.endswith(".yaml")]
    assert len(definitions) > 10
    everything = "---\n".join(path.read_text(encoding="utf-8") for path in sorted(definitions))
    both.run("apply --server-side -f -", everything, sort=True)
    both.run("wait crd --all --for=condition=Established --timeout=20s", sort=True)
    kinds = ("scheduling.sigs.k8s.io/v1alpha1", "quota.koordinator.sh/v1alpha1")
    both.run("apply -f -", text(*(document(one, "ElasticQuota", "q", spec={}) for one in kinds)))
    pod_group = document(kinds[0], "PodGroup", "g", spec={"minMember": 1})
    both.run("apply -f -", text(pod_group))
    for name in ("eq", "eqs", "keq", "pg", "pgs", "elasticquotas.scheduling.sigs.k8s.io"):
        both.run(f"get {name}")
        both.run(f"get {name} -o name")
    # A server of one's own lists groups of definitions by name; the embedded one this group last.
    for server, api in zip(both.servers, kinds, strict=True):
        for name in ("elasticquotas", "elasticquota"):
            (meant,) = json.loads(both.ask(server, f"get {name} -o json"))["items"]
            assert meant["apiVersion"] == api, (server.name, name)
    both.run("explain elasticquotas.scheduling.sigs.k8s.io --recursive", only=r"^ +\w+ <")
    both.run("delete elasticquotas.scheduling.sigs.k8s.io q")
