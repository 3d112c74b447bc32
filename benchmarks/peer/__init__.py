# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler beside kube-scheduler on one kube-apiserver: ``python -m benchmarks.peer``."""
