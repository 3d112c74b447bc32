// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/qosmanager/plugins/cgreconcile.
package cgreconcile

import "github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/framework"

func Begin(of framework.QOSStrategy, stop <-chan struct{}) { of.(*cgroupResourcesReconcile).init(stop) }
func Round(of framework.QOSStrategy)                       { of.(*cgroupResourcesReconcile).reconcile() }
