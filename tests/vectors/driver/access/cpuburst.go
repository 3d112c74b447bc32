// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/qosmanager/plugins/cpuburst.
package cpuburst

import (
	"time"

	"github.com/koordinator-sh/koordinator/pkg/koordlet/metriccache"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/framework"
)

func Begin(of framework.QOSStrategy, stop <-chan struct{}) { of.(*cpuBurst).init(stop) }
func Round(of framework.QOSStrategy)                       { of.(*cpuBurst).start() }

func Metrics(of framework.QOSStrategy, cache metriccache.MetricCache) {
	of.(*cpuBurst).metricCache = cache
}

// Limiter presets tokens, whose first number the original draws.
func Limiter(of framework.QOSStrategy, id string, capacity, tokens, period int64) {
	of.(*cpuBurst).containerLimiter[id] = &burstLimiter{
		bucketCapacity: capacity,
		currentToken:   tokens,
		lastUpdateTime: time.Now(),
		expireDuration: time.Duration(2*period) * time.Second,
	}
}

// Age lets time pass.
func Age(of framework.QOSStrategy, by time.Duration) {
	for _, each := range of.(*cpuBurst).containerLimiter {
		each.lastUpdateTime = each.lastUpdateTime.Add(-by)
	}
}

func Tokens(of framework.QOSStrategy) map[string]int64 {
	found := map[string]int64{}
	for id, each := range of.(*cpuBurst).containerLimiter {
		if each.currentToken != 0 {
			found[id] = each.currentToken
		}
	}
	return found
}
