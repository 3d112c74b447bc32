// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"time"

	topology "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/koordinator-sh/koordinator/apis/extension"
	slo "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/slo-controller/noderesource/framework"
	"github.com/koordinator-sh/koordinator/pkg/slo-controller/noderesource/plugins/batchresource"
	"github.com/koordinator-sh/koordinator/pkg/slo-controller/noderesource/plugins/midresource"
	"github.com/koordinator-sh/koordinator/pkg/util/sloconfig"
)

func init() {
	register("overcommit", overcommit,
		"batchresource/plugin.go:Calculate",
		"batchresource/plugin.go:calculate",
		"batchresource/plugin.go:calculateOnNode",
		"batchresource/plugin.go:calculateOnNUMALevel",
		"batchresource/plugin.go:isDegradeNeeded",
		"midresource/plugin.go:Calculate",
		"midresource/plugin.go:calculate",
		"midresource/plugin.go:getUnallocated",
		"midresource/plugin.go:getNodeUnused",
		"plugins/util/util.go:CalculateBatchResourceByPolicy",
		"plugins/util/util.go:CalculateMidResourceByPolicy",
		"plugins/util/util.go:CalculateMidResourceByStaticMode",
		"plugins/util/util.go:GetPodNUMARequestAndUsage",
		"plugins/util/util.go:GetHostAppHPUsed",
		"util/node.go:GetNodeReservationFromAnnotation",
		"util/node.go:GetNodeReservationFromKubelet",
	)
}

type overcommitCase struct {
	Strategy json.RawMessage                `json:"strategy"`
	Node     corev1.Node                    `json:"node"`
	Pods     []corev1.Pod                   `json:"pods"`
	Metric   slo.NodeMetric                 `json:"metric"`
	Age      *int64                         `json:"ageSeconds"`
	Topology *topology.NodeResourceTopology `json:"topology"`
}

type topologies struct {
	client.Client
	only *topology.NodeResourceTopology
}

func (t topologies) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if t.only == nil {
		return errors.NewNotFound(schema.GroupResource{Resource: "noderesourcetopologies"}, key.Name)
	}
	*into.(*topology.NodeResourceTopology) = *t.only
	return nil
}

// overcommit gives what a node offers, in milli-cores and bytes, zones in thousandths of a byte.
func overcommit(raw json.RawMessage) any {
	given := decode[overcommitCase](raw)
	strategy := sloconfig.DefaultColocationStrategy()
	must(json.Unmarshal(given.Strategy, &strategy))
	if given.Age != nil {
		moment := metav1.NewTime(time.Now().Add(-time.Duration(*given.Age) * time.Second))
		given.Metric.Status.UpdateTime = &moment
	}
	batchresource.SetClient(topologies{only: given.Topology})
	pods := &corev1.PodList{Items: given.Pods}
	metrics := &framework.ResourceMetrics{NodeMetric: &given.Metric}
	batch, err := (&batchresource.Plugin{}).Calculate(&strategy, &given.Node, pods, metrics)
	must(err)
	mid, err := (&midresource.Plugin{}).Calculate(&strategy, &given.Node, pods, metrics)
	must(err)
	return map[string]any{
		"batch": offer(batch, extension.BatchCPU), "mid": offer(mid, extension.MidCPU), "zones": zonesOf(batch),
	}
}

func offer(items []framework.ResourceItem, cpu corev1.ResourceName) any {
	found := [2]int64{}
	for _, each := range items {
		if each.Reset || each.Quantity == nil {
			return nil
		}
		if each.Name == cpu {
			found[0] = each.Quantity.Value()
		} else {
			found[1] = each.Quantity.Value()
		}
	}
	return found
}

func zonesOf(items []framework.ResourceItem) map[string][2]int64 {
	found := map[string][2]int64{}
	for _, each := range items {
		for zone, quantity := range each.ZoneQuantity {
			pair := found[zone]
			if each.Name == extension.BatchCPU {
				pair[0] = quantity.Value()
			} else {
				pair[1] = quantity.MilliValue()
			}
			found[zone] = pair
		}
	}
	return found
}
