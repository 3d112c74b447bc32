// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/qosmanager/plugins/resctrl.
package resctrl

import (
	"github.com/koordinator-sh/koordinator/apis/extension"
	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/framework"
)

func Begin(of framework.QOSStrategy, stop <-chan struct{}) { of.(*resctrlReconcile).init(stop) }

func Cache(of framework.QOSStrategy, group string, cbm uint, domains int, strategy *slov1alpha1.ResourceQOSStrategy) error {
	class := getResourceQOSForResctrlGroup(strategy, group)
	return of.(*resctrlReconcile).calculateAndApplyRDTL3PolicyForGroup(group, cbm, domains, class)
}

func Bandwidth(of framework.QOSStrategy, group string, domains int, vendor string, strategy *slov1alpha1.ResourceQOSStrategy) error {
	class := getResourceQOSForResctrlGroup(strategy, group)
	info := extension.CPUBasicInfo{VendorID: vendor}
	return of.(*resctrlReconcile).calculateAndApplyRDTMbPolicyForGroup(group, domains, info, class)
}
