# SPDX-License-Identifier: Apache-2.0
"""`koord topology`: a machine's CPUs, and which of them the picker would give a pod.

Begin with `command`; `drawing` is the picture.
"""
