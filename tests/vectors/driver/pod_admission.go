// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"sort"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	config "github.com/koordinator-sh/koordinator/apis/config/v1alpha1"
	"github.com/koordinator-sh/koordinator/apis/extension"
	quotaprofiles "github.com/koordinator-sh/koordinator/apis/quota/v1alpha1"
	scheduling "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	quotas "github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	utilfeature "github.com/koordinator-sh/koordinator/pkg/util/feature"
	"github.com/koordinator-sh/koordinator/pkg/webhook/elasticquota"
	podmutating "github.com/koordinator-sh/koordinator/pkg/webhook/pod/mutating"
	"github.com/koordinator-sh/koordinator/pkg/webhook/pod/validating"
	reservationmutating "github.com/koordinator-sh/koordinator/pkg/webhook/reservation/mutating"
)

func init() {
	register("pod_admission", podAdmission,
		"pod/mutating/cluster_colocation_profile.go:clusterColocationProfileMutatingPod",
		"pod/mutating/cluster_colocation_profile.go:doMutateByColocationProfile",
		"pod/mutating/cluster_colocation_profile.go:mutatePodResourceSpec",
		"pod/mutating/extended_resource_spec.go:mutateByExtendedResources",
		"pod/mutating/multi_quota_tree_affinity.go:addNodeAffinityForMultiQuotaTree",
		"pod/mutating/device_resource_spec.go:mutateByDeviceResources",
		"reservation/mutating/cluster_colocation_profile.go:clusterColocationProfileMutatingReservation",
		"reservation/mutating/cluster_colocation_profile.go:doMutateByColocationProfile",
		"pod/validating/validating_handler.go:validatingPodFn",
		"pod/validating/cluster_colocation_profile.go:clusterColocationProfileValidatingPod",
		"pod/validating/cluster_colocation_profile.go:validateResources",
		"pod/validating/verify_device_resource.go:validateGPUShare",
		"pod/validating/pod_enhanced_validator.go:ValidatePod",
		"pod/validating/binding_admission.go:Handle",
		"elasticquota/pod_check.go:ValidateAddPod",
		"elasticquota/pod_check.go:GetQuotaName",
	)
}

type admissionCase struct {
	Rule          string             `json:"rule"`
	Object        json.RawMessage    `json:"object"`
	Old           json.RawMessage    `json:"old"`
	Namespaces    []corev1.Namespace `json:"namespaces"`
	Profiles      []json.RawMessage  `json:"profiles"`
	Classes       []json.RawMessage  `json:"classes"`
	Quotas        []json.RawMessage  `json:"quotas"`
	QuotaProfiles []json.RawMessage  `json:"quotaProfiles"`
	ConfigMap     map[string]string  `json:"configMap"`
	Gates         map[string]bool    `json:"gates"`
	Flags         map[string]string  `json:"flags"`
	User          string             `json:"user"`
	Drawn         int                `json:"drawn"`
}

// admissionWorld is an API server of what a case has.
type admissionWorld struct {
	client.Client
	namespaces    []corev1.Namespace
	profiles      []config.ClusterColocationProfile
	classes       []schedulingv1.PriorityClass
	quotas        []quotas.ElasticQuota
	quotaProfiles []quotaprofiles.ElasticQuotaProfile
	configMap     map[string]string
	pod           *corev1.Pod
}

func (w *admissionWorld) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	for _, each := range options {
		each.ApplyToList(&asked)
	}
	switch into := list.(type) {
	case *config.ClusterColocationProfileList:
		into.Items = w.profiles
	case *quotaprofiles.ElasticQuotaProfileList:
		for _, each := range w.quotaProfiles {
			if asked.LabelSelector.Matches(labels.Set(each.Labels)) {
				into.Items = append(into.Items, each)
			}
		}
	case *quotas.ElasticQuotaList:
		namespace, _ := asked.FieldSelector.RequiresExactMatch("annotation.namespaces")
		for _, each := range w.quotas {
			for _, listed := range extension.GetAnnotationQuotaNamespaces(&each) {
				if listed == namespace {
					into.Items = append(into.Items, each)
				}
			}
		}
	}
	return nil
}

func (w *admissionWorld) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch found := into.(type) {
	case *corev1.Namespace:
		for _, each := range w.namespaces {
			if each.Name == key.Name {
				*found = each
				return nil
			}
		}
	case *schedulingv1.PriorityClass:
		for _, each := range w.classes {
			if each.Name == key.Name {
				*found = each
				return nil
			}
		}
	case *quotas.ElasticQuota:
		for _, each := range w.quotas {
			if each.Name == key.Name && each.Namespace == key.Namespace {
				*found = each
				return nil
			}
		}
	case *corev1.ConfigMap:
		if w.configMap != nil {
			found.Data = w.configMap
			return nil
		}
	case *corev1.Pod:
		if w.pod != nil {
			*found = *w.pod
			return nil
		}
	}
	return errors.NewNotFound(schema.GroupResource{Resource: "things"}, key.Name)
}

