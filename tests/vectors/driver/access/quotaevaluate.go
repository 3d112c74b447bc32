// SPDX-License-Identifier: Apache-2.0

// Of package pkg/webhook/quotaevaluate.
package quotaevaluate

import "k8s.io/apimachinery/pkg/util/sets"

// Batch decides requests of one quota together, as one worker does.
func Batch(accessor QuotaAccessor, key string, asked []*Attributes) []error {
	evaluator := &quotaEvaluator{quotaAccessor: accessor, inProgress: sets.String{}}
	waiters := []*admissionWaiter{}
	for _, each := range asked {
		waiters = append(waiters, newAdmissionWaiter(each))
	}
	evaluator.checkAttributes(key, waiters)
	found := []error{}
	for _, each := range waiters {
		found = append(found, each.result)
	}
	return found
}
