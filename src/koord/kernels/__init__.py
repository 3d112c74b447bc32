# SPDX-License-Identifier: Apache-2.0
"""The readable faces of libkoord, one module a kernel, nothing imported eagerly.

Public. Begin with `quantity`, or the kernel you need.
"""
