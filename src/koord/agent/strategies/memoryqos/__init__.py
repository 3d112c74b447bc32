# SPDX-License-Identifier: Apache-2.0
"""Memory protection, throttling and reclaim by QoS class."""
