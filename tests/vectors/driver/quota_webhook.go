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
	"github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	utilfeature "github.com/koordinator-sh/koordinator/pkg/util/feature"
	"github.com/koordinator-sh/koordinator/pkg/webhook/elasticquota"
)

func init() {
	register("quota_webhook", quotaWebhook,
		"elasticquota/quota_topology.go:ValidAddQuota",
		"elasticquota/quota_topology.go:ValidUpdateQuota",
		"elasticquota/quota_topology.go:ValidDeleteQuota",
		"elasticquota/quota_topology.go:fillQuotaDefaultInformation",
		"elasticquota/quota_topology_check.go:validateQuotaSelfItem",
		"elasticquota/quota_topology_check.go:validateQuotaTopology",
		"elasticquota/quota_topology_check.go:checkIsParentChange",
		"elasticquota/quota_topology_check.go:checkTreeID",
		"elasticquota/quota_topology_check.go:checkParentQuotaInfo",
		"elasticquota/quota_topology_check.go:checkSubAndParentGroupQuotaKey",
		"elasticquota/quota_topology_check.go:checkMinQuotaValidate",
		"elasticquota/quota_topology_check.go:checkGuaranteedForMin",
		"elasticquota/quota_topology_check.go:checkParentGuaranteed",
		"elasticquota/pod_check.go:ValidateAddPod",
		"elasticquota/pod_check.go:GetQuotaName",
		"elasticquota/pod_check.go:hasQuotaBoundedPods",
	)
}

type quotaRequest struct {
	Gates     []string          `json:"gates"`
	Quotas    []json.RawMessage `json:"quotas"`
	Pods      []corev1.Pod      `json:"pods"`
	Operation string            `json:"operation"`
	Quota     json.RawMessage   `json:"quota"`
	Old       json.RawMessage   `json:"old"`
	Pod       *corev1.Pod       `json:"pod"`
}

// quotaWorld is an API server of quotas and pods.
type quotaWorld struct {
	client.Client
	quotas []v1alpha1.ElasticQuota
	pods   []corev1.Pod
}

func (w quotaWorld) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, each := range w.quotas {
		if each.Namespace == key.Namespace && each.Name == key.Name {
			*into.(*v1alpha1.ElasticQuota) = each
			return nil
		}
	}
	return errors.NewNotFound(schema.GroupResource{Resource: "elasticquotas"}, key.Name)
}

func (w quotaWorld) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	for _, each := range options {
		each.ApplyToList(&asked)
	}
	field := func(name string) (string, bool) {
		if asked.FieldSelector == nil {
			return "", false
		}
		return asked.FieldSelector.RequiresExactMatch(name)
	}
	if quotas, ok := list.(*v1alpha1.ElasticQuotaList); ok {
		namespace, _ := field("annotation.namespaces")
		quotas.Items = nil
		for _, each := range w.quotas {
			for _, name := range extension.GetAnnotationQuotaNamespaces(&each) {
				if name == namespace {
					quotas.Items = append(quotas.Items, each)
				}
			}
		}
		return nil
	}
	pods := list.(*corev1.PodList)
	pods.Items = nil
	name, byName := field("label.quotaName")
	for _, each := range w.pods {
		if byName && each.Labels[extension.LabelQuotaName] != name {
			continue
		}
		if asked.Namespace != "" && each.Namespace != asked.Namespace {
			continue
		}
		pods.Items = append(pods.Items, each)
	}
	return nil
}

func quotaWebhook(raw json.RawMessage) any {
	given := decode[quotaRequest](raw)
	for _, gate := range given.Gates {
		must(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{gate: true}))
		defer func() {
			must(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{gate: false}))
		}()
	}
	world := quotaWorld{pods: given.Pods}
	for _, each := range given.Quotas {
		world.quotas = append(world.quotas, decode[v1alpha1.ElasticQuota](each))
	}
	checker := &elasticquota.QuotaMetaChecker{Client: world}
	checker.QuotaTopo = elasticquota.NewQuotaTopology(world)
	for at := range world.quotas {
		checker.QuotaTopo.OnQuotaAdd(world.quotas[at].DeepCopy())
	}
	if given.Operation == "POD" {
		return map[string]any{
			"name":    elasticquota.GetQuotaName(given.Pod, world),
			"allowed": checker.QuotaTopo.ValidateAddPod(given.Pod) == nil,
		}
	}
	var quota v1alpha1.ElasticQuota
	if given.Operation != "DELETE" {
		quota = decode[v1alpha1.ElasticQuota](given.Quota)
	}
	switch given.Operation {
	case "CREATE":
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}}
		if err := checker.AdmitQuota(context.Background(), request, &quota); err != nil {
			return map[string]any{"filled": nil, "allowed": false}
		}
		filled := map[string]any{
			"parent": quota.Labels[extension.LabelQuotaParent],
			"tree":   quota.Labels[extension.LabelQuotaTreeID],
			"weight": weightOf(&quota),
		}
		return map[string]any{"filled": filled, "allowed": checker.QuotaTopo.ValidAddQuota(&quota) == nil}
	case "UPDATE":
		old := decode[v1alpha1.ElasticQuota](given.Old)
		return map[string]any{"allowed": checker.QuotaTopo.ValidUpdateQuota(&old, &quota) == nil}
	}
	old := decode[v1alpha1.ElasticQuota](given.Old)
	return map[string]any{"allowed": checker.QuotaTopo.ValidDeleteQuota(&old) == nil}
}

func weightOf(quota *v1alpha1.ElasticQuota) map[string]string {
	list := corev1.ResourceList{}
	if text := quota.Annotations[extension.AnnotationSharedWeight]; text != "" {
		if json.Unmarshal([]byte(text), &list) != nil {
			return map[string]string{"unreadable": text}
		}
	}
	found := map[string]string{}
	for name, quantity := range list {
		found[string(name)] = quantity.String()
	}
	return found
}
