// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	slo "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/loadaware"
)

func init() {
	register("loadaware", loadAware,
		"loadaware/load_aware.go:Filter",
		"loadaware/load_aware.go:Score",
		"loadaware/load_aware.go:addEstimatedOfIncoming",
		"loadaware/load_aware.go:filterNodeUsage",
		"loadaware/load_aware.go:loadAwareSchedulingScorer",
		"loadaware/load_aware.go:leastUsedScore",
		"loadaware/helper.go:isNodeMetricExpired",
		"loadaware/helper.go:getNodeMetricReportInterval",
		"loadaware/helper.go:NewUsageThresholdsFilterProfile",
		"loadaware/helper.go:generateUsageThresholdsFilterProfile",
		"loadaware/helper.go:NewResourceVectorizerFromArgs",
		"loadaware/helper.go:AddDelta",
		"loadaware/helper.go:SubDelta",
		"loadaware/pod_assign_cache.go:GetNodeMetricAndEstimatedOfExisting",
		"loadaware/pod_assign_cache.go:getTargetAggregatedUsage",
		"loadaware/pod_assign_cache.go:assign",
		"loadaware/pod_assign_cache.go:shouldEstimatePodDeadline",
		"loadaware/pod_assign_cache.go:DeletePod",
		"loadaware/pod_assign_cache.go:DeleteNodeMetric",
		"loadaware/pod_assign_cache.go:AddOrUpdateNodeMetric",
		"loadaware/pod_assign_cache.go:addPod",
		"loadaware/pod_assign_cache.go:deletePod",
		"estimator/default_estimator.go:EstimatePod",
		"estimator/default_estimator.go:estimatedPodUsed",
		"estimator/default_estimator.go:estimatedUsedByResource",
		"estimator/default_estimator.go:EstimateNode",
	)
}

// noon is now in the cases.
var noon = time.Unix(1_700_000_000, 0)

type loadCase struct {
	Args  config.LoadAwareSchedulingArgs `json:"args"`
	Node  corev1.Node                    `json:"node"`
	Steps []loadStep                     `json:"steps"`
	Pod   corev1.Pod                     `json:"pod"`
}

type loadStep struct {
	Metric *slo.NodeMetric `json:"metric"`
	Pod    *corev1.Pod     `json:"pod"`
	Gone   *corev1.Pod     `json:"gone"`
	Drop   string          `json:"drop"`
}

// loadAware gives the estimate of a pod, why its node refuses it, and the node's score.
func loadAware(raw json.RawMessage) any {
	given := decode[loadCase](raw)
	now := time.Now().Truncate(time.Second)
	later := now.Sub(noon)
	plugin, node := loadaware.VectorPlugin(&given.Args, &given.Node, now)
	for _, step := range given.Steps {
		switch {
		case step.Metric != nil:
			shift(step.Metric.Status.UpdateTime, later)
			plugin.VectorCache().AddOrUpdateNodeMetric(step.Metric)
		case step.Pod != nil:
			for index := range step.Pod.Status.Conditions {
				shift(&step.Pod.Status.Conditions[index].LastTransitionTime, later)
			}
			plugin.VectorCache().OnAdd(step.Pod, false)
		case step.Drop != "":
			plugin.VectorCache().DeleteNodeMetric(step.Drop)
		default:
			plugin.VectorCache().OnDelete(step.Gone)
		}
	}
	state, ctx := framework.NewCycleState(), context.Background()
	_, _ = plugin.PreFilter(ctx, state, &given.Pod, nil)
	status := plugin.Filter(ctx, state, &given.Pod, node)
	score, failed := plugin.Score(ctx, state, &given.Pod, node)
	must(failed.AsError())
	estimate := map[string]int64{}
	for name, amount := range plugin.VectorEstimate(&given.Pod) {
		if amount != 0 {
			estimate[string(name)] = amount
		}
	}
	return map[string]any{
		"estimate": estimate, "refused": status.Message(), "score": score,
	}
}

func shift(when *metav1.Time, by time.Duration) {
	if when != nil && !when.IsZero() {
		*when = metav1.NewTime(when.Add(by))
	}
}
