# SPDX-License-Identifier: Apache-2.0
"""Filter and Score: columns where they decide, one node after the other where they do not.

`node_evaluator` keeps answers for all nodes that are alike; `single_zone` is the short way for
one zone. Begin with `node_evaluator.NUMANodeEvaluator.refusal`.
"""
