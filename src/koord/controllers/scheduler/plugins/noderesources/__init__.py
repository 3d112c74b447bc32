# SPDX-License-Identifier: Apache-2.0
"""Whether nodes have what a pod asks for, and how full it would leave them."""
