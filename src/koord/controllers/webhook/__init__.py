# SPDX-License-Identifier: Apache-2.0
"""koord's admission: what an object becomes, and what is refused, before it is stored. Handlers by
resource (`pods`, `reservations`, `elasticquotas`, `nodes`, `config_maps`) over `framework`, which
says what a handler is asked and answers. Begin with `framework.handler`, then docs/admission.md.
"""
