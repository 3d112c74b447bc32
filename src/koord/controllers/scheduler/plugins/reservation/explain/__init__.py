# SPDX-License-Identifier: Apache-2.0
"""Why a pod's reservations are no use to it (`diagnosis`), and the gauges and debug answers
(`metrics`). Begin with `diagnosis`.
"""
