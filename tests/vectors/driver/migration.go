// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"time"

	appsv1alpha1 "github.com/openkruise/kruise-api/apps/v1alpha1"
	appsv1beta1 "github.com/openkruise/kruise-api/apps/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sev1alpha1 "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config/v1alpha2"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config/validation"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/controllers/migration"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/controllers/migration/arbitrator"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/controllers/migration/reservation"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework"
)

func init() {
	register("migration", migrationCase,
		"arbitrator/filter.go:initFilters",
		"arbitrator/filter.go:reservationFilter",
		"arbitrator/filter.go:existingPodMigrationJob",
		"arbitrator/filter.go:filterMaxMigratingGlobally",
		"arbitrator/filter.go:filterMaxMigratingPerNode",
		"arbitrator/filter.go:filterMaxMigratingPerNamespace",
		"arbitrator/filter.go:filterMaxMigratingOrUnavailablePerWorkload",
		"arbitrator/filter.go:filterExpectedReplicas",
		"arbitrator/arbitrator.go:Filter",
		"arbitrator/arbitrator.go:filtering",
		"arbitrator/arbitrator.go:doOnceArbitrate",
		"arbitrator/arbitrator.go:updatePassedJob",
		"arbitrator/arbitrator.go:updateFailedJob",
		"arbitrator/sort.go:SortJobsByPod",
		"arbitrator/sort.go:SortJobsByController",
		"arbitrator/sort.go:SortJobsByMigratingNum",
		"migration/controller.go:doMigrate",
		"migration/controller.go:preparePendingJob",
		"migration/controller.go:preparePodRef",
		"migration/controller.go:abortJobIfTimeout",
		"migration/controller.go:syncReservationScheduleFailed",
		"migration/controller.go:prepareJobWithReservationScheduleSuccess",
		"migration/controller.go:waitForPendingPodScheduled",
		"migration/controller.go:waitForPodBindReservation",
		"migration/controller.go:waitForPodReady",
		"migration/controller.go:evictPod",
		"migration/controller.go:evictPodDirectly",
		"migration/controller.go:createReservation",
		"reservation/util.go:CreateOrUpdateReservationOptions",
		"reservation/util.go:appendSkipNodeAffinity",
		"reservation/util.go:GenerateReserveResourceOwners",
		"util/util.go:GetMaxUnavailable",
	)
}

// migrationWorld is a cluster with jobs, and what is asked of it.
type migrationWorld struct {
	Ask          string                       `json:"ask"`
	Args         json.RawMessage              `json:"args"`
	Pods         []corev1.Pod                 `json:"pods"`
	Jobs         []sev1alpha1.PodMigrationJob `json:"jobs"`
	Deployments  []appsv1.Deployment          `json:"deployments"`
	ReplicaSets  []appsv1.ReplicaSet          `json:"replicaSets"`
	StatefulSets []appsv1.StatefulSet         `json:"statefulSets"`
	Reservation  *sev1alpha1.Reservation      `json:"reservation"`
	Passed       []string                     `json:"passed"`
	Now          int64                        `json:"now"`
	Refused      bool                         `json:"refused"`
}

type migrationHandle struct {
	framework.Handle
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
}

func (h *migrationHandle) ClientSet() kubernetes.Interface { return h.client }

func (h *migrationHandle) EventRecorder() events.EventRecorder { return &told{} }

func (h *migrationHandle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.informers
}

func (h *migrationHandle) GetPodsAssignedToNodeFunc() framework.GetPodsAssignedToNodeFunc {
	return func(string, framework.FilterFunc) ([]*corev1.Pod, error) { return nil, nil }
}

// told keeps the reasons of events.
type told struct {
	reasons []string
}

func (t *told) Eventf(regarding runtime.Object, related runtime.Object, eventtype, reason, action, note string, args ...interface{}) {
	entry := eventtype + " " + reason
	if len(t.reasons) == 0 || t.reasons[len(t.reasons)-1] != entry {
		t.reasons = append(t.reasons, entry)
	}
}

