# SPDX-License-Identifier: Apache-2.0
"""Filter and Score over rows: by native counts where numbers of cards decide, else by trial.

`fragmentation` rates nodes by the placement kernel's policies, `card_choice` gives a pod its cards
in Reserve. Begin with `node_evaluator.DeviceNodeEvaluator`.
"""
