# SPDX-License-Identifier: Apache-2.0
"""Components of ``koord up`` come as their service accounts, with the roles that are deployed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from koord.api.definitions import roles
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import Kind
from koord.base.clock import VirtualClock
from koord.cli.commands.up import installation
from koord.cli.commands.up.cluster import ACCOUNTS, NAMESPACE, UpCluster
from koord.cli.commands.up.components import COMPONENTS
from koord.controlplane.authorization.access import AccessRequest
from koord.controlplane.authorization.identity import Identity, account
from koord.controlplane.authorization.rbac import AccessVerdict
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.simulator.nodes.pools import NodePools, default_pools
from tests.kube.harness import run_virtual
from tests.real.rbac.grants import Grant, granted

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
NAMES = ["controllers", "scheduler", "manager", "webhooks", "nodes", "descheduler"]
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, "")
QUOTA = "quota.scheduling.koordinator.sh/"


def asked(grant: Grant) -> AccessRequest:
    """What a grant is for."""
    resource, _, subresource = grant.resource.partition("/")
    namespace = grant.namespace or ("" if grant.name else "anywhere")
    return AccessRequest(
        grant.verb, grant.group, resource, subresource, namespace, grant.name or "any"
    )


def beyond(grants: list[Grant]) -> Iterator[Grant]:
    """The verbs that a component has not, on each resource of which it has some."""
    for verb in VERBS:
        for grant in dict.fromkeys(each._replace(verb=verb) for each in grants):
            if not any(each.covers(grant) for each in grants):
                yield grant


def test_each_verb_that_a_role_has_is_allowed_and_no_other() -> None:
    async def whole() -> None:
        async with EmbeddedControlPlane(Options(seed=1)) as plane:
            cluster = UpCluster(plane, NodePools([]), VirtualClock(), 1)
            await installation.install(cluster, ())
            authorizer, seen = plane.server.authorizer, set()
            for name in ACCOUNTS:
                identity, grants = account(NAMESPACE, name), granted(roles(name))
                if name == "koord-manager":  # it serves admission, too
                    grants += granted(roles("koord-webhook"))
                for grant in grants:
                    assert authorizer.verdict(identity, asked(grant)).allowed, (name, str(grant))
                for grant in beyond(grants):
                    seen.add(grant.verb)
                    found = authorizer.verdict(identity, asked(grant))
                    assert not found.allowed, (name, str(grant))
                nobody = account("default", name)
                assert not authorizer.verdict(nobody, asked(grants[0])).allowed
            assert seen == set(VERBS)

    asyncio.run(whole())


class Session:
    """A cluster with all components on virtual time, and what they were allowed.

    Attributes:
        refused: by account, what it may not.
        used: by account, what it did.
        bound: names of pods.
    """

    def __init__(self, plane: EmbeddedControlPlane) -> None:
        self.refused: list[str] = []
        self.bound: set[str] = set()
        self.used: dict[str, set[Grant]] = {}
        authorizer = plane.server.authorizer
        verdict = authorizer.verdict

        def noted(identity: Identity, access: AccessRequest) -> AccessVerdict:
            found = verdict(identity, access)
            if identity.name.startswith(f"system:serviceaccount:{NAMESPACE}:"):
                name, resource = identity.name.rpartition(":")[2], access.resource
                if access.subresource:
                    resource += f"/{access.subresource}"
                grant = Grant(access.namespace, access.group, resource, access.verb, access.name)
                if found.allowed and not resource:
                    pass  # discovery, which is everybody's: for kinds that are not served
                elif found.allowed:
                    self.used.setdefault(name, set()).add(grant)
                else:
                    self.refused.append(access.refusal_text(identity))
            return found

        authorizer.verdict = noted  # type: ignore[method-assign]


def play(lost: str = "", rbac: bool = True) -> Session:
    """Half an hour of a cluster.

    Args:
        lost: resource of which the scheduler lacks every right.
        rbac: whether roles count.
    """
    clock = VirtualClock(1_900_000_000.0)

    async def whole() -> Session:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1, rbac=rbac)) as plane:
            session = Session(plane)
            cluster = UpCluster(plane, default_pools(10), clock, 1)
            await installation.install(cluster, NAMES)
            admin = cluster.client("admin")
            if lost:
                role = await admin.get(CLUSTER_ROLE, "koord-scheduler")
                for rule in role["rules"]:
                    rule["resources"] = [e for e in rule["resources"] if e != lost] or ["none"]
                await admin.update(role, kind=CLUSTER_ROLE)
            running = []
            for name in NAMES:
                component = COMPONENTS[name].make(cluster)
                running.append(asyncio.create_task(component.run()))  # type: ignore[arg-type]
                if component.ready is not None:
                    await component.ready()
            running += [asyncio.create_task(each.run()) for each in cluster.recorders]
            await story(admin, session)
            assert not [each.exception() for each in running if each.done()]
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            return session

    return run_virtual(asyncio.wait_for(whole(), 3_600), clock)


async def story(client: Client, session: Session) -> None:
    """Quotas, a profile, a gang, pods that fit and one that does not; then they go."""
    for name, parent, least in (("top", "", "20"), ("team", "top", "5")):
        labels = {QUOTA + "is-parent": "false" if parent else "true"}
        labels |= {QUOTA + "parent": parent} if parent else {}
        await client.create(
            {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": name, "namespace": "default", "labels": labels},
                "spec": {"max": {"cpu": "40"}, "min": {"cpu": least}},
            }
        )  # fmt: skip
        await asyncio.sleep(5)
    await client.create(
        {
            "apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
            "metadata": {"name": "batch"},
            "spec": {"selector": {"matchLabels": {"app": "spark"}}, "qosClass": "BE",
                     "priorityClassName": "koord-batch"},
        }
    )  # fmt: skip
    colocation = {"colocation-config": '{"enable": true}'}
    meta = {"name": "slo-controller-config", "namespace": NAMESPACE}
    await client.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": colocation}
    )
    await asyncio.sleep(120)
    for name, labels, cpu in (
        ("web", {}, "1"), ("huge", {}, "1000"), ("quota", {QUOTA + "name": "team"}, "1"),
        ("spark", {"app": "spark"}, "1"),
    ):  # fmt: skip
        amounts = {"cpu": cpu, "memory": "1Gi"}
        container = {"name": "main", "image": "a",
                     "resources": {"requests": amounts, "limits": amounts}}  # fmt: skip
        await client.create(
            {
                "apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]},
                "metadata": {"name": name, "namespace": "default", "labels": labels},
            }
        )  # fmt: skip
    await asyncio.sleep(60)
    session.bound = {
        pod.metadata.name for pod in (await client.list(Pod)).items if pod.spec.node_name
    }
    await client.delete(Pod, "web", "default")
    await asyncio.sleep(60)


def test_a_whole_session_is_refused_nothing() -> None:
    session = play()
    assert session.refused == []
    assert session.bound == {"web", "quota", "spark"}
    assert set(session.used) == set(ACCOUNTS)
    for name, used in session.used.items():
        grants = granted(roles(name))
        beside = [str(u) for u in used if not any(each.covers(u) for each in grants)]
        # What admission reads is granted to the manager, too; nothing else comes from elsewhere.
        assert beside == [], (name, beside)


@pytest.mark.parametrize("lost", ["pods/binding", "events"])
def test_a_missing_right_shows(lost: str) -> None:
    session = play(lost)
    assert any(f'resource "{lost}"' in each for each in session.refused), session.refused[:3]
    assert session.bound == (set() if lost == "pods/binding" else {"web", "quota", "spark"})


def test_without_rbac_nothing_is_missing() -> None:
    session = play("pods/binding", rbac=False)
    assert session.refused == []
    assert session.bound == {"web", "quota", "spark"}
