# SPDX-License-Identifier: Apache-2.0
"""The goldens are what a real kube-apiserver answers, and what a real kubectl sends, today."""

from __future__ import annotations

import asyncio

import pytest

from tests.controlplane.goldens import case_files, goldens
from tests.controlplane.recording import Recorder
from tests.controlplane.schema import client_bodies
from tests.real.fixtures import need
from tests.real.plane import RealControlPlane

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", case_files())
def test_a_real_server_answers_as_recorded(real_plane: RealControlPlane, name: str) -> None:
    answers = Recorder(real_plane.url, real_plane.tls()).record(name)
    recorded = goldens(name)
    assert answers.keys() == recorded.keys()
    for case, answer in answers.items():
        assert answer == recorded[case], case


def test_kubectl_sends_what_is_recorded() -> None:
    need("kubectl")
    golden = asyncio.run(client_bodies.record())
    assert client_bodies.text(golden) == client_bodies.FILE.read_text(encoding="utf-8")
