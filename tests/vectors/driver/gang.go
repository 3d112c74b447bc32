// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	pg "github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/coscheduling/core"
)

func init() {
	functions := []string{}
	for _, name := range []string{
		"onPodAdd", "onPodAddInternal", "onPodUpdate", "onPodDelete", "onPodGroupAdd", "onPodGroupUpdate",
		"onPodGroupDelete", "getGangGroupInfo", "deleteGangGroupInfo", "getGangFromCacheByGangId",
		"getAllGangsFromCache", "deleteGangFromCacheByGangId",
	} {
		functions = append(functions, "core/gang_cache.go:"+name)
	}
	for _, name := range []string{
		"NewGang", "tryInitByPodConfig", "tryInitByPodGroup", "SetGangGroupInfo", "deletePod", "setChild",
		"addAssumedPod", "delAssumedPod", "addBoundPod", "setResourceSatisfied", "isGangWorthRequeue",
		"isGangValidForPermit", "pickSomeChildren", "removeWaitingGang", "addWaitingGang",
	} {
		functions = append(functions, "core/gang.go:"+name)
	}
	functions = append(functions, "core/gang_summary.go:GetGangSummary", "core/core.go:Permit",
		"core/core.go:PostBind", "util/gang_helper.go:GetGangMinNumFromPod",
		"util/gang_helper.go:GetWaitTimeDuration", "util/gang_helper.go:StringToGangGroupSlice",
		"extension/coscheduling.go:GetGangMinNum", "extension/coscheduling.go:GetGangTotalNum",
		"extension/coscheduling.go:GetGangName", "extension/coscheduling.go:GetGangMatchPolicy",
		"extension/coscheduling.go:GetGangWaitTime")
	register("gang", gangs, functions...)
}

type gangStep struct {
	Do    string       `json:"do"`
	Pod   *corev1.Pod  `json:"pod"`
	Group *pg.PodGroup `json:"group"`
}

func gangs(raw json.RawMessage) any {
	given := decode[struct {
		Policy string     `json:"policy"`
		Steps  []gangStep `json:"steps"`
	}](raw)
	cache := core.NewGangs(&config.CoschedulingArgs{
		DefaultTimeout:     metav1.Duration{Duration: 600 * time.Second},
		DefaultMatchPolicy: given.Policy,
	})
	pods, groups := map[string]*corev1.Pod{}, map[string]*pg.PodGroup{}
	permits := []bool{}
	for _, step := range given.Steps {
		if step.Group != nil {
			gangGroupStep(cache, step, groups)
			continue
		}
		name := step.Pod.Name
		switch step.Do {
		case "add":
			cache.AddPod(step.Pod)
		case "update":
			cache.UpdatePod(pods[name], step.Pod)
		case "delete":
			cache.DeletePod(step.Pod)
		case "permit":
			permits = append(permits, cache.Permit(step.Pod))
		case "release":
			cache.Release(step.Pod)
		case "bind":
			cache.Bind(step.Pod)
		}
		pods[name] = step.Pod
	}
	found := map[string]any{}
	for id, summary := range cache.Summaries() {
		found[id] = gangState(summary, cache.Valid(id))
	}
	return map[string]any{"permits": permits, "gangs": found}
}

func gangGroupStep(cache *core.Gangs, step gangStep, groups map[string]*pg.PodGroup) {
	switch step.Do {
	case "add":
		cache.AddGroup(step.Group)
	case "update":
		cache.UpdateGroup(groups[step.Group.Name], step.Group)
	case "delete":
		cache.DeleteGroup(step.Group)
	}
	groups[step.Group.Name] = step.Group
}

// gangState is what can be seen of a gang; what it wants only once somebody has said it.
func gangState(summary *core.GangSummary, valid bool) map[string]any {
	found := map[string]any{
		"children": listed(summary.Children), "pending": listed(summary.PendingChildren),
		"waiting": listed(summary.WaitingForBindChildren), "bound": listed(summary.BoundChildren),
		"valid": valid, "declared": summary.HasGangInit,
	}
	if summary.HasGangInit {
		found["minimum"] = summary.MinRequiredNumber
		found["total"] = summary.TotalChildrenNum
		found["mode"] = summary.Mode
		found["policy"] = summary.GangMatchPolicy
		found["wait"] = int64(summary.WaitTime)
		found["groups"] = summary.GangGroup
		found["from"] = summary.GangFrom
		found["once"] = summary.OnceResourceSatisfied
	}
	return found
}

func listed(names sets.Set[string]) []string {
	found := names.UnsortedList()
	sort.Strings(found)
	return found
}