func podAdmission(raw json.RawMessage) any {
	given := decode[admissionCase](raw)
	must(utilfeature.DefaultMutableFeatureGate.SetFromMap(given.Gates))
	defer func() {
		off := map[string]bool{}
		for name := range given.Gates {
			off[name] = false
		}
		must(utilfeature.DefaultMutableFeatureGate.SetFromMap(off))
	}()
	world := &admissionWorld{namespaces: given.Namespaces, configMap: given.ConfigMap}
	for _, each := range given.Profiles {
		world.profiles = append(world.profiles, decode[config.ClusterColocationProfile](each))
	}
	for _, each := range given.Classes {
		world.classes = append(world.classes, decode[schedulingv1.PriorityClass](each))
	}
	for _, each := range given.QuotaProfiles {
		world.quotaProfiles = append(world.quotaProfiles, decode[quotaprofiles.ElasticQuotaProfile](each))
	}
	known := []*quotas.ElasticQuota{}
	for _, each := range given.Quotas {
		world.quotas = append(world.quotas, decode[quotas.ElasticQuota](each))
	}
	for i := range world.quotas {
		known = append(known, &world.quotas[i])
	}
	elasticquota.Begin(world, known)
	switch given.Rule {
	case "mutate":
		pod := decode[corev1.Pod](given.Object)
		err := podmutating.Created(world, &pod, given.Drawn)
		return changed(&pod, err)
	case "reservation":
		reservation := decode[scheduling.Reservation](given.Object)
		err := reservationmutating.Created(world, &reservation, given.Drawn)
		return changed(&reservation, err)
	case "binding":
		return bound(given, world)
	}
	return validated(given, world)
}

func changed(object any, err error) any {
	if err != nil {
		return map[string]any{"error": true}
	}
	text, err := json.Marshal(object)
	must(err)
	return map[string]any{"object": pruned(decode[any](text))}
}

// pruned is a document without what says nothing: null, "", [] and {}.
func pruned(value any) any {
	switch each := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, inner := range each {
			if found := pruned(inner); found != nil {
				kept[key] = found
			}
		}
		if len(kept) > 0 {
			return kept
		}
		return nil
	case []any:
		kept := []any{}
		for _, inner := range each {
			kept = append(kept, pruned(inner))
		}
		if len(kept) > 0 {
			return kept
		}
		return nil
	case string:
		if each == "" {
			return nil
		}
	}
	return value
}

func bound(given admissionCase, world *admissionWorld) any {
	if len(given.Object) > 0 && string(given.Object) != "null" {
		pod := decode[corev1.Pod](given.Object)
		world.pod = &pod
	}
	validating.BindingAdmissionUserName = given.Flags["userName"]
	validating.BindingAdmissionNamespaces = given.Flags["namespaces"]
	validating.BindingAdmissionExcludeNamespaces = given.Flags["excludeNamespaces"]
	validating.BindingAdmissionBypassLabels = given.Flags["bypassLabels"]
	validating.BindingAdmissionBypassAnnotations = given.Flags["bypassAnnotations"]
	validating.BindingAdmissionDryRun = given.Flags["dryRun"] == "true"
	validating.SetupBindingAdmission()
	answer := (&validating.BindingAdmissionHandler{Client: world}).Handle(context.TODO(), admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, SubResource: "binding", Namespace: "d", Name: "p",
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			UserInfo: authv1.UserInfo{Username: given.User},
		},
	})
	return map[string]any{"allowed": answer.Allowed}
}

func validated(given admissionCase, world *admissionWorld) any {
	handler := &validating.PodValidatingHandler{
		Client: world, Decoder: admission.NewDecoder(clientgoscheme.Scheme),
		PodEnhancedValidator: validating.NewPodEnhancedValidator(world),
	}
	request := admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "d", Name: "p",
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object:   runtime.RawExtension{Raw: given.Object},
	}
	if len(given.Old) > 0 && string(given.Old) != "null" {
		request.Operation = admissionv1.Update
		request.OldObject = runtime.RawExtension{Raw: given.Old}
	}
	answer := handler.Handle(context.TODO(), admission.Request{AdmissionRequest: request})
	if answer.Allowed {
		return map[string]any{"allowed": true}
	}
	rule, causes := classified(answer.Result.Message)
	return map[string]any{"allowed": false, "rule": rule, "causes": causes}
}

// messages says which rule and cause a part of a refusal stands for.
var messages = []struct{ part, rule, cause string }{
	{"cannot set in annotations", "reserved-annotations", "reserved"},
	{"parentQuotaGroup", "quota-membership", "parent"},
	{"Preemptible label", "quota-membership", "preemptible"},
	{"required label", "enhanced-validation", "label"},
	{"GPU and GPU share at same time", "device-resources", "both"},
	{"must be greater than zero", "device-resources", "zero"},
	{"must be percentage of 100", "device-resources", "hundreds"},
	{"memory ratio all is zero", "device-resources", "memory"},
	{"memory and GPU memory ratio at same time", "device-resources", "memory"},
	{"must multiple of shared", "device-resources", "multiple"},
	{"labels.koordinator.sh/qosClass: Invalid", "qos-class-priority-and-resources", "qos fixed"},
	{"spec.priority: Invalid", "qos-class-priority-and-resources", "class fixed"},
	{"labels.koordinator.sh/priority: Invalid", "qos-class-priority-and-resources", "priority fixed"},
	{"must specify koordinator QoS BE", "qos-class-priority-and-resources", "batch"},
	{"cannot be used in combination", "qos-class-priority-and-resources", "combination"},
	{"must declare the requested CPUs", "qos-class-priority-and-resources", "cpu"},
	{"must be integer", "qos-class-priority-and-resources", "cpu"},
}

func classified(message string) (string, []string) {
	rule, causes := "other: "+message, map[string]bool{}
	for _, each := range messages {
		if strings.Contains(message, each.part) {
			rule = each.rule
			causes[each.cause] = true
		}
	}
	sorted := []string{}
	for cause := range causes {
		sorted = append(sorted, cause)
	}
	sort.Strings(sorted)
	return rule, sorted
}
