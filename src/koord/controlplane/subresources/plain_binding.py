# SPDX-License-Identifier: Apache-2.0
"""The plain binding: a scheduler gives a waiting pod to a node and says nothing else.

Of such a pod only spec and status are taken apart, once for all that say the same; its new version
goes into the text of the metadata, the node's name into that of the spec. The outcome is that of
:mod:`koord.controlplane.subresources.binding`; whatever is not plain (another body, a pod that may
not be bound, a webhook that may be asked) is left to it.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from koord.base import faults
from koord.controlplane.handlers import metadata
from koord.controlplane.storage.collection import Entry
from koord.controlplane.storage.store import shared_labels
from koord.controlplane.subresources.binding import TOPOLOGY_LABELS, set_condition
from koord.kube.transport.messages import JSON, Response

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.controlplane.extension import Admission
    from koord.controlplane.storage.store import Store
    from koord.kube.transport.messages import Request

PODS, NODES, BINDING = "pods", "nodes", "binding"
_PATH = re.compile(r"/api/v1/namespaces/([^/%]*)/pods/([^/%]*)/binding").fullmatch
_SUCCESS = Response(
    201, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
)
# How a pod's text begins, and where its spec does. Of so many rests, not longer than that, it is
# remembered what becomes of them.
_HEAD, _SPEC = b'{"apiVersion":"v1","kind":"Pod","metadata":', b',"spec":{'
_LONGEST_REST, _ASSIGNED_KEPT = 16 << 10, 256
# Texts in a spec, or in metadata, that make a binding one to be looked at.
_NODE_NAME, _GATES, _DELETED = b'"nodeName"', b'"schedulingGates"', b'"deletionTimestamp"'
_VERSION = b'"resourceVersion":"%d"'
_SAY_WHERE = frozenset(TOPOLOGY_LABELS)
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class _BindingMeta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""


class _BindingTarget(msgspec.Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    kind: str
    name: str
    api_version: str = ""


class _Binding(msgspec.Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    """A body of a plain binding."""

    api_version: str
    kind: str
    metadata: _BindingMeta
    target: _BindingTarget


class _SpecAndStatus(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A pod as stored, without its metadata."""

    spec: msgspec.Raw
    status: msgspec.Raw


_read_binding = msgspec.json.Decoder(_Binding).decode
_read_rest = msgspec.json.Decoder(_SpecAndStatus).decode
_read_status = msgspec.json.Decoder(dict[str, Any]).decode


