# SPDX-License-Identifier: Apache-2.0
"""InterPodAffinity: pods that want to be near other pods, or far from them."""
