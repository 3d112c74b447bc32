# SPDX-License-Identifier: Apache-2.0
"""Bodies that unpack, nest or repeat themselves to more than they are."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import pytest

from koord.controlplane.frontends import bodies
from koord.controlplane.frontends.bodies import BODY_LIMIT_BYTES
from tests.hostile.served import (
    APPLY_PATCH,
    CONFIGS,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Target,
    attack,
    config_map,
    encoded,
    post,
    said,
)

YAML = "application/yaml"


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_packed_body_is_unpacked_no_further_than_its_limit(
    name: str, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack(b" " * (100 << 20))
    made: list[int] = []

    class Counted:
        def __init__(self, bits: int) -> None:
            self._stream = zlib.decompressobj(bits)

        def decompress(self, data: bytes, most: int) -> bytes:
            plain = self._stream.decompress(data, most)
            made.append(len(plain))
            return plain

    async def test(target: Target) -> None:
        told = await target.exchange(post(CONFIGS, packed, f"Content-Encoding: {name}"))
        assert told.startswith(b"HTTP/1.1 413 ")
        whole = pack(encoded(config_map("a")))
        told = await target.exchange(post(CONFIGS, whole, f"Content-Encoding: {name}"))
        assert told.startswith(b"HTTP/1.1 201 ")

    attack(test)
    monkeypatch.setattr(bodies, "zlib", _Zlib(Counted))
    with pytest.raises(Exception, match="limit is"):
        bodies.unpacked(packed)
    assert made == [BODY_LIMIT_BYTES + 1]


class _Zlib:
    MAX_WBITS, error = zlib.MAX_WBITS, zlib.error

    def __init__(self, decompressobj: object) -> None:
        self.decompressobj = decompressobj


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("gzip", b"no gzip", 400),
        ("gzip", gzip.compress(b"{}" * 100)[:-9], 400),
        ("br", b"{}", 415),
        ("zstd", b"{}", 415),
        ("gzip, gzip", gzip.compress(gzip.compress(b"{}")), 415),
        ("identity", encoded(config_map("b")), 201),
    ],
    ids=["not gzip", "cut gzip", "br", "zstd", "twice", "plain"],
)
def test_other_packings(name: str, body: bytes, status: int) -> None:
    async def test(target: Target) -> None:
        told = await target.exchange(post(CONFIGS, body, f"Content-Encoding: {name}"))
        assert told.startswith(f"HTTP/1.1 {status} ".encode())
        assert status == 201 or json.loads(told.partition(b"\r\n\r\n")[2])["code"] == status

    attack(test)


@pytest.mark.parametrize("opened", [b"[", b'{"a":', b'{"metadata":{"labels":{"a":['])
def test_deep_json(opened: bytes) -> None:
    async def test(target: Target) -> None:
        await target.ask("POST", CONFIGS, config_map("a"))
        deep = opened * 200_000
        for content in (MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH, APPLY_PATCH):
            path = f"{CONFIGS}/a"
            answer = await target.ask("PATCH", path, deep, content, fieldManager="a")
            assert answer.status == 400
        for method, path in (("POST", CONFIGS), ("PUT", f"{CONFIGS}/a")):
            assert (await target.ask(method, path, deep)).status == 400

    attack(test)


DEEP = b"a: " + b"[" * 100_000
LAUGHS = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
).encode()
MERGES = "\n".join(
    ["m0: &m0 {k: v}", *(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}" for n in range(1, 60))]
).encode()
ITSELF = b"a: &a [*a]"


@pytest.mark.parametrize(
    "body", [DEEP, LAUGHS, MERGES, ITSELF], ids=["deep", "laughs", "merges", "self"]
)
def test_deep_and_aliased_yaml(body: bytes) -> None:
    async def test(target: Target) -> None:
        named = b"apiVersion: v1\nkind: ConfigMap\n" + body
        answer = await target.ask("POST", CONFIGS, named, YAML)
        assert answer.status == 400, answer.body[:300]
        path = f"{CONFIGS}/a"
        answer = await target.ask("PATCH", path, named, APPLY_PATCH, fieldManager="a")
        assert answer.status == 400
        assert len(said(answer)) < 1_000

    attack(test)
