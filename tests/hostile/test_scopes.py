# SPDX-License-Identifier: Apache-2.0
"""Quotas and reservations that reach into other namespaces, and how the scopes close that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from koord.api.codec import convert
from koord.api.kinds.cluster import Namespace
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.plugins.elasticquota.objects import quota
from tests.controllers.scheduler.plugins.reservation.bench import available
from tests.controllers.scheduler.pods import node, pod

NAME = "quota.scheduling.koordinator.sh/name"
PARENT = "quota.scheduling.koordinator.sh/parent"
DEFAULT = "koordinator-default-quota"


def scoped(scope: str, *objects: Any) -> tuple[Scheduler, LocalViews]:
    views = LocalViews()
    registry = Registry(())
    wish = shipped(registry, "koord-scheduler").scoped(scope, scope)
    made = Scheduler(ClusterState(views, VirtualClock(1e9)), wish.profiles, registry)
    for each in (node("n"), *objects):
        views.view(type(each)).put(each)
    return made, views


def namespace(name: str, opened: str = "") -> Namespace:
    notes = {"koord.sh/quotas-from": opened} if opened else {}
    return convert({"metadata": {"name": name, "annotations": notes}}, Namespace, name)


def used(made: Scheduler, name: str, of: str, label: str = "") -> str:
    """The quota that a pod of a namespace uses."""
    plugin = next(plugin for plugin in made.plugins if plugin.name == "ElasticQuota")
    labels = {NAME: label} if label else {}
    info = made.world.shapes.info(pod(name, cpu="1", namespace=of, labels=labels))
    place = plugin.ledger.claim(info.shape).place
    return place.group if place is not None else ""


def run(story: Callable[[], None]) -> None:
    async def whole() -> None:
        story()

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("scope", "opened", "want"),
    [
        ("cluster", "", "trap"),
        ("namespace", "", DEFAULT),
        ("namespace", "thieves", "trap"),
        ("namespace", "others, thieves", "trap"),
        ("namespace", "*", "trap"),
        ("namespace", "others", DEFAULT),
    ],
)
def test_a_quota_captures_pods_of_other_namespaces(scope: str, opened: str, want: str) -> None:
    def story() -> None:
        trap = quota(
            "trap", max={"cpu": "0"}, namespace="thieves", notes={"namespaces": ["victims"]}
        )
        made, _ = scoped(scope, namespace("victims", opened), trap)
        assert used(made, "p", "victims") == want
        assert used(made, "q", "thieves", "trap") == "trap"

    run(story)


@pytest.mark.parametrize(
    ("scope", "opened", "want"),
    [
        ("cluster", "", "rich"),
        ("namespace", "", "mine"),
        ("namespace", "owners", "rich"),
    ],
)
def test_a_pod_names_the_quota_of_another_namespace(scope: str, opened: str, want: str) -> None:
    """Closed, the name is as none: the pod uses the quota of its own namespace."""

    def story() -> None:
        rich = quota("rich", max={"cpu": "90"}, namespace="owners")
        mine = quota("mine", max={"cpu": "1"}, namespace="thieves",
                     notes={"namespaces": ["thieves"]})  # fmt: skip
        made, _ = scoped(scope, namespace("thieves", opened), rich, mine)
        assert used(made, "p", "thieves", "rich") == want
        # Nor is there a way out of one's own quota by a built-in one.
        out = used(made, "q", "thieves", "koordinator-system-quota")
        assert out == ("mine" if scope == "namespace" else "koordinator-system-quota")

    run(story)


def test_a_namespace_is_opened_and_closed_again() -> None:
    def story() -> None:
        rich = quota("rich", max={"cpu": "90"}, namespace="owners")
        made, views = scoped("namespace", namespace("team"), rich)
        held = pod("p", cpu="1", namespace="team", labels={NAME: "rich"}, nodeName="n")
        views.view(type(held)).put(held)
        seen = [used(made, "p", "team", "rich")]
        views.view(Namespace).put(namespace("team", "owners"))
        seen.append(used(made, "p", "team", "rich"))
        views.view(Namespace).put(namespace("team"))
        seen.append(used(made, "p", "team", "rich"))
        assert seen == [DEFAULT, "rich", DEFAULT]

    run(story)


@pytest.mark.parametrize("parent_first", [True, False])
def test_a_quota_hangs_itself_below_one_of_another_namespace(parent_first: bool) -> None:
    def story() -> None:
        above = quota("above", max={"cpu": "90"}, namespace="owners", labels={"is-parent": "true"})
        below = quota("below", max={"cpu": "90"}, namespace="thieves", parent="above")
        objects = (above, below) if parent_first else (below, above)
        made, views = scoped("namespace", *objects)
        plugin = next(plugin for plugin in made.plugins if plugin.name == "ElasticQuota")
        line = (
            f"ElasticQuota thieves/below: labels[{PARENT}]: got 'above', "
            "expected a quota of namespace thieves, or of one that is open to it"
        )
        assert str(plugin.problem(below)) == line
        views.view(Namespace).put(namespace("thieves", "owners"))
        assert plugin.problem(below) is None

    run(story)


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("scope", ["cluster", "namespace"])
def test_of_two_quotas_of_one_name_the_older_counts(scope: str, order: str) -> None:
    """In whatever order a restart finds them; the other waits, and takes over when it goes."""

    def story() -> None:
        both = {
            "a": quota("q", max={"cpu": "1"}, namespace="a", created=2),
            "b": quota("q", max={"cpu": "2"}, namespace="b", created=1),
        }
        made, views = scoped(scope, *(both[each] for each in order))
        plugin = next(plugin for plugin in made.plugins if plugin.name == "ElasticQuota")
        assert plugin.figures_of("q")["max"] == {"cpu": "2"}
        assert "a name that is not taken (by ElasticQuota b/q)" in str(plugin.problem(both["a"]))
        views.view(type(both["b"])).remove("b/q")
        assert plugin.figures_of("q")["max"] == {"cpu": "1"}

    run(story)


@pytest.mark.parametrize(
    ("scope", "notes", "entry", "want"),
    [
        ("cluster", {}, {}, {"team", "other"}),
        ("namespace", {}, {}, set()),
        ("namespace", {"koord.sh/owner-namespace": "team"}, {}, {"team"}),
        ("namespace", {}, {"object": {"namespace": "other"}}, {"other"}),
        ("namespace", {"koord.sh/owner-namespace": "team"},
         {"controller": {"name": "c", "namespace": "other"}}, set()),
    ],
)  # fmt: skip
def test_owners_without_a_namespace(
    scope: str, notes: dict[str, str], entry: dict[str, Any], want: set[str]
) -> None:
    def story() -> None:
        owners = [{"labelSelector": {"matchLabels": {"app": "R"}}, **entry}]
        held = available("R", "n", cpu="8", owners=owners, annotations=notes, allocateOnce=False)
        made, views = scoped(scope, held)
        sits = '{"name":"R","uid":"r-R"}'
        for each in ("team", "other"):
            key = "scheduling.koordinator.sh/reservation-allocated"
            one = pod(each, cpu="1", namespace=each, labels={"app": "R"}, nodeName="n",
                      annotations={key: sits})  # fmt: skip
            views.view(type(one)).put(one)
        plugin = next(plugin for plugin in made.plugins if plugin.name == "Reservation")
        record = plugin.book.get("r-R")
        found = set()
        if not record.error:
            found = {info.pod.metadata.namespace for info in record.owners.values()}
        else:
            assert "annotations[koord.sh/owner-namespace]: got None" in record.error
        assert found == want

    run(story)
