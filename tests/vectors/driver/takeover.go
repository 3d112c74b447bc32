// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/koordinator-sh/koordinator/pkg/features"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/cgreconcile"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/cpuburst"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/cpusuppress"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/resourceexecutor"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/protocol"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/runtimehooks/reconciler"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/statesinformer"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
)

func init() {
	register("takeover", takeover,
		"cpu_burst.go:start",
		"cpu_burst.go:applyCFSQuotaBurst",
		"cpu_burst.go:applyContainerCFSQuota",
		"cpu_burst.go:applyCPUBurst",
		"cpu_suppress.go:suppressBECPU",
		"cpu_suppress.go:adjustByCPUSet",
		"cpu_suppress.go:adjustByCfsQuota",
		"cgroup_reconcile.go:reconcile",
		"cgroup_reconcile.go:calculateAndUpdateResources",
		"pod_context.go:injectForExt",
		"container_context.go:injectForOrigin",
		"kubeqos_context.go:injectForExt",
	)
}

type takeoverCase struct {
	node
	Rounds [][]sample `json:"rounds"`
}

// takeover is what files say after some rounds of the strategies and hooks.
func takeover(raw json.RawMessage) any {
	in := decode[*takeoverCase](raw)
	helper, done := host(&in.node)
	defer done()
	helper.SetAnolisOSResourcesSupported(true)
	helper.SetResourcesSupported(true, system.CPUBurst, system.CPUBurstV2)
	must(features.DefaultMutableKoordletFeatureGate.SetFromMap(map[string]bool{
		"BECPUManager": false, "BECPUSuppress": true,
	}))
	stop := make(chan struct{})
	defer close(stop)
	informer := newStates(&in.node)
	memory := cgreconcile.New(options(informer, nil))
	cgreconcile.Begin(memory, stop)
	burst := cpuburst.New(options(informer, nil))
	cpuburst.Begin(burst, stop)
	for at, samples := range in.Rounds {
		in.node.Samples = samples
		cache := newMetrics(&in.node, filepath.Join(helper.TempDir, "metrics", string(rune('a'+at))))
		suppress := cpusuppress.New(options(informer, cache))
		cpusuppress.Begin(suppress, stop)
		cpusuppress.Round(suppress)
		asKernel(helper.TempDir)
		cpuburst.Metrics(burst, cache)
		cpuburst.Round(burst)
		asKernel(helper.TempDir)
		cgreconcile.Round(memory)
		reconcile(in, informer)
		asKernel(helper.TempDir)
		must(cache.Close())
	}
	return files(helper, &in.node)
}

// asKernel has files say the period that a write of the quota alone keeps.
func asKernel(root string) {
	must(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "cpu.max" {
			return err
		}
		text, err := os.ReadFile(path)
		must(err)
		if found := strings.Fields(string(text)); len(found) == 1 {
			quota := found[0]
			if quota == "-1" {
				quota = "max"
			}
			write(path, quota+" 100000")
		}
		return nil
	}))
}

// reconcile writes what the hooks answer.
func reconcile(in *takeoverCase, informer *states) {
	executor := resourceexecutor.NewResourceUpdateExecutor()
	for _, name := range []string{"GroupIdentity", "BatchResource", "CPUSetAllocator"} {
		asked, err := made(&hooksCase{node: in.node, Hook: name}, informer)
		must(err)
		for _, class := range []corev1.PodQOSClass{"Guaranteed", "Burstable", "BestEffort"} {
			context := &protocol.KubeQOSContext{}
			context.FromReconciler(class)
			apply(asked.class, context, executor)
		}
		for _, meta := range informer.pods {
			reconcilePod(asked, meta, executor)
		}
	}
}

func reconcilePod(asked hook, meta *statesinformer.PodMeta, executor resourceexecutor.ResourceUpdateExecutor) {
	class := reconciler.PodQOSFilter().Filter(meta)
	pod, container := asked.pod, asked.container
	if (class == "LSE" || class == "LSR") && asked.boundContainer != nil {
		pod, container = asked.boundPod, asked.boundContainer
	}
	context := &protocol.PodContext{}
	context.FromReconciler(meta)
	apply(pod, context, executor)
	for _, status := range meta.Pod.Status.ContainerStatuses {
		context := &protocol.ContainerContext{}
		context.FromReconciler(meta, status.Name, false)
		apply(container, context, executor)
	}
}

func apply(
	ask func(protocol.HooksProtocol) error, about protocol.HooksProtocol,
	executor resourceexecutor.ResourceUpdateExecutor,
) {
	if ask != nil && ask(about) == nil {
		about.ReconcilerDone(executor)
	}
}
