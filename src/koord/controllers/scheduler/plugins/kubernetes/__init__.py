# SPDX-License-Identifier: Apache-2.0
"""The plugins of kube-scheduler itself: one module each, or a package where there is more to it.

Each is named as upstream; `pod_counts` and `domain_counts` count pods for affinity and
spreading. Begin with `node_name`, the smallest filter, then `taint_toleration`, which also
scores.
"""
