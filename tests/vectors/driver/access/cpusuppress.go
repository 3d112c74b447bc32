// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/qosmanager/plugins/cpusuppress.
package cpusuppress

import "github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/framework"

func Begin(of framework.QOSStrategy, stop <-chan struct{}) { of.(*CPUSuppress).init(stop) }
func Round(of framework.QOSStrategy)                       { of.(*CPUSuppress).suppressBECPU() }
