# SPDX-License-Identifier: Apache-2.0
"""What admission remembers of pods, against the whole pods that a server gave back."""

from __future__ import annotations

from koord.api.codec import decode_json
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.webhook.admitted_pods import AdmittedPod
from koord.controllers.webhook.informer_views import kept_of_pods
from tests.kube.pods import pods

_KEPT = ("name", "namespace", "uid", "resource_version", "labels")


def test_what_rules_ask_of_pods_is_kept_and_no_more() -> None:
    for text in pods(60):
        whole, seen = decode_json(text, Pod, "Pod"), decode_json(text, AdmittedPod, "Pod")
        assert isinstance(seen, Pod)
        for name in _KEPT:
            assert getattr(seen.metadata, name) == getattr(whole.metadata, name)
        assert whole.metadata.owner_references
        assert not seen.metadata.owner_references
        assert not seen.metadata.annotations
        assert (seen.spec, seen.status) == (Pod().spec, Pod().status)


def test_annotations_stay_where_bindings_are_judged_by_them() -> None:
    assert kept_of_pods(feature_gates()) is AdmittedPod
    assert kept_of_pods(feature_gates("BindingAdmissionWebhook=true")) is TrimmedPod
