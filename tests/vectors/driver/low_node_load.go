// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	koordclientset "github.com/koordinator-sh/koordinator/pkg/client/clientset/versioned"
	koordfake "github.com/koordinator-sh/koordinator/pkg/client/clientset/versioned/fake"
	slolisters "github.com/koordinator-sh/koordinator/pkg/client/listers/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config/v1alpha2"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework/plugins/loadaware"
	podutil "github.com/koordinator-sh/koordinator/pkg/descheduler/pod"
)

func init() {
	register("low_node_load", lowNodeLoad,
		"loadaware/low_node_load.go:NewLowNodeLoad",
		"loadaware/low_node_load.go:Balance",
		"loadaware/low_node_load.go:processOneNodePool",
		"loadaware/low_node_load.go:filterRealAbnormalNodes",
		"loadaware/low_node_load.go:newThresholds",
		"loadaware/low_node_load.go:overUtilizedEvictionReason",
		"loadaware/utilization_util.go:getNodeThresholds",
		"loadaware/utilization_util.go:getNodeUsage",
		"loadaware/utilization_util.go:classifyNodes",
		"loadaware/utilization_util.go:evictPodsFromSourceNodes",
		"loadaware/utilization_util.go:balancePods",
		"loadaware/utilization_util.go:evictPods",
		"loadaware/utilization_util.go:sortPodsOnOneOverloadedNode",
		"loadaware/utilization_util.go:podFitsAnyNodeWithThreshold",
		"loadaware/utilization_util.go:calcAverageResourceUsagePercent",
	)
}

// loadRounds is a cluster with what its nodes measure in each of several rounds. Ages are seconds
// before now: of pods, and of reports by round and node.
type loadRounds struct {
	Args   json.RawMessage                     `json:"args"`
	Nodes  []corev1.Node                       `json:"nodes"`
	Pods   []corev1.Pod                        `json:"pods"`
	Ages   map[string]int64                    `json:"ages"`
	Rounds []map[string]slov1alpha1.NodeMetric `json:"rounds"`
	Old    map[string]int64                    `json:"old"`
}

type loadHandle struct {
	framework.Handle
	koordclientset.Interface
	pods    map[string][]*corev1.Pod
	evicted [][]string
}

func (h *loadHandle) Evictor() framework.Evictor { return h }

func (h *loadHandle) Filter(pod *corev1.Pod) bool { return pod.Labels["stay"] == "" }

func (h *loadHandle) PreEvictionFilter(pod *corev1.Pod) bool { return true }

func (h *loadHandle) Evict(_ context.Context, pod *corev1.Pod, options framework.EvictOptions) bool {
	if pod.Labels["refuse"] != "" {
		return false
	}
	h.evicted = append(h.evicted, []string{pod.Namespace + "/" + pod.Name, options.Reason})
	return true
}

func (h *loadHandle) GetPodsAssignedToNodeFunc() podutil.GetPodsAssignedToNodeFunc {
	return func(node string, filter podutil.FilterFunc) ([]*corev1.Pod, error) {
		found := []*corev1.Pod{}
		for _, pod := range h.pods[node] {
			if filter == nil || filter(pod) {
				found = append(found, pod)
			}
		}
		return found, nil
	}
}

type loadMetrics struct {
	slolisters.NodeMetricLister
	metrics map[string]slov1alpha1.NodeMetric
}

func (l loadMetrics) Get(name string) (*slov1alpha1.NodeMetric, error) {
	if metric, ok := l.metrics[name]; ok {
		return &metric, nil
	}
	return nil, errors.NewNotFound(schema.GroupResource{Resource: "nodemetrics"}, name)
}

// lowNodeLoad gives what each round evicts, with reasons, or what is wrong with arguments.
func lowNodeLoad(raw json.RawMessage) any {
	rounds := loadRounds{}
	must(json.Unmarshal(raw, &rounds))
	written := &v1alpha2.LowNodeLoadArgs{}
	must(json.Unmarshal(rounds.Args, written))
	v1alpha2.SetDefaults_LowNodeLoadArgs(written)
	args := &config.LowNodeLoadArgs{}
	must(v1alpha2.Convert_v1alpha2_LowNodeLoadArgs_To_config_LowNodeLoadArgs(written, args, nil))
	// Ended before it begins: the plugin would wait for an informer that has nobody to ask.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	handle := &loadHandle{Interface: koordfake.NewSimpleClientset(), pods: map[string][]*corev1.Pod{}}
	now := time.Now()
	for i := range rounds.Pods {
		pod := &rounds.Pods[i]
		pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(rounds.Ages[pod.Name]) * time.Second))
		handle.pods[pod.Spec.NodeName] = append(handle.pods[pod.Spec.NodeName], pod)
	}
	// The original's index has pods in no order.
	for _, pods := range handle.pods {
		sort.Slice(pods, func(i, j int) bool {
			if pods[i].Namespace != pods[j].Namespace {
				return pods[i].Namespace < pods[j].Namespace
			}
			return pods[i].Name < pods[j].Name
		})
	}
	plugin, err := loadaware.NewLowNodeLoad(ctx, args, handle)
	if err != nil {
		return map[string]any{"invalid": true}
	}
	nodes := []*corev1.Node{}
	for i := range rounds.Nodes {
		nodes = append(nodes, &rounds.Nodes[i])
	}
	answers := [][][]string{}
	for _, metrics := range rounds.Rounds {
		for name, metric := range metrics {
			if metric.Status.UpdateTime != nil {
				updated := metav1.NewTime(now.Add(-time.Duration(rounds.Old[name]) * time.Second))
				metric.Status.UpdateTime = &updated
				metrics[name] = metric
			}
		}
		loadaware.SetNodeMetrics(plugin, loadMetrics{metrics: metrics})
		handle.evicted = [][]string{}
		plugin.(framework.BalancePlugin).Balance(ctx, nodes)
		answers = append(answers, handle.evicted)
	}
	return map[string]any{"rounds": answers}
}
