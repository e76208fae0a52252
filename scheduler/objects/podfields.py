"""The names of a pod's fields, type by type, as the Kubernetes API has them.

Made by `python -m tests.apiserver.podfields` from the field table of the sandbox; do not edit. Used to find
fields that a person misspelled, which an API server would refuse and a decoder skips; the status, which no
person writes, has none here. A line is a type and its fields; `name=Type` leads to another type, whether
one value or a list of them.
"""

from typing import Final

TABLE: Final = """\
Pod: apiVersion kind metadata=ObjectMeta spec=PodSpec status
ObjectMeta: annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp
  finalizers generateName generation labels managedFields=ManagedFieldsEntry name namespace
  ownerReferences=OwnerReference resourceVersion selfLink uid
PodSpec: activeDeadlineSeconds affinity=Affinity automountServiceAccountToken
  containers=Container dnsConfig=PodDNSConfig dnsPolicy enableServiceLinks
  ephemeralContainers=EphemeralContainer hostAliases=HostAlias hostIPC hostNetwork hostPID
  hostUsers hostname hostnameOverride imagePullSecrets=LocalObjectReference
  initContainers=Container nodeName nodeSelector os=PodOS overhead preemptionPolicy priority
  priorityClassName readinessGates=PodReadinessGate resourceClaims=PodResourceClaim
  resources=ResourceRequirements restartPolicy runtimeClassName schedulerName
  schedulingGates=PodSchedulingGate schedulingGroup=PodSchedulingGroup
  securityContext=PodSecurityContext serviceAccount serviceAccountName setHostnameAsFQDN
  shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations=Toleration
  topologySpreadConstraints=TopologySpreadConstraint volumes=Volume
ManagedFieldsEntry: apiVersion fieldsType fieldsV1 manager operation subresource time
OwnerReference: apiVersion blockOwnerDeletion controller kind name uid
Affinity: nodeAffinity=NodeAffinity podAffinity=PodAffinity podAntiAffinity=PodAntiAffinity
Container: args command env=EnvVar envFrom=EnvFromSource image imagePullPolicy
  lifecycle=Lifecycle livenessProbe=Probe name ports=ContainerPort readinessProbe=Probe
  resizePolicy=ContainerResizePolicy resources=ResourceRequirements restartPolicy
  restartPolicyRules=ContainerRestartRule securityContext=SecurityContext startupProbe=Probe
  stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices=VolumeDevice
  volumeMounts=VolumeMount workingDir
PodDNSConfig: nameservers options=PodDNSConfigOption searches
EphemeralContainer: args command env=EnvVar envFrom=EnvFromSource image imagePullPolicy
  lifecycle=Lifecycle livenessProbe=Probe name ports=ContainerPort readinessProbe=Probe
  resizePolicy=ContainerResizePolicy resources=ResourceRequirements restartPolicy
  restartPolicyRules=ContainerRestartRule securityContext=SecurityContext startupProbe=Probe
  stdin stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy tty
  volumeDevices=VolumeDevice volumeMounts=VolumeMount workingDir
HostAlias: hostnames ip
LocalObjectReference: name
PodOS: name
PodReadinessGate: conditionType
PodResourceClaim: name resourceClaimName resourceClaimTemplateName
ResourceRequirements: claims=ResourceClaim limits requests
PodSchedulingGate: name
PodSchedulingGroup: podGroupName
PodSecurityContext: appArmorProfile=AppArmorProfile fsGroup fsGroupChangePolicy runAsGroup
  runAsNonRoot runAsUser seLinuxChangePolicy seLinuxOptions=SELinuxOptions
  seccompProfile=SeccompProfile supplementalGroups supplementalGroupsPolicy sysctls=Sysctl
  windowsOptions=WindowsSecurityContextOptions
Toleration: effect key operator tolerationSeconds value
TopologySpreadConstraint: labelSelector=LabelSelector matchLabelKeys maxSkew minDomains
  nodeAffinityPolicy nodeTaintsPolicy topologyKey whenUnsatisfiable
Volume: awsElasticBlockStore=AWSElasticBlockStoreVolumeSource azureDisk=AzureDiskVolumeSource
  azureFile=AzureFileVolumeSource cephfs=CephFSVolumeSource cinder=CinderVolumeSource
  configMap=ConfigMapVolumeSource csi=CSIVolumeSource downwardAPI=DownwardAPIVolumeSource
  emptyDir=EmptyDirVolumeSource ephemeral=EphemeralVolumeSource fc=FCVolumeSource
  flexVolume=FlexVolumeSource flocker=FlockerVolumeSource
  gcePersistentDisk=GCEPersistentDiskVolumeSource gitRepo=GitRepoVolumeSource
  glusterfs=GlusterfsVolumeSource hostPath=HostPathVolumeSource image=ImageVolumeSource
  iscsi=ISCSIVolumeSource name nfs=NFSVolumeSource
  persistentVolumeClaim=PersistentVolumeClaimVolumeSource
  photonPersistentDisk=PhotonPersistentDiskVolumeSource portworxVolume=PortworxVolumeSource
  projected=ProjectedVolumeSource quobyte=QuobyteVolumeSource rbd=RBDVolumeSource
  scaleIO=ScaleIOVolumeSource secret=SecretVolumeSource storageos=StorageOSVolumeSource
  vsphereVolume=VsphereVirtualDiskVolumeSource
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution=PreferredSchedulingTerm
  requiredDuringSchedulingIgnoredDuringExecution=NodeSelector
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution=WeightedPodAffinityTerm
  requiredDuringSchedulingIgnoredDuringExecution=PodAffinityTerm
PodAntiAffinity: preferredDuringSchedulingIgnoredDuringExecution=WeightedPodAffinityTerm
  requiredDuringSchedulingIgnoredDuringExecution=PodAffinityTerm
EnvVar: name value valueFrom=EnvVarSource
EnvFromSource: configMapRef=ConfigMapEnvSource prefix secretRef=SecretEnvSource
Lifecycle: postStart=LifecycleHandler preStop=LifecycleHandler stopSignal
Probe: exec=ExecAction failureThreshold grpc=GRPCAction httpGet=HTTPGetAction
  initialDelaySeconds periodSeconds successThreshold tcpSocket=TCPSocketAction
  terminationGracePeriodSeconds timeoutSeconds
ContainerPort: containerPort hostIP hostPort name protocol
ContainerResizePolicy: resourceName restartPolicy
ContainerRestartRule: action exitCodes=ContainerRestartRuleOnExitCodes
SecurityContext: allowPrivilegeEscalation appArmorProfile=AppArmorProfile
  capabilities=Capabilities privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot
  runAsUser seLinuxOptions=SELinuxOptions seccompProfile=SeccompProfile
  windowsOptions=WindowsSecurityContextOptions
VolumeDevice: devicePath name
VolumeMount: mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr
PodDNSConfigOption: name value
ResourceClaim: name request
AppArmorProfile: localhostProfile type
SELinuxOptions: level role type user
SeccompProfile: localhostProfile type
Sysctl: name value
WindowsSecurityContextOptions: gmsaCredentialSpec gmsaCredentialSpecName hostProcess
  runAsUserName
LabelSelector: matchExpressions=LabelSelectorRequirement matchLabels
AWSElasticBlockStoreVolumeSource: fsType partition readOnly volumeID
AzureDiskVolumeSource: cachingMode diskName diskURI fsType kind readOnly
AzureFileVolumeSource: readOnly secretName shareName
CephFSVolumeSource: monitors path readOnly secretFile secretRef=LocalObjectReference user
CinderVolumeSource: fsType readOnly secretRef=LocalObjectReference volumeID
ConfigMapVolumeSource: defaultMode items=KeyToPath name optional
CSIVolumeSource: driver fsType nodePublishSecretRef=LocalObjectReference readOnly
  volumeAttributes
DownwardAPIVolumeSource: defaultMode items=DownwardAPIVolumeFile
EmptyDirVolumeSource: medium sizeLimit
EphemeralVolumeSource: volumeClaimTemplate=PersistentVolumeClaimTemplate
FCVolumeSource: fsType lun readOnly targetWWNs wwids
FlexVolumeSource: driver fsType options readOnly secretRef=LocalObjectReference
FlockerVolumeSource: datasetName datasetUUID
GCEPersistentDiskVolumeSource: fsType partition pdName readOnly
GitRepoVolumeSource: directory repository revision
GlusterfsVolumeSource: endpoints path readOnly
HostPathVolumeSource: path type
ImageVolumeSource: pullPolicy reference
ISCSIVolumeSource: chapAuthDiscovery chapAuthSession fsType initiatorName iqn iscsiInterface lun
  portals readOnly secretRef=LocalObjectReference targetPortal
NFSVolumeSource: path readOnly server
PersistentVolumeClaimVolumeSource: claimName readOnly
PhotonPersistentDiskVolumeSource: fsType pdID
PortworxVolumeSource: fsType readOnly volumeID
ProjectedVolumeSource: defaultMode sources=VolumeProjection
QuobyteVolumeSource: group readOnly registry tenant user volume
RBDVolumeSource: fsType image keyring monitors pool readOnly secretRef=LocalObjectReference user
ScaleIOVolumeSource: fsType gateway protectionDomain readOnly secretRef=LocalObjectReference
  sslEnabled storageMode storagePool system volumeName
SecretVolumeSource: defaultMode items=KeyToPath optional secretName
StorageOSVolumeSource: fsType readOnly secretRef=LocalObjectReference volumeName volumeNamespace
VsphereVirtualDiskVolumeSource: fsType storagePolicyID storagePolicyName volumePath
PreferredSchedulingTerm: preference=NodeSelectorTerm weight
NodeSelector: nodeSelectorTerms=NodeSelectorTerm
WeightedPodAffinityTerm: podAffinityTerm=PodAffinityTerm weight
PodAffinityTerm: labelSelector=LabelSelector matchLabelKeys mismatchLabelKeys
  namespaceSelector=LabelSelector namespaces topologyKey
EnvVarSource: configMapKeyRef=ConfigMapKeySelector fieldRef=ObjectFieldSelector
  fileKeyRef=FileKeySelector resourceFieldRef=ResourceFieldSelector
  secretKeyRef=SecretKeySelector
ConfigMapEnvSource: name optional
SecretEnvSource: name optional
LifecycleHandler: exec=ExecAction httpGet=HTTPGetAction sleep=SleepAction
  tcpSocket=TCPSocketAction
ExecAction: command
GRPCAction: port service
HTTPGetAction: host httpHeaders=HTTPHeader path port scheme
TCPSocketAction: host port
ContainerRestartRuleOnExitCodes: operator values
Capabilities: add drop
LabelSelectorRequirement: key operator values
KeyToPath: key mode path
DownwardAPIVolumeFile: fieldRef=ObjectFieldSelector mode path
  resourceFieldRef=ResourceFieldSelector
PersistentVolumeClaimTemplate: metadata=ObjectMeta spec=PersistentVolumeClaimSpec
VolumeProjection: clusterTrustBundle=ClusterTrustBundleProjection configMap=ConfigMapProjection
  downwardAPI=DownwardAPIProjection podCertificate=PodCertificateProjection
  secret=SecretProjection serviceAccountToken=ServiceAccountTokenProjection
NodeSelectorTerm: matchExpressions=NodeSelectorRequirement matchFields=NodeSelectorRequirement
ConfigMapKeySelector: key name optional
ObjectFieldSelector: apiVersion fieldPath
FileKeySelector: key optional path volumeName
ResourceFieldSelector: containerName divisor resource
SecretKeySelector: key name optional
SleepAction: seconds
HTTPHeader: name value
PersistentVolumeClaimSpec: accessModes dataSource=TypedLocalObjectReference
  dataSourceRef=TypedObjectReference resources=VolumeResourceRequirements selector=LabelSelector
  storageClassName volumeAttributesClassName volumeMode volumeName
ClusterTrustBundleProjection: labelSelector=LabelSelector name optional path signerName
ConfigMapProjection: items=KeyToPath name optional
DownwardAPIProjection: items=DownwardAPIVolumeFile
PodCertificateProjection: certificateChainPath credentialBundlePath keyPath keyType
  maxExpirationSeconds signerName userAnnotations
SecretProjection: items=KeyToPath name optional
ServiceAccountTokenProjection: audience expirationSeconds path
NodeSelectorRequirement: key operator values
TypedLocalObjectReference: apiGroup kind name
TypedObjectReference: apiGroup kind name namespace
VolumeResourceRequirements: limits requests
"""
