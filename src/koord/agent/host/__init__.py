# SPDX-License-Identifier: Apache-2.0
"""What the machine is: where its files are, its CPUs, caches, GPUs and kernel features."""
