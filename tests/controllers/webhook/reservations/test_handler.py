# SPDX-License-Identifier: Apache-2.0
"""Reviews of new Reservations."""

from __future__ import annotations

from typing import Any

import pytest

from koord.controllers.webhook.framework.admission_decision import ALLOWED
from koord.controllers.webhook.framework.admission_request import Operation, ResourceName
from koord.controllers.webhook.reservations.handler import ReservationMutationHandler
from tests.controllers.cluster.colocation_profiles.test_effect import profile
from tests.controllers.webhook.pods.scene import BATCH, Scene, admitted, request

RESERVATIONS = ResourceName("scheduling.koordinator.sh", "reservations")
Document = dict[str, Any]


def reservation(**spec: Any) -> Document:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    return {"metadata": {"name": "r"}, "spec": {"template": template, "owners": [{}], **spec}}


def asked(document: Document, operation: Operation | None = None) -> Any:
    return request(document, resource=RESERVATIONS, kind="Reservation", operation=operation)


def test_a_profile_sets_labels_of_the_reservation_and_the_class_of_its_template() -> None:
    scene = Scene()
    handler = ReservationMutationHandler(scene.dependencies)
    # Reservations are in no namespace: the selector of namespaces does not count.
    none = {"matchLabels": {"no": "such"}}
    spec = {"qosClass": "BE", "priorityClassName": "koord-batch", "namespaceSelector": none}
    scene.put(profile(spec), BATCH)
    found = admitted(handler, asked(reservation())).document
    assert found is not None
    assert found["metadata"]["labels"] == {"koordinator.sh/qosClass": "BE"}
    pod_spec = found["spec"]["template"]["spec"]
    assert pod_spec["priority"] == 5500
    # Resources of Reservations are not translated.
    assert pod_spec["containers"] == reservation()["spec"]["template"]["spec"]["containers"]
    assert scene.server.asked == []


def test_without_a_template_no_class_is_wanted() -> None:
    scene = Scene()
    handler = ReservationMutationHandler(scene.dependencies)
    scene.put(profile({"priorityClassName": "gone", "qosClass": "BE"}))
    document = reservation()
    del document["spec"]["template"]
    found = admitted(handler, asked(document)).document
    assert found is not None
    assert found["spec"] == document["spec"]


def test_updates_and_other_resources_pass_unseen() -> None:
    scene = Scene()
    handler = ReservationMutationHandler(scene.dependencies)
    scene.put(profile({"labels": {"a": "1"}}))
    assert admitted(handler, asked(reservation(), Operation.UPDATE)) == ALLOWED
    assert admitted(handler, request(reservation())) == ALLOWED


@pytest.mark.parametrize(
    ("scope", "owner", "annotations", "warned"),
    [
        ("cluster", {}, {}, False),
        ("namespace", {"labelSelector": {"matchLabels": {"a": "1"}}}, {}, True),
        ("namespace", {"object": {"namespace": "d"}}, {}, False),
        ("namespace", {"controller": {"namespace": "d"}}, {}, False),
        ("namespace", {}, {"koord.sh/owner-namespace": "d"}, False),
    ],
)
def test_owners_out_of_reach_are_warned_of(
    scope: str, owner: Document, annotations: dict[str, str], warned: bool
) -> None:
    scene = Scene(reservation_scope=scope)
    handler = ReservationMutationHandler(scene.dependencies)
    document = reservation(owners=[owner])
    document["metadata"]["annotations"] = annotations
    decision = admitted(handler, asked(document))
    assert decision.allowed
    assert bool(decision.warnings) is warned
    if warned:
        assert "spec.owners[0]: got 'no namespace'" in decision.warnings[0]
