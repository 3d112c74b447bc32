# SPDX-License-Identifier: Apache-2.0
"""Core types from the table of :mod:`koord.api.patching.core_types`, and ``proto.json``, the
numbers of their fields in protobuf.
"""
