# SPDX-License-Identifier: Apache-2.0
"""How much pods will use at their peak, learnt from what they used."""
