# SPDX-License-Identifier: Apache-2.0
"""ScaleDownBinPack: ranks pods so that scaling a workload down empties whole nodes.
``ranking`` is the order, ``deletion_costs`` is how it reaches workload controllers. Begin with
``scale_down_bin_pack``.
"""