func migrationCase(raw json.RawMessage) any {
	world := decode[migrationWorld](raw)
	args, err := migrationArgs(world.Args)
	if err != nil {
		return map[string]any{"error": true}
	}
	switch world.Ask {
	case "args":
		return map[string]any{"error": false}
	case "reservation":
		return reservationOfJob(world)
	case "course":
		return courseOfJob(world, args)
	}
	c := migrationClient(world)
	set := kubefake.NewSimpleClientset()
	set.Resources = []*metav1.APIResourceList{
		{GroupVersion: "policy/v1"},
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods/eviction", Kind: "Eviction"}}},
	}
	handle := &migrationHandle{client: set, informers: informers.NewSharedInformerFactory(set, 0)}
	recorder := &told{}
	round, err := arbitrator.NewRound(args, c, handle, recorder)
	must(err)
	for _, uid := range world.Passed {
		round.Passed(types.UID(uid))
	}
	if world.Ask == "filter" {
		found := map[string]bool{}
		for i := range world.Pods {
			pod := world.Pods[i].DeepCopy()
			found[pod.Namespace+"/"+pod.Name] = round.Arbitrator().Filter(pod)
		}
		return map[string]any{"filter": found}
	}
	return arbitrated(world, c, round, recorder)
}

func migrationArgs(raw json.RawMessage) (*config.MigrationControllerArgs, error) {
	var given v1alpha2.MigrationControllerArgs
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	v1alpha2.SetDefaults_MigrationControllerArgs(&given)
	var args config.MigrationControllerArgs
	if err := v1alpha2.Convert_v1alpha2_MigrationControllerArgs_To_config_MigrationControllerArgs(&given, &args, nil); err != nil {
		return nil, err
	}
	return &args, validation.ValidateMigrationControllerArgs(nil, &args)
}

func arbitrated(world migrationWorld, c client.Client, round *arbitrator.Round, recorder *told) any {
	waiting := map[string]bool{}
	passed := map[string]bool{}
	for _, uid := range world.Passed {
		passed[uid] = true
	}
	for i := range world.Jobs {
		job := sev1alpha1.PodMigrationJob{}
		must(c.Get(context.TODO(), types.NamespacedName{Name: world.Jobs[i].Name}, &job))
		phase := job.Status.Phase
		if (phase == "" || phase == sev1alpha1.PodMigrationJobPending) && !passed[string(job.UID)] {
			round.Arbitrator().AddPodMigrationJob(&job)
			waiting[job.Name] = true
		}
	}
	order := round.Order()
	round.Run()
	results := map[string]string{}
	for name := range waiting {
		job := sev1alpha1.PodMigrationJob{}
		must(c.Get(context.TODO(), types.NamespacedName{Name: name}, &job))
		switch {
		case job.Status.Phase == sev1alpha1.PodMigrationJobFailed:
			results[name] = "failed " + job.Status.Reason
		case job.Annotations[arbitrator.AnnotationPassedArbitration] == "true":
			results[name] = "passed"
		default:
			results[name] = "waits"
		}
	}
	return map[string]any{"order": order, "results": results}
}

func reservationOfJob(world migrationWorld) any {
	options := reservation.CreateOrUpdateReservationOptions(&world.Jobs[0], &world.Pods[0])
	return map[string]any{"template": options.Template}
}

func migrationClient(world migrationWorld) client.Client {
	scheme := runtime.NewScheme()
	must(sev1alpha1.AddToScheme(scheme))
	must(clientgoscheme.AddToScheme(scheme))
	must(appsv1alpha1.AddToScheme(scheme))
	must(appsv1beta1.AddToScheme(scheme))
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&sev1alpha1.PodMigrationJob{})
	builder = builder.WithIndex(&corev1.Pod{}, "pod.spec.nodeName", func(obj client.Object) []string {
		return []string{obj.(*corev1.Pod).Spec.NodeName}
	}).WithIndex(&corev1.Pod{}, "pod.ownerRefUID", func(obj client.Object) []string {
		owners := []string{}
		for _, ref := range obj.GetOwnerReferences() {
			owners = append(owners, string(ref.UID))
		}
		return owners
	})
	for name, key := range map[string]func(*corev1.ObjectReference) string{
		"job.pod.uid":            func(ref *corev1.ObjectReference) string { return string(ref.UID) },
		"job.pod.namespacedName": func(ref *corev1.ObjectReference) string { return ref.Namespace + "/" + ref.Name },
		"job.pod.namespace":      func(ref *corev1.ObjectReference) string { return ref.Namespace },
	} {
		builder = builder.WithIndex(&sev1alpha1.PodMigrationJob{}, name, func(obj client.Object) []string {
			if ref := obj.(*sev1alpha1.PodMigrationJob).Spec.PodRef; ref != nil {
				return []string{key(ref)}
			}
			return []string{}
		})
	}
	objects := []client.Object{}
	for i := range world.Pods {
		objects = append(objects, &world.Pods[i])
	}
	for i := range world.Jobs {
		objects = append(objects, &world.Jobs[i])
	}
	for i := range world.Deployments {
		objects = append(objects, &world.Deployments[i])
	}
	for i := range world.ReplicaSets {
		objects = append(objects, &world.ReplicaSets[i])
	}
	for i := range world.StatefulSets {
		objects = append(objects, &world.StatefulSets[i])
	}
	if world.Reservation != nil {
		objects = append(objects, world.Reservation)
	}
	return withKinds{builder.WithObjects(objects...).Build()}
}

