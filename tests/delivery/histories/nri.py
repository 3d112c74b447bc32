# SPDX-License-Identifier: Apache-2.0
"""A runtime that keeps to no order, over one connection after the other."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from random import Random
from typing import Any, cast

from koord.agent.states.pod_state import PodState
from koord.delivery.nri.connection import MOST_CALLS, RuntimeConnection
from koord.delivery.nri.messages import NRI, TTRPC
from koord.delivery.nri.multiplexer import ProtocolError
from koord.delivery.nri.plugin import MOST_REQUEST_SECONDS
from koord.delivery.policy import DeliveryPolicy
from tests.delivery.histories import noise
from tests.delivery.nri.test_plugin import LIMITS, Setting, batch, made, sandbox
from tests.delivery.nri.wire import PLUGIN, RUNTIME, SERVICE, Pipe, frame, message, parsed
from tests.kube.harness import run_virtual

_ANSWERS = {
    "Configure": "ConfigureResponse", "Synchronize": "SynchronizeResponse",
    "CreateContainer": "CreateContainerResponse", "UpdateContainer": "UpdateContainerResponse",
}  # fmt: skip
_EMPTY = ("RunPodSandbox", "RemovePodSandbox", "StopContainer", "StateChange", "Shutdown")
_UNKNOWN = ("", "PostCreateContainer", "ValidateContainerAdjustment", "x" * 300)
_UIDS = ("u1", "u2", "u3", "gone", "", "../u1")
# Longer than any answer may take, in virtual time, whatever the runtime says of its limit.
_SETTLE_SECONDS = MOST_REQUEST_SECONDS
_CONNECTION_MESSAGES = 60


class _Runtime:
    """One connection; what it asked in order is to be answered.

    Attributes:
        asked: method and container's id of each whole call that is to be answered, by stream.
        broken: whether what was sent may be no protocol any more.
    """

    def __init__(self, setting: Setting, draw: Random) -> None:
        self._draw = draw
        self._reader, self._pipe = asyncio.StreamReader(), Pipe()
        plugin = setting.with_policy(DeliveryPolicy())
        self.connection = RuntimeConnection(
            self._reader, cast("asyncio.StreamWriter", self._pipe), plugin.handle
        )
        self._serving = asyncio.ensure_future(self.connection.serve())
        self._stream = 1
        self.asked: dict[int, tuple[str, Any]] = {}
        self.broken = False

    def call(self, method: str, asked: Any, raw: bytes | None = None) -> bytes:
        """The bytes of a call on a stream of its own."""
        stream, self._stream = self._stream, self._stream + 2
        payload = asked.SerializeToString() if raw is None else raw
        body = TTRPC.Request(service=SERVICE + "Plugin", method=method, payload=payload)
        self.asked[stream] = (method, asked if raw is None else None)
        return message(stream, 1, body.SerializeToString())

    def send(self, data: bytes) -> None:
        """Frames of a connection's bytes, cut anywhere."""
        cuts = sorted(self._draw.randrange(len(data) + 1) for _ in range(self._draw.randrange(3)))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        for piece in pieces:
            self.feed(frame(PLUGIN, piece))
            if self._draw.random() < 0.1:
                self.feed(frame(9, self._draw.randbytes(5)))  # of a connection nobody has opened

    def feed(self, data: bytes) -> None:
        self._reader.feed_data(data)

    @property
    def ended(self) -> bool:
        return self._serving.done()

    async def settle(self) -> None:
        """Lets every answer come; they are what was asked for, and none is missing."""
        await asyncio.sleep(_SETTLE_SECONDS)
        assert len(self.connection._answers) <= MOST_CALLS
        answers = parsed(self._pipe.written)
        self._pipe.written = b""
        for number, stream, kind, body in answers:
            assert (number, kind) == (PLUGIN, 2)
            answer = TTRPC.Response.FromString(body)
            # Of noise may have come a call that nobody made, one doubled, or another than was made.
            if not self.broken:
                _check(*self.asked.pop(stream), answer)
        if not self.broken:
            assert not self.asked, f"never answered: {self.asked}"
            assert not self.ended

    async def close(self) -> None:
        if not self._reader.at_eof() and not self.ended:
            self._reader.feed_eof()
        try:
            await self._serving
        except ProtocolError:
            assert self.broken


def _check(method: str, asked: Any, answer: Any) -> None:
    """An answer's form; of what was asked in order, its content too."""
    if answer.status.code:
        assert method in _UNKNOWN, answer.status
        assert answer.status.code == 12
        return
    assert method not in _UNKNOWN
    kind = getattr(NRI, _ANSWERS.get(method, "Empty"))
    content = kind.FromString(answer.payload)
    if method == "UpdateContainer" and asked is not None:
        assert [each.container_id for each in content.update] in ([], [asked.container.id])
    if method == "CreateContainer" and asked is not None and asked.container.name == "main":
        known = asked.pod.uid in ("u1", "u2")
        assert content.adjust.linux.resources == (LIMITS if known else NRI.LinuxResources())


