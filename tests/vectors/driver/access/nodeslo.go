// SPDX-License-Identifier: Apache-2.0

// Of package pkg/slo-controller/nodeslo.
package nodeslo

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	slo "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
)

// Spec gives the NodeSLO of a node under a configuration, from the default one on.
func Spec(node *corev1.Node, configuration *corev1.ConfigMap) (*slo.NodeSLOSpec, error) {
	cache := NewSLOCfgHandlerForConfigMapEvent(nil, DefaultSLOCfg(), &record.FakeRecorder{})
	cache.syncConfig(configuration)
	return (&NodeSLOReconciler{sloCfgCache: cache}).getNodeSLOSpec(node, nil)
}