// withKinds says of each object what it is, as a manager's cache does and the fake does not.
type withKinds struct {
	client.Client
}

func (w withKinds) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if err := w.Client.Get(ctx, key, into, opts...); err != nil {
		return err
	}
	kinds, _, err := w.Scheme().ObjectKinds(into)
	if err == nil && len(kinds) > 0 {
		into.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	return nil
}

// courseReservations stands for the API of Reservations.
type courseReservations struct {
	client  client.Client
	created int
	deleted int
}

func (f *courseReservations) GetReservationType() client.Object { return &sev1alpha1.Reservation{} }

func (f *courseReservations) Preemption() reservation.Preemption { return nil }

func (f *courseReservations) CreateReservation(ctx context.Context, job *sev1alpha1.PodMigrationJob) (reservation.Object, error) {
	f.created++
	template := job.Spec.ReservationOptions.Template
	made := &sev1alpha1.Reservation{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	made.UID = "made"
	if err := f.client.Create(ctx, made); err != nil {
		return nil, err
	}
	return reservation.NewReservation(made), nil
}

func (f *courseReservations) GetReservation(ctx context.Context, ref *corev1.ObjectReference) (reservation.Object, error) {
	found := &sev1alpha1.Reservation{}
	if err := f.client.Get(ctx, types.NamespacedName{Name: ref.Name}, found); err != nil {
		return nil, err
	}
	return reservation.NewReservation(found), nil
}

func (f *courseReservations) DeleteReservation(ctx context.Context, ref *corev1.ObjectReference) error {
	f.deleted++
	return f.client.Delete(ctx, &sev1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}})
}

type courseEvictor struct {
	refuses bool
	asked   int
}

func (f *courseEvictor) Evict(ctx context.Context, job *sev1alpha1.PodMigrationJob, pod *corev1.Pod) error {
	f.asked++
	if f.refuses {
		return errors.New("refused")
	}
	return nil
}

func courseOfJob(world migrationWorld, args *config.MigrationControllerArgs) any {
	c := migrationClient(world)
	recorder := &told{reasons: []string{}}
	reservations, evictor := &courseReservations{client: c}, &courseEvictor{refuses: world.Refused}
	now := testingclock.NewFakeClock(time.Unix(world.Now, 0))
	r := migration.NewCourse(args, c, recorder, reservations, evictor, now)
	name := types.NamespacedName{Name: world.Jobs[0].Name}
	for pass := 0; pass < 6; pass++ {
		_, _ = r.Reconcile(context.TODO(), reconcile.Request{NamespacedName: name})
	}
	job := sev1alpha1.PodMigrationJob{}
	must(c.Get(context.TODO(), name, &job))
	conditions := [][]string{}
	for _, each := range job.Status.Conditions {
		conditions = append(conditions, []string{string(each.Type), string(each.Status), each.Reason, each.Message})
	}
	sort.Slice(conditions, func(i, j int) bool { return conditions[i][0] < conditions[j][0] })
	found := map[string]any{
		"phase": job.Status.Phase, "status": job.Status.Status, "reason": job.Status.Reason,
		"message": job.Status.Message, "conditions": conditions, "node": job.Status.NodeName,
		"created": reservations.created, "deleted": reservations.deleted,
		"evicted": min(evictor.asked, 1), "events": recorder.reasons,
	}
	if job.Spec.PodRef != nil {
		found["pod"] = job.Spec.PodRef.UID
	}
	if job.Status.PodRef != nil {
		found["bound"] = job.Status.PodRef.Name
	}
	return found
}
