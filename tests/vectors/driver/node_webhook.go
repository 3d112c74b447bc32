// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/koordinator-sh/koordinator/apis/extension"
	"github.com/koordinator-sh/koordinator/pkg/webhook/node/plugins/resourceamplification"
	nodesloconfig "github.com/koordinator-sh/koordinator/pkg/webhook/node/plugins/sloconfig"
)

func init() {
	register("node_webhook", nodeWebhook,
		"resourceamplification/resource_amplification.go:Admit",
		"resourceamplification/resource_amplification.go:handleUpdate",
		"resourceamplification/resource_amplification.go:isSupportedResourceChanged",
		"node/plugins/sloconfig/slo_plugin.go:Validate",
		"node/plugins/sloconfig/slo_plugin.go:checkConflict",
	)
}

type nodeCase struct {
	Operation string             `json:"operation"`
	Node      *corev1.Node       `json:"node"`
	Old       *corev1.Node       `json:"old"`
	Config    *map[string]string `json:"config"`
}

// configWorld is an API server of at most one ConfigMap, and nodes.
type configWorld struct {
	client.Client
	data  *map[string]string
	nodes []corev1.Node
}

func (w configWorld) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if w.data == nil {
		return errors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	into.(*corev1.ConfigMap).Data = *w.data
	return nil
}

func (w configWorld) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.NodeList).Items = w.nodes
	return nil
}

func nodeWebhook(raw json.RawMessage) any {
	given := decode[nodeCase](raw)
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Operation(given.Operation),
	}}
	judge := nodesloconfig.NewPlugin(nil, configWorld{data: given.Config})
	found := map[string]any{
		"denied": judge.Validate(context.Background(), request, given.Node, given.Old) != nil,
	}
	node := given.Node.DeepCopy()
	if err := resourceamplification.NewPlugin().Admit(context.Background(), request, node, given.Old); err != nil {
		found["error"] = true
		return found
	}
	found["allocatable"] = texts(node.Status.Allocatable)
	if text, ok := node.Annotations[extension.AnnotationNodeRawAllocatable]; ok {
		list := corev1.ResourceList{}
		if json.Unmarshal([]byte(text), &list) == nil {
			found["raw"] = texts(list)
		} else {
			found["raw"] = text
		}
	}
	return found
}

func texts(list corev1.ResourceList) map[string]string {
	found := map[string]string{}
	for name, quantity := range list {
		found[string(name)] = quantity.String()
	}
	return found
}
