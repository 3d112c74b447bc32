// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"

	"github.com/koordinator-sh/koordinator/apis/extension"
	"github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/webhook/quotaevaluate"
)

func init() {
	register("quota_admission", quotaAdmission,
		"quotaevaluate/evaluator.go:checkQuota",
		"quotaevaluate/evaluator.go:checkRequest",
		"quotaevaluate/evaluator.go:initCtx",
		"quotaevaluate/evaluator.go:retriesForBatch",
		"quotaevaluate/evaluator.go:PodUsageFunc",
		"quotaevaluate/evaluator.go:QuotaV1Pod",
	)
}

type chargeCase struct {
	Quota     v1alpha1.ElasticQuota `json:"quota"`
	Pods      []corev1.Pod          `json:"pods"`
	Conflicts []corev1.ResourceList `json:"conflicts"`
	Retries   int                   `json:"retries"`
}

// chargeWorld holds one quota; before each of the first writes somebody else charges it.
type chargeWorld struct {
	quota     *v1alpha1.ElasticQuota
	conflicts []corev1.ResourceList
	writes    int
}

func (w *chargeWorld) GetQuota(string) (*v1alpha1.ElasticQuota, error) {
	return w.quota.DeepCopy(), nil
}

func (w *chargeWorld) UpdateQuotaStatus(quota *v1alpha1.ElasticQuota, _ time.Duration) error {
	w.writes++
	if len(w.conflicts) > 0 {
		used, err := extension.GetChildRequest(w.quota)
		must(err)
		text, err := json.Marshal(quotav1.Add(used, w.conflicts[0]))
		must(err)
		if w.quota.Annotations == nil {
			w.quota.Annotations = map[string]string{}
		}
		w.quota.Annotations[extension.AnnotationChildRequest] = string(text)
		w.conflicts = w.conflicts[1:]
		return errors.NewConflict(schema.GroupResource{Resource: "elasticquotas"}, quota.Name, nil)
	}
	w.quota = quota
	return nil
}

func quotaAdmission(raw json.RawMessage) any {
	given := decode[chargeCase](raw)
	quotaevaluate.QuotaUpdateMaxRetries = given.Retries
	world := &chargeWorld{quota: &given.Quota, conflicts: given.Conflicts}
	asked := []*quotaevaluate.Attributes{}
	for at := range given.Pods {
		asked = append(asked, &quotaevaluate.Attributes{
			QuotaNamespace: given.Quota.Namespace, QuotaName: given.Quota.Name,
			Operation: admissionv1.Create, Pod: &given.Pods[at],
		})
	}
	told := []string{}
	for _, err := range quotaevaluate.Batch(world, given.Quota.Namespace+"/"+given.Quota.Name, asked) {
		switch {
		case err == nil:
			told = append(told, "")
		case errors.IsConflict(err):
			told = append(told, "conflict")
		default:
			told = append(told, err.Error())
		}
	}
	used, err := extension.GetChildRequest(world.quota)
	if err != nil {
		return map[string]any{"told": told, "used": "unreadable", "writes": world.writes}
	}
	return map[string]any{"told": told, "used": amounts(used), "writes": world.writes}
}
