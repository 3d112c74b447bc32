# SPDX-License-Identifier: Apache-2.0
"""Flags of koordlet that have no effect beside others, or without them.

Rule: docs/reference/measuring.md#intervals-and-flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.flag_pairs import Pair
from koord.kube.daemon.secure_port_options import BESIDE_SECURE_PORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.options import AgentOptions

_CPU_EVICTIONS = ("BECPUEvict", "CPUEvict", "CPUAllocatableEvict")
_MEMORY_EVICTIONS = ("BEMemoryEvict", "MemoryEvict", "MemoryAllocatableEvict")
_RECONCILED = ("CPUBurst", "RdtResctrl", "CgroupReconcile", "BlkIOReconcile", "SystemConfig")
_COLLECTORS = (
    "collect_sys_metric_outdated_interval", "collect_node_cpu_info_interval",
    "collect_node_storage_info_interval", "cpi_collector_interval", "collect_cpi_timewindow",
    "psi_collector_interval", "coldpage_collector_interval", "resctrl_collector_interval",
    "enable_pagecache_collector", "enable_resctrl_collector",
    "xpu_enforce_collect_from_device_infos", "xpu_device_infos_dir",
)  # fmt: skip
_STRATEGIES = (
    "reconcile_interval_seconds", "cpu_suppress_interval_seconds", "cpu_evict_interval_seconds",
    "cpu_evict_cool_time_seconds", "memory_evict_interval_seconds",
    "memory_evict_cool_time_seconds", "only_evict_by_api",
)  # fmt: skip
_NRI = (
    "runtime_hooks_nri_socket_path", "runtime_hooks_nri_plugin_name",
    "runtime_hooks_nri_plugin_index", "runtime_hooks_nri_connect_timeout",
    "runtime_hooks_nri_backoff_duration", "runtime_hooks_nri_backoff_factor",
    "runtime_hooks_nri_backoff_steps", "runtime_hooks_nri_backoff_cap",
)  # fmt: skip
_KUBELET = (
    "kubelet_ca", "kubelet_skip_verify", "kubelet_sync_timeout", "kubelet_preferred_address_type",
    "kubelet_insecure_tls", "kubelet_read_only_port",
)  # fmt: skip


def _needs(gates: tuple[str, ...], *flags: str) -> Pair:
    """Flags that need one of several gates."""
    other = f"--feature-gates={gates[0]}=true"
    if len(gates) > 1:
        other += f" (or {', '.join(gates[1:])})"
    return Pair(flags, other, True, lambda options: not _any(gates)(options))


def _any(gates: tuple[str, ...]) -> Callable[[AgentOptions], bool]:
    def on(options: AgentOptions) -> bool:
        switched = options.gates()
        return any(switched.enabled(name) for name in gates)

    return on


def _from_api(options: AgentOptions) -> bool:
    return options.pods_from == "apiserver"


def _audits(options: AgentOptions) -> bool:
    return options.dry_run or _any(("AuditEvents",))(options)


PAIRS = (
    Pair(("restore_on_exit", "only_evict_by_api", "audit_log_dir", "audit_max_disk_space_mb"),
         "--dry-run", False, lambda options: options.dry_run),
    Pair((*_COLLECTORS, *_STRATEGIES),
         "--collect-res-used-interval below 1s", False, lambda options: not options.acts),
    Pair(_KUBELET, "--pods-from=apiserver and --disable-query-kubelet-config", False,
         lambda options: _from_api(options) and options.disable_query_kubelet_config),
    Pair(_NRI, "--enable-nri-runtime-hook=false", False,
         lambda options: not options.enable_nri_runtime_hook),
    Pair(("kubelet_sync_interval",), "--pods-from=apiserver", False, _from_api),
    Pair(("kubelet_ca", "kubelet_skip_verify"), "--kubelet-insecure-tls", False,
         lambda options: options.kubelet_insecure_tls),
    Pair(("kubelet_ca",), "--kubelet-skip-verify", False,
         lambda options: options.kubelet_skip_verify),
    Pair(("kubelet_read_only_port",), "--kubelet-insecure-tls", True,
         lambda options: not options.kubelet_insecure_tls),
    Pair(("disable_query_kubelet_config",), "--node-topology-sync-interval=0", False,
         lambda options: options.node_topology_sync_interval == 0 and not _from_api(options)),
    Pair(("report_class_summary",), "--enable-node-metric-report=false", False,
         lambda options: not options.enable_node_metric_report),
    Pair(("audit_log_dir", "audit_max_disk_space_mb", "audit_verbose"),
         "--feature-gates=AuditEvents=true", True, lambda options: not _audits(options)),
    _needs(("AuditEventsHTTPHandler",), "audit_max_concurrent_readers", "audit_max_events_limit"),
    _needs(("CPICollector",), "cpi_collector_interval", "collect_cpi_timewindow"),
    _needs(("PSICollector",), "psi_collector_interval"),
    _needs(("ColdPageCollector",), "coldpage_collector_interval"),
    _needs(("ResctrlCollector",), "resctrl_collector_interval", "enable_resctrl_collector"),
    Pair(("resctrl_collector_interval",), "--enable-resctrl-collector", True,
         lambda options: not options.enable_resctrl_collector),
    _needs(("Accelerators",), "xpu_device_infos_dir", "xpu_enforce_collect_from_device_infos"),
    _needs(("BlkIOReconcile",), "collect_node_storage_info_interval"),
    Pair(("cpu_suppress_interval_seconds",), "--feature-gates=BECPUManager=true", False,
         _any(("BECPUManager",))),
    _needs(("BECPUSuppress",), "cpu_suppress_interval_seconds"),
    _needs(_CPU_EVICTIONS, "cpu_evict_interval_seconds", "cpu_evict_cool_time_seconds"),
    _needs(_MEMORY_EVICTIONS, "memory_evict_interval_seconds", "memory_evict_cool_time_seconds"),
    _needs((*_CPU_EVICTIONS, *_MEMORY_EVICTIONS), "only_evict_by_api"),
    _needs(_RECONCILED, "reconcile_interval_seconds"),
    _needs(("GPUEnvInject",), "hami_core_library_directory_path"),
    _needs(("CPUSetAllocator",), "disable_unset_cpu_quota"),
    Pair(BESIDE_SECURE_PORT, "--secure-port", True, lambda options: not options.secure_port),
)  # fmt: skip
"""Of several that apply to a flag, the first is told."""
