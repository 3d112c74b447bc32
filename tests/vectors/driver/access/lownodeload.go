// SPDX-License-Identifier: Apache-2.0

// Of package pkg/descheduler/framework/plugins/loadaware.
package loadaware

import (
	slolisters "github.com/koordinator-sh/koordinator/pkg/client/listers/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework"
)

// SetNodeMetrics replaces what a plugin reads NodeMetrics from.
func SetNodeMetrics(plugin framework.Plugin, lister slolisters.NodeMetricLister) {
	plugin.(*LowNodeLoad).nodeMetricLister = lister
}
