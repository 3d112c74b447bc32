// SPDX-License-Identifier: Apache-2.0

// Compiled into pkg/scheduler/plugins/deviceshare.
package deviceshare

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwktype "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	scheduling "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/schedulingphase"
)

// koordHandle is the framework of one node without reservations.
type koordHandle struct {
	frameworkext.ExtendedHandle
	frameworkext.ReservationNominator
	fwktype.SharedLister
	fwktype.NodeInfoLister
	node *framework.NodeInfo
}

func (h *koordHandle) SnapshotSharedLister() fwktype.SharedLister { return h }
func (h *koordHandle) NodeInfos() fwktype.NodeInfoLister          { return h }
func (h *koordHandle) Get(string) (fwktype.NodeInfo, error)       { return h.node, nil }

func (h *koordHandle) GetReservationNominator() frameworkext.ReservationNominator { return h }

func (h *koordHandle) GetNominatedReservation(*corev1.Pod, string) *frameworkext.ReservationInfo {
	return nil
}

// KoordAttempt is one pod's on one node with devices.
type KoordAttempt struct {
	plugin *Plugin
	state  fwktype.CycleState
	node   *framework.NodeInfo
	pod    *corev1.Pod
}

// KoordNewAttempt counts a Device, and who holds what of it, on a node, and runs PreFilter.
func KoordNewAttempt(node *framework.NodeInfo, device *scheduling.Device, holders []*corev1.Pod, pod *corev1.Pod, args *config.DeviceShareArgs) (*KoordAttempt, *fwktype.Status) {
	plugin := &Plugin{
		handle:                          &koordHandle{node: node},
		nodeDeviceCache:                 newNodeDeviceCache(),
		gpuSharedResourceTemplatesCache: newGPUSharedResourceTemplatesCache(),
		scorer:                          deviceResourceStrategyTypeMap[args.ScoringStrategy.Type](args),
	}
	plugin.nodeDeviceCache.onDeviceAdd(device)
	for _, each := range holders {
		held, err := extension.GetDeviceAllocations(each.Annotations)
		if err != nil {
			return nil, fwktype.AsStatus(err)
		}
		plugin.nodeDeviceCache.getNodeDevice(node.Node().Name, true).updateCacheUsed(held, each, true)
	}
	attempt := &KoordAttempt{plugin, framework.NewCycleState(), node, pod}
	_, status := plugin.PreFilter(context.Background(), attempt.state, pod, nil)
	return attempt, status
}

// Filter says why the pod cannot go to the node.
func (a *KoordAttempt) Filter() *fwktype.Status {
	return a.plugin.Filter(context.Background(), a.state, a.pod, a.node)
}

// Score is what the node is worth.
func (a *KoordAttempt) Score() int64 {
	score, status := a.plugin.Score(context.Background(), a.state, a.pod, a.node)
	if !status.IsSuccess() {
		panic(status.Message())
	}
	return score
}

// Reserve gives the devices that the pod gets.
func (a *KoordAttempt) Reserve() (extension.DeviceAllocations, *fwktype.Status) {
	schedulingphase.RecordPhase(a.state, schedulingphase.Reserve)
	status := a.plugin.Reserve(context.Background(), a.state, a.pod, a.node.Node().Name)
	if !status.IsSuccess() {
		return nil, status
	}
	state, _ := getPreFilterState(a.state)
	return state.allocationResult, nil
}
