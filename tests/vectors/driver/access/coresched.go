// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/runtimehooks/hooks/coresched.
package coresched

import (
	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/resourceexecutor"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/statesinformer"
	sysutil "github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
)

// New is a plugin on a kernel that has core scheduling, and no switch for identities.
func New(of sysutil.CoreSchedExtendedInterface) *Plugin {
	yes, no := true, false
	found := newPlugin()
	found.sysSupported, found.giSysctlSupported = &yes, &no
	found.reader, found.executor = resourceexecutor.NewCgroupReader(), resourceexecutor.NewResourceUpdateExecutor()
	found.cse = of
	return found
}

// Learn takes a NodeSLO in and, where something is new or it is the first time, looks at all pods.
func (p *Plugin) Learn(slo *slov1alpha1.NodeSLOSpec, pods []*statesinformer.PodMeta) error {
	changed, err := p.parseRuleForNodeSLO(slo)
	if err != nil {
		return err
	}
	first, err := p.parseForAllPods(&struct{}{})
	if err == nil && (changed || first) {
		err = p.ruleUpdateCb(&statesinformer.CallbackTarget{Pods: pods})
	}
	return err
}
