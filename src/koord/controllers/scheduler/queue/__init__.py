# SPDX-License-Identifier: Apache-2.0
"""The scheduling queue: what waits, in which order, and what wakes it."""
