# SPDX-License-Identifier: Apache-2.0
"""Room for a pod by deleting others: `evaluator` finds the node where it costs least, `dry_run`
removes pods and asks the filters, `victims` says who may go, `executor` carries it out beside
the loop. Begin with `evaluator`.
"""
