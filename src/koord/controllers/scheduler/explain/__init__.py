# SPDX-License-Identifier: Apache-2.0
"""Why a pod is where it is or nowhere, and what would change that: `pod_explainer` finds the pod,
`what_if` asks the real decision's functions and undoes everything, `suggestions` tries single
changes, `explanation` is the JSON. Begin with `explanation`, then `what_if`.
"""
