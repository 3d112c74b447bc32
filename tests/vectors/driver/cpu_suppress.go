// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"

	"github.com/koordinator-sh/koordinator/pkg/features"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/cpusuppress"
)

func init() {
	register("cpu_suppress", cpuSuppress,
		"cpu_suppress.go:suppressBECPU",
		"cpu_suppress.go:calculateBESuppressCPU",
		"cpu_suppress.go:adjustByCPUSet",
		"cpu_suppress.go:adjustByCfsQuota",
		"cpu_suppress.go:calculateBESuppressCPUSetPolicy",
		"cpu_suppress.go:applyBESuppressCPUSet",
		"cpu_suppress.go:applyCPUSetWithNonePolicy",
		"cpu_suppress.go:applyCPUSetWithStaticPolicy",
		"cpu_suppress.go:recoverCPUSetForBECPUManager",
		"cpu_suppress.go:recoverCPUSetIfNeed",
		"cpu_suppress.go:recoverCFSQuotaIfNeed",
		"cpu_suppress.go:calcBECPUSet",
		"cpu_suppress.go:getSystemQOSExclusiveCPU",
		"calculator.go:CalculateFilterPodsUsed",
		"calculator.go:GetNodeResourceReserved",
	)
}

type suppressCase struct {
	node
	Rounds  int  `json:"rounds"`
	Managed bool `json:"managed"`
}

func cpuSuppress(raw json.RawMessage) any {
	in := decode[*suppressCase](raw)
	helper, done := host(&in.node)
	defer done()
	must(features.DefaultMutableKoordletFeatureGate.SetFromMap(map[string]bool{
		"BECPUManager": in.Managed, "BECPUSuppress": true,
	}))
	cache := newMetrics(&in.node, filepath.Join(helper.TempDir, "metrics"))
	defer cache.Close()
	strategy := cpusuppress.New(options(newStates(&in.node), cache))
	stop := make(chan struct{})
	defer close(stop)
	cpusuppress.Begin(strategy, stop)
	rounds := []any{}
	for range in.Rounds {
		cpusuppress.Round(strategy)
		rounds = append(rounds, files(helper, &in.node))
	}
	return rounds
}
