// SPDX-License-Identifier: Apache-2.0

package main

import corev1 "k8s.io/api/core/v1"

// amounts gives quantities as canonical text, without those of zero.
func amounts(list corev1.ResourceList) map[string]string {
	found := map[string]string{}
	for name, quantity := range list {
		if !quantity.IsZero() {
			found[string(name)] = quantity.String()
		}
	}
	return found
}
