# SPDX-License-Identifier: Apache-2.0
"""Jobs and CronJobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane import cron_schedules
from koord.controlplane.ages import age, human_duration
from koord.controlplane.kinds.documents import NONE, condition_is_true, section
from koord.controlplane.kinds.pod.defaults import default_template
from koord.controlplane.kinds.pod.spec_validation import check_template
from koord.controlplane.kinds.table_cells import (
    AGE,
    CONTAINERS,
    NAME,
    SELECTOR,
    age_of,
    container_cells,
    integer,
    selector_text,
)
from koord.controlplane.kinds.validation import names
from koord.controlplane.kinds.validation.causes import IMMUTABLE, Causes
from koord.controlplane.kinds.validation.scheduling import check_selector
from koord.controlplane.kinds.validation.workload_spec import check_counts, matches
from koord.controlplane.kinds.workload.deployments import WorkloadStrategy
from koord.controlplane.resource import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


JOB_NAME = "batch.kubernetes.io/job-name"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_NAME_LABELS = ("job-name", JOB_NAME)
_UID_LABELS = ("controller-uid", CONTROLLER_UID)
_UNLIMITED = 2**31 - 1
# A job's name has the minute of its start behind that of its CronJob.
_LONGEST_NAME = 63 - 11
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
# While a job is suspended and has not started, these parts of its template may change.
_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
_STATUS_WORDS = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def default_job_spec(spec: Document) -> None:
    """Fills in a job's spec."""
    default_template(spec.setdefault("template", {}))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    limit = _UNLIMITED if "backoffLimitPerIndex" in spec else 6
    spec.setdefault("backoffLimit", limit)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    failure = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "Failed" if failure else "TerminatingOrFailed")
    for rule in (failure or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")


def check_job_spec(spec: Document, path: str, causes: Causes) -> None:
    """Adds what is wrong with a job's spec, save selector and labels."""
    check_counts(spec, _COUNTS, path, causes)
    mode = spec["completionMode"]
    if mode not in ("NonIndexed", "Indexed"):
        causes.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    elif mode == "Indexed" and "completions" not in spec:
        causes.required(f"{path}.completions", "when completion mode is Indexed")
    policy = spec["podReplacementPolicy"]
    if policy not in ("Failed", "TerminatingOrFailed"):
        allowed = ("Failed", "TerminatingOrFailed")
        causes.not_supported(f"{path}.podReplacementPolicy", policy, allowed)
    check_template(spec["template"], f"{path}.template", causes)
    restart = spec["template"]["spec"].get("restartPolicy")
    if restart == "Always":
        why = 'valid values: "OnFailure", "Never"'
        causes.required(f"{path}.template.spec.restartPolicy", why)
    elif restart not in ("OnFailure", "Never"):
        where = f"{path}.template.spec.restartPolicy"
        causes.not_supported(where, restart, ("OnFailure", "Never"))


class JobStrategy(WorkloadStrategy):
    """Jobs: pods are told apart by the uid of their job, so the selector is written here."""

    columns = (
        NAME,
        Column("Status"),
        Column("Completions"),
        Column("Duration"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )
    selectable = ("status.successful",)

    def default(self, document: Document) -> None:
        """Everything that a job needs but its pods; the labels of the template."""
        spec = document.setdefault("spec", {})
        default_job_spec(spec)
        labels = spec["template"]["metadata"].get("labels")
        metadata = document.setdefault("metadata", {})
        if labels and not metadata.get("labels"):
            metadata["labels"] = labels  # one map, as in Go: what is generated shows in both

    def prepare_create(self, document: Document, context: Context) -> None:
        """Writes selector and labels, unless the author wants to."""
        super().prepare_create(document, context)
        spec, metadata = document["spec"], document["metadata"]
        if spec["manualSelector"]:
            return
        labels = spec["template"]["metadata"].setdefault("labels", {})
        for key in _NAME_LABELS:
            labels.setdefault(key, metadata["name"])
        for key in _UID_LABELS:
            labels.setdefault(key, metadata["uid"])
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector.setdefault(CONTROLLER_UID, metadata["uid"])
        self.default(document)  # as when it is read next: the job's labels are the template's

    def validate(self, document: Document) -> list[StatusCause]:
        """Spec, selector, labels."""
        causes = Causes()
        spec, labels = document["spec"], document["spec"]["template"]["metadata"].get("labels")
        check_job_spec(spec, "spec", causes)
        selector = spec.get("selector")
        if selector is None:
            causes.required("spec.selector")
        else:
            check_selector(selector, "spec.selector", causes)
            if not matches(selector, labels or {}):
                why = "`selector` does not match template `labels`"
                causes.invalid("spec.template.metadata.labels", labels, why)
        if not spec["manualSelector"]:
            self._check_generated(document, causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Selector, completions, mode and template are fixed (of a suspended job not all)."""
        spec, before = document["spec"], old["spec"]
        if spec is before:
            return []
        causes = Causes()
        check_job_spec(spec, "spec", causes)
        for field in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
            causes.fixed(f"spec.{field}", spec.get(field), before.get(field))
        if spec.get("completions") != before.get("completions") and not (
            spec["completionMode"] == "Indexed"
            and spec.get("completions") == spec.get("parallelism")
            and before.get("completions") == before.get("parallelism")
        ):
            causes.invalid("spec.completions", spec.get("completions"), IMMUTABLE)
        suspended = before.get("suspend") and "startTime" not in section(old, "status")
        if _fixed_part(spec, suspended) != _fixed_part(before, suspended):
            causes.invalid("spec.template", spec["template"], IMMUTABLE)
        return causes

    def fields(self, document: Document) -> Mapping[str, str]:
        """How many pods succeeded."""
        return {"status.successful": str(section(document, "status").get("succeeded", 0))}

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = document["spec"], section(document, "status")
        return [
            document["metadata"]["name"],
            _status_word(document),
            _completions(spec, status),
            _duration(status, now_seconds),
            age_of(document, now_seconds),
            *container_cells(section(spec, "template", "spec")),
            selector_text(spec.get("selector")),
        ]

    def _check_generated(self, document: Document, causes: Causes) -> None:
        metadata, spec = document["metadata"], document["spec"]
        labels = spec["template"]["metadata"].get("labels") or {}
        uid, name = metadata["uid"], metadata["name"]
        for key in (*_UID_LABELS, *_NAME_LABELS):
            wanted = uid if key in _UID_LABELS else name
            given = labels.get(key)
            if given is None:
                path = f"spec.template.metadata.labels[{key}]"
                causes.required(path, f"must be '{wanted}'")
            elif given != wanted:
                path = f"spec.template.metadata.labels[{key}]"
                causes.invalid(path, labels, f"must be '{wanted}'")
        if name and (whys := names.label_value(name)):
            causes.invalid_all("spec.template.labels", name, whys)
        selector = spec.get("selector") or {}
        if selector != {"matchLabels": {CONTROLLER_UID: uid}}:
            causes.invalid("spec.selector", selector, "`selector` not auto-generated")


def _fixed_part(spec: Document, suspended: object) -> Document:
    template: Document = spec["template"]
    if not suspended:
        return template
    metadata = template.get("metadata") or {}
    left = {k: v for k, v in metadata.items() if k not in ("labels", "annotations")}
    pods = {k: v for k, v in template["spec"].items() if k not in _SCHEDULING}
    return {"metadata": left, "spec": pods}


def _status_word(job: Document) -> str:
    for kind, word in _STATUS_WORDS:
        if kind and condition_is_true(job, kind):
            return word
        if not kind and "deletionTimestamp" in job["metadata"]:
            return word
    return "Running"


def _completions(spec: Document, status: Document) -> str:
    succeeded = status.get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(status: Document, now_seconds: float) -> str:
    started = status.get("startTime")
    if started is None:
        return ""
    if completed := status.get("completionTime"):
        took = datetime.fromisoformat(completed) - datetime.fromisoformat(started)
        return human_duration(took.total_seconds())
    return age(started, now_seconds)


class CronJobStrategy(WorkloadStrategy):
    """CronJobs."""

    columns = (
        NAME,
        Column("Schedule"),
        Column("Timezone"),
        Column("Suspend", type="boolean"),
        integer("Active"),
        Column("Last Schedule"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )

    def default(self, document: Document) -> None:
        """Runs may overlap; three good and one failed are kept."""
        spec = document.setdefault("spec", {})
        job = spec.setdefault("jobTemplate", {})
        job.setdefault("metadata", {})
        default_template(job.setdefault("spec", {}).setdefault("template", {}))
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)

    def validate(self, document: Document) -> list[StatusCause]:
        """A name with room for that of a job, the schedule, counts, the job."""
        causes = Causes()
        spec = document["spec"]
        _check_schedule(spec, causes)
        if spec["concurrencyPolicy"] not in ("Allow", "Forbid", "Replace"):
            allowed = ("Allow", "Forbid", "Replace")
            causes.not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], allowed)
        name = document["metadata"].get("name", "")
        if len(name) > _LONGEST_NAME:
            causes.invalid("metadata.name", name, "must be no more than 52 characters")
        limits = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        check_counts(spec, limits, "spec", causes)
        job = {**spec["jobTemplate"]["spec"]}
        default_job_spec(job)
        check_job_spec(job, "spec.jobTemplate.spec", causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """All may change."""
        return [] if document["spec"] is old["spec"] else self.validate(document)

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = document["spec"], section(document, "status")
        last, job = status.get("lastScheduleTime"), section(spec, "jobTemplate", "spec")
        return [
            document["metadata"]["name"],
            spec.get("schedule", ""),
            spec.get("timeZone") or NONE,
            str(spec.get("suspend", False)),
            len(status.get("active") or ()),
            age(last, now_seconds) if last else NONE,
            age_of(document, now_seconds),
            *container_cells(section(job, "template", "spec")),
            selector_text(job.get("selector")),
        ]


def _check_schedule(spec: Document, causes: Causes) -> None:
    path, schedule, zone = "spec.schedule", spec.get("schedule", ""), spec.get("timeZone")
    if not schedule:
        causes.required(path)
    else:
        try:
            cron_schedules.parse(schedule)
        except cron_schedules.ScheduleError as error:
            causes.invalid(path, schedule, str(error))
        if "TZ" in schedule:
            why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            causes.invalid(path, schedule, why)
    if zone == "":
        causes.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone is not None and zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        causes.invalid("spec.timeZone", zone, why)
    elif zone is not None:
        try:
            cron_schedules.zone_of(zone)
        except cron_schedules.ScheduleError as error:
            causes.invalid("spec.timeZone", zone, str(error))
