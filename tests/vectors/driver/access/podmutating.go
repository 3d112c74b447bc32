// SPDX-License-Identifier: Apache-2.0

// Of package pkg/webhook/pod/mutating.
package mutating

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Created applies all steps to a new pod, whose namespace is set; every profile draws the same.
func Created(by client.Client, pod *corev1.Pod, drawn int) error {
	before := randIntnFn
	defer func() { randIntnFn = before }()
	randIntnFn = func(int) int { return drawn }
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: pod.Namespace,
	}}
	_, err := (&PodMutatingHandler{Client: by}).handleCreate(context.TODO(), request, pod)
	return err
}
