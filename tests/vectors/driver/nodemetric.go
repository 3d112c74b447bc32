// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/metriccache"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/prediction"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/statesinformer/impl"
	koordletutil "github.com/koordinator-sh/koordinator/pkg/koordlet/util"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
)

func init() {
	register("nodemetric", nodeMetric,
		"states_nodemetric.go:getNodeMetricAggregateDuration",
		"states_nodemetric.go:getNodeMetricSpec",
		"states_nodemetric.go:updateMetricSpec",
		"states_nodemetric.go:collectMetric",
		"states_nodemetric.go:queryNodeMetric",
		"states_nodemetric.go:metricsInColdStart",
		"states_nodemetric.go:collectNUMAUsages",
		"states_nodemetric.go:collectNUMAResourceUsage",
		"states_nodemetric.go:collectNodeMetric",
		"states_nodemetric.go:collectNodeGPUMetric",
		"states_nodemetric.go:collectNodeAggregateMetric",
		"states_nodemetric.go:collectSystemMetric",
		"states_nodemetric.go:querySystemMetric",
		"states_nodemetric.go:collectSystemAggregateMetric",
		"states_nodemetric.go:collectPodMetric",
		"states_nodemetric.go:collectHostAppMetric",
		"states_nodemetric.go:collectPodGPUMetric",
		"states_nodemetric.go:fillGPUMetrics",
		"states_nodemetric.go:doQuery",
		"peak_predictor.go:AddPod",
		"peak_predictor.go:GetResult",
		"peak_predictor.go:GetPeak",
		"peak_predictor.go:getUnReclaimable",
		"peak_predictor.go:getNodeAllocatable",
		"predict_server.go:GetPrediction",
		"predict_server.go:updateModel",
	)
}

type nodeMetricCase struct {
	node
	Spec      slov1alpha1.NodeMetricSpec `json:"spec"`
	ColdPages bool                       `json:"coldPages"`
	NUMA      []int32                    `json:"numa"`
	GPUs      []gpu                      `json:"gpus"`
	// Series are what was measured, by kind.
	Series map[string][]series `json:"series"`
	// Ages are how long ago pods were created, in seconds, by UID.
	Ages map[string]int64 `json:"ages"`
	// Learned are samples of models by name: seconds ago, cores, bytes.
	Learned map[string][][3]float64 `json:"learned"`
}

type gpu struct {
	Minor int32  `json:"minor"`
	UUID  string `json:"uuid"`
	Bytes uint64 `json:"bytes"`
}

// series are samples of one label set: milliseconds ago, value.
type series struct {
	Labels  []string     `json:"labels"`
	Samples [][2]float64 `json:"samples"`
}

type kind struct {
	resource   metriccache.MetricResource
	properties func([]string) map[metriccache.MetricProperty]string
}

func plainKind([]string) map[metriccache.MetricProperty]string { return nil }

func ofPodUID(labels []string) map[metriccache.MetricProperty]string {
	return metriccache.MetricPropertiesFunc.Pod(labels[0])
}

func ofHost(labels []string) map[metriccache.MetricProperty]string {
	return metriccache.MetricPropertiesFunc.HostApplication(labels[0])
}

func ofNUMA(labels []string) map[metriccache.MetricProperty]string {
	return metriccache.MetricPropertiesFunc.NUMA(labels[0])
}

func ofGPU(labels []string) map[metriccache.MetricProperty]string {
	return metriccache.MetricPropertiesFunc.GPU(labels[0], labels[1])
}

func ofPodGPU(labels []string) map[metriccache.MetricProperty]string {
	return metriccache.MetricPropertiesFunc.PodGPU(labels[0], labels[1], labels[2])
}

