// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/runtimehooks/hooks/cpuset.
package cpuset

import (
	topov1alpha1 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
)

// New is a plugin that knows a node's topology; nil is none.
func New(of *topov1alpha1.NodeResourceTopology) (*cpusetPlugin, error) {
	found := &cpusetPlugin{}
	if of == nil {
		return found, nil
	}
	_, err := found.parseRule(of)
	return found, err
}
