# SPDX-License-Identifier: Apache-2.0
"""Compiled modules. Import the faces in :mod:`koord.kernels`, not these."""
