# SPDX-License-Identifier: Apache-2.0
"""Keeps best-effort pods within the CPU that services leave."""
