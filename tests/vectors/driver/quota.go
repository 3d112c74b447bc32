// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	quotas "github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/elasticquota"
)

func init() {
	register("quota", quotaAnswer,
		"core/group_quota_manager.go:UpdateQuota",
		"core/group_quota_manager.go:DeleteQuota",
		"core/group_quota_manager.go:updateQuotaInternalNoLock",
		"core/group_quota_manager.go:updateQuotaNoLockWhenParentChange",
		"core/group_quota_manager.go:resetQuotaNoLock",
		"core/group_quota_manager.go:rebuildQuotaTopoNodeMapNoLock",
		"core/group_quota_manager.go:rebuildAllGroupQuotaNoLock",
		"core/group_quota_manager.go:deleteQuotaNoLock",
		"core/group_quota_manager.go:doUpdateOneGroupMaxQuotaNoLock",
		"core/group_quota_manager.go:doUpdateOneGroupMinQuotaNoLock",
		"core/group_quota_manager.go:doUpdateOneGroupSharedWeightNoLock",
		"core/group_quota_manager.go:recursiveUpdateGroupTreeWithDeltaRequest",
		"core/group_quota_manager.go:recursiveUpdateGroupTreeWithDeltaAllocated",
		"core/group_quota_manager.go:updateGroupDeltaUsedNoLock",
		"core/group_quota_manager.go:updateClusterTotalResourceNoLock",
		"core/group_quota_manager.go:refreshRuntimeNoLock",
		"core/group_quota_manager.go:updatePodRequestNoLock",
		"core/group_quota_manager.go:updatePodUsedNoLock",
		"core/group_quota_manager.go:OnPodAdd",
		"core/group_quota_manager.go:OnPodUpdate",
		"core/group_quota_manager.go:OnPodDelete",
		"core/group_quota_manager.go:MigratePod",
		"core/group_quota_manager.go:OnNodeAdd",
		"core/group_quota_manager.go:OnNodeUpdate",
		"core/group_quota_manager.go:OnNodeDelete",
		"core/quota_info.go:NewQuotaInfoFromQuota",
		"core/quota_info.go:getLimitRequestNoLock",
		"core/runtime_quota_calculator.go:redistribution",
		"core/runtime_quota_calculator.go:iterationForRedistribution",
		"core/runtime_quota_calculator.go:computeHamiltonDeltas",
		"core/runtime_quota_calculator.go:updateOneGroupMaxQuota",
		"core/runtime_quota_calculator.go:updateOneGroupMinQuota",
		"core/runtime_quota_calculator.go:updateOneGroupSharedWeight",
		"core/runtime_quota_calculator.go:updateOneGroupRequest",
		"core/runtime_quota_calculator.go:updateOneGroupGuaranteed",
		"core/runtime_quota_calculator.go:updateOneGroupRuntimeQuota",
		"core/runtime_quota_calculator.go:calculateRuntimeNoLock",
		"core/scale_minquota_when_over_root_res.go:update",
		"core/scale_minquota_when_over_root_res.go:remove",
		"core/scale_minquota_when_over_root_res.go:getScaledMinQuota",
		"elasticquota/plugin.go:PreFilter",
		"elasticquota/plugin_helper.go:GetQuotaName",
		"elasticquota/plugin_helper.go:getPodAssociateQuotaName",
		"elasticquota/plugin_helper.go:checkQuotaRecursive",
		"elasticquota/preempt.go:canPreempt",
	)
}

type quotaCase struct {
	Kind         string              `json:"kind"`
	Scale        bool                `json:"scale"`
	Parents      bool                `json:"parents"`
	Runtime      bool                `json:"runtime"`
	SpareDefault bool                `json:"spareDefault"`
	Guarantee    bool                `json:"guarantee"`
	DefaultMax   corev1.ResourceList `json:"defaultMax"`
	SystemMax    corev1.ResourceList `json:"systemMax"`
	Steps        []quotaStep         `json:"steps"`
	Reset        bool                `json:"reset"`
	Ask          string              `json:"ask"`
	Pairs        [][2]string         `json:"pairs"`
}

type quotaStep struct {
	Do     string          `json:"do"`
	Name   string          `json:"name"`
	Object json.RawMessage `json:"object"`
}

type quotaWorld struct {
	plugin *elasticquota.Plugin
	quotas map[string]*quotas.ElasticQuota
	pods   map[string]*corev1.Pod
	nodes  map[string]*corev1.Node
}

// quotaAnswer tells the figures of all quotas, whether a pod is admitted, or who may take whose
// place, after a history of quotas, pods and nodes.
func quotaAnswer(raw json.RawMessage) any {
	given := decode[quotaCase](raw)
	gates := map[string]bool{"ElasticQuotaGuaranteeUsage": given.Guarantee}
	must(utilfeature.DefaultMutableFeatureGate.SetFromMap(gates))
	world := &quotaWorld{
		plugin: elasticquota.VectorPlugin(&config.ElasticQuotaArgs{
			EnableMinQuotaScale: given.Scale, EnableCheckParentQuota: given.Parents,
			EnableRuntimeQuota: given.Runtime, DisableDefaultQuotaPreemption: given.SpareDefault,
			DefaultQuotaGroupMax: given.DefaultMax, SystemQuotaGroupMax: given.SystemMax,
		}),
		quotas: map[string]*quotas.ElasticQuota{}, pods: map[string]*corev1.Pod{},
		nodes: map[string]*corev1.Node{},
	}
	for number, step := range given.Steps {
		world.take(step, fmt.Sprint(number+1))
	}
	if given.Reset {
		// As at a restart: what was known of earlier objects is forgotten.
		world.plugin.GetGroupQuotaManagerForTree("").ResetQuota()
	}
	world.settle()
	switch given.Kind {
	case "admit":
		return world.admitted(world.pods[given.Ask])
	case "preempt":
		found := []bool{}
		for _, pair := range given.Pairs {
			one, other := world.pods[pair[0]], world.pods[pair[1]]
			found = append(found, world.plugin.VectorCanPreempt(one, other))
		}
		return found
	}
	return world.figures()
}

