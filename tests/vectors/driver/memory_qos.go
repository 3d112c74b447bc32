// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/cgreconcile"
)

func init() {
	register("memory_qos", memoryQOS,
		"cgroup_reconcile.go:reconcile",
		"cgroup_reconcile.go:calculateAndUpdateResources",
		"cgroup_reconcile.go:calculateResources",
		"cgroup_reconcile.go:calculateQoSResources",
		"cgroup_reconcile.go:calculatePodAndContainerResources",
		"cgroup_reconcile.go:calculatePodResources",
		"cgroup_reconcile.go:calculateContainerResources",
		"cgroup_reconcile.go:mergePodResourceQoSForMemoryQoS",
		"cgroup_reconcile.go:updateCgroupSummaryForQoS",
		"cgroup_reconcile.go:completeCgroupSummaryForQoS",
		"cgroup_reconcile.go:makeCgroupResources",
	)
}

func memoryQOS(raw json.RawMessage) any {
	of := decode[*node](raw)
	helper, done := host(of)
	defer done()
	helper.SetAnolisOSResourcesSupported(true)
	strategy := cgreconcile.New(options(newStates(of), nil))
	stop := make(chan struct{})
	defer close(stop)
	cgreconcile.Begin(strategy, stop)
	cgreconcile.Round(strategy)
	found := files(helper, of)
	for path, text := range found {
		if text == of.Files[path] {
			delete(found, path)
		}
	}
	return found
}
