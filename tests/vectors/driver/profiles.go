// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"math/rand"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	config "github.com/koordinator-sh/koordinator/apis/config/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/controller/colocationprofile"
)

func init() {
	register("profiles", profiles,
		"colocationprofile/colocationprofile_util.go:listPodsForProfile",
		"colocationprofile/colocationprofile_util.go:isPodNamespaceMatched",
		"colocationprofile/colocationprofile_util.go:doMutateByColocationProfile",
		"colocationprofile/colocationprofile_util.go:shouldSkipProfile",
	)
}

// profileRuns is how often a profile is applied: its mappings are walked in another order each time.
const profileRuns = 150

type profileCase struct {
	Profile   json.RawMessage  `json:"profile"`
	Pod       json.RawMessage  `json:"pod"`
	Namespace *json.RawMessage `json:"namespace"`
}

// world is an API server of one pod and at most one namespace.
type world struct {
	client.Client
	pod       *corev1.Pod
	namespace *corev1.Namespace
}

func (w world) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	for _, each := range options {
		each.ApplyToList(&asked)
	}
	if asked.LabelSelector.Matches(labels.Set(w.pod.Labels)) {
		list.(*corev1.PodList).Items = []corev1.Pod{*w.pod}
	}
	return nil
}

func (w world) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if w.namespace == nil {
		return errors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
	}
	*into.(*corev1.Namespace) = *w.namespace
	return nil
}

func profiles(raw json.RawMessage) any {
	given := decode[profileCase](raw)
	pod := decode[corev1.Pod](given.Pod)
	by := world{pod: &pod}
	if given.Namespace != nil {
		namespace := decode[corev1.Namespace](*given.Namespace)
		by.namespace = &namespace
	}
	profile := decode[config.ClusterColocationProfile](given.Profile)
	found := map[string]any{"selected": false, "taken": -1}
	if list, err := colocationprofile.Selected(by, &profile); err == nil {
		found["selected"] = list != nil && len(list.Items) > 0
	}
	if taken, err := colocationprofile.Taken(&profile); err == nil {
		found["taken"] = taken
	}
	found["outcomes"] = outcomes(given)
	return found
}

// outcomes are all that a profile may make of a pod's labels and annotations.
func outcomes(given profileCase) []json.RawMessage {
	texts := map[string]bool{}
	for run := 0; run < profileRuns; run++ {
		profile := decode[config.ClusterColocationProfile](given.Profile)
		pod := decode[corev1.Pod](given.Pod)
		profile.Spec.LabelKeysMapping = shuffled(profile.Spec.LabelKeysMapping)
		profile.Spec.AnnotationKeysMapping = shuffled(profile.Spec.AnnotationKeysMapping)
		if err := colocationprofile.Mutated(&profile, &pod); err != nil {
			texts[`"error"`] = true
			continue
		}
		text, err := json.Marshal([]any{orEmpty(pod.Labels), orEmpty(pod.Annotations)})
		must(err)
		texts[string(text)] = true
	}
	sorted := []string{}
	for text := range texts {
		sorted = append(sorted, text)
	}
	sort.Strings(sorted)
	found := []json.RawMessage{}
	for _, text := range sorted {
		found = append(found, json.RawMessage(text))
	}
	return found
}

// shuffled is the same map built in another order, for small maps are walked much as they were built.
func shuffled(texts map[string]string) map[string]string {
	keys := []string{}
	for key := range texts {
		keys = append(keys, key)
	}
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	found := map[string]string{}
	for _, key := range keys {
		found[key] = texts[key]
	}
	return found
}

func orEmpty(texts map[string]string) map[string]string {
	if texts == nil {
		return map[string]string{}
	}
	return texts
}
