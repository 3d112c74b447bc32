// SPDX-License-Identifier: Apache-2.0
// Compiled into pkg/scheduler/plugins/loadaware.

package loadaware

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	fwktype "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/loadaware/estimator"
)

type vectorHandle struct {
	fwktype.Handle
	node fwktype.NodeInfo
}

func (h *vectorHandle) SnapshotSharedLister() fwktype.SharedLister {
	return &vectorLister{node: h.node}
}

type vectorLister struct {
	fwktype.SharedLister
	fwktype.NodeInfoLister
	node fwktype.NodeInfo
}

func (l *vectorLister) NodeInfos() fwktype.NodeInfoLister { return l }

func (l *vectorLister) Get(string) (fwktype.NodeInfo, error) { return l.node, nil }

// VectorPlugin is a plugin that knows one node; its cache's clock stands still.
func VectorPlugin(args *config.LoadAwareSchedulingArgs, node *corev1.Node, now time.Time) (*Plugin, fwktype.NodeInfo) {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	estimates, err := estimator.NewDefaultEstimator(args, nil)
	if err != nil {
		panic(err)
	}
	vectorizer := NewResourceVectorizerFromArgs(args)
	cache := newPodAssignCache(estimates, vectorizer, args)
	cache.clock = clocktesting.NewFakeClock(now)
	weights := vectorizer.ToFactorVec(args.ResourceWeights)
	if args.DominantResourceWeight == 0 && weights.Empty() {
		weights = nil
	}
	return &Plugin{
		handle: &vectorHandle{node: info}, args: args, vectorizer: vectorizer,
		filterProfile: NewUsageThresholdsFilterProfile(args, vectorizer), scoreWeights: weights,
		estimator: estimates, podAssignCache: cache,
	}, info
}

// VectorCache takes events of pods.
func (p *Plugin) VectorCache() *podAssignCache { return p.podAssignCache }

// VectorEstimate tells what a pod is expected to use.
func (p *Plugin) VectorEstimate(pod *corev1.Pod) map[corev1.ResourceName]int64 {
	found, err := p.estimator.EstimatePod(pod)
	if err != nil {
		panic(err)
	}
	return found
}
