// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"regexp"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/koordinator-sh/koordinator/pkg/util/sloconfig"
	cmsloconfig "github.com/koordinator-sh/koordinator/pkg/webhook/cm/plugins/sloconfig"
)

func init() {
	register("config_map", configMap,
		"cm/plugins/sloconfig/slo_config_plugin.go:Validate",
		"cm/plugins/sloconfig/slo_config_plugin.go:checkConfig",
		"cm/plugins/sloconfig/checker.go:NodeSelectorOverlap",
		"cm/plugins/sloconfig/checker.go:ExistNodeConflict",
		"cm/plugins/sloconfig/checkers.go:CheckConfigContents",
	)
}

type configCase struct {
	Old   *map[string]string  `json:"old"`
	New   map[string]string   `json:"new"`
	Nodes []map[string]string `json:"nodes"`
	Names bool                `json:"names"`
}

var reasonText = regexp.MustCompile(`"reason":"([A-Za-z]+)"`)

func configMap(raw json.RawMessage) any {
	given := decode[configCase](raw)
	sloconfig.NodeStrategyNameNeedCheck = map[bool]string{true: "true", false: "false"}[given.Names]
	world := configWorld{}
	for _, labels := range given.Nodes {
		node := corev1.Node{}
		node.Labels = labels
		world.nodes = append(world.nodes, node)
	}
	made := func(data map[string]string) *corev1.ConfigMap {
		found := &corev1.ConfigMap{Data: data}
		found.Namespace, found.Name = sloconfig.ConfigNameSpace, sloconfig.SLOCtrlConfigMap
		return found
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}}
	var old *corev1.ConfigMap
	if given.Old != nil {
		request.Operation = admissionv1.Update
		old = made(*given.Old)
	}
	err := cmsloconfig.NewPlugin(nil, world).Validate(context.Background(), request, made(given.New), old)
	if err == nil {
		return map[string]any{"reason": ""}
	}
	reason := "other"
	if found := reasonText.FindStringSubmatch(err.Error()); found != nil {
		reason = found[1]
	}
	return map[string]any{"reason": reason}
}
