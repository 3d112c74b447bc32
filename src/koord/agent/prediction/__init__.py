# SPDX-License-Identifier: Apache-2.0
"""How much pods will use at their peak, learnt from what they used: histograms (`usage_models`),
fed by `training`, kept by `checkpoints`; `reclaimable` says what prod pods leave. Begin with
`usage_models`.
"""
