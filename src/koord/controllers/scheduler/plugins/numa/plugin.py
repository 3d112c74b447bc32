# SPDX-License-Identifier: Apache-2.0
"""The plugin: feeds nodes, pods and reservations to the functions that decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol import annotation, keys
from koord.api.protocol.resources import CPU as CPU_NAME
from koord.api.protocol.scheduling import resource_spec, resource_status, scheduling_hint
from koord.base.errors import KoordError
from koord.controllers.cluster.nodes import CPU, Aspect
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.numa import reasons
from koord.controllers.scheduler.plugins.numa.allocate import Trial
from koord.controllers.scheduler.plugins.numa.allocation import (
    Allocation,
    parse_status,
    recorded,
)
from koord.controllers.scheduler.plugins.numa.amounts import MILLI
from koord.controllers.scheduler.plugins.numa.columns import (
    DEPENDS_ON_USE,
    REFUSALS,
    amplified_use,
)
from koord.controllers.scheduler.plugins.numa.decide import (
    Terms,
    allocate,
    hints,
    impossible,
    terms_of,
)
from koord.controllers.scheduler.plugins.numa.ledger import Ledger, log
from koord.controllers.scheduler.plugins.numa.machine import Machines, amplify
from koord.controllers.scheduler.plugins.numa.offers import PLAIN_WAYS, Ways, hold_of, ways_of
from koord.controllers.scheduler.plugins.numa.reasons import Refusal
from koord.controllers.scheduler.plugins.numa.request import (
    Request,
    completed_spec,
    request_of,
)
