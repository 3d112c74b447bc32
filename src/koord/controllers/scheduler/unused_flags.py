# SPDX-License-Identifier: Apache-2.0
"""Flags of kube-scheduler and of Koordinator's that have no effect here, each with why.

A Deployment that names them goes on working. Those that say whom to ask or who leads
(``--master``, ``--leader-elect-...``, ``--write-config-to``) are not among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.log import KLOG_FLAGS

if TYPE_CHECKING:
    from collections.abc import Mapping

_CERTIFICATE = "--tls-cert-file and --tls-private-key-file name the certificate"
_HTTP = "served is HTTP/1.1 over TLS 1.2 or newer, with Python's choice of ciphers"
_SHARING = "a port is one process's"
_LOOKUP = "nothing is looked up: --client-ca-file names the authority of clients"
_NO_PROXY = "an aggregating proxy in front is not trusted"
_FAIL = "who cannot be asked about is refused"
_LOG = "the log goes to standard error, one line a message"
_CONFIG = "the configuration's clientConnection says so"
_NO_PPROF = "there are no pprof endpoints"
_METRICS = "metrics have no such switches"
_VERSION = "one version of Kubernetes' rules is known"
_AT_RUN_TIME = "/debug/flags switches it while the program runs"
_NO_DUMPS = "koord explain tells why a pod is where it is, or nowhere"
_NO_AUDITOR = "there is no auditor of workloads; the metrics of pods are by profile and queue"
_NO_BARRIER = "the gate SyncBarrier has no effect"

UNUSED: Mapping[str, str] = {
    **dict.fromkeys(("cert-dir", "tls-sni-cert-key"), _CERTIFICATE),
    **dict.fromkeys(
        ("disable-http2-serving", "http2-max-streams-per-connection", "tls-cipher-suites",
         "tls-min-version"),
        _HTTP,
    ),
    **dict.fromkeys(("permit-address-sharing", "permit-port-sharing"), _SHARING),
    "authentication-skip-lookup": _LOOKUP,
    "authentication-tolerate-lookup-failure": _FAIL,
    **dict.fromkeys(
        ("requestheader-allowed-names", "requestheader-client-ca-file",
         "requestheader-extra-headers-prefix", "requestheader-group-headers",
         "requestheader-uid-headers", "requestheader-username-headers"),
        _NO_PROXY,
    ),
    **dict.fromkeys(("kube-api-burst", "kube-api-content-type", "kube-api-qps"), _CONFIG),
    **dict.fromkeys(("contention-profiling", "profiling"), _NO_PPROF),
    "pod-max-in-unschedulable-pods-duration": "it is always five minutes",
    "address": "--bind-address says so",
    "enable-network-topology-manager": "networks are known wherever a gang asks for one",
    "controller-plugins": "the controllers of all plugins run",
    **dict.fromkeys(("debug-filters", "debug-scores"), _AT_RUN_TIME),
    **dict.fromkeys(
        ("debug-diagnosis", "debug-diagnosis-blocking", "debug-diagnosis-queue-size",
         "debug-diagnosis-worker-count"),
        _NO_DUMPS,
    ),
    **dict.fromkeys(
        ("enable-workload-auditor", "workload-auditor-metric-labels",
         "workload-auditor-scheduling-event-interval",
         "workload-auditor-victim-deleting-retries", "workload-auditor-victim-deletion-duration",
         "workload-auditor-victim-reschedule-duration"),
        _NO_AUDITOR,
    ),
    **dict.fromkeys(
        ("sync-barrier-pod-name", "sync-barrier-pod-namespace", "sync-hard-timeout"), _NO_BARRIER
    ),
    "scheduler-monitor-period": "attempts are looked at as they end",
    "scheduling-drop-unhandled-timeout": "a pod that left the queue is always handled",
    **dict.fromkeys(("async-log", "async-log-queue-length"), _LOG),
    "disable-no-deepcopy": "objects in caches are never copied",
    **dict.fromkeys(
        ("allow-metric-labels", "allow-metric-labels-manifest", "disabled-metrics",
         "show-hidden-metrics-for-version"),
        _METRICS,
    ),
    **dict.fromkeys(("emulated-version", "min-compatibility-version"), _VERSION),
    **dict.fromkeys(
        ("log-flush-frequency", "log-json-info-buffer-size", "log-json-split-stream",
         "log-text-info-buffer-size", "log-text-split-stream", "logging-format", *KLOG_FLAGS),
        _LOG,
    ),
}  # fmt: skip

SWITCHES = frozenset(
    {
        "disable-http2-serving", "permit-address-sharing", "permit-port-sharing",
        "authentication-skip-lookup", "authentication-tolerate-lookup-failure",
        "contention-profiling", "profiling", "enable-network-topology-manager", "debug-filters",
        "debug-diagnosis", "debug-diagnosis-blocking", "enable-workload-auditor", "async-log",
        "disable-no-deepcopy", "log-json-split-stream", "log-text-split-stream",
        "logtostderr", "alsologtostderr", "one_output", "add_dir_header", "skip_headers",
        "skip_log_headers",
    }
)  # fmt: skip
"""Those that take a value only behind ``=``."""
