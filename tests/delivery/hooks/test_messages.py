# SPDX-License-Identifier: Apache-2.0
"""Messages of the hook service, on the wire."""

from __future__ import annotations

from pathlib import Path

from koord.delivery.hooks.messages import CONTAINER_STAGES, HOOKS, POD_STAGES, method_of

_PUBLISHED = Path(__file__).with_name("published_fields.txt")
_TYPES = {3: "int64", 4: "uint64", 9: "string", 13: "uint32"}
_REPEATED = 3


def _kind(field: object) -> str:
    """Its type as the table of the published file says it; maps are pairs on the wire."""
    kind = _TYPES.get(getattr(field, "type", 0), "message")
    repeated = getattr(field, "is_repeated", None)
    if repeated is None:
        repeated = getattr(field, "label", 0) == _REPEATED
    return f"repeated {kind}" if repeated else kind


def test_all_published_fields_are_there_and_no_other() -> None:
    published = {
        line for line in _PUBLISHED.read_text("utf-8").splitlines() if not line.startswith("#")
    }
    ours = {
        f"{name} {field.name} {field.number} {_kind(field)}"
        for name, kind in vars(HOOKS).items()
        for field in kind.DESCRIPTOR.fields
    }
    assert ours == published


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
