// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"

	topov1alpha1 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	topologyfake "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/koordinator-sh/koordinator/apis/extension"
	"github.com/koordinator-sh/koordinator/pkg/features"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/metriccache"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/statesinformer/impl"
	koordletutil "github.com/koordinator-sh/koordinator/pkg/koordlet/util"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
)

func init() {
	register("topology", topology,
		"states_noderesourcetopology.go:isChanged",
		"states_noderesourcetopology.go:updateNRT",
		"states_noderesourcetopology.go:createNodeTopoIfNotExist",
		"states_noderesourcetopology.go:calcNodeTopo",
		"states_noderesourcetopology.go:removeNodeReservedCPUs",
		"states_noderesourcetopology.go:removeSystemQOSCPUs",
		"states_noderesourcetopology.go:getNodeReserved",
		"states_noderesourcetopology.go:calGuaranteedCpu",
		"states_noderesourcetopology.go:reportNodeTopology",
		"states_noderesourcetopology.go:isEqualNRTZones",
		"states_noderesourcetopology.go:isEqualNRTAnnotations",
		"states_noderesourcetopology.go:isEqualNRTLabels",
		"states_noderesourcetopology.go:calCPUSharePools",
		"states_noderesourcetopology.go:covertCPUsToSharePool",
		"states_noderesourcetopology.go:calCPUTopology",
		"states_noderesourcetopology.go:calTopologyZoneList",
		"states_noderesourcetopology.go:calKubeletAllocatedCPUs",
		"states_noderesourcetopology.go:getTopologyPolicy",
		"states_noderesourcetopology.go:getNodeKubeletReservedResources",
		"states_noderesourcetopology.go:applyNUMAReservationToZoneResources",
		"states_noderesourcetopology.go:divideResourceByCount",
		"util/kubelet/kubelet.go:GetStaticCPUManagerPolicyReservedCPUs",
		"util/kubelet/kubelet.go:getReservedCPUs",
		"util/kubelet/kubelet.go:parseResourceList",
		"cpu_assignment.go:takeByTopologyNUMAPacked",
		"cpu_assignment.go:takeFullSockets",
		"cpu_assignment.go:takeFullNUMANodes",
		"cpu_assignment.go:takeFullCores",
		"cpu_assignment.go:takeRemainingCPUs",
	)
}

type topologyCase struct {
	CPUs      [][4]int32             `json:"cpus"`
	Basic     extension.CPUBasicInfo `json:"basic"`
	Memory    []numaMemory           `json:"memory"`
	HugePages bool                   `json:"hugePages"`
	Rounds    []topologyRound        `json:"rounds"`
}

type numaMemory struct {
	ID    int32             `json:"id"`
	KiB   uint64            `json:"kib"`
	Pages map[uint64]uint64 `json:"pages"`
}

type topologyRound struct {
	Node    *corev1.Node                        `json:"node"`
	Pods    []*corev1.Pod                       `json:"pods"`
	Kubelet *kubeletconfig.KubeletConfiguration `json:"kubelet"`
	State   *string                             `json:"state"`
	Others  edits                               `json:"others"`
}

// edits are what others do to the object before a round.
type edits struct {
	Annotations map[string]string `json:"annotations"`
	Dropped     []string          `json:"dropped"`
	Zones       [][3]string       `json:"zones"`
	Indented    bool              `json:"indented"`
}

// facts holds what was found out about a machine.
type facts struct {
	metriccache.MetricCache
	of map[any]any
}

func (f facts) Get(key interface{}) (interface{}, bool) {
	found, ok := f.of[key]
	return found, ok
}

func topology(raw json.RawMessage) any {
	in := decode[*topologyCase](raw)
	must(features.DefaultMutableKoordletFeatureGate.SetFromMap(map[string]bool{"HugePageReport": in.HugePages}))
	dir, err := os.MkdirTemp("", "vector")
	must(err)
	defer os.RemoveAll(dir)
	system.Conf.VarLibKubeletRootDir = dir
	client := topologyfake.NewSimpleClientset()
	cache := facts{of: map[any]any{metriccache.NodeCPUInfoKey: in.cpuInfo(), metriccache.NodeNUMAInfoKey: in.numaInfo()}}
	report := impl.NewTopology(client, cache)
	rounds, reported := []any{}, false
	for _, each := range in.Rounds {
		state := filepath.Join(dir, "cpu_manager_state")
		_ = os.Remove(state)
		if each.State != nil {
			write(state, *each.State)
		}
		objects := client.TopologyV1alpha1().NodeResourceTopologies()
		if reported {
			there, err := objects.Get(context.TODO(), each.Node.Name, metav1.GetOptions{})
			must(err)
			each.Others.apply(there)
			_, err = objects.Update(context.TODO(), there, metav1.UpdateOptions{})
			must(err)
		}
		client.ClearActions()
		pods := newStates(&node{Pods: each.Pods}).pods
		if report.Report(each.Node, pods, each.Kubelet) != nil {
			rounds = append(rounds, "error")
			continue
		}
		reported = true
		written := false
		for _, action := range client.Actions() {
			written = written || action.GetVerb() != "get"
		}
		object, err := objects.Get(context.TODO(), each.Node.Name, metav1.GetOptions{})
		must(err)
		rounds = append(rounds, map[string]any{"written": written, "object": shown(object)})
	}
	return rounds
}

