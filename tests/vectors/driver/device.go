// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwktype "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	scheduling "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/deviceshare"
)

func init() {
	register("device", deviceAttempt,
		"deviceshare/utils.go:preparePod",
		"deviceshare/utils.go:GetPodDeviceRequests",
		"deviceshare/utils.go:ValidateDeviceRequest",
		"deviceshare/utils.go:ConvertDeviceRequest",
		"deviceshare/utils.go:ValidDeviceResourceCombinationsGPUShared",
		"deviceshare/utils.go:ValidDeviceResourceCombinationsGPUPercentage",
		"deviceshare/utils.go:ValidatePercentageResource",
		"deviceshare/utils.go:parsePodDeviceShareExtensions",
		"deviceshare/utils.go:parseGPURequirements",
		"deviceshare/devicehandler_gpu.go:calcDesiredRequestsAndCountForGPU",
		"deviceshare/devicehandler_gpu.go:fillGPUTotalMem",
		"deviceshare/devicehandler_default.go:CalcDesiredRequestsAndCount",
		"deviceshare/device_allocator.go:Prepare",
		"deviceshare/device_allocator.go:filterNodeDevice",
		"deviceshare/device_allocator.go:calcRequestsAndCountByDeviceType",
		"deviceshare/device_allocator.go:tryJointAllocate",
		"deviceshare/device_allocator.go:validateJointAllocation",
		"deviceshare/device_allocator.go:jointAllocate",
		"deviceshare/device_allocator.go:defaultAllocateDevices",
		"deviceshare/device_allocator.go:allocateVF",
		"deviceshare/device_allocator.go:newPreferredPCIes",
		"deviceshare/device_allocator.go:score",
		"deviceshare/allocator_gpu.go:allocateByPartition",
		"deviceshare/allocator_gpu.go:selectPartitionByBinPack",
		"deviceshare/allocator_gpu.go:allocateByDeviceTopology",
		"deviceshare/allocator_gpu.go:allocateFromScope",
		"deviceshare/allocator_gpu_helper.go:GetGPUPartitionIndexer",
		"deviceshare/allocator_gpu_helper.go:GetGPUTopologyScope",
		"deviceshare/device_resources.go:scoreDevices",
		"deviceshare/device_resources.go:sortDeviceResourcesByPreferredPCIe",
		"deviceshare/device_cache.go:updateDeviceUsed",
		"deviceshare/device_cache.go:filter",
		"deviceshare/scoring.go:scoreDevice",
		"deviceshare/scoring.go:scoreNode",
	)
}

type deviceCase struct {
	Node    corev1.Node       `json:"node"`
	Device  scheduling.Device `json:"device"`
	Holders []*corev1.Pod     `json:"holders"`
	Pod     *corev1.Pod       `json:"pod"`
	Scoring string            `json:"scoring"`
}

type cardOf struct {
	Minor     int32             `json:"minor"`
	Resources map[string]string `json:"resources"`
	Functions []string          `json:"functions"`
}

// deviceAttempt gives why a pod cannot go to a node, or what the node is worth and which of its
// devices the pod gets.
func deviceAttempt(raw json.RawMessage) any {
	given := decode[deviceCase](raw)
	node := framework.NewNodeInfo()
	node.SetNode(&given.Node)
	attempt, status := deviceshare.KoordNewAttempt(node, &given.Device, given.Holders, given.Pod, deviceArgs(given.Scoring))
	if !status.IsSuccess() {
		return map[string]any{"stops": beforeColon(status)}
	}
	if status = attempt.Filter(); !status.IsSuccess() {
		return map[string]any{
			"filter": deviceReasons(status), "final": status.Code() == fwktype.UnschedulableAndUnresolvable,
		}
	}
	found := map[string]any{"score": attempt.Score()}
	held, status := attempt.Reserve()
	if !status.IsSuccess() {
		found["refused"] = deviceReasons(status)
		return found
	}
	found["held"] = cardsOf(held)
	return found
}

func deviceArgs(scoring string) *config.DeviceShareArgs {
	strategy := &config.ScoringStrategy{Type: config.ScoringStrategyType(scoring)}
	for _, name := range []corev1.ResourceName{
		extension.ResourceGPUMemoryRatio, extension.ResourceGPUMemory, extension.ResourceRDMA, extension.ResourceFPGA,
	} {
		each := schedulerconfig.ResourceSpec{Name: string(name), Weight: 1}
		strategy.Resources = append(strategy.Resources, each)
	}
	return &config.DeviceShareArgs{ScoringStrategy: strategy}
}

func cardsOf(held extension.DeviceAllocations) map[string][]cardOf {
	found := map[string][]cardOf{}
	for kind, cards := range held {
		for _, each := range cards {
			functions := []string{}
			if each.Extension != nil {
				for _, function := range each.Extension.VirtualFunctions {
					functions = append(functions, function.BusID)
				}
			}
			found[string(kind)] = append(found[string(kind)], cardOf{each.Minor, amounts(each.Resources), functions})
		}
		sort.Slice(found[string(kind)], func(i, j int) bool {
			return found[string(kind)][i].Minor < found[string(kind)][j].Minor
		})
	}
	return found
}

// deviceReasons are reasons in the order of their text, each once.
func deviceReasons(status *fwktype.Status) []string {
	seen := map[string]bool{}
	found := []string{}
	for _, each := range status.Reasons() {
		if !seen[each] {
			found = append(found, each)
		}
		seen[each] = true
	}
	sort.Strings(found)
	return found
}

// beforeColon leaves out what an error lists, which is in the order of a map.
func beforeColon(status *fwktype.Status) string {
	return strings.SplitN(status.Message(), ":", 2)[0]
}
