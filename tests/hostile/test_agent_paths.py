# SPDX-License-Identifier: Apache-2.0
"""Paths that lead out of where they belong."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest

from koord.agent.executor.journal import NAME, Journal
from koord.agent.executor.target import check_directory
from koord.agent.hooks.builtin.gpu_env import GPUEnvInject
from koord.agent.hooks.builtin.rdma_device import RDMADeviceInject
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import Driver, HostPath, host_application_directory
from tests.agent.hooks.build import DEVICES, inner, options, pod

OUT = ["..", "../..", "a/../../b", "a\0b"]


@pytest.mark.parametrize("path", OUT)
@pytest.mark.parametrize("field", ["parent", "relative"])
def test_a_host_application_stays_beneath_the_cgroup_root(path, field):
    where = HostPath(**{"base": "Kubepods", "parent": "x", "relative": "y", field: path})
    directory = host_application_directory(Driver.SYSTEMD, "app", "LS", where).strip("/")
    with pytest.raises(KoordError, match="a relative path without"):
        check_directory(directory)  # The executor's first look at any claim.


@pytest.mark.parametrize(
    "bus", ["../../../etc", "0000:3b:00.0/..", "", "0000:3b:00.0\n", "." * 300]
)
def test_an_rdma_device_is_looked_for_by_a_pci_address_alone(bus):
    asked = []
    hook = RDMADeviceInject(options(pci_names=lambda path: asked.append(path) or ["uverbs0"]))
    context = inner(pod(annotations={DEVICES: {"rdma": [{"minor": 0, "id": bus}]}}))
    with pytest.raises(KoordError, match="PCI address"):
        hook.container(replace(context, pod=replace(context.pod, reconciling=False)))
    assert asked == []


@pytest.mark.parametrize("directory", ["../etc", "/etc", "a/../../b", "kubepods//x"])
def test_a_journal_names_no_directory_outside(tmp_path, directory):
    body = json.dumps([["cpu.shares", directory, "", 2]]).encode()
    head = f"koord-executor-journal 1 {zlib.crc32(body):08x} boot\n".encode()
    (tmp_path / NAME).write_bytes(head + body)
    with pytest.raises(KoordError, match="remove"):
        Journal(tmp_path, "boot")


def test_no_gpu_is_given_by_a_name_that_leads_out():
    made = []
    hook = GPUEnvInject(options({"HamiCoreVGPUMonitor"}, make_directory=made.append))
    row = {"minor": 0, "resources": {"koordinator.sh/gpu-memory-ratio": "50",
                                     "koordinator.sh/gpu-memory": "1Gi"}}  # fmt: skip
    labels = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
    context = inner(pod(annotations={DEVICES: {"gpu": [row]}}, labels=labels))
    context = replace(context, pod=replace(context.pod, reconciling=False, uid="../../x"))
    with pytest.raises(KoordError):
        hook.container(context)
    assert made == []
