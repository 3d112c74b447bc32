// SPDX-License-Identifier: Apache-2.0

// Of package pkg/koordlet/statesinformer/impl.
package impl

import (
	"context"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	topologyclientset "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	topologylister "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/listers/topology/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/metriccache"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/prediction"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/statesinformer"
)

func listed(pods []*statesinformer.PodMeta) *podsInformer {
	found := NewPodsInformer()
	for _, each := range pods {
		found.podMap[string(each.Pod.UID)] = each
	}
	return found
}

// Metrics is what a node's NodeMetric is made from.
type Metrics struct {
	Spec      slov1alpha1.NodeMetricSpec
	Node      *corev1.Node
	SLO       *slov1alpha1.NodeSLO
	Pods      []*statesinformer.PodMeta
	Cache     metriccache.MetricCache
	Predictor prediction.PredictorFactory
	Now       time.Time
}

// Report is the status that would be written.
func (m *Metrics) Report() slov1alpha1.NodeMetricStatus {
	timeNow = func() time.Time { return m.Now }
	informer := NewNodeMetricInformer()
	informer.metricCache, informer.predictorFactory = m.Cache, m.Predictor
	informer.podsInformer = listed(m.Pods)
	informer.nodeInformer = &nodeInformer{node: m.Node}
	informer.nodeSLOInformer = &nodeSLOInformer{nodeSLO: m.SLO}
	informer.updateMetricSpec(&slov1alpha1.NodeMetric{Spec: m.Spec})
	found := slov1alpha1.NodeMetricStatus{}
	found.NodeMetric, found.PodsMetric, found.HostApplicationMetric, found.ProdReclaimableMetric,
		found.ProdPeakMetric = informer.collectMetric()
	return found
}

// Topology reports one node's NodeResourceTopology, round after round.
type Topology struct{ informer *nodeTopoInformer }

// NewTopology is a reporter of a machine.
func NewTopology(client topologyclientset.Interface, cache metriccache.MetricCache) *Topology {
	informer := NewNodeTopoInformer()
	informer.topologyClient, informer.metricCache = client, cache
	informer.callbackRunner = NewCallbackRunner()
	informer.nodeResourceTopologyLister = &topologies{client: client}
	return &Topology{informer: informer}
}

// Report writes the object; the error is that of computing it. A kubelet of nil is not asked.
func (t *Topology) Report(
	node *corev1.Node, pods []*statesinformer.PodMeta, kubelet *kubeletconfig.KubeletConfiguration,
) error {
	t.informer.config = &Config{DisableQueryKubeletConfig: kubelet == nil}
	t.informer.kubelet = &configured{of: kubelet}
	t.informer.nodeInformer = &nodeInformer{node: node}
	t.informer.podsInformer = listed(pods)
	t.informer.reportNodeTopology()
	_, err := t.informer.calcNodeTopo()
	return err
}

// configured is a kubelet that tells its configuration.
type configured struct {
	KubeletStub
	of *kubeletconfig.KubeletConfiguration
}

func (c *configured) GetKubeletConfiguration() (*kubeletconfig.KubeletConfiguration, error) {
	return c.of.DeepCopy(), nil
}

// topologies is a cache that is never behind.
type topologies struct {
	topologylister.NodeResourceTopologyLister
	client topologyclientset.Interface
}

func (t *topologies) Get(name string) (*v1alpha1.NodeResourceTopology, error) {
	return t.client.TopologyV1alpha1().NodeResourceTopologies().Get(context.TODO(), name, metav1.GetOptions{})
}
