"""Gates of other components, which kube-scheduler accepts: all components share one list.

From the help of kube-scheduler 1.36.3 and 1.37.2. It leaves out gates that are locked on, and
AllAlpha and AllBeta stand for many gates, so these are not here.
"""

from typing import Final

OTHER_COMPONENTS: Final = """
    APIResponseCompression APIServerIdentity APIServerWebhookAuthenticationToken
    APIServingWithRoutine AllowParsingUserUIDFromCertAuth AllowUnsafeMalformedObjectDeletion
    AtomicFIFO AtomicWriteVolumeUserFields AuthorizePodWebsocketUpgradeCreatePermission
    CBORServingAndStorage CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions
    CRDObservedGenerationTracking CRIListStreaming CSIVolumeHealth ClientsAllowCARotation
    ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
    ClusterTrustBundle ClusterTrustBundleProjection ComponentFlagz ComponentStatusz
    ConcurrentWatchObjectDecode ConsistentListFromCacheSkipTimeoutFallback
    ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContainerStopSignals
    ContextualLogging CoordinatedLeaderElection CrossNamespaceVolumeDataSource
    DeclarativeValidationBeta DefaultPodSysctls DeploymentReplicaSetTerminatingReplicas
    DetectCacheInconsistency EnvFiles EtcdRangeStream EventedPLEG
    ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet GRPCContainerProbeTLS
    GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority H2CContainerProbe
    HPAConfigurableTolerance HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero
    HostnameOverride HugepageAwareEviction ImageVolumeWithDigest InOrderInformersBatchProcess
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
    KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletSeparateDiskGC
    KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
    LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions LoggingBetaOptions
    ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet MemoryQoS
    MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
    MutableSchedulingDirectivesForSuspendedJobs NFTablesNetlink NativeHistograms OpenAPIEnums
    PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI
    PodCertificateRequest PodDeletionCost PodLevelResourcesFixKubeletQOSClass
    PodLogsQuerySplitStreams PodReadyToStartContainersCondition PodTopologyLabelsAdmission
    PodsAPI PortForwardWebsockets PreventStaticPodAPIReferences QOSReserved
    ReduceDefaultCrashLoopBackOffDecay RelaxedServiceNameValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus
    ResourceHealthStatusMessage RestartAllContainersOnContainerExits
    RotateKubeletServerCertificate RuntimeClassInImageCriApi
    ServiceAccountNodeAudienceRestriction ShardedListAndWatch SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA
    StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetRecreateStrategy
    StatefulSetSemanticRevisionComparison StorageVersionAPI StorageVersionHash
    StorageVersionMigrator StrictIPCIDRValidation
    StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions
    TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
    UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
    UserNamespacesHostNetworkSupport WatchCacheInitializationPostStartHook WatchList
    WatchListClient WatchListCompression WebhookRoundTripLoadBalancing
    WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown
"""
# Locked on in 1.36, unrecognized by kube-scheduler 1.37.
OTHER_COMPONENTS_UNTIL_1_37: Final = """
    AnyVolumeDataSource BtreeWatchCache ConsistentListFromCache
    ResilientWatchCacheInitialization RetryGenerateName StreamingCollectionEncodingToJSON
    StreamingCollectionEncodingToProtobuf
"""