func (t *topologyCase) cpuInfo() *metriccache.NodeCPUInfo {
	found := &metriccache.NodeCPUInfo{BasicInfo: t.Basic}
	total := &found.TotalInfo
	total.NumberCPUs = int32(len(t.CPUs))
	total.CoreToCPU, total.NodeToCPU = map[int32][]koordletutil.ProcessorInfo{}, map[int32][]koordletutil.ProcessorInfo{}
	total.SocketToCPU = map[int32][]koordletutil.ProcessorInfo{}
	for _, each := range t.CPUs {
		cpu := koordletutil.ProcessorInfo{CPUID: each[0], CoreID: each[1], SocketID: each[2], NodeID: each[3], Online: "yes"}
		found.ProcessorInfos = append(found.ProcessorInfos, cpu)
		total.CoreToCPU[cpu.CoreID] = append(total.CoreToCPU[cpu.CoreID], cpu)
		total.NodeToCPU[cpu.NodeID] = append(total.NodeToCPU[cpu.NodeID], cpu)
		total.SocketToCPU[cpu.SocketID] = append(total.SocketToCPU[cpu.SocketID], cpu)
	}
	return found
}

func (t *topologyCase) numaInfo() *koordletutil.NodeNUMAInfo {
	found := &koordletutil.NodeNUMAInfo{
		MemInfoMap:   map[int32]*koordletutil.MemInfo{},
		HugePagesMap: map[int32]map[uint64]*koordletutil.HugePagesInfo{},
	}
	for _, each := range t.Memory {
		info := &koordletutil.MemInfo{MemTotal: each.KiB}
		pages := map[uint64]*koordletutil.HugePagesInfo{}
		for size, count := range each.Pages {
			pages[size] = &koordletutil.HugePagesInfo{NumPages: count, PageSize: size}
		}
		found.NUMAInfos = append(found.NUMAInfos, koordletutil.NUMAInfo{NUMANodeID: each.ID, MemInfo: info, HugePages: pages})
		found.MemInfoMap[each.ID], found.HugePagesMap[each.ID] = info, pages
	}
	return found
}

func (e edits) apply(to *topov1alpha1.NodeResourceTopology) {
	if e.Indented {
		for key, text := range to.Annotations {
			var found bytes.Buffer
			if json.Indent(&found, []byte(text), "", "  ") == nil {
				to.Annotations[key] = found.String()
			}
		}
	}
	for _, key := range e.Dropped {
		delete(to.Annotations, key)
	}
	for key, text := range e.Annotations {
		if to.Annotations == nil {
			to.Annotations = map[string]string{}
		}
		to.Annotations[key] = text
	}
	for _, each := range e.Zones {
		amount := resource.MustParse(each[2])
		one := topov1alpha1.ResourceInfo{Name: each[1], Capacity: amount, Allocatable: amount, Available: amount}
		at := 0
		for at < len(to.Zones) && to.Zones[at].Name != each[0] {
			at++
		}
		if at == len(to.Zones) {
			to.Zones = append(to.Zones, topov1alpha1.Zone{Name: each[0], Type: "Node"})
		}
		to.Zones[at].Resources = append(to.Zones[at].Resources, one)
	}
}

// shown is an object with its annotations by what they say.
func shown(of *topov1alpha1.NodeResourceTopology) any {
	annotations := map[string]any{}
	for key, text := range of.Annotations {
		var found any
		if json.Unmarshal([]byte(text), &found) != nil {
			found = "text " + strconv.Quote(text)
		}
		annotations[key] = found
	}
	zones := []any{}
	for _, zone := range of.Zones {
		resources := map[string]any{}
		for _, each := range zone.Resources {
			resources[each.Name] = []string{each.Capacity.String(), each.Allocatable.String(), each.Available.String()}
		}
		zones = append(zones, map[string]any{"name": zone.Name, "type": zone.Type, "resources": resources})
	}
	return map[string]any{
		"annotations": annotations, "labels": of.Labels, "policies": of.TopologyPolicies, "zones": zones,
	}
}
