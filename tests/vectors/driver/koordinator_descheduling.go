// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config/v1alpha2"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework/plugins/custompriority"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework/plugins/fragmentationaware"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework/plugins/scaledownbinpack"
	podutil "github.com/koordinator-sh/koordinator/pkg/descheduler/pod"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/utils/sorter"
)

func init() {
	register("koordinator_descheduling", koordinatorDescheduling,
		"fragmentationaware/fragmentation_aware.go:Balance",
		"fragmentationaware/fragmentation_aware.go:chooseBestEvictionCandidate",
		"fragmentationaware/fragmentation_aware.go:filterNodesByNodeSelector",
		"fragmentationaware/scoring.go:allocationFractions",
		"fragmentationaware/scoring.go:stdDev",
		"fragmentationaware/scoring.go:scoreNodeImbalance",
		"scaledownbinpack/scale_down_binpack.go:Balance",
		"scaledownbinpack/scale_down_binpack.go:isTargetPod",
		"scaledownbinpack/ranker.go:RankPods",
		"scaledownbinpack/ranker.go:getPodSize",
		"scaledownbinpack/executor.go:patchDeletionCosts",
		"scaledownbinpack/executor.go:evictRankedPods",
		"custompriority/custom_priority.go:Balance",
		"custompriority/custom_priority.go:classifyNodesByPriority",
		"custompriority/custom_priority.go:processEvictions",
		"custompriority/custom_priority.go:evictFromPriorityToTargets",
		"custompriority/custom_priority.go:evictByDrainingNodes",
		"custompriority/custom_priority.go:findEvictablePods",
		"custompriority/custom_priority.go:requestsFit",
		"custompriority/custom_priority.go:sortPodsByRequestsAscending",
		"sorter/pod.go:Priority",
		"sorter/pod.go:KubernetesQoSClass",
		"sorter/pod.go:KoordinatorQoSClass",
		"sorter/pod.go:KoordinatorPriorityClass",
		"sorter/pod.go:PodUsage",
		"sorter/pod.go:PodCreationTimestamp",
		"sorter/pod.go:PodDeletionCost",
		"sorter/pod.go:EvictionCost",
		"sorter/scorer.go:ResourceUsageScorerPod",
		"sorter/scorer.go:mostRequestedScorePod",
	)
}

// balanceRound is a cluster and one plugin, or pods to be sorted. Ages are seconds before now.
type balanceRound struct {
	Plugin   string                         `json:"plugin"`
	Args     json.RawMessage                `json:"args"`
	Nodes    []corev1.Node                  `json:"nodes"`
	Pods     []corev1.Pod                   `json:"pods"`
	Ages     map[string]int64               `json:"ages"`
	DryRun   bool                           `json:"dryRun"`
	Exceeded corev1.ResourceList            `json:"exceeded"`
	Usage    map[string]corev1.ResourceList `json:"usage"`
	Weights  map[corev1.ResourceName]int64  `json:"weights"`
}

// balanceHandle filters, evicts and writes as the labels of pods and nodes say.
type balanceHandle struct {
	framework.Handle
	client  clientset.Interface
	dryRun  bool
	pods    map[string][]*corev1.Pod
	evicted [][]string
}

func (h *balanceHandle) ClientSet() clientset.Interface { return h.client }

func (h *balanceHandle) IsDryRun() bool { return h.dryRun }

func (h *balanceHandle) Evictor() framework.Evictor { return h }

func (h *balanceHandle) Filter(pod *corev1.Pod) bool { return pod.Labels["stay"] == "" }

func (h *balanceHandle) PreEvictionFilter(pod *corev1.Pod) bool { return pod.Labels["hold"] == "" }

func (h *balanceHandle) Evict(_ context.Context, pod *corev1.Pod, options framework.EvictOptions) bool {
	if pod.Labels["refuse"] != "" {
		return false
	}
	h.evicted = append(h.evicted, []string{pod.Name, options.Reason})
	return true
}

