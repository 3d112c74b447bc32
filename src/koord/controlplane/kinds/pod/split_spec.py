# SPDX-License-Identifier: Apache-2.0
"""A new pod's spec by its parts, each as it is stored.

Pods that differ mostly do so in a few places: an argument, a variable, the name of a claim. A
spec's containers, volumes and the like are its *parts*, what is left is its *frame*. What a create
makes of a part follows from the part's own text, but for names that stand in others and the QoS
class, so a part that came before is known by its text, and of a new pod only what is new is read.

That goes for specs without amounts or a network for the whole pod, and for parts in which nothing
is wrong; any other is read as a whole, by the rules of :mod:`.defaults` and
:mod:`.spec_validation`, which these call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from koord.base.documents import Document
from koord.controlplane import frames
from koord.controlplane.kinds.pod.containers import (
    check_amounts,
    check_env,
    check_mounts,
    is_good_container,
)
from koord.controlplane.kinds.pod.defaults import (
    default_amounts,
    default_container,
    default_variable,
    default_volume,
    qos_of,
)
from koord.controlplane.kinds.pod.volumes import is_good_volume
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.object_meta import check_labels
from koord.controlplane.kinds.validation.scheduling import check_affinity, check_spread
from koord.controlplane.resource import StoredParts
from koord.controlplane.schema.builtin.core_schema import PartSchema, core_schema
from koord.kernels.splitter import Splitter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.kernels.splitter import SplitObject

LONGEST_PART_BYTES = 4 << 10
KEPT_BYTES = 1 << 20
"""Of parts of one kind, those that came last; as many again of those that came before these."""
_ENTRY_BYTES = 512  # what is kept of a part beside its texts
_NONE: frozenset[str] = frozenset()
# Where these are there, parts do not stand for themselves: what containers request is added up,
# and their ports become the host's.
_WHOLE = ("resources", "hostNetwork", "ephemeralContainers")
_ACCOUNTS = ("serviceAccountName", "serviceAccount")

_encode = msgspec.json.Encoder().encode
K = TypeVar("K")
V = TypeVar("V")


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part in which nothing is wrong.

    Attributes:
        stored: its text as it is stored.
        name: of a container or volume.
        mounts: the volumes that a container mounts, or its mounts name.
        amounts: text of what a container requests and is limited to.
        has_token: whether a volume holds a token of the pod's service account.
    """

    stored: bytes
    name: str = ""
    mounts: frozenset[str] = _NONE
    amounts: bytes = b""
    has_token: bool = False


# Makes a part of its value, which it may change; None if something is wrong with it.
Reading = Callable[[Any], Part | None]


def split(spec: bytes) -> SplitObject | None:
    """The members of a spec; None where it may only be read as a whole.

    Args:
        spec: JSON of an object.
    """
    found = _splitter.split(spec)
    if found is None or any(name in _WHOLE for name in found.noted):
        return None
    return found


def stored_parts(spec: SplitObject) -> StoredParts | None:
    """What a create makes of a spec's parts; None if something may be wrong with one of them."""
    texts: list[bytes] = []
    containers: list[Part] = []
    volumes: list[Part] = []
    for name, text in spec.parts:
        kind = _KINDS[name]
        found = kind.parts(text)
        if found is None or (kind is _CONTAINERS and not found):
            return None
        texts.append(kind.joined(found))
        if kind is _VOLUMES:
            volumes = found
        elif kind.of_containers:
            containers += found
    if not _fit(containers, volumes, spec.noted):
        return None
    return StoredParts(texts, _status(qos_of([part.amounts for part in containers])))


@cache
def _status(qos_class: str) -> bytes:
    return _encode({"phase": "Pending", "qosClass": qos_class})


def _fit(containers: list[Part], volumes: list[Part], noted: tuple[str, ...]) -> bool:
    """Whether no name stands twice, all volumes are there, and their tokens are somebody's."""
    there = {part.name for part in volumes}
    if len(there) != len(volumes) or len({part.name for part in containers}) != len(containers):
        return False
    for part in containers:
        if not part.mounts <= there:
            return False
    for part in volumes:
        if part.has_token and not any(name in noted for name in _ACCOUNTS):
            return False
    return True


