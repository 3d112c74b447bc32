// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/featuregate"

	"sigs.k8s.io/descheduler/pkg/descheduler/evictions"
	podutil "sigs.k8s.io/descheduler/pkg/descheduler/pod"
	"sigs.k8s.io/descheduler/pkg/features"
	frameworkfake "sigs.k8s.io/descheduler/pkg/framework/fake"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/defaultevictor"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/nodeutilization"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/podlifetime"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removeduplicates"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removefailedpods"
	restarts "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodshavingtoomanyrestarts"
	antiaffinity "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatinginterpodantiaffinity"
	nodeaffinity "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingnodeaffinity"
	nodetaints "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingnodetaints"
	spread "sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint"
	frameworktypes "sigs.k8s.io/descheduler/pkg/framework/types"
)

func init() {
	register("descheduler_plugins", deschedulerPlugins,
		"podlifetime/pod_lifetime.go:New",
		"podlifetime/pod_lifetime.go:Deschedule",
		"removefailedpods/failedpods.go:Deschedule",
		"removefailedpods/failedpods.go:validateCanEvict",
		"removepodshavingtoomanyrestarts/toomanyrestarts.go:Deschedule",
		"removepodshavingtoomanyrestarts/toomanyrestarts.go:validateCanEvict",
		"removepodsviolatingnodeaffinity/node_affinity.go:processNodes",
		"removepodsviolatingnodetaints/node_taint.go:New",
		"removepodsviolatingnodetaints/node_taint.go:Deschedule",
		"removepodsviolatinginterpodantiaffinity/pod_antiaffinity.go:Deschedule",
		"removeduplicates/removeduplicates.go:Balance",
		"removeduplicates/removeduplicates.go:getTargetNodes",
		"removepodsviolatingtopologyspreadconstraint/topologyspreadconstraint.go:Balance",
		"removepodsviolatingtopologyspreadconstraint/topologyspreadconstraint.go:balanceDomains",
		"removepodsviolatingtopologyspreadconstraint/topologyspreadconstraint.go:sortDomains",
		"nodeutilization/lownodeutilization.go:Balance",
		"nodeutilization/highnodeutilization.go:Balance",
		"nodeutilization/nodeutilization.go:evictPods",
		"defaultevictor/defaultevictor.go:Filter",
		"defaultevictor/defaultevictor.go:PreEvictionFilter",
	)
}

// strategy is a plugin: its arguments with their defaults and checks, and what makes it.
type strategy struct {
	args     func() runtime.Object
	defaults func(runtime.Object)
	validate func(runtime.Object) error
	build    func(context.Context, runtime.Object, frameworktypes.Handle) (frameworktypes.Plugin, error)
}

