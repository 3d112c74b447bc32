// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	scheduling "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	quotas "github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/util/transformer"
)

func init() {
	register("transforms", transforms,
		"util/node.go:TrimNodeAllocatableByNodeReservation",
		"util/node.go:GetNodeReservationResources",
		"transformer/node_transformer.go:TransformNode",
		"transformer/device_transformer.go:TransformDevice",
		"transformer/elastic_quota_transformer.go:TransformElasticQuota",
		"transformer/pod_transformer.go:transformDeprecatedResources",
		"transformer/pod_transformer.go:replaceAndEraseResource",
		"transformer/pod_transformer.go:replaceAndEraseWithResourcesMapper",
	)
}

var podTransform = transformer.TransformPodFactory()

type transformCase struct {
	Kind   string          `json:"kind"`
	Object json.RawMessage `json:"object"`
}

// transforms gives the lists of amounts that an object has once the scheduler has decoded it.
func transforms(raw json.RawMessage) any {
	given := decode[transformCase](raw)
	switch given.Kind {
	case "Node":
		node := decode[corev1.Node](given.Object)
		_, err := transformer.TransformNode(&node)
		must(err)
		return map[string]any{
			"allocatable": amounts(node.Status.Allocatable), "capacity": amounts(node.Status.Capacity),
		}
	case "Pod":
		pod := decode[corev1.Pod](given.Object)
		_, err := podTransform(&pod)
		must(err)
		return podAmounts(&pod)
	case "Device":
		device := decode[scheduling.Device](given.Object)
		_, err := transformer.TransformDevice(&device)
		must(err)
		found := []map[string]string{}
		for _, each := range device.Spec.Devices {
			found = append(found, amounts(each.Resources))
		}
		return found
	}
	quota := decode[quotas.ElasticQuota](given.Object)
	_, err := transformer.TransformElasticQuota(&quota)
	must(err)
	return map[string]any{"max": amounts(quota.Spec.Max), "min": amounts(quota.Spec.Min)}
}

func podAmounts(pod *corev1.Pod) any {
	found := map[string]any{"overhead": amounts(pod.Spec.Overhead)}
	lists := []map[string]string{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, each := range containers {
			lists = append(lists, amounts(each.Resources.Requests), amounts(each.Resources.Limits))
		}
	}
	found["containers"] = lists
	return found
}
