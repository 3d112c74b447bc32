# SPDX-License-Identifier: Apache-2.0
"""Cache ways and memory bandwidth by QoS class."""
