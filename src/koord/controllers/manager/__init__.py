# SPDX-License-Identifier: Apache-2.0
"""koord-manager: idle capacity as batch and mid resources (`noderesource` over `overcommit`),
NodeMetric and NodeSLO objects (`node_objects`), quota roots and profiles. `sloconfig` keeps
slo-controller-config for all of them. Begin with `app`, then `dependencies`, what each
controller is given.
"""
