# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""koord._native.wire: what crosses the wire, without NumPy. Use the faces in koord.kernels."""
