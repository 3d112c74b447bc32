# SPDX-License-Identifier: Apache-2.0
"""Machines that are not there: their kubelets and agents, against any API server.

`pools` says which machines there are, `machine` what each is made of, `objects` what it publishes;
`stages` and `kubelet` take pods from Pending to their end; `demand`, `usage` and `metrics` are what
pods use and how it is reported; `fleet` runs it all. Nothing is imported before it is used.
"""
