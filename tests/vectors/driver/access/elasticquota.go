// SPDX-License-Identifier: Apache-2.0
// Compiled into pkg/scheduler/plugins/elasticquota.

package elasticquota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/koordinator-sh/koordinator/apis/extension"
	quotas "github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	listers "github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/generated/listers/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/elasticquota/core"
)

// VectorPlugin is a plugin over objects that are put in by hand.
func VectorPlugin(args *config.ElasticQuotaArgs) *Plugin {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &quotas.ElasticQuota{}, 0,
		cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"annotation.namespaces": func(object any) ([]string, error) {
				return extension.GetAnnotationQuotaNamespaces(object.(*quotas.ElasticQuota)), nil
			},
		})
	made := &Plugin{
		pluginArgs:                     args,
		quotaInformer:                  informer,
		quotaLister:                    listers.NewElasticQuotaLister(informer.GetIndexer()),
		groupQuotaManagersForQuotaTree: map[string]*core.GroupQuotaManager{},
		quotaToTreeMap: map[string]string{
			extension.DefaultQuotaName: "", extension.SystemQuotaName: "",
		},
	}
	made.groupQuotaManager = core.NewGroupQuotaManager("", args.EnableMinQuotaScale,
		args.SystemQuotaGroupMax, args.DefaultQuotaGroupMax)
	return made
}

// VectorMigrate moves pods of the default group to quotas that have come since.
func (g *Plugin) VectorMigrate() { g.migrateDefaultQuotaGroupsPod() }

// VectorCanPreempt tells whether a pod may take another's place.
func (g *Plugin) VectorCanPreempt(pod, victim *corev1.Pod) bool { return g.canPreempt(pod, victim) }
