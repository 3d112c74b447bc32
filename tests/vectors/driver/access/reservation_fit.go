// SPDX-License-Identifier: Apache-2.0

// Compiled into pkg/scheduler/plugins/reservation.
package reservation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	fwktype "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	scheduling "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	listers "github.com/koordinator-sh/koordinator/pkg/client/listers/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext"
)

// KoordHandle is the framework of one node and this plugin alone.
type KoordHandle struct {
	frameworkext.FrameworkExtender
	fwktype.SharedLister
	fwktype.NodeInfoLister
	node      *framework.NodeInfo
	plugin    *Plugin
	scheduler frameworkext.Scheduler
}

func (h *KoordHandle) SnapshotSharedLister() fwktype.SharedLister { return h }
func (h *KoordHandle) NodeInfos() fwktype.NodeInfoLister          { return h }
func (h *KoordHandle) Get(string) (fwktype.NodeInfo, error)       { return h.node, nil }
func (h *KoordHandle) Scheduler() frameworkext.Scheduler          { return h.scheduler }
func (h *KoordHandle) Parallelizer() fwktype.Parallelizer {
	return parallelize.NewParallelizer(1)
}

func (h *KoordHandle) GetReservationNominator() frameworkext.ReservationNominator {
	return h.plugin
}

func (h *KoordHandle) RunReservationExtensionPreRestoreReservation(context.Context, fwktype.CycleState, *corev1.Pod) *fwktype.Status {
	return nil
}

func (h *KoordHandle) RunReservationExtensionRestoreReservation(context.Context, fwktype.CycleState, *corev1.Pod, []*frameworkext.ReservationInfo, []*frameworkext.ReservationInfo, fwktype.NodeInfo) (frameworkext.PluginToReservationRestoreStates, *fwktype.Status) {
	return nil, nil
}

func (h *KoordHandle) RunReservationFilterPlugins(ctx context.Context, state fwktype.CycleState, pod *corev1.Pod, r *frameworkext.ReservationInfo, node fwktype.NodeInfo) *fwktype.Status {
	return h.plugin.FilterReservation(ctx, state, pod, r, node)
}

func (h *KoordHandle) RunNominateReservationFilterPlugins(ctx context.Context, state fwktype.CycleState, pod *corev1.Pod, r *frameworkext.ReservationInfo, node string) *fwktype.Status {
	return h.plugin.FilterNominateReservation(ctx, state, pod, r, node)
}

func (h *KoordHandle) RunReservationScorePlugins(ctx context.Context, state fwktype.CycleState, pod *corev1.Pod, all []*frameworkext.ReservationInfo, node string) (frameworkext.PluginToReservationScores, *fwktype.Status) {
	list := frameworkext.ReservationScoreList{}
	for _, r := range all {
		score, status := h.plugin.ScoreReservation(ctx, state, pod, r, node)
		if !status.IsSuccess() {
			return nil, status
		}
		list = append(list, frameworkext.ReservationScore{
			Name: r.GetName(), Namespace: r.GetNamespace(), UID: r.UID(), Score: score,
		})
	}
	return frameworkext.PluginToReservationScores{Name: list}, nil
}

// KoordAttempt is one pod's on one node with reservations.
type KoordAttempt struct {
	plugin *Plugin
	state  fwktype.CycleState
	node   *framework.NodeInfo
	pod    *corev1.Pod
}

// KoordNewAttempt counts the reservations and who sits in them, by uid, on a node that has all of
// their pods already, and runs what comes before Filter; the attempt is nil if it stops there.
func KoordNewAttempt(node *framework.NodeInfo, pod *corev1.Pod, reservations []*scheduling.Reservation, owners map[string][]*corev1.Pod, ignored, groups []string, skipNode bool) (*KoordAttempt, *fwktype.Status) {
	plugin := &Plugin{
		reservationCache:              newReservationCache(nil),
		nominator:                     newNominator(nil, nil),
		enableSkipReservationFitsNode: skipNode,
		ignoredResources:              sets.New(ignored...),
		ignoredResourceGroups:         sets.New(groups...),
	}
	schedulermetrics.Register()
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	plugin.rLister = listers.NewReservationLister(known)
	scheduler := frameworkext.NewFakeScheduler()
	plugin.handle = &KoordHandle{node: node, plugin: plugin, scheduler: scheduler}
	for _, each := range reservations {
		if err := known.Add(each); err != nil {
			return nil, fwktype.AsStatus(err)
		}
		plugin.reservationCache.updateReservation(each)
		if err := plugin.reservationCache.addPods(each.UID, owners[string(each.UID)]); err != nil {
			return nil, fwktype.AsStatus(err)
		}
		// As when the API tells of its status next: one that is used up is not matched any more.
		plugin.reservationCache.updateReservation(each)
	}
	attempt := &KoordAttempt{plugin, framework.NewCycleState(), node, pod}
	ctx := context.Background()
	if _, _, status := plugin.BeforePreFilter(ctx, attempt.state, pod); !status.IsSuccess() {
		return nil, status
	}
	_, status := plugin.PreFilter(ctx, attempt.state, pod, nil)
	return attempt, status
}

// Filter says why the pod cannot go to the node.
func (a *KoordAttempt) Filter() *fwktype.Status {
	return a.plugin.Filter(context.Background(), a.state, a.pod, a.node)
}

// Matched are the reservations that the pod matches.
func (a *KoordAttempt) Matched() []*frameworkext.ReservationInfo {
	found := getStateData(a.state).nodeReservationStates[a.node.Node().Name]
	if found == nil {
		return nil
	}
	return found.matchedOrIgnored
}

// Fits says why the pod cannot be nominated for a reservation, and Score what that is worth.
func (a *KoordAttempt) Fits(r *frameworkext.ReservationInfo) *fwktype.Status {
	return a.plugin.FilterNominateReservation(context.Background(), a.state, a.pod, r, a.node.Node().Name)
}

// Score is what the reservation is worth to the pod.
func (a *KoordAttempt) Score(r *frameworkext.ReservationInfo) int64 {
	score, status := a.plugin.ScoreReservation(context.Background(), a.state, a.pod, r, a.node.Node().Name)
	if !status.IsSuccess() {
		panic(status.Message())
	}
	return score
}

// Nominated is the reservation that the pod would get, and what the node is worth to it.
func (a *KoordAttempt) Nominated() (*frameworkext.ReservationInfo, int64) {
	ctx := context.Background()
	found, status := a.plugin.NominateReservation(ctx, a.state, a.pod, a.node.Node().Name)
	if !status.IsSuccess() {
		panic(status.Message())
	}
	status = a.plugin.PreScore(ctx, a.state, a.pod, []fwktype.NodeInfo{a.node})
	if status.IsSkip() {
		return found, 0
	}
	score, status := a.plugin.Score(ctx, a.state, a.pod, a.node)
	if !status.IsSuccess() {
		panic(status.Message())
	}
	return found, score
}

// KoordOrder is what a reservation's label says of who goes first.
func KoordOrder(r *frameworkext.ReservationInfo) int64 {
	found, order := findMostPreferredReservationByOrder([]*frameworkext.ReservationInfo{r})
	if found == nil {
		return 0
	}
	return order
}