def play(folder: Path, draw: Random, messages: int) -> None:
    """So many messages."""
    setting = Setting(folder)
    run_virtual(_play(setting, draw, messages), setting.clock)


async def _play(setting: Setting, draw: Random, messages: int) -> None:
    pods = [batch("u1"), batch("u2")]
    await setting.knows(*pods)
    left = messages
    while left > 0:
        runtime = _Runtime(setting, draw)
        for _ in range(min(left, draw.randrange(1, _CONNECTION_MESSAGES))):
            left -= 1
            _send_one(runtime, draw, pods)
            if draw.random() < 0.15:
                await runtime.settle()
            if runtime.ended:
                break
        await runtime.settle()
        await runtime.close()
    assert {each["method"] for each in setting.calls.status()["calls"]} <= {*_ANSWERS, *_EMPTY}
    # Whatever was sent, a container is made as ever.
    assert (await setting.create(pods[0])).linux.resources == LIMITS


def _send_one(runtime: _Runtime, draw: Random, pods: list[PodState]) -> None:
    chance = draw.random()
    if chance < 0.7:
        runtime.send(_call(runtime, draw, pods))
    elif chance < 0.9:
        method = draw.choice((*_ANSWERS, *_EMPTY))
        raw = noise.mangled(draw, _request(draw, method, pods).SerializeToString())
        runtime.send(runtime.call(method, None, raw))
    elif chance < 0.96:
        two = [_call(runtime, draw, pods) for _ in range(2)]
        for each in reversed(two):  # the later stream first
            runtime.send(each)
    else:
        runtime.broken = True
        whole = _call(runtime, draw, pods)
        runtime.feed(draw.choice((
            frame(PLUGIN, noise.mangled(draw, whole)),
            noise.mangled(draw, frame(PLUGIN, whole)),
            frame(RUNTIME, message(draw.randrange(9), draw.randrange(4), draw.randbytes(9))),
            struct.pack(">II", PLUGIN, draw.choice((2**32 - 1, (4 << 20) + 11))),
            frame(PLUGIN, struct.pack(">IIBB", (4 << 20) + 1, 1, 1, 0)),
            frame(PLUGIN, b"") * 50,
        )))  # fmt: skip


def _call(runtime: _Runtime, draw: Random, pods: list[PodState]) -> bytes:
    method = draw.choice((*_ANSWERS, *_EMPTY, *_UNKNOWN))
    return runtime.call(method, _request(draw, method, pods))


def _request(draw: Random, method: str, pods: list[PodState]) -> Any:
    """In order as far as NRI's own fields go; what they say is anything."""
    if method in ("CreateContainer", "UpdateContainer"):
        of_pod = sandbox(draw.choice(pods))
        of_pod.uid = draw.choice(_UIDS)
        # Annotations are a field that the plugin does not read.
        of_pod.MergeFromString(noise.map_field(6, noise.texts(draw)))
        name = draw.choice(("main", "main", noise.text(draw)))
        container = made(id=noise.text(draw), name=name)
        container.MergeFromString(noise.map_field(6, noise.texts(draw)))
        return getattr(NRI, f"{method}Request")(pod=of_pod, container=container)
    if method == "Synchronize":
        return _synchronize(draw, pods)
    if method == "Configure":
        return NRI.ConfigureRequest(
            runtime_name=noise.text(draw), runtime_version=noise.text(draw),
            request_timeout=draw.choice((0, 2000, -1, 1000, 2**62)),
        )  # fmt: skip
    if method in ("StateChange", "RunPodSandbox"):
        kind = NRI.StateChangeEvent if method == "StateChange" else NRI.RunPodSandboxRequest
        asked = noise.filled(draw, kind)
        asked.pod.uid = draw.choice(_UIDS)
        return asked
    return noise.filled(draw, NRI.StateChangeEvent)


def _synchronize(draw: Random, pods: list[PodState]) -> Any:
    asked = NRI.SynchronizeRequest(more=draw.random() < 0.3)
    asked.pods.extend(sandbox(each) for each in pods if draw.random() < 0.5)
    for _ in range(draw.randrange(4)):
        own = draw.choice(("s-u1", "s-u2", noise.text(draw)))
        container = noise.filled(draw, NRI.Container)
        container.id, container.pod_sandbox_id = noise.text(draw), own
        asked.containers.append(container)
    return asked
