# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesFit and its relatives: whether nodes have what a pod asks for, and how full it would
leave them. `request_columns` gives what is requested less what reservations hold for the pod;
kernels do the arithmetic. Begin with `fit`.
"""
