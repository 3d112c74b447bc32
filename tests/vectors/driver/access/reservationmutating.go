// SPDX-License-Identifier: Apache-2.0

// Of package pkg/webhook/reservation/mutating.
package mutating

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	scheduling "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
)

// Created applies profiles to a new Reservation; every profile draws the same.
func Created(by client.Client, reservation *scheduling.Reservation, drawn int) error {
	before := randIntnFn
	defer func() { randIntnFn = before }()
	randIntnFn = func(int) int { return drawn }
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create,
	}}
	handler := &ReservationMutatingHandler{Client: by}
	return handler.clusterColocationProfileMutatingReservation(context.TODO(), request, reservation)
}
