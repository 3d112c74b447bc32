// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/runtimehooks/hooks/batchresource.
package batchresource

import (
	corev1 "k8s.io/api/core/v1"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
)

// New is a plugin that knows a node.
func New(slo *slov1alpha1.NodeSLOSpec, node *corev1.Node) (*plugin, error) {
	found := newPlugin()
	if _, err := found.parseRuleForNodeSLO(slo); err != nil {
		return found, err
	}
	_, err := found.parseRuleForNodeMeta(node)
	return found, err
}
