// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"

	slov1alpha1 "github.com/koordinator-sh/koordinator/apis/slo/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/features"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/framework"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/cpuevict"
	"github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/memoryevict"
	evictutil "github.com/koordinator-sh/koordinator/pkg/koordlet/qosmanager/plugins/util"
)

func init() {
	register("eviction", eviction,
		"cpuevict/cpu_evict.go:cpuEvict",
		"cpuevict/cpu_evict.go:buildEvictTask",
		"cpu_evict.go:calculateMilliReleaseByBESatisfaction",
		"cpu_evict.go:calculateMilliReleaseByUsedThresholdPercent",
		"cpu_evict.go:calculateMilliReleaseByAllocatableThresholdPercent",
		"cpu_evict.go:isBECPUUsageHighEnough",
		"cpu_evict.go:calculateResourceMilliToReleaseBySatisfaction",
		"cpuevict/cpu_evict.go:getPodEvictInfoAndSortByPriority",
		"cpu_evict.go:getBEPodEvictInfoAndSort",
		"cpu_evict.go:getBEMilliAllocatable",
		"cpu_evict.go:isSatisfactionConfigValid",
		"cpu_evict.go:isUsedThresholdConfigValid",
		"cpuevict/cpu_evict.go:isAllocatableThresholdConfigValid",
		"memoryevict/memory_evict.go:memoryEvict",
		"memoryevict/memory_evict.go:buildEvictTask",
		"memory_evict.go:generateConfigCheck",
		"memoryevict/memory_evict.go:isAllocatableThresholdConfigValid",
		"memory_evict.go:calculateReleaseByUsedThresholdPercent",
		"memory_evict.go:calculateReleaseByAllocatableThresholdPercent",
		"memory_evict.go:getSortedBEPodInfos",
		"memoryevict/memory_evict.go:getPodEvictInfoAndSortByPriority",
		"plugins/util/evict.go:KillAndEvictPods",
		"plugins/util/evict.go:IsEvictionPolicyAllowed",
		"plugins/util/evict.go:EvictTaskCheck",
		"plugins/util/evict.go:GetRequestTypeAndValueFromPod",
		"plugins/util/evict.go:GetPodPriorityLabel",
		"plugins/util/evictor.go:EvictPodIfNotEvicted",
	)
}

type evictionCase struct {
	node
	Strategy string    `json:"strategy"`
	Gates    []string  `json:"gates"`
	Refused  []string  `json:"refused"`
	Passed   []float64 `json:"passed"` // seconds before each round
}

type evictionRound struct {
	Calls   [][2]string               `json:"calls"`
	Release map[string]map[string]any `json:"release"`
	Invalid []string                  `json:"invalid"`
}

// evictor is one of the two strategies.
type evictor struct {
	framework.QOSStrategy
	resource corev1.ResourceName
	features []featuregate.Feature
	round    func(framework.QOSStrategy)
	age      func(framework.QOSStrategy, time.Duration)
	cooling  func(framework.QOSStrategy) bool
	release  func(framework.QOSStrategy, featuregate.Feature, *slov1alpha1.NodeSLO, *corev1.Node) (corev1.ResourceList, error)
}

func newEvictor(name string, with *framework.Options) *evictor {
	if name == "cpu" {
		return &evictor{
			cpuevict.New(with), corev1.ResourceCPU,
			[]featuregate.Feature{features.BECPUEvict, features.CPUAllocatableEvict, features.CPUEvict},
			cpuevict.Round, cpuevict.Age, cpuevict.Cooling, cpuevict.Release,
		}
	}
	return &evictor{
		memoryevict.New(with), corev1.ResourceMemory,
		[]featuregate.Feature{features.BEMemoryEvict, features.MemoryAllocatableEvict, features.MemoryEvict},
		memoryevict.Round, memoryevict.Age, memoryevict.Cooling, memoryevict.Release,
	}
}

// events keeps which pod is asked to go for which feature, refused or not.
type events struct{ calls [][2]string }

func (e *events) Event(runtime.Object, string, string, string) {}
func (e *events) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
func (e *events) Eventf(of runtime.Object, _, _, message string, _ ...any) {
	_, rest, _ := strings.Cut(message, "trigger by koordlet feature ")
	feature, _, _ := strings.Cut(rest, ",")
	e.calls = append(e.calls, [2]string{of.(*corev1.Pod).Name, feature})
}

func eviction(raw json.RawMessage) any {
	in := decode[*evictionCase](raw)
	helper, done := host(&in.node)
	defer done()
	stop := make(chan struct{})
	defer close(stop)
	cache := newMetrics(&in.node, filepath.Join(helper.TempDir, "metrics"))
	defer cache.Close()
	informer, told := newStates(&in.node), &events{}
	strategy := newEvictor(in.Strategy, options(informer, cache))
	gates := map[string]bool{}
	for _, each := range strategy.features {
		gates[string(each)] = false
	}
	for _, each := range in.Gates {
		gates[each] = true
	}
	must(features.DefaultMutableKoordletFeatureGate.SetFromMap(gates))
	api := evictutil.NewEvictor(client(in.Refused), told, "v1")
	must(api.Start(stop))
	strategy.Setup(&framework.Context{Evictor: api, OnlyEvictByAPI: true})
	rounds := []evictionRound{}
	for _, seconds := range in.Passed {
		strategy.age(strategy.QOSStrategy, time.Duration(seconds*float64(time.Second)))
		told.calls = [][2]string{}
		found := wanted(strategy, informer, gates)
		strategy.round(strategy.QOSStrategy)
		found.Calls = told.calls
		rounds = append(rounds, found)
	}
	return rounds
}

// client evicts all pods but some.
func client(refused []string) *fake.Clientset {
	found := fake.NewSimpleClientset()
	found.PrependReactor("create", "pods", func(of clienttesting.Action) (bool, runtime.Object, error) {
		name := of.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction).Name
		for _, each := range refused {
			if each == name {
				return true, nil, fmt.Errorf("disruption budget")
			}
		}
		return true, nil, nil
	})
	return found
}

// wanted is what each feature wants, and which are not valid, where the round looks at them.
func wanted(strategy *evictor, informer *states, gates map[string]bool) evictionRound {
	found := evictionRound{Release: map[string]map[string]any{}, Invalid: []string{}}
	node, slo := informer.GetNode(), informer.GetNodeSLO()
	if strategy.cooling(strategy.QOSStrategy) || node == nil {
		return found
	}
	if capacity := node.Status.Capacity[strategy.resource]; capacity.Sign() <= 0 {
		return found
	}
	for _, feature := range strategy.features {
		disabled, err := features.IsFeatureDisabled(slo, feature)
		if !gates[string(feature)] || disabled || err != nil {
			continue
		}
		release, err := strategy.release(strategy.QOSStrategy, feature, slo, node)
		if err != nil {
			found.Invalid = append(found.Invalid, string(feature))
			continue
		}
		amounts := map[string]any{}
		for name, amount := range release {
			if value := evictutil.ConvertQuantityToInt64(name, amount); value > 0 {
				amounts[string(name)] = value
			}
		}
		if len(amounts) > 0 {
			found.Release[string(feature)] = amounts
		}
	}
	return found
}
