# SPDX-License-Identifier: Apache-2.0
"""Memory quality, resctrl, block I/O and system settings on one node: what they claim."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from koord.agent.host.kernel.features import Feature
from koord.agent.strategies.blkio.strategy import BlkIO
from koord.agent.strategies.memoryqos.strategy import MemoryQoS
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.resctrl.strategy import ResctrlStrategy
from koord.agent.strategies.strategy import Actuators
from koord.agent.strategies.sysreconcile.strategy import SystemConfig
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.qos_strategy import (
    BlkIOQOS,
    BlockCfg,
    IOCfg,
    MemoryQOS,
    ResctrlQOS,
    ResourceQOS,
    ResourceQOSStrategy,
)
from koord.api.kinds.slo_strategies import SystemStrategy
from koord.base.errors import KoordError
from koord.kernels.cgroup_parse import Version
from tests.agent.strategies.fakes import FakeEvictor, FakeExecutor, FakeReader, machine
from tests.agent.strategies.nodes import node, pod, resources, tick

_GIB = 2**30
_POD_PARENT = "kubepods.slice/kubepods-burstable.slice"


class Scene:
    def __init__(self, made, strategy):
        self.machine, self.strategy = made, strategy
        self.executor = FakeExecutor()
        self.hands = Actuators(self.executor, FakeEvictor())
        self.pods = []
        self.slo = NodeSLOSpec()

    def run(self):
        view = tick(
            self.machine, FakeReader(), pods=self.pods, slo=self.slo,
            of=node({"cpu": "8", "memory": "512Gi"}, {"cpu": "8", "memory": "16Gi"}),
        )  # fmt: skip
        return self.strategy.run(view, self.hands)

    def values(self, directory):
        """Values by resource, of one directory."""
        claims = self.executor.of(self.strategy.name)
        return {r: claim[0].value for (r, d), claim in claims.items() if d == directory}


def _memory(tmp_path, pods, **classes):
    scene = Scene(machine(tmp_path), MemoryQoS(StrategyOptions()))
    sections = {name: ResourceQOS(memory_qos=own) for name, own in classes.items()}
    scene.slo.resource_qos_strategy = ResourceQOSStrategy(**sections)
    scene.pods = pods
    scene.run()
    return scene


def _web(name="web", annotations=None, **more):
    container = {"name": "main", "resources": resources({"memory": "1Gi"}, memory="2Gi")}
    return pod(name, qos="LS", containers=[container], annotations=annotations, **more)


def test_memory_of_a_container_a_pod_and_its_class(tmp_path):
    web, job = _web(), pod("job", qos="BE", containers=[{
        "name": "main", "resources": resources(
            {"kubernetes.io/batch-memory": 4 * _GIB}, **{"kubernetes.io/batch-memory": 8 * _GIB}
        )}])  # fmt: skip
    own = MemoryQOS(
        min_limit_percent=50,
        low_limit_percent=20,
        throttling_percent=80,
        wmark_ratio=95,
        wmark_scale_permill=20,
        wmark_min_adj=-25,
        priority=3,
    )
    scene = _memory(tmp_path, [web, job], ls_class=own, be_class=MemoryQOS(min_limit_percent=10))
    assert scene.values(web.containers[0].directory) == {
        "memory.min": _GIB // 2, "memory.low": _GIB // 2, "memory.high": 1932734464,
        "memory.wmark_ratio": 95, "memory.wmark_scale_factor": 20, "memory.wmark_min_adj": -25,
        "memory.priority": 3,
    }  # fmt: skip
    of_pod = scene.values(web.directory)
    assert (of_pod["memory.min"], of_pod["memory.low"]) == (_GIB // 2, _GIB // 2)
    assert "memory.high" not in of_pod
    burstable = scene.values(_POD_PARENT)
    # Classes add up what pods ask for; raising low to min is each pod's own matter.
    assert burstable == {
        "memory.min": _GIB // 2, "memory.low": _GIB * 20 // 100, "memory.priority": 3
    }  # fmt: skip
    be = scene.values("kubepods.slice/kubepods-besteffort.slice")
    assert be == {"memory.min": 4 * _GIB // 10}
    assert scene.values("kubepods.slice")["memory.min"] == _GIB // 2 + 4 * _GIB // 10


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('{"policy":"none","wmarkRatio":7}', (0, 0)),
        ('{"policy":"auto"}', (95, 0)),
        ('{"policy":"auto","wmarkRatio":80,"minLimitPercent":100}', (80, _GIB)),
        ('{"policy":"default","wmarkRatio":80}', (80, _GIB // 2)),
        ('{"minLimitPercent":100}', (60, _GIB)),
        ("{", (60, _GIB // 2)),
    ],
)
def test_a_pods_annotation(tmp_path, annotation, expected):
    web = _web(annotations={"koordinator.sh/memoryQOS": annotation})
    scene = _memory(tmp_path, [web], ls_class=MemoryQOS(min_limit_percent=50, wmark_ratio=60))
    values = scene.values(web.directory)
    assert (values["memory.wmark_ratio"], values["memory.min"]) == expected


def test_no_settings_are_no_files_and_ended_pods_none(tmp_path):
    assert _memory(tmp_path, [_web()]).executor.all() == []
    ended = _memory(tmp_path, [_web(phase="Failed")], ls_class=MemoryQOS(min_limit_percent=50))
    assert ended.values(_POD_PARENT) == {}


def test_page_cache(tmp_path):
    web = _web()
    scene = _memory(tmp_path, [web], ls_class=MemoryQOS(page_cache_limit_percent=50))
    prefix = "memory.pagecache_limit."
    found = {k.removeprefix(prefix): v for k, v in scene.values(web.directory).items()}
    assert found == {"enable": 1, "size": _GIB, "sync": 0}
    off = MemoryQOS(page_cache_limit_size=0, page_cache_enable=False)
    values = _memory(tmp_path, [web], ls_class=off).values(web.directory)
    assert {k.removeprefix(prefix): v for k, v in values.items()} == {"enable": 0, "size": 0}


def _limited(memory, *others):
    """A service of the limit, None for no limit; and containers with limits of their own."""
    limits = [memory, *others]
    return pod("web", qos="LS", containers=[
        {"name": f"c{at}", "resources": resources(**({} if each is None else {"memory": each}))}
        for at, each in enumerate(limits)
    ])  # fmt: skip


_NOTHING: dict[str, int] = {}


@pytest.mark.parametrize(
    ("settings", "limits", "files"),
    [
        # Not set: the file is left alone.
        ({}, ["2Gi"], _NOTHING),
        ({"page_cache_reclaim_sync": True}, ["2Gi"], _NOTHING),
        ({"page_cache_enable": True}, ["2Gi"], {"enable": 1}),
        ({"page_cache_enable": False}, ["2Gi"], {"enable": 0}),
        # No limit: there is no share of it.
        ({"page_cache_limit_percent": 50}, [None], _NOTHING),
        ({"page_cache_limit_percent": 50}, ["0"], _NOTHING),
        ({"page_cache_limit_percent": 50, "page_cache_enable": True}, [None], {"enable": 1}),
        ({"page_cache_limit_size": 4 * _GIB}, [None], {"enable": 1, "size": 4 * _GIB, "sync": 0}),
        # Zero: switched off.
        ({"page_cache_limit_size": 0}, ["2Gi"], {"enable": 0, "size": 0}),
        ({"page_cache_limit_size": -1}, ["2Gi"], {"enable": 0, "size": 0}),
        ({"page_cache_limit_size": 0}, [None], {"enable": 0, "size": 0}),
        ({"page_cache_limit_percent": 0}, ["2Gi"], {"enable": 0, "size": 0}),
        ({"page_cache_limit_percent": 0}, [None], _NOTHING),
        ({"page_cache_limit_size": 0, "page_cache_enable": True}, ["2Gi"],
         {"enable": 1, "size": 0}),
        # A size.
        ({"page_cache_limit_percent": 50, "page_cache_reclaim_sync": True}, ["2Gi"],
         {"enable": 1, "size": _GIB, "sync": 1}),
        ({"page_cache_limit_percent": 50}, ["2Gi", None], {"enable": 1, "size": _GIB, "sync": 0}),
        ({"page_cache_limit_size": 4 * _GIB}, ["2Gi"], {"enable": 1, "size": 2 * _GIB, "sync": 0}),
        ({"page_cache_limit_size": _GIB, "page_cache_limit_percent": 0}, ["2Gi"],
         {"enable": 1, "size": _GIB, "sync": 0}),
        ({"page_cache_limit_size": _GIB, "page_cache_enable": False}, ["2Gi"],
         {"enable": 0, "size": _GIB, "sync": 0}),
    ],
)  # fmt: skip
def test_not_set_no_limit_and_zero_are_three_things(tmp_path, settings, limits, files):
    web = _limited(*limits)
    values = _memory(tmp_path, [web], ls_class=MemoryQOS(**settings)).values(web.directory)
    assert {k.removeprefix("memory.pagecache_limit."): v for k, v in values.items()} == files


def test_a_best_effort_pod_is_limited_where_each_container_is(tmp_path):
    def job(*limits):
        name = "kubernetes.io/batch-memory"
        return pod("job", qos="BE", containers=[
            {"name": f"c{at}", "resources": resources(**({name: each} if each else {}))}
            for at, each in enumerate(limits)
        ])  # fmt: skip

    half = MemoryQOS(page_cache_limit_percent=50)
    both, one = job(2 * _GIB, 2 * _GIB), job(2 * _GIB, 0)
    of_both = _memory(tmp_path / "both", [both], be_class=half).values(both.directory)
    assert of_both["memory.pagecache_limit.size"] == 2 * _GIB
    assert _memory(tmp_path / "one", [one], be_class=half).values(one.directory) == {}


def _resctrl(tmp_path, vendor="GenuineIntel", cbm="3ff", ids=(0, 1)):
    made = machine(tmp_path)
    step = "10" if vendor == "GenuineIntel" else "1"
    root = Path(made.roots.resctrl)
    (root / "info/L3").mkdir(parents=True)
    (root / "info/MB").mkdir(parents=True)
    Path(made.roots.proc).mkdir(parents=True, exist_ok=True)
    Path(made.roots.proc, "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    for path, text in {
        "info/L3/cbm_mask": cbm, "info/L3/min_cbm_bits": "2", "info/L3/num_closids": "16",
        "info/L3/shareable_bits": "0", "info/MB/bandwidth_gran": step,
        "info/MB/min_bandwidth": step, "info/MB/num_closids": "8", "info/MB/delay_linear": "1",
        "schemata": "".join(
            f"{n}:" + ";".join(f"{i}={v}" for i in ids) + "\n"
            for n, v in (("L3", cbm), ("MB", "100"))
        ),
    }.items():  # fmt: skip
        (root / path).write_text(f"{text}\n" if path != "schemata" else text)
    scene = Scene(made, ResctrlStrategy(StrategyOptions()))
    scene.slo.resource_qos_strategy = ResourceQOSStrategy(
        ls_class=ResourceQOS(resctrl_qos=_cat(0, 100, 100)),
        lsr_class=ResourceQOS(resctrl_qos=_cat(0, 100, 100)),
        be_class=ResourceQOS(resctrl_qos=_cat(0, 30, 35)),
    )
    return scene


def _cat(start, end, mba):
    return ResctrlQOS(
        enable=True, cat_range_start_percent=start, cat_range_end_percent=end, mba_percent=mba
    )


def test_resctrl_groups_as_the_kernel_takes_them(tmp_path):
    scene = _resctrl(tmp_path)
    told = scene.run()
    assert told["groups"]["BE"] == ["L3:0=7;1=7;", "MB:0=40;1=40;"]
    assert told["groups"]["LSR"] == ["L3:0=3ff;1=3ff;", "MB:0=100;1=100;"]
    claims = [c for c in scene.executor.claims["resctrl", "groups"] if c.directory == "BE"]
    assert [(c.resource, c.value) for c in claims] == [
        ("resctrl.group", 1),
        ("resctrl.schemata", "L3:0=7;1=7;"),
        ("resctrl.schemata", "MB:0=40;1=40;"),
    ]


def test_resctrl_on_amd_and_what_the_hardware_does_not_take(tmp_path):
    scene = _resctrl(tmp_path, vendor="AuthenticAMD", cbm="ffff", ids=range(16))
    scene.slo.resource_qos_strategy.be_class.resctrl_qos = _cat(0, 3, 80)
    told = scene.run()
    assert told["groups"]["LS"][1].startswith("MB:0=2048;")
    assert told["groups"]["BE"][0].startswith("L3:0=3;")
    assert told["groups"]["BE"][1].startswith("MB:0=128;")
    assert any(note.startswith("BE:") for note in told["notes"])


def test_a_range_that_is_none_keeps_no_other_class_from_its_ways(tmp_path):
    scene = _resctrl(tmp_path)
    scene.slo.resource_qos_strategy.ls_class.resctrl_qos = _cat(50, 50, 90)
    told = scene.run()
    assert told["groups"] == {
        "LSR": ["L3:0=3ff;1=3ff;", "MB:0=100;1=100;"],
        "LS": ["MB:0=90;1=90;"],
        "BE": ["L3:0=7;1=7;", "MB:0=40;1=40;"],
    }
    assert told["notes"] == ["LS: cache range 50 to 50 is none"]


def test_members_of_resctrl_groups(tmp_path):
    scene = _resctrl(tmp_path)
    scene.pods = [
        pod("lse", qos="LSE"), pod("ls", qos="LS"), pod("be", qos="BE"),
        pod("own", qos="LS", annotations={"node.koordinator.sh/resctrl": "{}"}),
        pod("system", qos="SYSTEM"), pod("ended", qos="BE", phase="Succeeded"),
    ]  # fmt: skip
    scene.run()
    members = {
        scope: [(c.resource, c.directory, c.value) for c in claims]
        for (_, scope), claims in scene.executor.claims.items()
        if scope != "groups"
    }
    assert members == {
        f"uid-{p.pod.metadata.name}": [("resctrl.members", group, p.containers[0].directory)]
        for p, group in zip(scene.pods, ("LSR", "LS", "BE"), strict=False)
    }
    sandbox = f"{scene.pods[0].directory}/cri-containerd-pause.scope"
    (Path(scene.machine.hierarchy.path) / sandbox).mkdir(parents=True)
    scene.run()
    claims = scene.executor.claims["resctrl", "uid-lse"]
    assert [c.value for c in claims] == [scene.pods[0].containers[0].directory, sandbox]
    scene.pods = scene.pods[:1]
    scene.slo.resource_qos_strategy.lsr_class.resctrl_qos.enable = None
    scene.run()
    assert list(scene.executor.claims) == [("resctrl", "groups")]


def test_resctrl_unsupported_or_unmounted(tmp_path):
    scene = _resctrl(tmp_path)
    Path(scene.machine.roots.resctrl, "schemata").unlink()
    with pytest.raises(KoordError, match="mounted"):
        scene.run()
    missing = machine(tmp_path / "none", missing={Feature.RESCTRL: "no cat_l3"})
    bare = Scene(missing, ResctrlStrategy(StrategyOptions()))
    bare.slo.resource_qos_strategy = ResourceQOSStrategy()
    assert bare.run() == {"state": "unsupported", "why": "no cat_l3"}


@dataclass(frozen=True)
class Disk:
    path: str
    number: str


@dataclass
class Disks:
    """Two disks; a volume group on the second, where a pod's volume is mounted too."""

    mount: str = ""
    devices: dict[str, Disk] = field(
        default_factory=lambda: {
            "vdb": Disk("/dev/vdb", "253:16"),
            "vdc": Disk("/dev/vdc", "253:32"),
        }
    )

    def device_of_mount(self, mount_point):
        return self.devices["vdc"] if mount_point == self.mount else None

    def disk_of(self, device):
        return device

    def disk_of_group(self, volume_group):
        return self.devices["vdc"] if volume_group == "vg" else None


