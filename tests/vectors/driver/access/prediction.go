// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/prediction.
package prediction

import (
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// Train has a server learn one sample of a workload.
func Train(server PredictServer, uid string, cpuCores, memoryBytes float64, at time.Time) {
	of := server.(*peakPredictServer)
	of.clock = clocktesting.NewFakeClock(at)
	of.updateModel(UIDType(uid), cpuCores, memoryBytes)
}
