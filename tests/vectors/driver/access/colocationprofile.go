// SPDX-License-Identifier: Apache-2.0

// Of package pkg/controller/colocationprofile.
package colocationprofile

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	config "github.com/koordinator-sh/koordinator/apis/config/v1alpha1"
)

// Selected gives the pods that a profile is for.
func Selected(by client.Client, profile *config.ClusterColocationProfile) (*corev1.PodList, error) {
	return (&Reconciler{Client: by}).listPodsForProfile(profile)
}

// Mutated applies a profile to a pod.
func Mutated(profile *config.ClusterColocationProfile, pod *corev1.Pod) error {
	return (&Reconciler{}).doMutateByColocationProfile(pod, profile)
}

// Taken tells how many of a hundred draws a profile takes.
func Taken(profile *config.ClusterColocationProfile) (int, error) {
	before := randIntnFn
	defer func() { randIntnFn = before }()
	taken := 0
	for drawn := 0; drawn < 100; drawn++ {
		randIntnFn = func(int) int { return drawn }
		skips, err := shouldSkipProfile(profile)
		if err != nil {
			return 0, err
		}
		if !skips {
			taken++
		}
	}
	return taken, nil
}
