// SPDX-License-Identifier: Apache-2.0

// Of package pkg/webhook/elasticquota.
package elasticquota

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotas "github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
)

// Begin makes admission know some quotas and no others.
func Begin(by client.Client, known []*quotas.ElasticQuota) {
	quotaMetaCheck.Client = by
	quotaMetaCheck.QuotaTopo = NewQuotaTopology(by)
	for _, each := range known {
		quotaMetaCheck.QuotaTopo.OnQuotaAdd(each)
	}
}
