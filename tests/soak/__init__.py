# SPDX-License-Identifier: Apache-2.0
"""Random histories with fresh seeds for a given time, and the cases that came of them."""