def _blkio(tmp_path, version=Version.V1, **options):
    disks = Disks()
    made = machine(tmp_path, version=version)
    scene = Scene(made, BlkIO(StrategyOptions(storage=lambda: disks, **options)))
    disks.mount = f"{made.roots.kubelet}/pods/uid-db/volumes/kubernetes.io~csi/pv-1/mount"
    block = BlockCfg(name="/dev/vdb", type="device", io_cfg=IOCfg(read_iops=1000))
    be = BlkIOQOS(enable=True, blocks=[block])
    scene.slo.resource_qos_strategy = ResourceQOSStrategy(be_class=ResourceQOS(blkio_qos=be))
    return scene


def test_block_io_of_the_be_class(tmp_path):
    scene = _blkio(tmp_path)
    scene.run()
    assert scene.values("kubepods.slice/kubepods-besteffort.slice") == {
        "blkio.throttle.read_iops_device": "253:16 1000",
        "blkio.throttle.write_iops_device": "253:16 0",
        "blkio.throttle.read_bps_device": "253:16 0",
        "blkio.throttle.write_bps_device": "253:16 0",
        "blkio.cost.weight": "253:16 100",
    }
    scene.slo.resource_qos_strategy.be_class.blkio_qos.enable = False
    scene.run()
    assert scene.executor.claims == {}


