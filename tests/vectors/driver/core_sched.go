// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/hooks/coresched"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/protocol"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/reconciler"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/statesinformer"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
)

func init() {
	register("core_sched", coreSched,
		"core_sched.go:SetKubeQOSCPUIdle",
		"core_sched.go:SetContainerCookie",
		"core_sched.go:initCache",
		"core_sched.go:loadAllCookies",
		"core_sched.go:enableContainerCookie",
		"core_sched.go:disableContainerCookie",
		"core_sched.go:getCookieCacheForContainer",
		"core_sched.go:updateCookieCacheForContainer",
		"core_sched.go:cleanCookieCacheForContainer",
		"coresched/helper.go:getCookie",
		"coresched/helper.go:addCookie",
		"coresched/helper.go:assignCookie",
		"coresched/helper.go:clearCookie",
		"coresched/helper.go:getPodEnabledAndGroup",
		"coresched/helper.go:getContainerPIDs",
		"coresched/helper.go:getAllContainerPIDs",
		"coresched/rule.go:IsPodEnabled",
		"coresched/rule.go:IsKubeQOSCPUIdle",
		"coresched/rule.go:Update",
		"coresched/rule.go:parseRuleForNodeSLO",
		"coresched/rule.go:ruleUpdateCb",
		"coresched/rule.go:refreshForAllPods",
	)
}

type coreSchedRound struct {
	SLO  *slov1alpha1.NodeSLOSpec `json:"slo"`
	Pods []*corev1.Pod            `json:"pods"`
	// Tasks are processes by cgroup.
	Tasks map[string][]uint32 `json:"tasks"`
	// Born are new processes, each with the one whose cookie it has.
	Born map[string]uint32 `json:"born"`
	Gone []uint32          `json:"gone"`
	// Refusing are processes that nothing can be done about in this round.
	Refusing []uint32 `json:"refusing"`
	// Restart says whether the agent starts anew before the round.
	Restart bool `json:"restart"`
}

func coreSched(raw json.RawMessage) any {
	in := decode[struct {
		Cookies map[uint32]uint64 `json:"cookies"`
		Rounds  []coreSchedRound  `json:"rounds"`
	}](raw)
	helper, done := host(&node{Version: 1})
	defer done()
	helper.WriteProcSubFileContents("sys/kernel/sched_core", "1")
	kernel := system.NewFakeCoreSchedExtended(in.Cookies, nil, nil).(*system.FakeCoreSchedExtended)
	kernel.SetNextCookieID(1000)
	plugin := coresched.New(kernel)
	ended := map[uint32]bool{}
	rounds := []any{}
	for _, each := range in.Rounds {
		each.change(kernel, ended)
		placed(helper.TempDir, each.Tasks)
		if each.Restart {
			plugin = coresched.New(kernel)
		}
		pods := newStates(&node{Pods: each.Pods}).pods
		must(plugin.Learn(each.SLO, pods))
		for _, meta := range pods {
			reconcileCookies(plugin, meta)
		}
		rounds = append(rounds, map[string]any{"cookies": numbered(kernel, each.Tasks), "idle": idle(plugin)})
	}
	return rounds
}

// change is what happens to processes before a round.
func (r *coreSchedRound) change(kernel *system.FakeCoreSchedExtended, ended map[uint32]bool) {
	for text, parent := range r.Born {
		pid, err := strconv.ParseUint(text, 10, 32)
		must(err)
		kernel.PIDToCookie[uint32(pid)] = kernel.PIDToCookie[parent]
	}
	for _, pid := range r.Gone {
		ended[pid] = true
		delete(kernel.PIDToCookie, pid)
	}
	kernel.PIDToError = map[uint32]bool{}
	for pid := range ended {
		kernel.PIDToError[pid] = true
	}
	for _, pid := range r.Refusing {
		kernel.PIDToError[pid] = true
	}
}

// placed makes the cgroups of a round, and no others.
func placed(root string, tasks map[string][]uint32) {
	for _, of := range []string{"cpu", "cpuset"} {
		must(os.RemoveAll(filepath.Join(root, of)))
		for dir, pids := range tasks {
			lines := []string{}
			for _, pid := range pids {
				lines = append(lines, strconv.Itoa(int(pid)))
			}
			write(filepath.Join(root, of, dir, "cgroup.procs"), strings.Join(lines, "\n"))
		}
	}
}

func reconcileCookies(plugin *coresched.Plugin, meta *statesinformer.PodMeta) {
	if reconciler.PodQOSFilter().Filter(meta) == "SYSTEM" || !meta.IsRunningOrPending() {
		return
	}
	sandbox := &protocol.ContainerContext{}
	sandbox.FromReconciler(meta, "", true)
	_ = plugin.SetContainerCookie(sandbox)
	for _, status := range meta.Pod.Status.ContainerStatuses {
		context := &protocol.ContainerContext{}
		context.FromReconciler(meta, status.Name, false)
		_ = plugin.SetContainerCookie(context)
	}
}

// numbered are the cookies of living processes, by the order in which they are first seen.
func numbered(kernel *system.FakeCoreSchedExtended, tasks map[string][]uint32) any {
	most := uint32(0)
	living := map[uint32]bool{}
	for _, pids := range tasks {
		for _, pid := range pids {
			living[pid], most = true, max(most, pid)
		}
	}
	numbers, found := map[uint64]int{0: 0}, map[string]int{}
	for pid := uint32(0); pid <= most; pid++ {
		if living[pid] {
			cookie := kernel.PIDToCookie[pid]
			if _, known := numbers[cookie]; !known {
				numbers[cookie] = len(numbers)
			}
			found[strconv.Itoa(int(pid))] = numbers[cookie]
		}
	}
	return found
}

func idle(plugin *coresched.Plugin) any {
	found := map[string]int64{}
	for _, class := range []corev1.PodQOSClass{"Guaranteed", "Burstable", "BestEffort"} {
		context := &protocol.KubeQOSContext{}
		context.FromReconciler(class)
		must(plugin.SetKubeQOSCPUIdle(context))
		found[string(class)] = *context.Response.Resources.CPUIdle
	}
	return found
}
