// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"sort"

	corev1 "k8s.io/api/core/v1"
	fwktype "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/koordinator-sh/koordinator/apis/extension"
	scheduling "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/reservation"
	reservationutil "github.com/koordinator-sh/koordinator/pkg/util/reservation"
)

func init() {
	register("reservation", reservationFit,
		"reservation/plugin.go:PreFilter",
		"reservation/plugin.go:Filter",
		"reservation/plugin.go:filterWithReservations",
		"reservation/plugin.go:fitsNodeAndReservation",
		"reservation/plugin.go:isResourceIgnored",
		"reservation/plugin.go:fitsNode",
		"reservation/plugin.go:fitsReservation",
		"reservation/plugin.go:FilterNominateReservation",
		"reservation/transformer.go:prepareMatchReservationStateForNormalPod",
		"reservation/transformer.go:checkReservationMatchedOrIgnored",
		"reservation/transformer.go:preRestoreReservationResourcesForNode",
		"reservation/transformer.go:restoreMatchedReservation",
		"reservation/transformer.go:updateNodeInfoRequestedForUnmatched",
		"reservation/scoring.go:preScoreForNormalPod",
		"reservation/scoring.go:scoreForNormalPod",
		"reservation/scoring.go:ScoreReservation",
		"reservation/scoring.go:findMostPreferredReservationByOrder",
		"reservation/nominator.go:NominateReservation",
		"reservation/nominator.go:prioritizeReservations",
		"frameworkext/reservation_info.go:NewReservationInfo",
		"frameworkext/reservation_info.go:AddAssignedPod",
		"frameworkext/reservation_info.go:RefreshPreCalculated",
		"frameworkext/reservation_info.go:IsMatchable",
	)
}

type reservationCase struct {
	Node         corev1.Node               `json:"node"`
	Reservations []*scheduling.Reservation `json:"reservations"`
	Owners       map[string][]*corev1.Pod  `json:"owners"`
	Others       []*corev1.Pod             `json:"others"`
	Pod          *corev1.Pod               `json:"pod"`
	Ignored      []string                  `json:"ignored"`
	Groups       []string                  `json:"groups"`
	SkipNode     bool                      `json:"skipNode"`
}

// reservationFit gives, for one node, the reservations that a pod matches, with the reasons why it
// cannot have each and what each is worth; whether it can go to the node; which one it gets.
func reservationFit(raw json.RawMessage) any {
	given := decode[reservationCase](raw)
	node := framework.NewNodeInfo()
	node.SetNode(&given.Node)
	counted := append([]*corev1.Pod{}, given.Others...)
	for _, each := range given.Reservations {
		if reservationutil.IsReservationAvailable(each) {
			counted = append(counted, reservationutil.NewReservePod(each))
		}
		counted = append(counted, given.Owners[string(each.UID)]...)
	}
	for _, each := range counted {
		info, err := framework.NewPodInfo(each)
		must(err)
		node.AddPodInfo(info)
	}
	attempt, status := reservation.KoordNewAttempt(node, given.Pod, given.Reservations,
		given.Owners, given.Ignored, given.Groups, given.SkipNode)
	if status.IsSkip() {
		return map[string]any{"filter": []string{}}
	}
	if !status.IsSuccess() {
		return map[string]any{"stops": reasonsOf(status)}
	}
	if len(attempt.Matched()) == 0 || extension.IsReservationIgnored(given.Pod) {
		return map[string]any{"filter": reasonsOf(attempt.Filter())}
	}
	fits := map[string]any{}
	scores := map[string]int64{}
	for _, each := range attempt.Matched() {
		fits[each.GetName()] = reasonsOf(attempt.Fits(each))
		scores[each.GetName()] = attempt.Score(each)
	}
	found := map[string]any{
		"fits": fits, "scores": scores, "filter": reasonsOf(attempt.Filter()),
	}
	nominated, worth := attempt.Nominated()
	found["nominated"] = nil
	if nominated != nil {
		// Among those of one order, or of one score without any, it takes what comes.
		order := reservation.KoordOrder(nominated)
		score := scores[nominated.GetName()]
		if order != 0 && len(scores) > 1 {
			score = -1
		}
		found["nominated"] = []any{order, score}
	}
	for _, each := range attempt.Matched() {
		if reservation.KoordOrder(each) != 0 {
			return found
		}
	}
	found["worth"] = worth
	return found
}

func reasonsOf(status *fwktype.Status) []string {
	found := []string{}
	if !status.IsSuccess() {
		found = append(found, status.Reasons()...)
	}
	sort.Strings(found)
	return found
}