func (w *quotaWorld) take(step quotaStep, version string) {
	switch step.Do {
	case "quota":
		quota := decode[quotas.ElasticQuota](step.Object)
		quota.ResourceVersion = version
		must(w.plugin.GetQuotaInformer().GetIndexer().Add(&quota))
		if old := w.quotas[quota.Name]; old != nil {
			w.plugin.OnQuotaUpdate(old, &quota)
		} else {
			w.plugin.OnQuotaAdd(&quota)
		}
		w.quotas[quota.Name] = &quota
		w.plugin.VectorMigrate()
	case "dropQuota":
		must(w.plugin.GetQuotaInformer().GetIndexer().Delete(w.quotas[step.Name]))
		w.plugin.OnQuotaDelete(w.quotas[step.Name])
		delete(w.quotas, step.Name)
	case "pod":
		pod := decode[corev1.Pod](step.Object)
		pod.ResourceVersion = version
		if old := w.pods[pod.Name]; old != nil {
			w.plugin.OnPodUpdate(old, &pod)
		} else {
			w.plugin.OnPodAdd(&pod)
		}
		w.pods[pod.Name] = &pod
	case "dropPod":
		w.plugin.OnPodDelete(w.pods[step.Name])
		delete(w.pods, step.Name)
	case "node":
		node := decode[corev1.Node](step.Object)
		node.ResourceVersion = version
		if old := w.nodes[node.Name]; old != nil {
			w.plugin.OnNodeUpdate(old, &node)
		} else {
			w.plugin.OnNodeAdd(&node)
		}
		w.nodes[node.Name] = &node
	case "dropNode":
		w.plugin.OnNodeDelete(w.nodes[step.Name])
		delete(w.nodes, step.Name)
	case "settle":
		w.settle()
	default:
		panic(step.Do)
	}
}

func (w *quotaWorld) names() []string {
	found := []string{extension.DefaultQuotaName, extension.SystemQuotaName}
	for name := range w.quotas {
		found = append(found, name)
	}
	sort.Strings(found)
	return found
}

// settle refreshes all quotas until none changes, since a refresh answers for what the others
// were when they were refreshed last.
func (w *quotaWorld) settle() {
	manager := w.plugin.GetGroupQuotaManagerForTree("")
	var before map[string]map[string]string
	for round := 0; round < 10; round++ {
		found := map[string]map[string]string{}
		for _, name := range w.names() {
			found[name] = amounts(manager.RefreshRuntime(name))
			scaled := manager.GetQuotaInfoByName(name).CalculateInfo.AutoScaleMin
			found[name+" scaled"] = amounts(scaled)
		}
		if reflect.DeepEqual(found, before) {
			return
		}
		before = found
	}
	panic("refreshing does not settle")
}

// figures leaves out what the built-in groups guarantee and their children ask for.
func (w *quotaWorld) figures() any {
	manager := w.plugin.GetGroupQuotaManagerForTree("")
	found := map[string]any{}
	for _, name := range append(w.names(), extension.RootQuotaName) {
		figures := manager.GetQuotaInfoByName(name).CalculateInfo
		told := map[string]any{
			"runtime": numbers(manager.RefreshRuntime(name)), "used": numbers(figures.Used),
			"request":               numbers(figures.Request),
			"nonPreemptibleUsed":    numbers(figures.NonPreemptibleUsed),
			"nonPreemptibleRequest": numbers(figures.NonPreemptibleRequest),
		}
		if w.quotas[name] != nil {
			told["childRequest"] = numbers(figures.ChildRequest)
			told["scaledMin"] = numbers(figures.AutoScaleMin)
			told["guaranteed"] = numbers(figures.Guaranteed)
			told["allocated"] = numbers(figures.Allocated)
		}
		found[name] = told
	}
	return found
}

// numbers gives milli-units of cpu and whole units of the rest, without those of zero.
func numbers(list corev1.ResourceList) map[string]int64 {
	found := map[string]int64{}
	for name, quantity := range list {
		number := quantity.Value()
		if name == corev1.ResourceCPU {
			number = quantity.MilliValue()
		}
		if number != 0 {
			found[string(name)] = number
		}
	}
	return found
}

var exceeded = regexp.MustCompile(`exceedDimensions: \[(.*)\]$`)
var groups = regexp.MustCompile(`quotaNameTopo: \[([^ ]*) `)

func (w *quotaWorld) admitted(pod *corev1.Pod) any {
	_, status := w.plugin.PreFilter(context.Background(), framework.NewCycleState(), pod, nil)
	if status.IsSuccess() {
		return map[string]any{"admitted": true}
	}
	message, limit := status.Message(), "runtime"
	found := map[string]any{"admitted": false}
	if strings.HasPrefix(message, "Insufficient non-preemptible") {
		limit = "min"
	}
	if group := groups.FindStringSubmatch(message); group != nil {
		limit = "parent"
		found["group"] = group[1]
	}
	found["limit"] = limit
	if names := exceeded.FindStringSubmatch(message); names != nil {
		sorted := strings.Fields(names[1])
		sort.Strings(sorted)
		found["exceeded"] = sorted
	} else {
		found["limit"] = message
	}
	return found
}