var strategies = map[string]strategy{
	"PodLifeTime": {func() runtime.Object { return &podlifetime.PodLifeTimeArgs{} },
		podlifetime.SetDefaults_PodLifeTimeArgs, podlifetime.ValidatePodLifeTimeArgs, podlifetime.New},
	"RemoveFailedPods": {func() runtime.Object { return &removefailedpods.RemoveFailedPodsArgs{} },
		removefailedpods.SetDefaults_RemoveFailedPodsArgs, removefailedpods.ValidateRemoveFailedPodsArgs, removefailedpods.New},
	"RemovePodsHavingTooManyRestarts": {func() runtime.Object { return &restarts.RemovePodsHavingTooManyRestartsArgs{} },
		restarts.SetDefaults_RemovePodsHavingTooManyRestartsArgs, restarts.ValidateRemovePodsHavingTooManyRestartsArgs, restarts.New},
	"RemovePodsViolatingNodeAffinity": {func() runtime.Object { return &nodeaffinity.RemovePodsViolatingNodeAffinityArgs{} },
		nodeaffinity.SetDefaults_RemovePodsViolatingNodeAffinityArgs, nodeaffinity.ValidateRemovePodsViolatingNodeAffinityArgs, nodeaffinity.New},
	"RemovePodsViolatingNodeTaints": {func() runtime.Object { return &nodetaints.RemovePodsViolatingNodeTaintsArgs{} },
		nodetaints.SetDefaults_RemovePodsViolatingNodeTaintsArgs, nodetaints.ValidateRemovePodsViolatingNodeTaintsArgs, nodetaints.New},
	"RemovePodsViolatingInterPodAntiAffinity": {func() runtime.Object { return &antiaffinity.RemovePodsViolatingInterPodAntiAffinityArgs{} },
		antiaffinity.SetDefaults_RemovePodsViolatingInterPodAntiAffinityArgs, antiaffinity.ValidateRemovePodsViolatingInterPodAntiAffinityArgs, antiaffinity.New},
	"RemoveDuplicates": {func() runtime.Object { return &removeduplicates.RemoveDuplicatesArgs{} },
		removeduplicates.SetDefaults_RemoveDuplicatesArgs, removeduplicates.ValidateRemoveDuplicatesArgs, removeduplicates.New},
	"RemovePodsViolatingTopologySpreadConstraint": {func() runtime.Object { return &spread.RemovePodsViolatingTopologySpreadConstraintArgs{} },
		spread.SetDefaults_RemovePodsViolatingTopologySpreadConstraintArgs, spread.ValidateRemovePodsViolatingTopologySpreadConstraintArgs, spread.New},
	"LowNodeUtilization": {func() runtime.Object { return &nodeutilization.LowNodeUtilizationArgs{} },
		nodeutilization.SetDefaults_LowNodeUtilizationArgs, nodeutilization.ValidateLowNodeUtilizationArgs, nodeutilization.NewLowNodeUtilization},
	"HighNodeUtilization": {func() runtime.Object { return &nodeutilization.HighNodeUtilizationArgs{} },
		nodeutilization.SetDefaults_HighNodeUtilizationArgs, nodeutilization.ValidateHighNodeUtilizationArgs, nodeutilization.NewHighNodeUtilization},
}

// deschedulerRound is a cluster and one plugin. Ages are seconds before now, by pod; conditions
// have theirs in their message.
type deschedulerRound struct {
	Plugin          string                         `json:"plugin"`
	Args            json.RawMessage                `json:"args"`
	Evictor         json.RawMessage                `json:"evictor"`
	Nodes           []corev1.Node                  `json:"nodes"`
	Pods            []corev1.Pod                   `json:"pods"`
	Ages            map[string]int64               `json:"ages"`
	Namespaces      []corev1.Namespace             `json:"namespaces"`
	PriorityClasses []schedulingv1.PriorityClass   `json:"priorityClasses"`
	Budgets         []policyv1.PodDisruptionBudget `json:"budgets"`
	Claims          []corev1.PersistentVolumeClaim `json:"claims"`
	Refused         map[string]bool                `json:"refused"`
}