// A nil filter takes all pods, as plugins expect; the original's own lister does not bear one.
func (h *balanceHandle) GetPodsAssignedToNodeFunc() podutil.GetPodsAssignedToNodeFunc {
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

// koordinatorDescheduling gives what one plugin evicts, with reasons, and what else it writes.
func koordinatorDescheduling(raw json.RawMessage) any {
	round := balanceRound{}
	must(json.Unmarshal(raw, &round))
	now := time.Now()
	for i := range round.Pods {
		pod := &round.Pods[i]
		age := time.Duration(round.Ages[pod.Name]) * time.Second
		pod.CreationTimestamp = metav1.NewTime(now.Add(-age))
	}
	if round.Plugin == "sorter" {
		return map[string]any{"order": round.sorted()}
	}
	handle := &balanceHandle{dryRun: round.DryRun, pods: map[string][]*corev1.Pod{}, evicted: [][]string{}}
	objects := []runtime.Object{}
	nodes := []*corev1.Node{}
	for i := range round.Nodes {
		nodes = append(nodes, &round.Nodes[i])
		objects = append(objects, &round.Nodes[i])
	}
	for i := range round.Pods {
		pod := &round.Pods[i]
		handle.pods[pod.Spec.NodeName] = append(handle.pods[pod.Spec.NodeName], pod)
		objects = append(objects, pod)
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
	client := fake.NewSimpleClientset(objects...)
	costs, cordons := map[string]string{}, [][]any{}
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		for _, pod := range round.Pods {
			if pod.Name == patch.GetName() && pod.Labels["unwritable"] != "" {
				return true, nil, errors.New("unwritable")
			}
		}
		var change struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		must(json.Unmarshal(patch.GetPatch(), &change))
		costs[patch.GetName()] = change.Metadata.Annotations["controller.kubernetes.io/pod-deletion-cost"]
		return true, &corev1.Pod{}, nil
	})
	client.PrependReactor("update", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		node := action.(clienttesting.UpdateAction).GetObject().(*corev1.Node)
		cordons = append(cordons, []any{node.Name, node.Spec.Unschedulable})
		return false, nil, nil
	})
	handle.client = client
	plugin, err := round.build(handle)
	if err != nil {
		return map[string]any{"invalid": true}
	}
	status := plugin.(framework.BalancePlugin).Balance(context.Background(), nodes)
	failed := status != nil && status.Err != nil
	return map[string]any{"evicted": handle.evicted, "costs": costs, "cordons": cordons, "failed": failed}
}

func (r *balanceRound) build(handle framework.Handle) (framework.Plugin, error) {
	ctx := context.Background()
	switch r.Plugin {
	case "FragmentationAware":
		written, args := &v1alpha2.FragmentationAwareArgs{}, &config.FragmentationAwareArgs{}
		must(json.Unmarshal(r.Args, written))
		v1alpha2.SetDefaults_FragmentationAwareArgs(written)
		must(v1alpha2.Convert_v1alpha2_FragmentationAwareArgs_To_config_FragmentationAwareArgs(written, args, nil))
		return fragmentationaware.NewFragmentationAware(ctx, args, handle)
	case "ScaleDownBinPack":
		written, args := &v1alpha2.ScaleDownBinPackArgs{}, &config.ScaleDownBinPackArgs{}
		must(json.Unmarshal(r.Args, written))
		v1alpha2.SetDefaults_ScaleDownBinPackArgs(written)
		must(v1alpha2.Convert_v1alpha2_ScaleDownBinPackArgs_To_config_ScaleDownBinPackArgs(written, args, nil))
		return scaledownbinpack.NewScaleDownBinPack(ctx, args, handle)
	default:
		written, args := &v1alpha2.CustomPriorityArgs{}, &config.CustomPriorityArgs{}
		must(json.Unmarshal(r.Args, written))
		v1alpha2.SetDefaults_CustomPriorityArgs(written)
		must(v1alpha2.Convert_v1alpha2_CustomPriorityArgs_To_config_CustomPriorityArgs(written, args, nil))
		return custompriority.NewCustomPriority(ctx, args, handle)
	}
}

func (r *balanceRound) sorted() []string {
	pods := []*corev1.Pod{}
	for i := range r.Pods {
		pods = append(pods, &r.Pods[i])
	}
	if r.Usage == nil {
		sorter.PodSorter().Sort(pods)
	} else {
		metrics := map[types.NamespacedName]*slov1alpha1.ResourceMap{}
		for i := range r.Pods {
			pod := &r.Pods[i]
			if usage, ok := r.Usage[pod.Name]; ok {
				key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
				metrics[key] = &slov1alpha1.ResourceMap{ResourceList: usage}
			}
		}
		sorter.SortPodsByUsage(r.Exceeded, pods, metrics, nil, r.Weights)
	}
	names := []string{}
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}
