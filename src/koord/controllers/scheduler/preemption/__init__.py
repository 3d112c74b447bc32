# SPDX-License-Identifier: Apache-2.0
"""Making room for a pod by deleting others: the engine that every preempting plugin shares."""
