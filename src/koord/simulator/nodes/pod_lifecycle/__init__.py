# SPDX-License-Identifier: Apache-2.0
"""The kubelets' part: takes each pod through its stages, from Pending to its end.

Begin with `kubelets`; stages are data (`stages/pod.yaml`).
"""
