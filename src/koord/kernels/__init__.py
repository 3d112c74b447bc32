# SPDX-License-Identifier: Apache-2.0
"""The readable faces of libkoord, one module a kernel. Nothing is imported eagerly."""
