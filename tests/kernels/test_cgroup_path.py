# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels import cgroup_path as path
from koord.kernels.cgroup_path import Driver, HostPath, KubeQos

SYSTEMD, CGROUPFS = Driver.SYSTEMD, Driver.CGROUPFS
GUARANTEED, BURSTABLE, BEST_EFFORT = KubeQos


@pytest.mark.parametrize(
    ("driver", "qos", "pod"),
    [
        (SYSTEMD, GUARANTEED, "kubepods.slice/kubepods-poda_b.slice"),
        (
            SYSTEMD,
            BURSTABLE,
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice",
        ),
        (
            SYSTEMD,
            BEST_EFFORT,
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice",
        ),
        (CGROUPFS, GUARANTEED, "kubepods/poda-b"),
        (CGROUPFS, BURSTABLE, "kubepods/burstable/poda-b"),
        (CGROUPFS, BEST_EFFORT, "kubepods/besteffort/poda-b"),
    ],
)
def test_pods_and_back(driver: Driver, qos: KubeQos, pod: str) -> None:
    assert path.pod_directory(driver, qos, "a-b") == pod
    name = pod.rpartition("/")[2]
    assert path.pod_uid_of(driver, name) == ("a_b" if driver is SYSTEMD else "a-b")
    assert path.qos_of_path(pod) is qos
    assert path.container_directory(driver, qos, "a-b", "docker://h").startswith(pod + "/")


@pytest.mark.parametrize(
    ("container", "name", "inverse"),
    [("docker://H", "docker-H.scope", True), ("containerd://H", "cri-containerd-H.scope", True),
     ("pouch://H", "pouch-H.scope", False), ("cri-o://H", "crio-H.scope", True)],
)  # fmt: skip
def test_containers_and_back(container: str, name: str, inverse: bool) -> None:
    assert path.container_name(SYSTEMD, container) == name
    assert path.container_name(CGROUPFS, container) == "H"
    assert path.container_hash_of(CGROUPFS, "H") == "H"
    if inverse:
        assert path.container_hash_of(SYSTEMD, name) == "H"
    else:
        with pytest.raises(ValueError, match="container directory: got"):
            path.container_hash_of(SYSTEMD, name)


def test_crio_without_a_suffix() -> None:
    assert path.container_hash_of(SYSTEMD, "crio-H") == "H"


@pytest.mark.parametrize("bad", ["", "H", "crio://H", "docker://", "docker://a/b", "docker://.."])
def test_a_container_id_of_another_form_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="container id: got"):
        path.container_name(SYSTEMD, bad)


@given(st.text(alphabet="a-/._", max_size=6), st.sampled_from(Driver), st.sampled_from(KubeQos))
def test_a_uid_never_leaves_its_class(uid: str, driver: Driver, qos: KubeQos) -> None:
    try:
        directory = path.pod_directory(driver, qos, uid)
    except ValueError:
        assert uid in ("", ".", "..") or "/" in uid
        return
    parent, _, name = directory.rpartition("/")
    assert parent == path.qos_directory(driver, qos)
    assert path.pod_uid_of(driver, name).replace("_", "-") == uid.replace("_", "-")


@pytest.mark.parametrize(
    ("qos", "given_path", "directory"),
    [
        ("LSE", None, "host-latency-sensitive/app"),
        ("LS", None, "host-latency-sensitive/app"),
        ("BE", None, "host-best-effort/app"),
        ("SYSTEM", None, "app"),
        ("", None, "app"),
        ("BE", HostPath("", "a/", "/b"), "a/b"),
        ("BE", HostPath("Kubepods", "a"), "kubepods.slice/a"),
        ("", HostPath("KubepodsBesteffort", "", "b"), "kubepods.slice/kubepods-besteffort.slice/b"),
    ],
)
def test_host_applications(qos: str, given_path: HostPath | None, directory: str) -> None:
    assert path.host_application_directory(SYSTEMD, "app", qos, given_path) == directory


def test_an_unknown_base_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cgroupPath\.base: got 'x'"):
        path.host_application_directory(SYSTEMD, "app", "LS", HostPath("x"))
