# SPDX-License-Identifier: Apache-2.0
"""GPU environment and RDMA devices: only for a container that is being made."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.agent.hooks.builtin.gpu_env import GPUEnvInject
from koord.agent.hooks.builtin.rdma_device import RDMADeviceInject
from koord.agent.hooks.hook import ContainerContext, DeviceFile
from koord.agent.hooks.options import machine_options
from koord.agent.host.kernel.features import Features
from koord.agent.host.roots import HOST_MODE, HostRoots
from koord.base.errors import KoordError
from tests.agent.hooks.build import DEVICES, inner, options, pod

HAMI = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
RATIO, MEMORY, CORE = (f"koordinator.sh/gpu-{name}" for name in ("memory-ratio", "memory", "core"))
LIBRARY = "/usr/local/vgpu/libvgpu.so"


def created(annotations: dict[str, Any], **more: Any) -> ContainerContext:
    """As a delivery sees it that makes the container."""
    context = inner(pod("LS", annotations=annotations, **more))
    return replace(context, pod=replace(context.pod, reconciling=False))


def gpu(minor: int) -> dict[str, Any]:
    return {"minor": minor, "resources": {}}


def share(minor: int, **amounts: str) -> dict[str, Any]:
    names = {"ratio": RATIO, "memory": MEMORY, "core": CORE}
    return {"minor": minor, "resources": {names[name]: v for name, v in amounts.items()}}


def test_minors_in_order() -> None:
    context = created({DEVICES: {"gpu": [gpu(3), gpu(0)]}})
    answer = GPUEnvInject(options()).container(context)
    assert answer is not None
    assert answer.environment == {"NVIDIA_VISIBLE_DEVICES": "3,0"}
    assert answer.mounts == []


def test_nothing_without_gpus_for_the_sandbox_or_when_reconciling() -> None:
    hook = GPUEnvInject(options())
    assert hook.container(created({})) is None
    assert hook.container(created({DEVICES: {"rdma": [gpu(1)]}})) is None
    context = created({DEVICES: {"gpu": [gpu(1)]}})
    assert hook.container(replace(context, name="")) is None
    assert hook.container(inner(pod(annotations={DEVICES: {"gpu": [gpu(1)]}}))) is None


def test_a_share_of_a_gpu_under_hami_core() -> None:
    row = share(1, ratio="50", memory="8Gi", core="30")
    kept: list[str] = []
    hook = GPUEnvInject(options(keep_directory=kept.append))
    answer = hook.container(created({DEVICES: {"gpu": [row]}}, labels=HAMI))
    assert answer is not None
    assert answer.environment == {
        "NVIDIA_VISIBLE_DEVICES": "1",
        "CUDA_DEVICE_MEMORY_LIMIT": str(8 << 30),
        "CUDA_DEVICE_SM_LIMIT": "30",
        "LD_PRELOAD": LIBRARY,
    }
    # Nothing of the host's /tmp: a folder of the card, beside the library.
    assert kept == ["/usr/local/vgpu/locks/1"]
    assert answer.mounts == [(LIBRARY, LIBRARY), (kept[0], "/tmp/vgpulock")]


@pytest.mark.parametrize("minors", [[-1], [64], [1, 1], [2**31]])
def test_minors_that_no_card_has(minors: list[int]) -> None:
    context = created({DEVICES: {"gpu": [gpu(minor) for minor in minors]}})
    with pytest.raises(KoordError, match="minors from 0 to 63, each once"):
        GPUEnvInject(options()).container(context)


def test_the_folder_of_locks_is_shared_and_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("agent_mode", HOST_MODE)
    asked = machine_options(lambda gate: True, Features({}), HostRoots())
    place = tmp_path / "vgpu" / "locks" / "0"
    asked.keep_directory(str(place))
    (place / "lock").touch()
    asked.keep_directory(str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o1777
    assert (place / "lock").exists()
    link = tmp_path / "link"
    link.symlink_to(place)
    with pytest.raises(OSError, match="link"):
        asked.keep_directory(str(link))


def test_the_monitor_gets_a_directory_of_its_own() -> None:
    made: list[str] = []
    hook = GPUEnvInject(options({"HamiCoreVGPUMonitor"}, make_directory=made.append))
    row = share(1, ratio="50", memory="8Gi")
    answer = hook.container(created({DEVICES: {"gpu": [row]}}, labels=HAMI))
    assert answer is not None
    assert "CUDA_DEVICE_SM_LIMIT" not in answer.environment
    cache = answer.environment["CUDA_DEVICE_MEMORY_SHARED_CACHE"]
    assert cache == "/usr/local/vgpu/u1_main.cache"
    assert made == ["/usr/local/vgpu/containers/u1_main"]
    assert answer.mounts[-1] == (made[0], "/usr/local/vgpu")


def test_a_name_that_leads_out_makes_no_directory() -> None:
    made: list[str] = []
    hook = GPUEnvInject(options({"HamiCoreVGPUMonitor"}, make_directory=made.append))
    context = created({DEVICES: {"gpu": [share(1, ratio="50", memory="8Gi")]}}, labels=HAMI)
    for name in ("../../etc", "..", "a/b", "a\0"):
        with pytest.raises(KoordError):
            hook.container(replace(context, name=name))
    assert made == []


@pytest.mark.parametrize("lacking", [LIBRARY, "/usr/local/vgpu/locks/1"])
def test_what_the_host_lacks_is_mounted_nowhere(lacking: str) -> None:
    """No runtime makes a container with such a mount; the card itself it still gets."""

    def keep(path: str) -> None:
        if path == lacking:
            raise PermissionError(path)

    asked = options(host_has=lambda path: path != lacking, keep_directory=keep)
    row = share(1, ratio="50", memory="8Gi", core="30")
    answer = GPUEnvInject(asked).container(created({DEVICES: {"gpu": [row]}}, labels=HAMI))
    assert answer is not None
    assert (answer.mounts, answer.missing) == ([], [lacking])
    assert answer.environment == {"NVIDIA_VISIBLE_DEVICES": "1"}


@pytest.mark.parametrize("row", [share(1, memory="8Gi"), share(1, ratio="50")])
def test_hami_core_needs_the_amounts(row: dict[str, Any]) -> None:
    with pytest.raises(KoordError):
        GPUEnvInject(options()).container(created({DEVICES: {"gpu": [row]}}, labels=HAMI))


def test_a_whole_gpu_is_not_isolated() -> None:
    row = share(1, ratio="100")
    answer = GPUEnvInject(options()).container(created({DEVICES: {"gpu": [row]}}, labels=HAMI))
    assert answer is not None
    assert list(answer.environment) == ["NVIDIA_VISIBLE_DEVICES"]


VERBS = {"0000:3b:00.0/infiniband_verbs": ["uverbs0"], "0000:3b:00.2/infiniband_verbs": ["uverbs2"],
         "0000:5e:00.0/infiniband_verbs": ["uverbs4", "uverbs5"], "odd": []}  # fmt: skip


NUMBERS = {"class/misc/rdma_cm": (10, 58),
           "bus/pci/devices/0000:3b:00.2/infiniband_verbs/uverbs2": (231, 194),
           "bus/pci/devices/0000:5e:00.0/infiniband_verbs/uverbs4": (231, 196)}  # fmt: skip


def rdma(*cards: dict[str, Any], **more: Any) -> list[DeviceFile] | None:
    asked = {"pci_names": lambda path: VERBS.get(path, []), "device_numbers": NUMBERS.get} | more
    hook = RDMADeviceInject(options(**asked))
    answer = hook.container(created({DEVICES: {"rdma": list(cards)}}))
    return answer and answer.devices


def test_virtual_functions_before_the_card_itself() -> None:
    functions = {"vfs": [{"minor": 0, "busID": "0000:3b:00.2"}]}
    cards = [
        {"minor": 0, "id": "0000:3b:00.0", "extension": functions},
        {"minor": 1, "id": "0000:5e:00.0"},
    ]
    assert rdma(*cards) == [
        DeviceFile("/dev/infiniband/rdma_cm", 10, 58, "c", 0o666),
        DeviceFile("/dev/infiniband/uverbs2", 231, 194, "c", 0o666),
        DeviceFile("/dev/infiniband/uverbs4", 231, 196, "c", 0o666),
    ]
    assert rdma() is None


def test_numbers_are_those_of_sysfs(tmp_path: Path) -> None:
    bus = "0000:5e:00.0"
    for folder, text in (
        ("class/misc/rdma_cm", "10:58\n"),
        (f"bus/pci/devices/{bus}/infiniband_verbs/uverbs4", "231:196\n"),
    ):
        (tmp_path / "sys" / folder).mkdir(parents=True)
        (tmp_path / "sys" / folder / "dev").write_text(text)
    roots = replace(HostRoots(), sys=str(tmp_path / "sys"))
    asked = machine_options(lambda gate: True, Features({}), roots)
    context = created({DEVICES: {"rdma": [{"minor": 0, "id": bus}]}})
    answer = RDMADeviceInject(asked).container(context)
    assert answer is not None
    assert [(d.path, d.major, d.minor) for d in answer.devices] == [
        ("/dev/infiniband/rdma_cm", 10, 58), ("/dev/infiniband/uverbs4", 231, 196),
    ]  # fmt: skip


def test_a_device_without_numbers_is_an_error() -> None:
    card = {"minor": 1, "id": "0000:5e:00.0"}
    with pytest.raises(KoordError, match="the file dev in bus/pci/devices"):
        rdma(card, device_numbers={"class/misc/rdma_cm": (10, 58)}.get)


@pytest.mark.parametrize("bus", ["0000:99:00.0", "../../../etc", "", "odd", "0000:3b:00.0/.."])
def test_a_device_that_is_not_there_is_an_error(bus: str) -> None:
    with pytest.raises(KoordError):
        rdma({"minor": 0, "id": bus})
