# SPDX-License-Identifier: Apache-2.0
"""Flags of the original's koordlet that are taken and have no effect here, each with why.

A DaemonSet that names them goes on working. Rule: docs/reference/measuring.md#intervals-and-flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.log import KLOG_FLAGS
from koord.kube.daemon.secure_port_options import BESIDE_SECURE_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

_RINGS = "samples are kept in rings in memory"
_DEPRECATED = "has none in the original either"
_LOG = "the log goes to standard error, one line a message"
_NO_RUNTIME = "the container runtime is not asked"

UNUSED: Mapping[str, str] = {
    "metric-gc-interval-seconds": _DEPRECATED,
    "metric-expire-seconds": _DEPRECATED,
    "report-interval": _DEPRECATED,
    "tsdb-path": _RINGS,
    "tsdb-enable-prom-metrics": _RINGS,
    "tsdb-stripe-size": _RINGS,
    "tsdb-wal-segment-size": _RINGS,
    "tsdb-max-block-chunk-segment-size": _RINGS,
    "tsdb-min-block-duration": _RINGS,
    "tsdb-max-block-duration": _RINGS,
    "tsdb-head-chunks-write-buffer-size": _RINGS,
    "configmap-name": "nothing is read from it in the original either",
    "configmap-namespace": "nothing is read from it in the original either",
    "enable-pod-taskids": "processes are looked up when they are needed",
    "pod-resources-proxy-path": "the gate PodResourcesProxy has no effect yet",
    "default-runtime-type": "a container's status names its runtime",
    "containerd-endpoint": _NO_RUNTIME,
    "docker-endpoint": _NO_RUNTIME,
    "pouch-endpoint": _NO_RUNTIME,
    "enable-pprof": "there are no pprof endpoints",
    "pprof-addr": "there are no pprof endpoints",
    "kube-api-qps": "requests are few: this node's objects, watched",
    "kube-api-burst": "requests are few: this node's objects, watched",
    **dict.fromkeys(KLOG_FLAGS, _LOG),
}

OWN = frozenset(
    {
        "node-name", "dry-run", "state-dir", "pods-from", "kubelet-ca", "kubelet-skip-verify",
        "report-class-summary", "cgroup-driver", "restore-on-exit", "secure-port",
        *(name.replace("_", "-") for name in BESIDE_SECURE_PORT),
    }
)  # fmt: skip
"""Flags of koord's own. The original has a ``cgroup-driver`` of the kubelet's only."""
