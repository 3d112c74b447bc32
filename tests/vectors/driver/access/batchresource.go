// SPDX-License-Identifier: Apache-2.0

// Of package pkg/slo-controller/noderesource/plugins/batchresource.
package batchresource

import ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

// SetClient says where the plugin reads topologies.
func SetClient(by ctrlclient.Client) { client = by }
