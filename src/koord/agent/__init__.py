# SPDX-License-Identifier: Apache-2.0
"""koordlet: measures one node, protects its services and lets batch use what is idle. The data flow
is `host` (the machine), `metrics` (what is measured) and `states` (what the cluster says) to
`strategies` and `hooks`, whose claims `executor` writes; `report` tells the cluster,
`prediction` learns from what is measured. Begin with `app`, which puts all of it together.
"""
