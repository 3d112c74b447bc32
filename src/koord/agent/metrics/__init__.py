# SPDX-License-Identifier: Apache-2.0
"""What the node does: collectors on their intervals, samples in rings, windows over them."""
