# SPDX-License-Identifier: Apache-2.0
"""The built-in plugins; each is named as its upstream original."""