// deschedulerPlugins gives the pods that are evicted, in order, or what is wrong with arguments.
func deschedulerPlugins(raw json.RawMessage) any {
	round := deschedulerRound{}
	must(json.Unmarshal(raw, &round))
	chosen := strategies[round.Plugin]
	args := chosen.args()
	must(json.Unmarshal(round.Args, args))
	chosen.defaults(args)
	if err := chosen.validate(args); err != nil {
		return map[string]any{"invalid": true}
	}
	evictorArgs := &defaultevictor.DefaultEvictorArgs{}
	must(json.Unmarshal(round.Evictor, evictorArgs))
	defaultevictor.SetDefaults_DefaultEvictorArgs(evictorArgs)
	if err := defaultevictor.ValidateDefaultEvictorArgs(evictorArgs); err != nil {
		return map[string]any{"invalid": true}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	evicted := []string{}
	client := round.client(&evicted)
	handle, err := round.handle(ctx, client, evictorArgs)
	if err != nil {
		return map[string]any{"invalid": true}
	}
	plugin, err := chosen.build(ctx, args, handle)
	if err != nil {
		return map[string]any{"invalid": true}
	}
	nodes := []*corev1.Node{}
	for i := range round.Nodes {
		nodes = append(nodes, &round.Nodes[i])
	}
	var status *frameworktypes.Status
	switch point := plugin.(type) {
	case frameworktypes.DeschedulePlugin:
		status = point.Deschedule(ctx, nodes)
	case frameworktypes.BalancePlugin:
		status = point.Balance(ctx, nodes)
	}
	if status != nil && status.Err != nil {
		return map[string]any{"failed": true}
	}
	switch round.Plugin {
	case "RemovePodsViolatingTopologySpreadConstraint":
		// Which pods go is a matter of an unstable sort and of a map's order.
		return map[string]any{"count": len(evicted)}
	case "RemoveDuplicates":
		// Owners are in a map.
		sort.Strings(evicted)
	}
	return map[string]any{"evicted": evicted}
}

// client is an API server of the round's objects that notes evictions and refuses some.
func (r *deschedulerRound) client(evicted *[]string) *fake.Clientset {
	now := time.Now()
	objects := []runtime.Object{}
	for i := range r.Nodes {
		objects = append(objects, &r.Nodes[i])
	}
	for i := range r.Pods {
		pod := &r.Pods[i]
		pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(r.Ages[pod.Name]) * time.Second))
		for j := range pod.Status.Conditions {
			ago, err := time.ParseDuration(pod.Status.Conditions[j].Message)
			if err == nil {
				pod.Status.Conditions[j].LastTransitionTime = metav1.NewTime(now.Add(-ago))
			}
		}
		if pod.Status.StartTime != nil {
			pod.Status.StartTime = &pod.CreationTimestamp
		}
		if pod.DeletionTimestamp != nil {
			pod.DeletionTimestamp = &pod.CreationTimestamp
		}
		objects = append(objects, pod)
	}
	for i := range r.Namespaces {
		objects = append(objects, &r.Namespaces[i])
	}
	for i := range r.PriorityClasses {
		objects = append(objects, &r.PriorityClasses[i])
	}
	for i := range r.Budgets {
		objects = append(objects, &r.Budgets[i])
	}
	for i := range r.Claims {
		objects = append(objects, &r.Claims[i])
	}
	client := fake.NewSimpleClientset(objects...)
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		eviction := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		if r.Refused[eviction.Name] {
			return true, nil, errors.New("refused")
		}
		*evicted = append(*evicted, eviction.Namespace+"/"+eviction.Name)
		return true, nil, nil
	})
	return client
}

func (r *deschedulerRound) handle(
	ctx context.Context, client *fake.Clientset, args *defaultevictor.DefaultEvictorArgs,
) (frameworktypes.Handle, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	podInformer := factory.Core().V1().Pods().Informer()
	assigned, err := podutil.BuildGetPodsAssignedToNodeFunc(podInformer)
	must(err)
	// The index has pods in no order. Sorting by priority says of equal pods that either goes
	// first, which turns the order of up to twelve round.
	byPriority := map[string]bool{"LowNodeUtilization": true, "HighNodeUtilization": true,
		"RemovePodsViolatingInterPodAntiAffinity": true}[r.Plugin]
	sorted := func(node string, filter podutil.FilterFunc) ([]*corev1.Pod, error) {
		pods, err := assigned(node, filter)
		sort.Slice(pods, func(i, j int) bool {
			if byPriority {
				i, j = j, i
			}
			if pods[i].Namespace != pods[j].Namespace {
				return pods[i].Namespace < pods[j].Namespace
			}
			return pods[i].Name < pods[j].Name
		})
		return pods, err
	}
	gates := featuregate.NewFeatureGate()
	must(gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		features.EvictionsInBackground: {Default: false, PreRelease: featuregate.Alpha},
	}))
	evictor, err := evictions.NewPodEvictor(
		ctx, client, &events.FakeRecorder{}, podInformer, gates, evictions.NewOptions())
	must(err)
	handle := &frameworkfake.HandleImpl{
		ClientsetImpl:                 client,
		GetPodsAssignedToNodeFuncImpl: sorted,
		SharedInformerFactoryImpl:     factory,
		PodEvictorImpl:                evictor,
	}
	factory.Core().V1().Nodes().Informer()
	factory.Core().V1().Namespaces().Informer()
	factory.Policy().V1().PodDisruptionBudgets().Informer()
	factory.Core().V1().PersistentVolumeClaims().Informer()
	factory.Scheduling().V1().PriorityClasses().Informer()
	filter, err := defaultevictor.New(ctx, args, handle)
	if err != nil {
		return nil, err
	}
	handle.EvictorFilterImpl = filter.(frameworktypes.EvictorPlugin)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return handle, nil
}
