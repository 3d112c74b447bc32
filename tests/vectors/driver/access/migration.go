// SPDX-License-Identifier: Apache-2.0

// Of package pkg/descheduler/controllers/migration.
package migration

import (
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/koordinator-sh/koordinator/pkg/descheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/controllers/migration/controllerfinder"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/controllers/migration/evictor"
	"github.com/koordinator-sh/koordinator/pkg/descheduler/controllers/migration/reservation"
)

// NewCourse makes a reconciler over a client's objects.
func NewCourse(args *config.MigrationControllerArgs, c client.Client, recorder events.EventRecorder, interpreter reservation.Interpreter, pods evictor.Interpreter, now clock.Clock) *Reconciler {
	r := &Reconciler{
		Client:                 c,
		args:                   args,
		eventRecorder:          recorder,
		reservationInterpreter: interpreter,
		evictorInterpreter:     pods,
		controllerFinder:       controllerfinder.NewFinder(c),
		assumedCache:           newAssumedCache(),
		clock:                  now,
	}
	r.initObjectLimiters()
	return r
}
