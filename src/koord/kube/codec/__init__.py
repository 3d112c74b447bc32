# SPDX-License-Identifier: Apache-2.0
"""From the bytes of an answer to typed objects that share their equal parts.

``projection`` cuts an answer to the fields that a type reads, ``page_reader`` makes objects of
it, ``interner`` keeps equal parts once, ``decoder`` chooses between these and decoding whole.
Begin with ``decoder``.
"""
