# SPDX-License-Identifier: Apache-2.0
"""QoS-aware co-location for Kubernetes. Import the subpackage you need; this one is empty."""
