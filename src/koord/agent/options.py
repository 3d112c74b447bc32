# SPDX-License-Identifier: Apache-2.0
"""Flags of koordlet: one field a flag, under the original's names and with its defaults.

Rules: docs/reference/measuring.md#intervals-and-flags,
docs/reference/hooks.md#modes-and-roots.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from koord.agent.feature_gates import feature_gates
from koord.agent.hooks.hook import HookStage
from koord.agent.host.roots import HostRoots
from koord.agent.metrics.options import MetricsOptions
from koord.base.errors import KoordError, nearest
from koord.kube.daemon.secure_port_options import SecurePortOptions

if TYPE_CHECKING:
    from koord.agent.prediction.usage_models import PredictionOptions
    from koord.base.feature_gates import FeatureGates

_MIB = 1 << 20
_FROM_MODE = ""
_FAIL, _IGNORE = "Fail", "Ignore"
_SOCKET_PATH_BYTES = 107  # the kernel's limit
# Below this, measuring and acting are switched off altogether.
_LEAST_COLLECT_SECONDS = 1.0
_NODE_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-.a-z0-9]*[a-z0-9])?", re.ASCII)
_NRI_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,253}", re.ASCII)
_NRI_INDEX = re.compile(r"[0-9]{2}", re.ASCII)
# koordlet's own, which it makes where they are not there.
_DIRECTORIES = ("state_dir", "audit_log_dir", "prediction_checkpoint_filepath")


@dataclass(frozen=True)
class AgentOptions(SecurePortOptions):
    """What koordlet is told, each with the text of ``--help``; floats are durations in seconds.

    Paths left empty follow ``agent_mode``, see :mod:`koord.agent.host.roots`.
    """

    node_name: Annotated[str, "this node; the environment variable NODE_NAME by default"] = ""
    feature_gates: Annotated[str, "switch features: A=true,B=false"] = ""
    dry_run: Annotated[bool, "write nothing; say what would be written"] = False
    restore_on_exit: Annotated[bool, "at the end, files get back what they said before"] = True
    cgroup_root_dir: Annotated[str, "where cgroups are mounted"] = _FROM_MODE
    sys_root_dir: Annotated[str, "the host's /sys"] = _FROM_MODE
    sys_fs_root_dir: Annotated[str, "the host's /sys/fs"] = _FROM_MODE
    proc_root_dir: Annotated[str, "the host's /proc"] = _FROM_MODE
    var_run_root_dir: Annotated[str, "the host's /var/run"] = _FROM_MODE
    run_root_dir: Annotated[str, "the host's /run"] = _FROM_MODE
    var_lib_kubelet_dir: Annotated[str, "the kubelet's directory"] = _FROM_MODE
    xpu_device_infos_dir: Annotated[str, "where other tools describe accelerators"] = _FROM_MODE
    state_dir: Annotated[str, "koordlet's own: what files said before it wrote them"] = _FROM_MODE
    cgroup_driver: Annotated[str, "systemd or cgroupfs; found out by default"] = ""

    collect_res_used_interval: Annotated[float, "usage of node, pods and containers"] = 1.0
    collect_sys_metric_outdated_interval: Annotated[float, "oldest sample for system usage"] = 10.0
    collect_node_cpu_info_interval: Annotated[float, "facts about the processor"] = 60.0
    collect_node_storage_info_interval: Annotated[float, "block devices and mounts"] = 1.0
    cpi_collector_interval: Annotated[float, "cycles per instruction"] = 60.0
    collect_cpi_timewindow: Annotated[float, "how long cycles are counted"] = 10.0
    psi_collector_interval: Annotated[float, "pressure"] = 10.0
    coldpage_collector_interval: Annotated[float, "cold pages"] = 5.0
    resctrl_collector_interval: Annotated[float, "cache occupancy"] = 10.0
    enable_pagecache_collector: Annotated[bool, "measure usage with the page cache too"] = False
    enable_resctrl_collector: Annotated[bool, "measure cache and bandwidth of classes"] = False
    xpu_enforce_collect_from_device_infos: Annotated[bool, "never ask NVIDIA's driver"] = False
    tsdb_retention_duration: Annotated[float, "longest time that samples are kept"] = 12 * 3600.0
    tsdb_max_bytes: Annotated[int, "most memory that samples may take"] = 100 * _MIB

    reconcile_interval_seconds: Annotated[int, "strategies without an interval of their own"] = 1
    cpu_suppress_interval_seconds: Annotated[int, "suppression of best effort"] = 1
    cpu_evict_interval_seconds: Annotated[int, "eviction for want of CPU"] = 1
    memory_evict_interval_seconds: Annotated[int, "eviction for want of memory"] = 1
    memory_evict_cool_time_seconds: Annotated[int, "pause after such an eviction"] = 4
    cpu_evict_cool_time_seconds: Annotated[int, "pause after such an eviction"] = 20
    only_evict_by_api: Annotated[bool, "evict through the API server; kill nothing here"] = False
    resource_force_update_seconds: Annotated[int, "compare files again after this long"] = 60
    runtime_hooks_reconcile_interval: Annotated[float, "directories of QoS classes"] = 10.0
    disable_unset_cpu_quota: Annotated[bool, "keep the quota of pods with bound CPUs"] = False
    hami_core_library_directory_path: Annotated[str, "HAMi-core"] = "/usr/local/vgpu/libvgpu.so"

    runtime_hooks_network: Annotated[str, "unix: proxies call on a socket"] = "unix"
    runtime_hooks_addr: Annotated[str, "the socket that a runtime proxy calls"] = _FROM_MODE
    runtime_hooks_host_endpoint: Annotated[str, "the same as the proxy finds it"] = _FROM_MODE
    runtime_hooks_config_path: Annotated[str, "where the proxy reads who serves"] = _FROM_MODE
    runtime_hooks_failure_policy: Annotated[str, "a call that fails fails the container"] = _IGNORE
    runtime_hooks_plugin_failure_policy: Annotated[str, "a hook that fails does"] = _IGNORE
    runtime_hooks_disable_stages: Annotated[str, "stages that no runtime is served in"] = ""
    enable_nri_runtime_hook: Annotated[bool, "serve a container runtime's NRI"] = True
    runtime_hooks_nri_socket_path: Annotated[str, "beneath --var-run-root-dir"] = "nri/nri.sock"
    runtime_hooks_nri_plugin_name: Annotated[str, "as the runtime knows it"] = "koordlet_nri"
    runtime_hooks_nri_plugin_index: Annotated[str, "its place among plugins, 00 to 99"] = "00"
    runtime_hooks_nri_connect_timeout: Annotated[float, "to connect and register"] = 6.0
    runtime_hooks_nri_backoff_duration: Annotated[float, "pause before another try"] = 1.0
    runtime_hooks_nri_backoff_factor: Annotated[int | float, "by what it grows"] = 2
    runtime_hooks_nri_backoff_steps: Annotated[int, "how often it grows"] = 2**31 - 1
    runtime_hooks_nri_backoff_cap: Annotated[float, "the longest; never above a minute"] = 60.0

    pods_from: Annotated[str, "where pods come from: kubelet, or apiserver"] = "kubelet"
    kubelet_sync_interval: Annotated[float, "how often pods are read"] = 10.0
    kubelet_sync_timeout: Annotated[float, "how long the kubelet may take"] = 3.0
    kubelet_preferred_address_type: Annotated[str, "which address of the node"] = "InternalIP"
    kubelet_ca: Annotated[
        str, "authority of the kubelet's certificate; the cluster's by default"
    ] = ""
    kubelet_insecure_tls: Annotated[bool, "plain HTTP on the kubelet's read-only port"] = False
    kubelet_skip_verify: Annotated[bool, "do not check the kubelet's certificate"] = False
    kubelet_read_only_port: Annotated[int, "with --kubelet-insecure-tls"] = 10255
    node_topology_sync_interval: Annotated[float, "share pools, zones and devices"] = 3.0
    disable_query_kubelet_config: Annotated[bool, "do not ask for /configz"] = False
    enable_node_metric_report: Annotated[bool, "report usage"] = True
    report_class_summary: Annotated[bool, "report sums by class too"] = False

    prediction_checkpoint_filepath: Annotated[str, "models on disk"] = "/prediction-checkpoints"
    prediction_cold_start_duration: Annotated[float, "younger pods are not predicted"] = 24 * 3600.0
    prediction_safety_margin_percent: Annotated[int, "added to every predicted peak"] = 10
    prediction_cpu_histogram_decay_half_life: Annotated[float, "of CPU samples"] = 12 * 3600.0
    prediction_memory_histogram_decay_half_life: Annotated[float, "of memory samples"] = 24 * 3600.0
    prediction_training_interval: Annotated[float, "between two samples"] = 60.0
    prediction_model_expiration_duration: Annotated[float, "forget a model without samples"] = (
        1800.0
    )
    prediction_checkpoint_interval: Annotated[float, "how old a checkpoint may get"] = 600.0
    prediction_max_model_checkpoints_per_step: Annotated[int, "files written at a time"] = 12

    audit_log_dir: Annotated[str, "where changes are written down"] = "/var/log/koordlet"
    audit_verbose: Annotated[int, "how much of it; 0 is all"] = 3
    audit_max_disk_space_mb: Annotated[int, "how much disk that may take"] = 16
    audit_max_concurrent_readers: Annotated[int, "clients that page through it at a time"] = 4
    audit_max_events_limit: Annotated[int, "the largest page"] = 2048

    addr: Annotated[str, "serve health, metrics and status on HOST:PORT"] = "127.0.0.1:9316"

    def roots(self, base: HostRoots) -> HostRoots:
        """The host's directories: what is told, else the mode's."""
        chosen = {
            "cgroup": self.cgroup_root_dir,
            "sys": self.sys_root_dir,
            "sys_fs": self.sys_fs_root_dir,
            "proc": self.proc_root_dir,
            "var_run": self.var_run_root_dir,
            "run": self.run_root_dir,
            "kubelet": self.var_lib_kubelet_dir,
            "xpu_device_infos": self.xpu_device_infos_dir,
            "state": self.state_dir,
            "hook_socket": self.runtime_hooks_addr,
            "hook_config": self.runtime_hooks_config_path,
        }
        told = {name: path.rstrip("/") or "/" for name, path in chosen.items() if path}
        return HostRoots(**{**vars(base), **told})

    def gates(self) -> FeatureGates:
        """The feature gates.

        Raises:
            KoordError: an unknown one.
        """
        return feature_gates(self.feature_gates)

    def check(self) -> None:
        """Refuses what cannot be meant.

        Raises:
            KoordError: the flag, its value and what would be right.
        """
        for name, value in vars(self).items():
            if isinstance(value, int | float) and value < 0:
                raise KoordError(flag_of(name), "", value, "0 or more")
        if self.pods_from not in ("kubelet", "apiserver"):
            raise KoordError("--pods-from", "", self.pods_from, "kubelet or apiserver")
        if self.cgroup_driver not in ("", "systemd", "cgroupfs"):
            raise KoordError("--cgroup-driver", "", self.cgroup_driver, "systemd or cgroupfs")
        if self.node_name and not _NODE_NAME.fullmatch(self.node_name):
            expected = "a node's name as kubectl get nodes lists it: a-z, 0-9, - and ."
            raise KoordError("--node-name", "", self.node_name, expected)
        self._check_nri()
        self._check_hook_server()
        self._check_files()
        self.check_secure_port()
        self.listen()
        self.gates()

    def _check_nri(self) -> None:
        """As runtimes demand of a plugin: they refuse another one, again and again."""
        name, index = self.runtime_hooks_nri_plugin_name, self.runtime_hooks_nri_plugin_index
        if not _NRI_NAME.fullmatch(name):
            expected = "letters, digits, and any of _ . + -"
            raise KoordError("--runtime-hooks-nri-plugin-name", "", name, expected)
        if not _NRI_INDEX.fullmatch(index):
            raise KoordError("--runtime-hooks-nri-plugin-index", "", index, "two digits")

    def _check_hook_server(self) -> None:
        if self.runtime_hooks_network != "unix":
            raise KoordError("--runtime-hooks-network", "", self.runtime_hooks_network, "unix")
        for name in ("runtime_hooks_failure_policy", "runtime_hooks_plugin_failure_policy"):
            policy = getattr(self, name)
            if policy not in (_FAIL, _IGNORE):
                raise KoordError(flag_of(name), "", policy, f"{_FAIL} or {_IGNORE}")
        if len(os.fsencode(self.runtime_hooks_addr)) > _SOCKET_PATH_BYTES:
            expected = f"a path of at most {_SOCKET_PATH_BYTES} bytes"
            raise KoordError("--runtime-hooks-addr", "", self.runtime_hooks_addr, expected)
        self.disabled_stages()

    def disabled_stages(self) -> frozenset[HookStage]:
        """Stages that are served by no runtime.

        Raises:
            KoordError: one that there is not.
        """
        names = [name.strip() for name in self.runtime_hooks_disable_stages.split(",")]
        for name in filter(None, names):
            if name not in {str(stage) for stage in HookStage}:
                guess = nearest(name, [str(stage) for stage in HookStage])
                expected = f"stages such as {guess or HookStage.PRE_CREATE_CONTAINER}"
                raise KoordError("--runtime-hooks-disable-stages", "", name, expected)
        return frozenset(HookStage(name) for name in names if name)

    @property
    def hook_failures_count(self) -> bool:
        """Whether a container is not made where a hook fails of it."""
        return self.runtime_hooks_plugin_failure_policy == _FAIL

    def _check_files(self) -> None:
        """What is named and there is of the right kind: nothing says so until it is used."""
        for name in _DIRECTORIES:
            path = Path(getattr(self, name) or "/")
            if path.exists() and not path.is_dir():
                raise KoordError(flag_of(name), "", path, "a directory, which koordlet makes")
        authority = self.kubelet_ca
        if authority and not authority.startswith("-----BEGIN") and not Path(authority).is_file():
            raise KoordError("--kubelet-ca", "", Path(authority), "a file of PEM certificates")

    @property
    def acts(self) -> bool:
        """Whether anything is measured and acted upon; too short an interval switches it off."""
        return self.collect_res_used_interval >= _LEAST_COLLECT_SECONDS

    def listen(self) -> tuple[str, int]:
        """Host and port to serve on.

        Raises:
            KoordError: no such pair.
        """
        host, colon, port = self.addr.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65_535:
            raise KoordError("--addr", "", self.addr, "HOST:PORT or :PORT")
        return host.strip("[]") or "0.0.0.0", int(port)

    def metrics(self) -> MetricsOptions:
        """The collectors' part."""
        return MetricsOptions(
            used=self.collect_res_used_interval,
            system_outdated=self.collect_sys_metric_outdated_interval,
            cpu_info=self.collect_node_cpu_info_interval,
            storage=self.collect_node_storage_info_interval,
            cpi=self.cpi_collector_interval,
            cpi_window=self.collect_cpi_timewindow,
            pressure=self.psi_collector_interval,
            cold_pages=self.coldpage_collector_interval,
            resctrl=self.resctrl_collector_interval,
            page_cache=self.enable_pagecache_collector,
            resctrl_enabled=self.enable_resctrl_collector,
            devices_from_files=self.xpu_enforce_collect_from_device_infos,
            retention=self.tsdb_retention_duration,
            max_bytes=self.tsdb_max_bytes,
        )

    def prediction(self) -> PredictionOptions:
        """The predictor's part."""
        from koord.agent.prediction.usage_models import PredictionOptions

        return PredictionOptions(
            cold_start_seconds=self.prediction_cold_start_duration,
            safety_margin_percent=self.prediction_safety_margin_percent,
            cpu_half_life_seconds=self.prediction_cpu_histogram_decay_half_life,
            memory_half_life_seconds=self.prediction_memory_histogram_decay_half_life,
            training_seconds=self.prediction_training_interval,
            expiration_seconds=self.prediction_model_expiration_duration,
            checkpoint_seconds=self.prediction_checkpoint_interval,
            checkpoints_per_step=self.prediction_max_model_checkpoints_per_step,
        )


def flag_of(field: str) -> str:
    """The flag of a field."""
    return f"--{field.replace('_', '-')}"
