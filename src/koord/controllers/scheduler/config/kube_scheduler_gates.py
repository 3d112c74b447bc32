# SPDX-License-Identifier: Apache-2.0
"""The feature gates of kube-scheduler 1.35, by stage and default.

They are what a kube-scheduler's ``--feature-gates`` takes: those of Kubernetes itself and of the
libraries of its API server, its clients, its logs and its metrics. koord's scheduler knows their
names, so that a command line that was written for the original starts it; none has an effect.
"""

from __future__ import annotations

from koord.base.feature_gates import Gate, GateStage, unused

_NAMES: dict[tuple[GateStage, bool], str] = {
    (GateStage.ALPHA, False): """
        APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
        CPUManagerPolicyAlphaOptions CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
        ComponentFlagz ComponentStatusz ConstrainedImpersonation ContainerStopSignals
        CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod DRAConsumableCapacity
        DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource
        DRAPartitionableDevices EventedPLEG GangScheduling GenericWorkload HPAScaleToZero
        InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory InTreePluginPortworxUnregister
        KubeletInUserNamespace LoggingAlphaOptions MemoryQoS MutablePVNodeAffinity
        MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
        NodeDeclaredFeatures PodAndContainerStatsFromCRI PodLogsQuerySplitStreams QOSReserved
        ReduceDefaultCrashLoopBackOffDecay RelaxedServiceNameValidation ResourceHealthStatus
        RestartAllContainersOnContainerExits RuntimeClassInImageCriApi StorageCapacityScoring
        StorageVersionAPI StrictIPCIDRValidation TaintTolerationComparisonOperators
        TopologyManagerPolicyAlphaOptions UnknownVersionInteroperabilityProxy
        UserNamespacesHostNetworkSupport VolumeLimitScaling WindowsCPUAndMemoryAffinity
    """,
    (GateStage.BETA, False): """
        CRDObservedGenerationTracking ClusterTrustBundle ClusterTrustBundleProjection
        ConcurrentWatchObjectDecode CoordinatedLeaderElection DeclarativeValidationTakeover
        LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
        MutatingAdmissionPolicy NodeLogQuery PodCertificateRequest SELinuxMount
        SchedulerAsyncAPICalls StorageVersionMigrator WatchCacheInitializationPostStartHook
    """,
    (GateStage.BETA, True): """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions
        CSIServiceAccountTokenSecrets ClearingNominatedNodeNameAfterBinding ContainerCheckpoint
        ContainerRestartRules ContextualLogging DRAAdminAccess DRAPrioritizedList
        DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DeclarativeValidation
        DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency
        DisableCPUQuotaWithExclusiveCPUs EnvFiles ExternalServiceAccountTokenSigner
        GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance
        HostnameOverride ImageVolume InOrderInformers InOrderInformersBatchProcess
        KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz
        KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet
        KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
        ListFromCacheSnapshot LoggingBetaOptions MatchLabelKeysInPodTopologySpread
        MatchLabelKeysInPodTopologySpreadSelectorMerge MutableCSINodeAllocatableCount
        NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PodDeletionCost
        PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission
        PortForwardWebsockets PreventStaticPodAPIReferences ProcMountType
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID RotateKubeletServerCertificate
        SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerAsyncPreemption
        SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StatefulSetSemanticRevisionComparison StorageVersionHash
        StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
        UnauthenticatedHTTP2DOSMitigation UserNamespacesSupport WatchList WatchListClient
        WindowsGracefulNodeShutdown
    """,
    (GateStage.GA, True): """
        APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
        AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions
        CRDValidationRatcheting CSIMigrationPortworx ConsistentListFromCache
        CustomResourceFieldSelectors DisableAllocatorDualWrite DynamicResourceAllocation
        ExecProbeTimeout HonorPVReclaimPolicy ImageMaximumGCAge InPlacePodVerticalScaling
        InformerResourceVersion JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy
        JobSuccessPolicy KubeletCgroupDriverFromCRI KubeletTracing LogarithmicScaleDown
        MatchLabelKeysInPodAffinity MemoryManager MultiCIDRServiceAllocator NFTablesProxyMode
        NodeInclusionPolicyInPodTopologySpread NodeSwap OrderedNamespaceDeletion
        PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking
        PodSchedulingReadiness PreferSameTrafficDistribution RecoverVolumeExpansionFailure
        RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
        ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints
        SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
        ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
        ServiceTrafficDistribution SidecarContainers StreamingCollectionEncodingToJSON
        StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
        StructuredAuthorizationConfiguration SupplementalGroupsPolicy SystemdWatchdog
        TopologyAwareHints TopologyManagerPolicyOptions VolumeAttributesClass WinDSR WinOverlay
    """,
    (GateStage.DEPRECATED, False): """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
        AllowOverwriteTerminationGracePeriodSeconds ChangeContainerStatusOnKubeletRestart
        GitRepoVolumeDriver InPlacePodVerticalScalingAllocatedStatus KMSv1
        KubeletRegistrationGetOnExistsOnly SeparateCacheWatchRPC
        WatchFromStorageWithoutResourceVersion WindowsHostNetwork
    """,
    (GateStage.DEPRECATED, True): """
        AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion
        KubeletPodResourcesListUseActivePods StorageNamespaceIndex
    """,
}


def stock_gates() -> list[Gate]:
    """All of them, as gates without effect."""
    return [
        unused(name, default, stage, "a gate of kube-scheduler")
        for (stage, default), names in _NAMES.items()
        for name in names.split()
    ]
