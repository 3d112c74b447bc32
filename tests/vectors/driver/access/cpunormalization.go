// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/runtimehooks/hooks/cpunormalization.
package cpunormalization

import corev1 "k8s.io/api/core/v1"

// New is a plugin that knows a node.
func New(node *corev1.Node) (*Plugin, error) {
	found := newPlugin()
	_, err := found.parseRule(node)
	return found, err
}
