# SPDX-License-Identifier: Apache-2.0
"""Control loops: a package a strategy, with `decision` (pure, columns in and out) and `strategy`
(reads a tick, states claims or evicts). `strategy_loop` runs them, `readings` is what they read.
Begin with `strategy`, then `memoryqos.decision` and `memoryqos.strategy`.
"""