var reportedKinds = map[string]kind{
	"node_cpu_usage":                                {metriccache.NodeCPUUsageMetric, plainKind},
	"node_memory_usage":                             {metriccache.NodeMemoryUsageMetric, plainKind},
	"node_memory_usage_with_page_cache":             {metriccache.NodeMemoryUsageWithPageCacheMetric, plainKind},
	"node_memory_with_hot_page_usage":               {metriccache.NodeMemoryWithHotPageUsageMetric, plainKind},
	"sys_cpu_usage":                                 {metriccache.SystemCPUUsageMetric, plainKind},
	"sys_memory_usage":                              {metriccache.SystemMemoryUsageMetric, plainKind},
	"node_numa_cpu_usage":                           {metriccache.NodeNUMACPUUsageMetric, ofNUMA},
	"node_numa_memory_usage":                        {metriccache.NodeNUMAMemoryUsageMetric, ofNUMA},
	"sys_numa_cpu_usage":                            {metriccache.SystemNUMACPUUsageMetric, ofNUMA},
	"sys_numa_memory_usage":                         {metriccache.SystemNUMAMemoryUsageMetric, ofNUMA},
	"node_gpu_core_usage":                           {metriccache.NodeGPUCoreUsageMetric, ofGPU},
	"node_gpu_memory_usage":                         {metriccache.NodeGPUMemUsageMetric, ofGPU},
	"pod_cpu_usage":                                 {metriccache.PodCPUUsageMetric, ofPodUID},
	"pod_memory_usage":                              {metriccache.PodMemUsageMetric, ofPodUID},
	"pod_memory_usage_with_page_cache":              {metriccache.PodMemoryUsageWithPageCacheMetric, ofPodUID},
	"pod_memory_with_hot_page_usage":                {metriccache.PodMemoryWithHotPageUsageMetric, ofPodUID},
	"pod_gpu_core_usage":                            {metriccache.PodGPUCoreUsageMetric, ofPodGPU},
	"pod_gpu_memory_usage":                          {metriccache.PodGPUMemUsageMetric, ofPodGPU},
	"host_application_cpu_usage":                    {metriccache.HostAppCPUUsageMetric, ofHost},
	"host_application_memory_usage":                 {metriccache.HostAppMemoryUsageMetric, ofHost},
	"host_application_memory_usage_with_page_cache": {metriccache.HostAppMemoryUsageWithPageCacheMetric, ofHost},
	"host_application_memory_with_hot_page_usage":   {metriccache.HostAppMemoryWithHotPageUsageMetric, ofHost},
}

func nodeMetric(raw json.RawMessage) any {
	in := decode[*nodeMetricCase](raw)
	dir, err := os.MkdirTemp("", "vector")
	must(err)
	defer os.RemoveAll(dir)
	now := time.Now().Truncate(time.Millisecond)
	cache := newMetrics(&node{}, dir)
	defer cache.Close()
	in.measure(cache, now)
	system.SetIsStartColdMemory(in.ColdPages)
	for _, pod := range in.Pods {
		pod.CreationTimestamp = metav1.Time{Time: now.Add(-time.Duration(in.Ages[string(pod.UID)]) * time.Second)}
	}
	config := prediction.NewDefaultConfig()
	server := prediction.NewPeakPredictServer(config)
	for name, samples := range in.Learned {
		for _, each := range samples {
			at := now.Add(-time.Duration(each[0]) * time.Second)
			prediction.Train(server, name, each[1], each[2], at)
		}
	}
	report := impl.Metrics{
		Spec: in.Spec, Node: in.Node, Pods: newStates(&in.node).pods, Cache: cache, Now: now,
		Predictor: prediction.NewPredictorFactory(server, config.ColdStartDuration, config.SafetyMarginPercent),
	}
	if in.SLO != nil {
		report.SLO = &slov1alpha1.NodeSLO{Spec: *in.SLO}
	}
	text, err := json.Marshal(report.Report())
	must(err)
	return pruned(decode[any](text))
}

func (c *nodeMetricCase) measure(cache metriccache.MetricCache, now time.Time) {
	type one struct {
		at   time.Time
		made metriccache.MetricSample
	}
	all := []one{}
	for name, rows := range c.Series {
		for _, row := range rows {
			for _, each := range row.Samples {
				of := reportedKinds[name]
				at := now.Add(-time.Duration(each[0]) * time.Millisecond)
				made, err := of.resource.GenerateSample(of.properties(row.Labels), at, each[1])
				must(err)
				all = append(all, one{at: at, made: made})
			}
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at.Before(all[j].at) })
	appender := cache.Appender()
	for _, each := range all {
		must(appender.Append([]metriccache.MetricSample{each.made}))
	}
	must(appender.Commit())
	numa := &koordletutil.NodeNUMAInfo{}
	for _, id := range c.NUMA {
		numa.NUMAInfos = append(numa.NUMAInfos, koordletutil.NUMAInfo{NUMANodeID: id})
	}
	cache.Set(metriccache.NodeNUMAInfoKey, numa)
	if c.GPUs != nil {
		gpus := koordletutil.GPUDevices{}
		for _, each := range c.GPUs {
			gpus = append(gpus, koordletutil.GPUDeviceInfo{Minor: each.Minor, UUID: each.UUID, MemoryTotal: each.Bytes})
		}
		cache.Set(koordletutil.GPUDeviceType, gpus)
	}
}

// pruned leaves out what is empty; a list keeps its places.
func pruned(of any) any {
	switch found := of.(type) {
	case map[string]any:
		for key, each := range found {
			if found[key] = pruned(each); found[key] == nil {
				delete(found, key)
			}
		}
		if len(found) > 0 {
			return found
		}
	case []any:
		for at, each := range found {
			found[at] = pruned(each)
		}
		if len(found) > 0 {
			return found
		}
	case string:
		if found != "" {
			return found
		}
	default:
		return found
	}
	return nil
}
