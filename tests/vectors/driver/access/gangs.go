// SPDX-License-Identifier: Apache-2.0

// Of package pkg/scheduler/plugins/coscheduling/core.
package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	pg "github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext"
)

// Gangs is a gang cache with what the scheduler does to it.
type Gangs struct{ manager PodGroupManager }

type queueHandle struct {
	frameworkext.ExtendedHandle
	scheduler frameworkext.Scheduler
}

func (h *queueHandle) Scheduler() frameworkext.Scheduler { return h.scheduler }

// NewGangs makes a cache without gangs and a queue that nobody takes pods from.
func NewGangs(args *config.CoschedulingArgs) *Gangs {
	handle := &queueHandle{scheduler: frameworkext.NewFakeScheduler()}
	return &Gangs{PodGroupManager{cache: NewGangCache(args, nil, nil, nil, handle)}}
}

func (g *Gangs) AddPod(pod *corev1.Pod)         { g.manager.cache.onPodAdd(pod) }
func (g *Gangs) UpdatePod(old, pod *corev1.Pod) { g.manager.cache.onPodUpdate(old, pod) }
func (g *Gangs) DeletePod(pod *corev1.Pod)      { g.manager.cache.onPodDelete(pod) }
func (g *Gangs) AddGroup(group *pg.PodGroup)    { g.manager.cache.onPodGroupAdd(group) }
func (g *Gangs) DeleteGroup(group *pg.PodGroup) { g.manager.cache.onPodGroupDelete(group) }

func (g *Gangs) UpdateGroup(old, group *pg.PodGroup) {
	g.manager.cache.onPodGroupUpdate(old, group)
}

// Permit tells whether a pod that holds a node may be bound now.
func (g *Gangs) Permit(pod *corev1.Pod) bool {
	_, status := g.manager.Permit(context.Background(), pod)
	return status == Success
}

// Release is the part of Unreserve that concerns the gang's own state.
func (g *Gangs) Release(pod *corev1.Pod) {
	if gang := g.manager.GetGangByPod(pod); gang != nil {
		gang.delAssumedPod(pod)
	}
}

// Bind tells that a pod is bound.
func (g *Gangs) Bind(pod *corev1.Pod) { g.manager.PostBind(context.Background(), pod, "") }

// Summaries gives all gangs by id.
func (g *Gangs) Summaries() map[string]*GangSummary { return g.manager.GetGangSummaries() }

// Valid tells whether enough pods of a gang hold nodes.
func (g *Gangs) Valid(id string) bool {
	return g.manager.cache.getGangFromCacheByGangId(id, false).isGangValidForPermit()
}
