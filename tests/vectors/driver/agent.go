// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	topov1alpha1 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/metriccache"
	maframework "github.com/koordinator-sh/koordinator/pkg/koordlet/metricsadvisor/framework"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/framework"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/resourceexecutor"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/statesinformer"
	koordletutil "github.com/koordinator-sh/koordinator/pkg/koordlet/util"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
	"github.com/koordinator-sh/koordinator/pkg/util/cpuset"
)

// node is what an agent sees of the cluster and of its machine.
type node struct {
	CPUs     [][4]int32               `json:"cpus"`
	Node     *corev1.Node             `json:"node"`
	SLO      *slov1alpha1.NodeSLOSpec `json:"slo"`
	Topology *map[string]string       `json:"topology"`
	Pods     []*corev1.Pod            `json:"pods"`
	Samples  []sample                 `json:"samples"`
	Files    map[string]string        `json:"files"`
	Version  int                      `json:"version"`
}

// sample is one measured value; its age is told as of the start of the round.
type sample struct {
	Kind      string  `json:"kind"`
	Label     string  `json:"label"`
	AgeMillis int64   `json:"age_ms"`
	Value     float64 `json:"value"`
}

// states stands in for the informers: it holds what the case says.
type states struct {
	statesinformer.StatesInformer
	of   *node
	pods []*statesinformer.PodMeta
}

func newStates(of *node) *states {
	found := &states{of: of}
	for _, pod := range of.Pods {
		meta := &statesinformer.PodMeta{Pod: pod, CgroupDir: koordletutil.GetPodCgroupParentDir(pod)}
		found.pods = append(found.pods, meta)
	}
	return found
}

func (s *states) GetNode() *corev1.Node                 { return s.of.Node }
func (s *states) GetAllPods() []*statesinformer.PodMeta { return s.pods }
func (s *states) GetVolumeName(_, _ string) string      { return "" }
func (s *states) GetNodeSLO() *slov1alpha1.NodeSLO {
	if s.of.SLO == nil {
		return nil
	}
	return &slov1alpha1.NodeSLO{Spec: *s.of.SLO}
}

func (s *states) GetNodeTopo() *topov1alpha1.NodeResourceTopology {
	if s.of.Topology == nil {
		return nil
	}
	found := &topov1alpha1.NodeResourceTopology{}
	found.Annotations = *s.of.Topology
	return found
}

var kinds = map[string]metriccache.MetricResource{
	"node_cpu":            metriccache.NodeCPUUsageMetric,
	"node_memory":         metriccache.NodeMemoryUsageMetric,
	"be_cpu":              metriccache.NodeBEMetric,
	"pod_cpu":             metriccache.PodCPUUsageMetric,
	"pod_memory":          metriccache.PodMemUsageMetric,
	"container_cpu":       metriccache.ContainerCPUUsageMetric,
	"container_throttled": metriccache.ContainerCPUThrottledMetric,
	"host_cpu":            metriccache.HostAppCPUUsageMetric,
	"host_memory":         metriccache.HostAppMemoryUsageMetric,
}

func properties(of sample) map[metriccache.MetricProperty]string {
	switch strings.SplitN(of.Kind, "_", 2)[0] {
	case "pod":
		return metriccache.MetricPropertiesFunc.Pod(of.Label)
	case "container":
		return metriccache.MetricPropertiesFunc.Container(of.Label)
	case "host":
		return metriccache.MetricPropertiesFunc.HostApplication(of.Label)
	case "be":
		return metriccache.MetricPropertiesFunc.NodeBE(string(metriccache.BEResourceCPU), of.Label)
	}
	return nil
}

// newMetrics is a metric cache of the original's own, filled with the samples of a case.
func newMetrics(of *node, dir string) metriccache.MetricCache {
	config := metriccache.NewDefaultConfig()
	config.TSDBPath = dir
	config.TSDBEnablePromMetrics = false
	config.TSDBStripeSize = 16
	found, err := metriccache.NewMetricCache(config)
	must(err)
	put(found, of.Samples)
	if of.CPUs != nil {
		info := &metriccache.NodeCPUInfo{}
		for _, each := range of.CPUs {
			info.ProcessorInfos = append(info.ProcessorInfos, koordletutil.ProcessorInfo{
				CPUID: each[0], CoreID: each[1], SocketID: each[2], NodeID: each[3], Online: "yes",
			})
		}
		info.TotalInfo.NumberCPUs = int32(len(of.CPUs))
		found.Set(metriccache.NodeCPUInfoKey, info)
	}
	return found
}

func put(cache metriccache.MetricCache, samples []sample) {
	now := time.Now()
	sorted := append([]sample{}, samples...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].AgeMillis > sorted[j].AgeMillis })
	appender := cache.Appender()
	for _, each := range sorted {
		at := now.Add(-time.Duration(each.AgeMillis) * time.Millisecond)
		made, err := kinds[each.Kind].GenerateSample(properties(each), at, each.Value)
		must(err)
		must(appender.Append([]metriccache.MetricSample{made}))
	}
	must(appender.Commit())
}

// harness is as much of a test as the original's file helpers ask for.
type harness struct {
	testing.TB
	dir string
}

func (h *harness) TempDir() string           { return h.dir }
func (h *harness) Setenv(string, string)     {}
func (h *harness) Helper()                   {}
func (h *harness) Logf(string, ...any)       {}
func (h *harness) Errorf(f string, a ...any) { panic(f) }
func (h *harness) Fatal(args ...any)         { panic(args[0]) }

// host is a temporary root with the files of a case.
func host(of *node) (*system.FileTestUtil, func()) {
	dir, err := os.MkdirTemp("", "vector")
	must(err)
	helper := system.NewFileTestUtil(&harness{dir: dir})
	helper.SetCgroupsV2(of.Version == 2)
	for path, text := range of.Files {
		write(filepath.Join(dir, path), text)
	}
	return helper, func() { must(os.RemoveAll(dir)) }
}

func write(path, text string) {
	must(os.MkdirAll(filepath.Dir(path), 0o777))
	must(os.WriteFile(path, []byte(text), 0o644))
}

// files are all files of a case with what they say now.
func files(helper *system.FileTestUtil, of *node) map[string]string {
	found := map[string]string{}
	must(filepath.WalkDir(helper.TempDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(helper.TempDir, path)
		if _, known := of.Files[name]; known {
			text, err := os.ReadFile(path)
			must(err)
			found[name] = plain(name, strings.TrimRight(string(text), "\n"))
		}
		return nil
	}))
	return found
}

func options(informer *states, cache metriccache.MetricCache) *framework.Options {
	return &framework.Options{
		CgroupReader:        resourceexecutor.NewCgroupReader(),
		StatesInformer:      informer,
		MetricCache:         cache,
		Config:              framework.NewDefaultConfig(),
		MetricAdvisorConfig: maframework.NewDefaultConfig(),
	}
}

// plain makes lists of CPUs comparable, which have many spellings.
func plain(name, text string) string {
	if filepath.Base(name) != "cpuset.cpus" || text == "" {
		return text
	}
	found, err := cpuset.Parse(text)
	must(err)
	return found.String()
}
