# SPDX-License-Identifier: Apache-2.0
"""Messages of the hook service, on the wire."""

from __future__ import annotations

from koord.delivery.hooks.messages import CONTAINER_STAGES, HOOKS, POD_STAGES, method_of


def test_a_request_has_the_published_numbers() -> None:
    """By hand: field 1 (metadata: 1 name, 2 uid), 3 (a map's pair: 1 key, 2 value), 5, 7."""
    made = HOOKS.PodSandboxHookRequest(cgroup_parent="/c", labels={"a": "b"})
    made.pod_meta.name, made.pod_meta.uid = "p", "u"
    made.resources.cpu_quota = -1
    expected = b"\x0a\x06\x0a\x01p\x12\x01u\x1a\x06\x0a\x01a\x12\x01b\x2a\x02/c"
    expected += b"\x3a\x0b\x10" + b"\xff" * 9 + b"\x01"
    assert made.SerializeToString(deterministic=True) == expected


def test_fields_that_are_not_known_stay() -> None:
    later = b"\x0a\x03\x0a\x01p" + b"\xfa\x3e\x02hi"  # field 1007
    assert HOOKS.ContainerResourceHookRequest.FromString(later).SerializeToString() == later


def test_stages_have_methods_of_their_name() -> None:
    paths = {method_of(stage) for stage in (*POD_STAGES, *CONTAINER_STAGES)}
    assert len(paths) == 7
    assert "/runtime.v1alpha1.RuntimeHookService/PreRunPodSandboxHook" in paths
