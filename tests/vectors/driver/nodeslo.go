// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/koordinator-sh/koordinator/pkg/slo-controller/nodeslo"
)

func init() {
	functions := []string{"nodeslo_controller.go:getNodeSLOSpec", "nodeslo_cm_event_handler.go:syncConfig"}
	for _, name := range []string{
		"getResourceThresholdSpec", "getResourceQOSSpec", "getCPUBurstConfigSpec", "getSystemConfigSpec",
		"getHostApplicationConfig", "calculateResourceThresholdCfgMerged", "calculateResourceQOSCfgMerged",
		"calculateCPUBurstCfgMerged", "calculateSystemConfigMerged", "calculateHostAppConfigMerged",
	} {
		functions = append(functions, "nodeslo/resource_strategy.go:"+name)
	}
	register("nodeslo", nodeSLO, functions...)
}

type nodeSLOCase struct {
	Node corev1.Node       `json:"node"`
	Data map[string]string `json:"data"`
}

func nodeSLO(raw json.RawMessage) any {
	given := decode[nodeSLOCase](raw)
	spec, err := nodeslo.Spec(&given.Node, &corev1.ConfigMap{Data: given.Data})
	must(err)
	text, err := json.Marshal(spec)
	must(err)
	return pruned(decode[any](text))
}

// pruned leaves out what is empty, and a bandwidth of 0, which is none.
func pruned(document any) any {
	switch given := document.(type) {
	case []any:
		for at, each := range given {
			given[at] = pruned(each)
		}
	case map[string]any:
		for key, each := range given {
			value := pruned(each)
			given[key] = value
			inner, isMap := value.(map[string]any)
			list, isList := value.([]any)
			empty := value == nil || value == "" || isMap && len(inner) == 0 || isList && len(list) == 0
			if empty || key == "totalNetworkBandwidth" && value == "0" {
				delete(given, key)
			}
		}
	}
	return document
}
