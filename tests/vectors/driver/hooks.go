// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/koordinator-sh/koordinator/pkg/features"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/hooks/batchresource"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/hooks/cpunormalization"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/hooks/cpuset"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/hooks/groupidentity"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/protocol"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/reconciler"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/statesinformer"
)

func init() {
	register("hooks", hooks,
		"batch_resource.go:SetPodResources",
		"batch_resource.go:SetPodCPUShares",
		"batch_resource.go:SetPodCFSQuota",
		"batch_resource.go:SetPodMemoryLimit",
		"batch_resource.go:SetContainerResources",
		"batch_resource.go:SetContainerCPUShares",
		"batch_resource.go:SetContainerCFSQuota",
		"batch_resource.go:SetContainerMemoryLimit",
		"batchresource/rule.go:parseRuleForNodeSLO",
		"batchresource/rule.go:parseRuleForNodeMeta",
		"cpu_normalization.go:AdjustPodCFSQuota",
		"cpu_normalization.go:AdjustContainerCFSQuota",
		"cpu_normalization.go:adjustPodCFSQuota",
		"cpu_normalization.go:adjustContainerCFSQuota",
		"cpunormalization/rule.go:parseRule",
		"interceptor.go:SetPodBvtValue",
		"interceptor.go:SetKubeQOSBvtValue",
		"interceptor.go:SetHostAppBvtValue",
		"groupidentity/rule.go:parseRule",
		"groupidentity/rule.go:getPodBvtValue",
		"cpuset.go:SetContainerCPUSetAndUnsetCFS",
		"cpuset.go:SetContainerCPUSet",
		"cpuset.go:SetHostAppCPUSet",
		"cpuset.go:UnsetPodCPUQuota",
		"cpuset/rule.go:getContainerCPUSet",
		"cpuset/rule.go:getHostAppCpuset",
		"cpuset/rule.go:parseRule",
	)
}

type hooksCase struct {
	node
	Hook    string `json:"hook"`
	Managed bool   `json:"managed"`
}

// hook is how one plugin is asked; nil is a question that it is not asked.
type hook struct {
	pod, container func(protocol.HooksProtocol) error
	class, host    func(protocol.HooksProtocol) error
	// bound is asked instead for containers and pods that have CPUs of their own.
	boundPod, boundContainer func(protocol.HooksProtocol) error
}

func hooks(raw json.RawMessage) any {
	in := decode[*hooksCase](raw)
	must(features.DefaultMutableKoordletFeatureGate.SetFromMap(map[string]bool{"BECPUManager": in.Managed}))
	informer := newStates(&in.node)
	asked, err := made(in, informer)
	if err != nil {
		return map[string]any{"rule": "error"}
	}
	pods := []any{}
	for _, meta := range informer.pods {
		pods = append(pods, ofPod(asked, meta))
	}
	return map[string]any{"pods": pods, "classes": ofClasses(asked), "hosts": ofHosts(asked, in)}
}

func made(in *hooksCase, informer *states) (hook, error) {
	switch in.Hook {
	case "BatchResource":
		found, err := batchresource.New(in.SLO, in.Node)
		return hook{pod: found.SetPodResources, container: found.SetContainerResources}, err
	case "CPUNormalization":
		found, err := cpunormalization.New(in.Node)
		return hook{pod: found.AdjustPodCFSQuota, container: found.AdjustContainerCFSQuota}, err
	case "GroupIdentity":
		found, err := groupidentity.New(in.SLO)
		return hook{pod: found.SetPodBvtValue, class: found.SetKubeQOSBvtValue, host: found.SetHostAppBvtValue}, err
	}
	found, err := cpuset.New(informer.GetNodeTopo())
	return hook{
		container: found.SetContainerCPUSet, host: found.SetHostAppCPUSet,
		boundPod: found.UnsetPodCPUQuota, boundContainer: found.SetContainerCPUSetAndUnsetCFS,
	}, err
}

func ofPod(asked hook, meta *statesinformer.PodMeta) any {
	class := reconciler.PodQOSFilter().Filter(meta)
	pod, container := asked.pod, asked.container
	if bound := class == "LSE" || class == "LSR"; bound && asked.boundContainer != nil {
		pod, container = asked.boundPod, asked.boundContainer
	}
	found := map[string]any{}
	if pod != nil {
		context := &protocol.PodContext{}
		context.FromReconciler(meta)
		answer := told(pod(context), context.Response.Resources)
		if values, ok := answer.(map[string]any); asked.boundPod == nil || ok && len(values) > 0 {
			found["pod"] = answer
		}
	}
	for _, status := range meta.Pod.Status.ContainerStatuses {
		if container == nil || status.ContainerID == "" {
			continue
		}
		context := &protocol.ContainerContext{}
		context.FromReconciler(meta, status.Name, false)
		found[status.Name] = told(container(context), context.Response.Resources)
	}
	return found
}

func ofClasses(asked hook) any {
	found := map[string]any{}
	for _, class := range []corev1.PodQOSClass{"Guaranteed", "Burstable", "BestEffort"} {
		if asked.class != nil {
			context := &protocol.KubeQOSContext{}
			context.FromReconciler(class)
			found[string(class)] = told(asked.class(context), context.Response.Resources)
		}
	}
	return found
}

func ofHosts(asked hook, in *hooksCase) any {
	found := map[string]any{}
	for _, each := range in.SLO.HostApplications {
		if asked.host != nil {
			context := &protocol.HostAppContext{}
			context.FromReconciler(&each)
			found[each.Name] = told(asked.host(context), context.Response.Resources)
		}
	}
	return found
}

func told(err error, of protocol.Resources) any {
	if err != nil {
		return "error"
	}
	found := map[string]any{}
	number := func(name string, value *int64) {
		if value != nil {
			found[name] = *value
		}
	}
	number("cpu.shares", of.CPUShares)
	number("cpu.cfs_quota_us", of.CFSQuota)
	number("memory.limit_in_bytes", of.MemoryLimit)
	number("cpu.bvt_warp_ns", of.CPUBvt)
	if of.CPUSet != nil {
		found["cpuset.cpus"] = *of.CPUSet
	}
	return found
}
