# SPDX-License-Identifier: Apache-2.0
"""Random histories of quotas, pods and nodes, held against a model that starts from scratch."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTreeOptions
from koord.kernels.quota import ROOT, Figure, Options
from tests.controllers.scheduler.plugins.elasticquota import objects
from tests.models.elasticquota import ModelCluster, Pod, Quota
from tests.models.quota import BUILTIN

NAMES = ["a", "b", "c", "n1"]
NAMESPACES = ["n1", "n2"]
PODS = [f"p{i}" for i in range(6)]
RESOURCES = ["cpu", "memory", "gpu"]
FIGURES = {
    Figure.USED: "used", Figure.NON_PREEMPTIBLE_REQUEST: "non_preemptible_request",
    Figure.NON_PREEMPTIBLE_USED: "non_preemptible_used",
}  # fmt: skip

amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 20))
requests = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 9), max_size=2)
uids = st.sampled_from(PODS)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    most = draw(amounts)
    least = {key: draw(st.integers(0, n)) for key, n in most.items() if draw(st.booleans())}
    root = draw(st.booleans())
    return Quota(
        draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMESPACES)), least, most,
        parent=draw(st.sampled_from([ROOT, *NAMES])), lends=draw(st.booleans()),
        tree=draw(st.sampled_from(["", "", "t", "u"])),
        total=draw(amounts.filter(bool)) if root else None, deducted=draw(st.booleans()),
        namespaces=tuple(draw(st.sets(st.sampled_from(NAMESPACES), max_size=1))),
        created=draw(st.integers(0, 2)),
    )  # fmt: skip


@st.composite
def guides(draw: st.DrawFn) -> Quota:
    most = draw(amounts)
    least = {key: draw(st.integers(0, n)) for key, n in most.items() if draw(st.booleans())}
    return Quota(
        draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMESPACES)), least, most,
        guide=True, priority=draw(st.integers(0, 2)), created=0,
    )  # fmt: skip


def text(amounts: dict[str, int]) -> dict[str, str]:
    return {key: f"{n}m" if key == "cpu" else str(n) for key, n in amounts.items()}


def as_object(quota: Quota, **changes: object) -> object:
    spec = {"min": text(quota.min), "max": text(quota.max), **changes}
    if quota.guide:
        return objects.guide(quota.name, quota.namespace, priority=quota.priority,
                             created=quota.created, **spec)  # fmt: skip
    labels = {"parent": "" if quota.parent == ROOT else quota.parent, "tree-id": quota.tree}
    labels |= {} if quota.lends else {"allow-lent-resource": "false"}
    labels |= {} if quota.deducted else {"ignore-default-tree": "true"}
    notes: dict[str, object] = {"namespaces": list(quota.namespaces)}
    if quota.total is not None:
        labels["is-root"], notes["total-resource"] = "true", text(quota.total)
    return objects.quota(quota.name, quota.namespace, labels=labels, notes=notes,
                         created=quota.created, **spec)  # fmt: skip


def as_pod(uid: str, pod: Pod) -> PodInfo:
    return objects.pod(uid, pod.label, strict=pod.strict, namespace=pod.namespace,
                       requests=text(pod.request), nodeName="n" if pod.bound else "")  # fmt: skip


class Histories(RuleBasedStateMachine):
    @initialize(several_trees=st.booleans(), default_group=st.booleans(), first=st.lists(quotas()))
    def start(self, several_trees: bool, default_group: bool, first: list[Quota]) -> None:
        self.model = ModelCluster(several_trees=several_trees, default_group=default_group)
        self.groups, self.ledger, self.admission = objects.cluster(
            settings=QuotaTreeOptions(Options(check_parents=True), several_trees=several_trees,
                              default_group=default_group)
        )  # fmt: skip
        self.set_nodes({"n": {"cpu": 30, "memory": 20}})
        for quota in first:
            self.put(quota)

    @rule(nodes=st.dictionaries(st.sampled_from("no"), amounts))
    def set_nodes(self, nodes: dict[str, dict[str, int]]) -> None:
        self.model.nodes = nodes
        total: dict[str, int] = {}
        for node in nodes.values():
            for key, n in node.items():
                total[key] = total.get(key, 0) + n
        self.groups.set_total(total)

    @rule(quota=st.one_of(quotas(), quotas(), guides()))
    def put(self, quota: Quota) -> None:
        key = (quota.group, quota.namespace)
        before = self.model.quotas.get(key)
        self.model.quotas[key] = quota
        if self._loops():
            # What then counts depends on what was there before; a test of its own shows that.
            del self.model.quotas[key]
            if before is not None:
                self.model.quotas[key] = before
            return
        self.model.broken.discard(key)
        self.groups.put(as_object(quota))

    def _loops(self) -> bool:
        active = self.model.active()
        for name in active:
            seen = []
            while name in active and name not in seen:
                seen.append(name)
                name = active[name].parent
            if name in seen:
                return True
        return False

    @rule(quota=quotas())
    def spoil(self, quota: Quota) -> None:
        self.model.broken.add((quota.group, quota.namespace))
        error = self.groups.put(as_object(quota, max={"cpu": "-1"}))
        assert str(error).endswith("spec.max[cpu]: got '-1', expected a quantity of 0 or more")

    @precondition(lambda self: self.model.quotas or self.model.broken)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.quotas.keys() | self.model.broken)))
        quota = self.model.quotas.pop(key, Quota(key[0].rpartition("/")[2], key[1]))
        if self._loops():
            self.model.quotas[key] = quota
            return
        self.model.broken.discard(key)
        self.groups.remove(as_object(quota))

    @rule(uid=uids, namespace=st.sampled_from(NAMESPACES), request=requests,
          label=st.sampled_from(["", "", "x", *NAMES, ROOT, *BUILTIN]), strict=st.booleans(),
          bound=st.booleans())  # fmt: skip
    def list_pod(self, uid: str, bound: bool, **fields: object) -> None:
        old = self.model.pods.get(uid)
        pod = Pod(**fields, listed=True, bound=bound, placed=old is not None and old.placed)
        self.model.pods[uid] = pod
        self.ledger.list_pod(as_pod(uid, pod))

    @precondition(lambda self: self.model.pods)
    @rule(data=st.data())
    def unlist(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.model.pods)))
        self.ledger.unlist(uid)
        pod = self.model.pods[uid]
        pod.listed = pod.bound = pod.withdrawn = False
        if not pod.placed:
            del self.model.pods[uid]

    @precondition(lambda self: self.model.pods)
    @rule(data=st.data(), times=st.integers(1, 2))
    def move(self, data: st.DataObject, times: int) -> None:
        """Puts a pod on a node, or takes it off, or one after the other."""
        uid = data.draw(st.sampled_from(sorted(self.model.pods)))
        for _ in range(times):
            if uid in self.model.pods:
                self._move(uid)

    def _move(self, uid: str) -> None:
        pod = self.model.pods[uid]
        if pod.placed:
            self.ledger.withdraw(as_pod(uid, pod))
            pod.placed, pod.withdrawn = False, pod.bound
            if not pod.listed:
                del self.model.pods[uid]
        else:
            self.ledger.place_pod(as_pod(uid, pod))
            pod.placed, pod.withdrawn = True, False

    @rule(chosen=st.lists(uids, max_size=4))
    def ask_for_several(self, chosen: list[str]) -> None:
        """What-ifs answer as the model does, one pod after the other, and leave nothing behind."""
        chosen = [uid for uid in dict.fromkeys(chosen) if uid in self.model.pods]
        pods = [as_pod(uid, self.model.pods[uid]) for uid in chosen]
        refused = self.admission.check_all(pods)
        kept = [(pod, pod.placed, pod.withdrawn) for pod in self.model.pods.values()]
        expected = None
        for uid in chosen:
            pod = self.model.pods[uid]
            if pod.placed or pod.bound:
                continue
            if not self._admits(pod):
                expected = uid
                break
            pod.placed = True
        for pod, placed, withdrawn in kept:
            pod.placed, pod.withdrawn = placed, withdrawn
        assert (refused[0].uid if refused else None) == expected

    def _admits(self, pod: Pod) -> bool:
        group, unreadable = self.model.group_of(pod)
        if group is None:
            return not unreadable
        tree = self.model.tree(self._tree_of(group))
        asked = {key: n for key, n in pod.request.items() if n}
        verdict, _, _ = tree.admit(group, asked, non_preemptible=pod.strict, check_parents=True)
        return verdict == "ADMITTED"

    def _tree_of(self, group: str) -> str:
        return self.model.tree_of(group) if group not in BUILTIN else ""

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        active = self.model.active()
        trees = self.groups.trees()
        assert set(trees) == {"", *(self.model.tree_of(group) for group in active)}
        for tree_id, tree in trees.items():
            model = self.model.tree(tree_id)
            names = {name for name in tree if name not in (ROOT, *BUILTIN)}
            assert names == model.specs.keys() - set(BUILTIN)
            for name in names if tree_id else {*names, *BUILTIN}:
                assert tree.runtime(name) == model.runtime(name), (tree_id, name)
                for key in RESOURCES:
                    assert tree.request(name).get(key, 0) == model.request(name, key), name
                    for figure, kind in FIGURES.items():
                        kept = tree.figure(name, figure).get(key, 0)
                        assert kept == model.subtree(name, kind, key), (name, kind)

    @invariant()
    def every_pod_is_where_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        assert len(self.ledger) == len(self.model.pods)
        for uid, pod in self.model.pods.items():
            claim = self.ledger.get(uid).claim
            group, unreadable = self.model.group_of(pod)
            assert (claim.place.group if claim.place else None) == group
            assert (claim.problem is not None) == unreadable


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=12)