def test_block_io_of_a_pods_volume(tmp_path):
    scene = _blkio(tmp_path, volume_of=lambda namespace, claim: f"pv-{claim[-1]}")
    text = json.dumps({"blocks": [{"name": "data", "type": "podvolume",
                                   "ioCfg": {"writeBPS": 5, "ioWeightPercent": 60}}]})  # fmt: skip
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim-1"}}]
    db = pod("db", qos="LS", annotations={"koordinator.sh/blkioQOS": text}, volumes=volumes)
    scene.pods = [db]
    scene.run()
    values = scene.values(db.directory)
    assert values["blkio.throttle.write_bps_device"] == "253:32 5"
    assert values["blkio.cost.weight"] == "253:32 60"


def test_a_block_that_cannot_be_told_leaves_its_target_as_it_is(tmp_path):
    scene = _blkio(tmp_path)
    scene.run()
    before = dict(scene.executor.claims)
    blocks = scene.slo.resource_qos_strategy.be_class.blkio_qos.blocks
    blocks.append(BlockCfg(name="nowhere", type="volumegroup"))
    assert "nowhere" in scene.run()["unresolved"]["be"]
    assert scene.executor.claims == before


def test_cost_of_the_whole_node(tmp_path):
    scene = _blkio(tmp_path)
    config = IOCfg(enable_user_model=True, model_read_bps=10, model_write_rand_iops=20,
                   read_latency=500)  # fmt: skip
    block = BlockCfg(name="vg", type="volumegroup", io_cfg=config)
    root = ResourceQOS(blkio_qos=BlkIOQOS(enable=True, blocks=[block]))
    scene.slo.resource_qos_strategy = ResourceQOSStrategy(cgroup_root=root)
    scene.run()
    assert scene.values("") == {
        "blkio.cost.qos": "253:32 enable=1 ctrl=user rpct=95 rlat=500 wpct=95 wlat=3000",
        "blkio.cost.model": "253:32 ctrl=user rbps=10 rseqiops=0 rrandiops=0 wbps=0 wseqiops=0 "
        "wrandiops=20",
    }


