# SPDX-License-Identifier: Apache-2.0
"""Each number in the pages of limits is the one in the code, and each row is held by somebody.

That a table keeps within its bound, and is given back, the tests named beside show; here the page
is held against the constants. Rows without a number of their own are listed too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from koord.agent.executor import journal, write_failures
from koord.agent.hooks import network_classes
from koord.agent.host import cgroup_layout, files
from koord.agent.prediction import checkpoints
from koord.agent.states import cluster_informers
from koord.agent.states.annotation_checks import pod_checks
from koord.api.protocol import nodes
from koord.base import documents, loop_share
from koord.base.memory import garbage_collection, text_cache
from koord.controllers.cluster import bounded_table, node_labels, pods, resource_columns
from koord.controllers.descheduler.migration.course import surges
from koord.controllers.descheduler.predicates import fit_columns
from koord.controllers.manager.noderesource.writers import decided_patches
from koord.controllers.manager.overcommit.objects import pod_term_cache
from koord.controllers.scheduler.cycles import binder, scheduling_loop
from koord.controllers.scheduler.explain import attempt_history
from koord.controllers.scheduler.framework import accounts, rejection
from koord.controllers.scheduler.framework.feasibility import (
    cache,
    kept_entries,
    participants,
)
from koord.controllers.scheduler.plugins.deviceshare.evaluation import kept_answers
from koord.controllers.scheduler.plugins.deviceshare.objects import allocation_annotation as cards
from koord.controllers.scheduler.plugins.deviceshare.state import request_table
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity import existing_terms
from koord.controllers.scheduler.plugins.loadaware import workload_histograms
from koord.controllers.scheduler.plugins.nodenumaresource.objects import (
    allocation_annotation as cpus,
)
from koord.controllers.scheduler.plugins.noderesources import fit
from koord.controllers.scheduler.preemption import dry_run_cache
from koord.controllers.webhook.elasticquotas import minimum_claims, parent_writer
from koord.controllers.webhook.profiles import object_lookup
from koord.controllers.webhook.quota_admission import written_quotas
from koord.controlplane import server
from koord.controlplane.admission.chain import _ASKS_KEPT
from koord.controlplane.authorization import rbac
from koord.controlplane.cel import expression
from koord.controlplane.frontends import bodies, connections, fair_queue, http, inprocess
from koord.controlplane.handlers import create_cache
from koord.controlplane.kinds.pod import spec_validation, split_spec
from koord.controlplane.kinds.validation import part_cache
from koord.controlplane.patching import field_managers, json_patches
from koord.controlplane.requests import bodies as requests
from koord.controlplane.schema.codec import depth
from koord.controlplane.storage import collection, event_retention, store, watch
from koord.controlplane.subresources import plain_binding
from koord.delivery import answering
from koord.delivery.hooks import server as hook_server
from koord.delivery.hooks import service
from koord.delivery.nri import connection, multiplexer, plugin, ttrpc
from koord.kube import event_correlation, events
from koord.kube.codec import interner, page_reader

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("limits.md", "limits-agent.md", "limits-server.md")


def default(function: Callable[..., Any], name: str) -> Any:
    """The default of a parameter."""
    return inspect.signature(function).parameters[name].default


def number(value: int) -> str:
    return f"{value:,}"


def kib(value: int) -> str:
    assert value % 1024 == 0
    return f"{value >> 10:,} KiB"


def mib(value: int) -> str:
    return f"{value / (1 << 20):g} MiB"


def seconds(value: float) -> str:
    return f"{value:g} seconds"


def native(path: str, before: str) -> int:
    """A constant of native sources, ``N`` or ``N << N``, by what stands before it."""
    text = (DOCS.parent / path).read_text(encoding="utf-8")
    found = re.search(rf"{re.escape(before)} = (\d+)(?: << (\d+))?", text)
    assert found is not None, before
    return int(found[1]) << int(found[2] or 0)


SHARING = "src/koord/_native/wire_sharing.pxi"
LONGEST_SHARED = native(SHARING, "LONGEST")
SHARED_ENTRY = native(SHARING, "ENTRY_BYTES")
QUOTA_NAMES = native("cpp/include/koord/quota.hpp", "kMaxResources")
HISTORY, EVENTS = collection.HistoryLimits(), event_retention.EventLimits()
# By the beginning of a row, what is in it; the rest of the row is words.
NUMBERS: dict[str, list[str]] = {
    "resource names |": [f"at most {resource_columns._UNUSED}"],
    "shapes, specs and": [
        number(default(pods.Shapes.__init__, "limit")),
        mib(default(pods.Shapes.__init__, "size")),
        f"{mib(default(pods.Shapes.__init__, 'size') // 3)} of large ones",
        f"({kib(bounded_table.LARGE_SIZE)} or more)",
        f"counts as {kib(pods._ENTRY_BYTES)}",
        f"beyond {kib(pods._ORDINARY_BYTES)} of JSON and {pods._ORDINARY_NAMES} names",
    ],
    "rows of pods of koord-manager": [
        number(pod_term_cache._MOST), mib(default(pod_term_cache.PodTermCache.__init__, "size")),
    ],
    "zones as text": [
        number(decided_patches.MOST_TEMPLATES),
        kib(decided_patches.LONGEST_ZONES),
    ],
    "label keys and values": [f"two values a row and {node_labels._UNUSED} more"],
    "pods of a node with a limit of their own": [number(network_classes.MOST_OWN_CLASSES)],
    "lists of taints": [f"two a row and {node_labels._UNUSED} more"],
    "answers of Filter": [
        f"{default(cache.FeasibilityCache.__init__, 'limit')} shapes", mib(kept_entries._BYTES),
    ],
    "what pods want of devices": [f"{request_table.REQUESTS} requests"],
    "what nodes say of shares": [f"{kept_answers._REQUESTS} requests"],
    "where the resources of": [f"{fit._KINDS} lists", number(fit._NAMES)],
    "plugins that take part": [
        f"{number(participants._SHAPES)} shapes", f"{number(participants._KINDS)} kinds",
        f"{number(participants._NAMES)} names",
    ],
    "who counts the pods": [f"{number(accounts._KINDS)} shapes"],
    "dry runs": [f"{default(dry_run_cache.DryRunCache.__init__, 'limit')} shapes"],
    "affinity terms": [f"or {existing_terms._UNUSED},"],
    "bindings, and": [
        f"{number(scheduling_loop.MOST_WRITING)} bindings",
        f"{default(binder.Binder.__init__, 'workers')} are written",
    ],
    "usage of workloads": [f"{number(workload_histograms._MOST_WORKLOADS)} owners"],
    "resources that quotas limit": [f"{QUOTA_NAMES} at a time"],
    "names that were looked up": [f"{object_lookup.MAX_LOOKUPS} with those under way"],
    "quotas as written": [f"| {written_quotas.MOST_KEPT} |"],
    "versions of parents": [number(parent_writer.MOST_WRITTEN)],
    "claims of a parent's": [
        f"{minimum_claims.MOST_CLAIMS} of a parent that stand and {minimum_claims.MOST_CLAIMS}",
        f"{minimum_claims._LONGEST_REQUEST} characters", f"child's {minimum_claims._LONGEST_NAME}",
        f"{minimum_claims._MOST_RESOURCES} resources", seconds(minimum_claims.LIFETIME_SECONDS),
    ],
    "what nodes of equal pods": [
        f"{fit_columns._MOST_KEPT} sets", f"{fit_columns._MOST_COLUMNS} resources",
    ],
    "rest periods": [f"{number(surges._MOST_REFUSALS)} refusals"],
    "last attempts": [
        f"{number(default(attempt_history.AttemptHistory.__init__, 'limit'))} pods",
        f"{default(attempt_history.AttemptHistory.__init__, 'size') >> 20} Mi characters",
    ],
    "event keys": [f"{number(event_correlation._KEPT)} of each"],
    "messages of events": [f"{number(events._LONGEST_MESSAGE)} characters"],
    "values that fields": [
        f"twice {number(interner.TABLE_SIZE)}", f"{mib(interner._SHARED_BYTES)} of memory",
        f"{kib(LONGEST_SHARED)} each", f"counts as {SHARED_ENTRY} bytes",
    ],
    "bytes of fields": [
        f"{number(page_reader.FEW)} different", f"{number(page_reader.MANY)} and",
        f"{kib(LONGEST_SHARED)} each",
    ],
    "what annotations of bound": [
        f"{number(cards._TEXTS)} texts each of {number(cards._LONGEST)}",
        f"{number(cpus._TEXTS)} texts each of {number(cpus._LONGEST)}",
    ],
    "reasons in a message": [f"{rejection.MOST_REASONS} of a pod"],
    "garbage in circles among what has": [
        f"up to {number(garbage_collection._FEW)} objects", number(garbage_collection._MANY),
    ],
    # koordlet
    "raised CPU quota": [f"{number(pod_checks.MOST_BURST_PERCENT)} percent"],
    "`cpu-normalization-ratio`": [f"| {nodes.MOST_CPU_RATIO:g} |"],
    "UID of a pod": [f"{cgroup_layout.MOST_UID_BYTES} ASCII"],
    "directory that a container": [f"{cgroup_layout._MOST_NAME_BYTES} ASCII"],
    "checkpoint of the prediction": [mib(checkpoints.MOST_BYTES)],
    "file of the audit log": [mib(files.LIMIT_BYTES)],
    "journal |": [mib(journal.MOST_BYTES)],
    "pods of a node that change": [f"every {cluster_informers.TOGETHER_SECONDS:g} s"],
    "looks at all pods": [f"each {cluster_informers.TOGETHER_SECONDS:g} s"],
    "files wanted of a cgroup": [f"after {write_failures.FIRST_SECONDS:g} s", "to a minute"],
    # the embedded API server
    "connections |": [
        number(connections.MOST_CONNECTIONS), f"{connections._OTHER_FILES} less than",
    ],
    "memory of a TLS": [kib(connections.TLS_READ_BYTES)],
    "TLS handshake": [seconds(connections.HANDSHAKE_SECONDS)],
    "header of the first": [
        seconds(connections.HANDSHAKE_SECONDS), f"{kib(http._HEADER_LIMIT_BYTES)} a line",
    ],
    "connection without": [seconds(http._LIMITS["keepalive_timeout"])],
    "body |": [mib(bodies.BODY_LIMIT_BYTES), seconds(bodies.REQUEST_SECONDS)],
    "packed body": [f"{mib(bodies.BODY_LIMIT_BYTES)} unpacked"],
    "body of an access": [
        f"{kib(requests.REVIEW_LIMIT_BYTES)} of JSON",
        f"{kib(requests.REVIEW_LIMIT_BYTES // requests._YAML_WEIGHT)} of YAML",
    ],
    "object as stored": [mib(store.OBJECT_LIMIT_BYTES)],
    "operations of a JSON": [number(json_patches.MAX_OPERATIONS)],
    "what all `copy`": [mib(json_patches.MAX_COPIED_BYTES)],
    "nesting of": [f"{depth.MAX_DEPTH} levels (YAML: {documents.MAX_DEPTH})"],
    "YAML with": [number(documents.MAX_VALUES)],
    "field managers": [f"{field_managers.MOST_UPDATERS} an object"],
    "calls of a container runtime": [number(connection.MOST_CALLS)],
    "one call of a container runtime": [
        f"{mib(multiplexer.MOST_PAYLOAD_BYTES - 10)} + 10 bytes, {mib(ttrpc.MOST_BODY_BYTES)}",
    ],
    "a pod that a container runtime": [{0.25: "a quarter"}[answering.WAIT_SHARE]],
    "calls of a runtime proxy": [number(service.MOST_AT_A_TIME)],
    "a message of a runtime proxy": [mib(hook_server.MOST_BYTES)],
    "an answer to a runtime proxy": [mib(service.MOST_ANSWER_BYTES)],
    "containers that are brought up": [number(plugin.MOST_SYNCHRONIZED)],
    "history of a resource": [
        f"{number(HISTORY.changes)} changes or {mib(HISTORY.change_bytes)}",
        f"of all resources {mib(HISTORY.all_bytes)}",
    ],
    "events (the kind)": [
        f"{number(EVENTS.a_namespace)} of a namespace", f"{mib(EVENTS.all_bytes)} of all",
    ],
    "answers about names": [
        f"texts of {text_cache.LONGEST_TEXT} characters", f"{store._MOST_SHARED_LABELS} labels",
    ],
    "specs of new pods taken apart": [
        f"{number(default(create_cache.CreateCache.__init__, 'kept'))} frames of specs of "
        f"{kib(create_cache._LONGEST)}",
        f"those of {kib(split_spec.LONGEST_PART_BYTES)} that came last, "
        f"{mib(split_spec.KEPT_BYTES)}",
    ],
    "parts of pods that passed": [
        number(part_cache.MOST_PARTS), f"of {kib(part_cache.LONGEST_PART_BYTES)} each",
    ],
    "specs that came before": [
        f"{number(spec_validation._KNOWN_SPECS)} and "
        f"{number(default(create_cache.CreateCache.__init__, 'kept'))}",
        *(
            f"of {kib(longest)} each"
            for longest in (spec_validation._LONGEST_KNOWN, create_cache._LONGEST)
        ),
    ],
    "what admission asks": [number(_ASKS_KEPT)],
    "expressions of policies": [number(expression._CACHED)],
    "decisions of authorization": [
        number(rbac._VERDICTS_KEPT), f"{number(rbac._LONGEST_KEPT)} characters",
    ],
    "events that are kept as": [
        f"{number(collection._EVENTS_KEPT)} or {mib(collection._EVENT_BYTES_KEPT)}",
    ],
    "specs, with their status": [
        f"{plain_binding._ASSIGNED_KEPT} of {kib(plain_binding._LONGEST_REST)} each",
    ],
    "requests in a row": [
        f"{inprocess._CALLS_A_TURN}, or {kib(inprocess._BYTES_A_TURN)} of objects",
    ],
    "large work": [
        f"({kib(loop_share.LARGE_BYTES)} of JSON or more",
        {2.0: "a third"}[loop_share.OTHERS], {8.0: "a ninth"}[loop_share.OTHERS_CROWDED],
    ],
    "requests that a tenant": [{4: "four turns"}[fair_queue.MOST_ITERATIONS]],
    "what one watch": [mib(watch._BATCH_BYTES), f"{number(watch.BATCH)} events"],
    "one write of": [kib(http._PORTION_BYTES)],
    "deletions of": [f"{server._DELETIONS_A_TURN} objects"],
}  # fmt: skip
# Rows that say "those that are there", what another part decides, or what no constant of the code
# is: the time that a request holds the loop is measured (test_neighbours).
WORDS = {
    "requests for names without", "priorities", "host ports", "selectors and topology keys",
    "Services by namespace", "images", "GPU isolation providers", "CSI drivers",
    "namespaces that take turns", "conditions to be written", "gangs and their groups",
    "names, parents, namespaces", "series of metrics", "resources that reservations hold",
    "pods that the profile controller", "conditions of profiles", "rules that a profile",
    "evictions by workload", "garbage in circles among what was", "free memory",
    "CPUs that a pod's", "GPUs and RDMA", "group identity", "protection by", "OOM score",
    "minors of", "core scheduling group", "containers of a pod", "what a patch of any kind",
    "`continue` token", "what one request holds",
}  # fmt: skip


def rows() -> list[str]:
    """Of all tables, without their heads."""
    found: list[str] = []
    for page in PAGES:
        lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
        tables = [line for line in lines if line.startswith("| ")]
        heads = {above for above, line in pairwise(lines) if "|---" in line}
        found += [line.removeprefix("| ") for line in tables if line not in heads]
    return found


def row_of(begin: str) -> str:
    (found,) = [row for row in rows() if row.startswith(begin)]
    return found


@pytest.mark.parametrize("begin", NUMBERS)
def test_a_row_has_the_numbers_of_the_code(begin: str) -> None:
    row = row_of(begin)
    assert [text for text in NUMBERS[begin] if text not in row] == []


def test_no_row_is_left_out() -> None:
    begins = (*NUMBERS, *WORDS)
    assert [row for row in rows() if not row.startswith(begins)] == []
    assert [begin for begin in WORDS if len([r for r in rows() if r.startswith(begin)]) != 1] == []
