// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"strings"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/resctrl"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/util/system"
)

func init() {
	register("resctrl", resctrlLines,
		"resctrl_reconcile.go:calculateAndApplyRDTL3PolicyForGroup",
		"resctrl_reconcile.go:calculateAndApplyRDTMbPolicyForGroup",
		"resctrl_reconcile.go:calculateMbaPercentForGroup",
		"resctrl_reconcile.go:calculateIntel",
		"resctrl_reconcile.go:calculateAMDMba",
		"resctrl_reconcile.go:getResourceQOSForResctrlGroup",
		"resctrl.go:CalculateCatL3MaskValue",
	)
}

type resctrlCase struct {
	Mask     uint                             `json:"mask"`
	Vendor   string                           `json:"vendor"`
	Domains  []int                            `json:"domains"`
	Strategy *slov1alpha1.ResourceQOSStrategy `json:"strategy"`
}

// resctrlLines are the lines that are written to the groups' schemata.
func resctrlLines(raw json.RawMessage) any {
	in := decode[*resctrlCase](raw)
	of := &node{Version: 1}
	_, done := host(of)
	defer done()
	system.CacheIdsCacheFunc = func() ([]int, error) { return in.Domains, nil }
	stop := make(chan struct{})
	defer close(stop)
	strategy := resctrl.New(options(newStates(of), nil))
	resctrl.Begin(strategy, stop)
	found := map[string][]string{}
	for _, group := range []string{"LSR", "LS", "BE"} {
		file := system.ResctrlSchemata.Path(group)
		lines := []string{}
		for _, apply := range []func() error{
			func() error { return resctrl.Cache(strategy, group, in.Mask, len(in.Domains), in.Strategy) },
			func() error {
				return resctrl.Bandwidth(strategy, group, len(in.Domains), in.Vendor, in.Strategy)
			},
		} {
			before := "L3:" + row(in.Domains, "=fffff") + "\nMB:" + row(in.Domains, "=7") + "\n"
			write(file, before)
			// What fails writes nothing.
			_ = apply()
			text, err := os.ReadFile(file)
			must(err)
			if string(text) != before {
				lines = append(lines, strings.TrimSpace(string(text)))
			}
		}
		found[group] = lines
	}
	return found
}

func row(domains []int, value string) string {
	found := []string{}
	for _, each := range domains {
		found = append(found, string(rune('0'+each))+value)
	}
	return strings.Join(found, ";")
}
