# SPDX-License-Identifier: Apache-2.0
"""What keeps a process' memory low: when the collector looks, what the system gets back, caches."""
