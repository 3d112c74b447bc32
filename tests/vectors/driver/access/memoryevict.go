// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/qosmanager/plugins/memoryevict.
package memoryevict

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/featuregate"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/framework"
)

func Round(of framework.QOSStrategy) { of.(*memoryEvictor).memoryEvict() }

// Age lets time pass.
func Age(of framework.QOSStrategy, by time.Duration) {
	evictor := of.(*memoryEvictor)
	evictor.lastEvictTime = evictor.lastEvictTime.Add(-by)
}

// Release is what a feature wants released now; nil for nothing.
func Release(
	of framework.QOSStrategy, feature featuregate.Feature, slo *slov1alpha1.NodeSLO, node *corev1.Node,
) (corev1.ResourceList, error) {
	task, err := of.(*memoryEvictor).buildEvictTask(feature, slo, node)
	if task == nil || err != nil {
		return nil, err
	}
	return task.ToReleaseResource, nil
}

// Cooling is whether the next round waits.
func Cooling(of framework.QOSStrategy) bool {
	evictor := of.(*memoryEvictor)
	return time.Since(evictor.lastEvictTime) < evictor.evictCoolingInterval
}