class _Recent(dict[K, V], Generic[K, V]):
    """What came last of a kind, by its text. What was there before that is in :attr:`before`."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[K, V] = {}
        self._bytes = 0

    def put(self, key: K, value: V, size: int) -> None:
        """Keeps a value that takes so many bytes with its key."""
        self._bytes += size + _ENTRY_BYTES
        if self._bytes > KEPT_BYTES:
            self.before, self._bytes = dict(self), size + _ENTRY_BYTES
            self.clear()
        self[key] = value


class _PartKind:
    """One kind of parts, with those that came last.

    Args:
        path: from the spec; ``[]`` behind the name of a list whose items are the parts.
        read: see :data:`Reading`.
        inner: the parts that these parts have themselves.
    """

    def __init__(
        self, path: str, read: Reading, inner: Mapping[str, _PartKind] | None = None
    ) -> None:
        self.name = path.rpartition(".")[2].removesuffix("[]")
        self.of_containers = bool(inner)
        self._is_list = path.endswith("[]")
        self._path, self._read, self._inner = path, read, inner or {}
        self._splitter = Splitter(self._inner)
        self._known: _Recent[bytes, Part] = _Recent()
        # Of parts with parts of their own: what stands around these, and the first such part.
        self._frames: _Recent[bytes, tuple[list[bytes], Part]] = _Recent()

    @cached_property
    def _schema(self) -> PartSchema:
        shape = core_schema("", "v1", "Pod").shape.fields["spec"].shape
        for step in self._path.split("."):
            shape = shape.fields[step.removesuffix("[]")].shape
            if step.endswith("[]"):
                assert shape.element is not None
                shape = shape.element
        return PartSchema(shape)

    def parts(self, text: bytes) -> list[Part] | None:
        """The parts of a member with this text; None if something may be wrong with one."""
        texts = Splitter.items(text) if self._is_list else [text]
        if texts is None:
            return None
        found: list[Part] = []
        get = self._known.get
        for each in texts:
            part = get(each) or self._made(each)
            if part is None:
                return None
            found.append(part)
        return found

    def joined(self, parts: list[Part]) -> bytes:
        """The text of a member with these parts."""
        if not self._is_list:
            return parts[0].stored
        return b"[%b]" % b",".join([part.stored for part in parts])

    def _made(self, text: bytes) -> Part | None:
        if len(text) > LONGEST_PART_BYTES:
            return None
        part = self._known.before.get(text)
        if part is None:
            part = self._put_together(text) if self._inner else self._read_whole(text)
        if part is not None:
            self._known.put(text, part, len(text) + len(part.stored))
        return part

    def _read_whole(self, text: bytes) -> Part | None:
        value = self._schema.read(text)
        return self._read(value) if value is not None else None

    def _put_together(self, text: bytes) -> Part | None:
        """A part of its frame and its own parts, if these are good and the frame came before."""
        sent = self._splitter.split(text)
        if sent is None:
            return None
        texts, amounts, mounts = [], b"", None
        for name, inner_text in sent.parts:
            kind = self._inner[name]
            found = kind.parts(inner_text)
            if found is None:
                return None
            texts.append(kind.joined(found))
            if name == "resources":
                amounts = texts[-1]
            elif name == "volumeMounts":
                mounts = found[0].mounts
        known = self._frames.get(sent.frame) or self._frames.before.get(sent.frame)
        if known is None:
            part = self._read_whole(text)
            if part is not None and (pieces := frames.frame_texts(part.stored, sent, texts)):
                self._frames.put(sent.frame, (pieces, part), len(text) + 2 * len(part.stored))
            return part
        pieces, first = known
        return Part(
            frames.fill(pieces, texts), first.name, mounts or _NONE, amounts or first.amounts
        )


def _container(value: Document, is_init: bool = False) -> Part | None:
    default_container(value)
    if not is_good_container(value, is_init):
        return None
    # Ports of the host are compared with those of other containers, devices with volumes.
    if value.get("volumeDevices") or any(port.get("hostPort") for port in value.get("ports") or ()):
        return None
    mounts = frozenset([mount["name"] for mount in value.get("volumeMounts") or ()])
    return Part(_encode(value), value["name"], mounts, _encode(value["resources"]))


def _init_container(value: Document) -> Part | None:
    return _container(value, True)


def _mounts(value: list[Document]) -> Part | None:
    causes = Causes()
    there = {mount.get("name", "") for mount in value}
    check_mounts(value, {}, there, "", causes)
    # Whether a mount may be propagated depends on the container.
    if causes or any("mountPropagation" in mount for mount in value):
        return None
    return Part(_encode(value), mounts=frozenset(there))


def _volume(value: Document) -> Part | None:
    default_volume(value)
    if not is_good_volume(value):
        return None
    text = _encode(value)
    return Part(text, value["name"], has_token=b'"serviceAccountToken"' in text)


def _reading(
    check: Callable[[Any, str, Causes], object],
    default: Callable[[Any], object] = bool,
) -> Reading:
    """Reads a member that is checked if it is not empty, once defaults are filled in."""

    def read(value: Any) -> Part | None:
        default(value)
        causes = Causes()
        if value:
            check(value, "", causes)
        return None if causes else Part(_encode(value))

    return read


def _reading_selectors(check: Callable[[Any, str, Causes], object]) -> Reading:
    """Reads what has selectors of pods, unless labels of the pod itself become part of them."""
    read = _reading(check)
    return lambda value: None if b'abelKeys"' in _encode(value) else read(value)


def _check_variable(variable: Document, path: str, causes: Causes) -> None:
    check_env([variable], path, causes)


def _check_hostname(name: str, path: str, causes: Causes) -> None:
    causes.invalid_all(path, name, names.dns_label(name))


def _by_name(*kinds: _PartKind) -> dict[str, _PartKind]:
    return {kind.name: kind for kind in kinds}


_OF_CONTAINERS = _by_name(
    _PartKind("containers[].args", _reading(lambda value, path, causes: None)),
    _PartKind("containers[].env[]", _reading(_check_variable, default_variable)),
    _PartKind("containers[].resources", _reading(check_amounts, default_amounts)),
    _PartKind("containers[].volumeMounts", _mounts),
)
_CONTAINERS = _PartKind("containers[]", _container, _OF_CONTAINERS)
_VOLUMES = _PartKind("volumes[]", _volume)
_KINDS = _by_name(
    _CONTAINERS,
    _PartKind("initContainers[]", _init_container, _OF_CONTAINERS),
    _VOLUMES,
    _PartKind("affinity", _reading_selectors(check_affinity)),
    _PartKind("topologySpreadConstraints", _reading_selectors(check_spread)),
    _PartKind("nodeSelector", _reading(check_labels)),
    _PartKind("hostname", _reading(_check_hostname)),
)
_splitter = Splitter(_KINDS, (*_WHOLE, *_ACCOUNTS))
