# SPDX-License-Identifier: Apache-2.0
"""VolumeBinding against the plain model: reasons and choices on every node."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.kubernetes.volumes.binding import NAME
from koord.controllers.scheduler.plugins.kubernetes.volumes.volume_matcher import VolumeMatches
from tests.controllers.scheduler.plugins.kubernetes.volumes.storage import Storage, affinity, user
from tests.controllers.scheduler.pods import node
from tests.models import volumes as model

_CLASSES = ("local", "dynamic", "tracked")
_ZONE, _HOST = "zone", "kubernetes.io/hostname"
_WHERE = st.one_of(
    st.none(),
    st.tuples(st.just(_ZONE), st.lists(st.sampled_from("xyz"), min_size=1, max_size=2).map(tuple)),
    st.tuples(st.just(_HOST), st.sampled_from(("n0", "n1", "n2")).map(lambda n: (n,))),
)
_NAMES = ("c0", "c1", "c2")


@st.composite
def _clusters(draw: st.DrawFn) -> model.Cluster:
    nodes = {}
    for i in range(draw(st.integers(1, 3))):
        nodes[f"n{i}"] = {_HOST: f"n{i}", _ZONE: draw(st.sampled_from("xyz"))}
    volumes = [
        model.Volume(
            f"v{i}",
            draw(st.integers(1, 3)),
            draw(st.sampled_from(_CLASSES)),
            draw(_WHERE),
            claim=draw(st.sampled_from(("", "", "c0", "c9"))),
            phase=draw(st.sampled_from(("Available", "Available", "Bound"))),
            modes=draw(st.sampled_from((("ReadWriteOnce",), ("ReadWriteOnce", "ReadWriteMany")))),
            labels={"tier": draw(st.sampled_from(("gold", "iron")))},
            block=draw(st.integers(0, 4)) == 0,
        )
        for i in range(draw(st.integers(0, 5)))
    ]
    classes = [
        model.Class("local", "kubernetes.io/no-provisioner"),
        model.Class("dynamic", "csi", draw(_WHERE)),
        model.Class("tracked", "tracking", draw(_WHERE)),
    ]
    capacities = [
        model.Capacity("tracked", draw(st.integers(1, 3)), draw(_WHERE))
        for _ in range(draw(st.integers(0, 2)))
    ]
    return model.Cluster(nodes, volumes, classes, capacities, {"tracking"})


@st.composite
def _claims(draw: st.DrawFn) -> list[model.Claim]:
    made = []
    for name in _NAMES[: draw(st.integers(1, 3))]:
        bound = draw(st.sampled_from(("", "", "v0", "v8")))
        selected = draw(st.sampled_from((None, None, None, "n0"))) if not bound else None
        modes = draw(st.sampled_from((("ReadWriteOnce",), ("ReadWriteMany",))))
        label = draw(st.sampled_from(("", "", "gold")))
        made.append(
            model.Claim(
                name,
                draw(st.integers(1, 3)),
                draw(st.sampled_from(_CLASSES)),
                bound,
                selected,
                modes,
                label,
                draw(st.integers(0, 4)) == 0,
            )
        )
    return made


def _build(cluster: model.Cluster, claims: list[model.Claim]) -> Storage:
    storage = Storage(*(node(name, labels=labels) for name, labels in cluster.nodes.items()))
    for cls in cluster.classes:
        terms = []
        if cls.where:
            requirement = {"key": cls.where[0], "values": list(cls.where[1])}
            terms = [{"matchLabelExpressions": [requirement]}]
        storage.storage_class(cls.name, cls.provisioner, allowedTopologies=terms)
    for volume in cluster.volumes:
        spec: dict[str, Any] = {"accessModes": list(volume.modes)}
        if volume.where:
            spec["nodeAffinity"] = affinity(volume.where[0], *volume.where[1])
        if volume.claim:
            spec["claimRef"] = {"namespace": "default", "name": volume.claim}
        if volume.block:
            spec["volumeMode"] = "Block"
        storage.volume(
            volume.name, str(volume.size), volume.cls, labels=volume.labels, phase=volume.phase,
            **spec,
        )  # fmt: skip
    for claim in claims:
        more: dict[str, Any] = {"accessModes": list(claim.modes)}
        if claim.volume:
            more["volumeName"] = claim.volume
        if claim.selected is not None:
            more["annotations"] = {"volume.kubernetes.io/selected-node": claim.selected}
        if claim.label:
            more["selector"] = {"matchLabels": {"tier": claim.label}}
        if claim.block:
            more["volumeMode"] = "Block"
        storage.claim(claim.name, str(claim.size), claim.cls, **more)
    storage.driver("csi")
    storage.driver("tracking", storageCapacity=True)
    for i, capacity in enumerate(cluster.capacities):
        topology: dict[str, Any] = {"nodeTopology": {}}
        if capacity.where:
            key, values = capacity.where
            expression = {"key": key, "operator": "In", "values": list(values)}
            topology = {"nodeTopology": {"matchExpressions": [expression]}}
        storage.capacity(f"cap{i}", capacity.cls, capacity=str(capacity.size), **topology)
    return storage


@given(cluster=_clusters(), claims=_claims())
def test_every_node(cluster: model.Cluster, claims: list[model.Claim]) -> None:
    storage = _build(cluster, claims)
    cycle = Cycle(user("p", *(c.name for c in claims)), storage.world.table)
    assert storage.binding.pre_filter(cycle) is None
    volume_matches = storage.binding._volume_matches(cycle)
    assert isinstance(volume_matches, VolumeMatches)
    for name in cluster.nodes:
        row = storage.world.table.row(name)
        assert row is not None
        expected = model.on_node(cluster, claims, name)
        assert volume_matches.reasons(row) == expected.reasons
        if expected.reasons:
            continue
        assert storage.binding.reserve(cycle, row) is None
        pod_volumes = cycle.pod.allocations.get(NAME)
        bindings = pod_volumes.bindings if pod_volumes else ()
        provisions = pod_volumes.provisions if pod_volumes else ()
        chosen = {claim.metadata.name: volume.metadata.name for volume, claim in bindings}
        assert chosen == expected.bindings
        assert {claim.metadata.name for _, claim in provisions} == set(expected.made)
        storage.binding.unreserve(cycle, row)
        assert storage.binding.pre_filter(cycle) is None
