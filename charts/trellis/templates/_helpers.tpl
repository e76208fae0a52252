{{- define "trellis.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "trellis.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "trellis.name" .) .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "trellis.name" .) | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "trellis.selectorLabels" -}}
app.kubernetes.io/name: {{ include "trellis.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trellis.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "trellis.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "trellis.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "trellis.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{- define "trellis.image" -}}
{{- $image := .Values.image -}}
{{- if not $image.registry -}}
{{- fail "image.registry is empty and no public image of Trellis exists: build an image with 'make image', push it to your registry and set image.registry (docs/howto/install.md)" -}}
{{- end -}}
{{ $image.registry }}/{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{- define "trellis.has" -}}
{{- $of := index . 0 -}}{{- $part := index . 1 -}}
{{- $gpu := and (eq $of.Values.profile "gpu") (eq $part "sakkara") -}}
{{- if or (eq $of.Values.profile "all") (eq $of.Values.profile $part) $gpu $of.Values.config -}}yes{{- end -}}
{{- end }}

{{- /* Whether the account gets the rights of a part: its key in rbac, and its word among the profiles. */ -}}
{{- define "trellis.may" -}}
{{- $of := index . 0 -}}
{{- $enabled := (index $of.Values.rbac (index . 1)).enabled -}}
{{- if kindIs "invalid" $enabled -}}
{{ include "trellis.has" (list $of (index . 2)) }}
{{- else if $enabled -}}yes{{- end -}}
{{- end }}

{{- /* The Leases that the daemon may hold; a configuration of one's own may name the default one. */ -}}
{{- define "trellis.leases" -}}
{{- $name := include "trellis.fullname" . -}}
{{ ternary (list $name "trellis" | uniq) (list $name) (not (empty .Values.config)) | toJson }}
{{- end }}

{{- /* Placements are written back into the ConfigMaps of groups, and onto their pods' labels. */ -}}
{{- define "trellis.groupWrites" }}
- apiGroups: [""]
  resources: [configmaps, pods]
  verbs: [patch]
{{- if .Values.rbac.groups.volcano }}
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [patch]
{{- end }}
{{- end }}

{{- define "trellis.config" -}}
{{- if .Values.config -}}
{{ .Values.config }}
{{- else -}}
{{- $network := include "trellis.has" (list . "network") -}}
{{- $sakkara := include "trellis.has" (list . "sakkara") -}}
{{- $numa := include "trellis.has" (list . "numa") -}}
{{- $load := include "trellis.has" (list . "load") -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: {{ gt (int .Values.replicaCount) 1 }}
  resourceName: {{ include "trellis.fullname" . }}
  resourceNamespace: {{ .Release.Namespace }}
profiles:
- schedulerName: {{ .Values.schedulerName }}
  {{- $gpu := eq .Values.profile "gpu" }}
  {{- if or $network $sakkara $numa $load }}
  plugins:
    {{- if $gpu }}
    preScore:
      enabled:
      - {name: FragmentationAware}
    score:
      enabled:
      - {name: FragmentationAware, weight: 10}
    {{- end }}
    {{- if or $network $numa $load }}
    multiPoint:
      enabled:
      {{- if $network }}
      - {name: NetworkOverhead, weight: 5}
      {{- end }}
      {{- if $numa }}
      - {name: NodeResourceTopologyMatch}
      {{- end }}
      {{- if $load }}
      - {name: LoadAwareScheduling, weight: 2}
      {{- end }}
    {{- end }}
    {{- if $sakkara }}
    preEnqueue:
      enabled:
      - {name: ClusterTopologyPlacementGroup}
    {{- end }}
    {{- if or $network $sakkara }}
    queueSort:
      enabled:
      - name: {{ if $network }}TopologicalSort{{ else }}ClusterTopologyPlacementGroup{{ end }}
      disabled:
      - name: "*"
    {{- end }}
  {{- end }}
  {{- if $gpu }}
  pluginConfig:
  - name: FragmentationAware
    args: {keepsOthersOff: true, history: gpu}
  {{- end }}
  {{- if $network }}
  pluginConfig:
  - name: NetworkOverhead
    args: {dependents: Count, indirect: Count}
  {{- end }}
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
operators:
  appGroup:
    enabled: {{ not (empty $network) }}
  networkTopology:
    enabled: {{ not (empty $network) }}
  nodeMetric:
    enabled: {{ .Values.agents.load.enabled }}
  {{- if .Values.moves.enabled }}
  movePlan:
    enabled: true
    approve: {{ toJson .Values.moves.approve }}
  {{- end }}
page:
  enabled: {{ .Values.page.enabled }}
{{- with .Values.tracing }}{{ if .endpoint }}
tracing:
  endpoint: {{ .endpoint | quote }}
  samplingRatePerMillion: {{ int .samplingRatePerMillion }}
{{- end }}{{ end }}
{{- end -}}
{{- end }}

{{- /* What the pods of all agents share: the root and the agent's values. */ -}}
{{- define "trellis.agentPod" -}}
{{- $root := index . 0 -}}{{- $agent := index . 1 -}}
priorityClassName: system-node-critical
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
tolerations: {{- toYaml $agent.tolerations | nindent 2 }}
{{- with $agent.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "trellis.derivedFrom" -}}
{{- $from := dict "JobSet" "jobset.x-k8s.io/jobsets" "TrainJob" "jobset.x-k8s.io/jobsets" "LeaderWorkerSet" "leaderworkerset.x-k8s.io/leaderworkersets" "RayCluster" "ray.io/rayclusters" "RayJob" "ray.io/rayclusters" "MPIJob" "kubeflow.org/mpijobs" "Job" "batch/jobs" -}}
{{- $names := list -}}
{{- range .Values.rbac.groups.derive }}{{ $names = append $names (index $from .) }}{{ end -}}
{{- range uniq $names }}
{{- $parts := splitList "/" . }}
# Workloads from which groups are derived.
- apiGroups: [{{ index $parts 0 }}]
  resources: [{{ index $parts 1 }}]
  verbs: [list, watch]
{{- end }}
{{- end }}

{{/* The Secret of the serving certificate, empty where the daemon makes its own. */}}
{{- define "trellis.certificateSecret" -}}
{{- if .Values.servingCertificate.secretName -}}
{{- .Values.servingCertificate.secretName -}}
{{- else if .Values.servingCertificate.certManager.enabled -}}
{{- include "trellis.fullname" . }}-tls
{{- end -}}
{{- end }}

{{/* The name that the serving certificate of cert-manager states. */}}
{{- define "trellis.servingName" -}}
{{- include "trellis.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end }}

{{/* How a monitor in `namespace` verifies the daemon: by the issuer's certificate where its Secret is at hand. */}}
{{- define "trellis.scrapeTls" -}}
{{- if and .root.Values.servingCertificate.certManager.enabled (eq .root.Release.Namespace (.namespace | default .root.Release.Namespace)) -}}
{serverName: {{ include "trellis.servingName" .root }}, ca: {secret: {name: {{ include "trellis.certificateSecret" .root }}, key: ca.crt}}}
{{- else -}}
{insecureSkipVerify: true}
{{- end -}}
{{- end }}
