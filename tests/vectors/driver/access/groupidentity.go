// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/runtimehooks/hooks/groupidentity.
package groupidentity

import slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"

// New is a plugin that knows a node, on a kernel that has identities and no switch for them.
func New(slo *slov1alpha1.NodeSLOSpec) (*bvtPlugin, error) {
	yes, no := true, false
	found := &bvtPlugin{rule: &bvtRule{}, sysSupported: &yes, hasKernelEnabled: &no}
	_, err := found.parseRule(slo)
	return found, err
}
