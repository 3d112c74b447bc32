// SPDX-License-Identifier: Apache-2.0

// Of package pkg/descheduler/controllers/migration/controllerfinder.
package controllerfinder

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewFinder finds workloads among a client's objects; what else there is has no scale.
func NewFinder(c client.Client) *ControllerFinder {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{batchv1.SchemeGroupVersion})
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	scales := &scalefake.FakeScaleClient{}
	scales.AddReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.NewNotFound(action.GetResource().GroupResource(), "none")
	})
	return &ControllerFinder{Client: c, mapper: mapper, scaleNamespacer: scales}
}
