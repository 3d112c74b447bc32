// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/cpuburst"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
)

func init() {
	register("cpu_burst", cpuBurst,
		"cpu_burst.go:start",
		"cpu_burst.go:getNodeStateForBurst",
		"cpu_burst.go:applyCFSQuotaBurst",
		"cpu_burst.go:cfsBurstAllowedByLimiter",
		"cpu_burst.go:genOperationByContainer",
		"cpu_burst.go:applyContainerCFSQuota",
		"cpu_burst.go:applyCPUBurst",
		"cpu_burst.go:calcStaticCPUBurstVal",
		"cpu_burst.go:genPodBurstConfig",
		"cpu_burst.go:changeOperationByNode",
		"cpu_burst.go:Allow",
		"cpu_burst.go:Recycle",
	)
}

type burstCase struct {
	node
	// Rounds are the samples of each round.
	Rounds [][]sample `json:"rounds"`
	// Seconds pass before each round for the limiters.
	Seconds int `json:"seconds"`
	// Limiters are what is left of each container's tokens, and how many it may have.
	Limiters map[string]limiter `json:"limiters"`
}

type limiter struct {
	Capacity int64 `json:"capacity"`
	Tokens   int64 `json:"tokens"`
	Period   int64 `json:"period"`
}

func cpuBurst(raw json.RawMessage) any {
	in := decode[*burstCase](raw)
	helper, done := host(&in.node)
	defer done()
	helper.SetResourcesSupported(true, system.CPUBurst)
	stop := make(chan struct{})
	defer close(stop)
	informer := newStates(&in.node)
	strategy := cpuburst.New(options(informer, nil))
	cpuburst.Begin(strategy, stop)
	for id, each := range in.Limiters {
		cpuburst.Limiter(strategy, id, each.Capacity, each.Tokens, each.Period)
	}
	rounds := []any{}
	for at, samples := range in.Rounds {
		in.node.Samples = samples
		name := filepath.Join(helper.TempDir, "metrics", string(rune('a'+at)))
		cache := newMetrics(&in.node, name)
		cpuburst.Metrics(strategy, cache)
		cpuburst.Age(strategy, time.Duration(in.Seconds)*time.Second+100*time.Millisecond)
		cpuburst.Round(strategy)
		must(cache.Close())
		rounds = append(rounds, map[string]any{
			"files": files(helper, &in.node), "tokens": cpuburst.Tokens(strategy),
		})
	}
	return rounds
}
