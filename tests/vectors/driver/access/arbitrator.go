// SPDX-License-Identifier: Apache-2.0

// Of package pkg/descheduler/controllers/migration/arbitrator.
package arbitrator

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/controllers/migration/controllerfinder"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/framework"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/utils/sorter"
)

// Round is an arbitrator that runs when it is told to.
type Round struct {
	arbitrator *arbitratorImpl
}

// NewRound makes one over a client's objects.
func NewRound(args *config.MigrationControllerArgs, c client.Client, handle framework.Handle, recorder events.EventRecorder) (*Round, error) {
	f := &filter{
		client:                     c,
		args:                       args,
		controllerFinder:           controllerfinder.NewFinder(c),
		clock:                      clock.RealClock{},
		arbitratedPodMigrationJobs: map[types.UID]bool{},
		skipEvictionGates:          newEvictionGateSet(args.SkipEvictionGates),
	}
	if err := f.initFilters(args, handle); err != nil {
		return nil, err
	}
	return &Round{&arbitratorImpl{
		waitingCollection: map[types.UID]*v1alpha1.PodMigrationJob{},
		sorts: []SortFn{
			SortJobsByCreationTime(),
			SortJobsByPod(sorter.PodSorter().Sort),
			SortJobsByController(),
			SortJobsByMigratingNum(c),
		},
		filter:        f,
		client:        c,
		eventRecorder: recorder,
	}}, nil
}

// Arbitrator is the whole of it.
func (r *Round) Arbitrator() Arbitrator { return r.arbitrator }

// Passed marks a job as one that this process let pass.
func (r *Round) Passed(uid types.UID) { r.arbitrator.filter.markJobPassedArbitration(uid) }

// Order gives the names of waiting jobs as a round takes them.
func (r *Round) Order() []string {
	jobs := r.arbitrator.copyJobs()
	names := []string{}
	for _, job := range r.arbitrator.sort(jobs, getPodForJob(r.arbitrator.client, jobs)) {
		names = append(names, job.Name)
	}
	return names
}

// Run arbitrates once.
func (r *Round) Run() { r.arbitrator.doOnceArbitrate() }