def test_block_io_is_claimed_alike_on_cgroup_v2(tmp_path):
    said = []
    for version in (Version.V1, Version.V2):
        scene = _blkio(tmp_path / version.name, version)
        scene.run()
        said.append(scene.values("kubepods.slice/kubepods-besteffort.slice"))
    assert said[0] == said[1] != {}


def test_system_settings(tmp_path):
    scene = Scene(machine(tmp_path), SystemConfig(StrategyOptions()))
    scene.slo.system_strategy = SystemStrategy(
        min_free_kbytes_factor=100, watermark_scale_factor=401, memcg_reap_back_ground=1,
        sched_features={"ID_EXPELLER": True, "ID_ABSOLUTE_EXPEL": False},
    )  # fmt: skip
    told = scene.run()
    claims = scene.executor.claims["sysreconcile", "node"]
    assert [(c.resource, c.directory, c.value) for c in claims] == [
        ("min_free_kbytes", "", 5368709),
        ("reap_background", "", 1),
        ("sched_features", "", "NO_ID_ABSOLUTE_EXPEL"),
        ("sched_features", "", "ID_EXPELLER"),
    ]
    assert told["out_of_range"] == ["watermark_scale_factor"]


@pytest.mark.parametrize("kind", [MemoryQoS, ResctrlStrategy, BlkIO, SystemConfig])
def test_without_configuration_a_round_is_given_up_and_stop_takes_all_back(tmp_path, kind):
    scene = Scene(machine(tmp_path), kind(StrategyOptions()))
    with pytest.raises(KoordError, match="NodeSLO"):
        scene.run()
    scene.slo = None
    with pytest.raises(KoordError, match="NodeSLO"):
        scene.run()
    scene.executor.state(kind.name, "any", [SimpleNamespace()])
    scene.strategy.stop(scene.hands)
    assert scene.executor.claims == {}