class PlainBindings:
    """Carries them out.

    Args:
        store: where pods and nodes are.
        admission: asked whether what it said of a namespace's bindings still holds.
        selectable: the names of a pod's selectable fields, in the order in which they are stored.
        clock: for the time of the condition.
    """

    def __init__(
        self, store: Store, admission: Admission, selectable: tuple[str, ...], clock: Clock
    ) -> None:
        self._store = store
        self._pods, self._nodes = store.collection(PODS), store.collection(NODES)
        self._admission = admission
        self._clock = clock
        self._node_name = selectable.index("spec.nodeName")
        self._nominated = selectable.index("status.nominatedNodeName")
        # For which generation of what admission goes by a namespace's bindings were let through.
        # No built-in rule looks at anything else of a binding.
        self._admitted: dict[str, int | None] = {}

    def admitted(self, namespace: str) -> None:
        """Takes note that admission has let a binding of this namespace through."""
        generation = self._admission.generation(namespace, PODS, BINDING)
        if generation is not None:
            if len(self._admitted) > 1 << 12:
                self._admitted.clear()
            self._admitted[namespace] = generation

    def bind(self, request: Request) -> Response | None:
        """Binds a pod, if the request is a plain one that can be granted; else does nothing."""
        path = _PATH(request.path)
        if path is None or request.query or request.content_type != JSON:
            return None
        namespace, name = path.groups()
        admitted = self._admitted.get(namespace)
        if admitted is None or admitted != self._admission.generation(namespace, PODS, BINDING):
            return None
        entry = self._pods.entries.get(f"{namespace}/{name}")
        node = _node_of(request.body, namespace, name, entry) if entry is not None else ""
        if entry is None or not node or not self._assign(entry, node):
            return None
        return _SUCCESS

    def _assign(self, entry: Entry, node: str) -> bool:
        """Stores the pod with its node; False if it must be looked at more closely."""
        # Found anywhere else, what follows would not be a whole spec and a whole status.
        text, at = entry.body, entry.body.find(_SPEC)
        if at < 0 or len(text) - at > _LONGEST_REST or not text.startswith(_HEAD):
            return False
        assigned = _assigned(text[at:], metadata.timestamp(self._clock.wall_seconds()))
        head, had = text[:at], _VERSION % entry.version
        if assigned is None or _DELETED in head or head.count(had) != 1:
            return False
        faults.point("controlplane.bind")
        version = self._store.version + 1
        head = head.replace(had, _VERSION % version)
        labels = self._topology(node)
        if labels:
            document = _decode(head.removeprefix(_HEAD))
            document["labels"] = labels = {**(document.get("labels") or {}), **labels}
            head = _HEAD + _encode(document)
        before, after = assigned
        body = b"%b%b%b%b" % (head, before, _encode(node), after)
        made = Entry(
            entry.key, entry.namespace, entry.name, entry.uid, version, body,
            shared_labels(labels) if labels else entry.labels, self._fields(entry, node),
        )  # fmt: skip
        self._store.replace(PODS, entry, made)
        return True

    def _topology(self, node: str) -> dict[str, str]:
        """The labels of a node that say where it is, which its pods get."""
        found = self._nodes.entries.get(node)
        if found is None or _SAY_WHERE.isdisjoint(found.labels):
            return {}
        return {key: found.labels[key] for key in TOPOLOGY_LABELS if key in found.labels}

    def _fields(self, entry: Entry, node: str) -> tuple[str, ...]:
        fields = list(entry.fields)
        fields[self._node_name], fields[self._nominated] = sys.intern(node), ""
        return tuple(fields)


@lru_cache(maxsize=_ASSIGNED_KEPT)
def _assigned(rest: bytes, now: str) -> tuple[bytes, bytes] | None:
    """What stands before and after the node's name in a pod that has got one.

    Args:
        rest: a waiting pod's text from its spec on. Those of a workload are equal, and whatever
            stands before such a text is the head of a pod: it closes what it opens, and the pod.
        now: when it gets its node.

    Returns:
        None if it may not be given one, or must be looked at more closely.
    """
    try:
        found = _read_rest(b"{" + rest[1:])
        spec, status = bytes(found.spec), _scheduled(bytes(found.status), now)
    except msgspec.DecodeError:
        return None
    if _NODE_NAME in spec or _GATES in spec or spec == b"{}":
        return None
    return b',"spec":%b,"nodeName":' % spec[:-1], b'},"status":%b}' % status


def _scheduled(status: bytes, now: str) -> bytes:
    """The status of a pod that has got a node.

    Raises:
        msgspec.ValidationError: it is no object.
    """
    document = _read_status(status)
    document.pop("nominatedNodeName", None)
    set_condition(document, {"type": "PodScheduled", "status": "True"}, now)
    return _encode(document)


def _node_of(body: bytes, namespace: str, name: str, entry: Entry) -> str:
    """Where a plain binding wants this pod; empty if it is another one."""
    try:
        binding = _read_binding(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    meta, target = binding.metadata, binding.target
    plain = (
        binding.api_version == "v1" and binding.kind == "Binding" and target.kind == "Node"
        and meta.name == name and meta.namespace in ("", namespace)
        and meta.uid in ("", entry.uid)
    )  # fmt: skip
    return target.name if plain else ""
