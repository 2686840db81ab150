{{- define "coppice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* At most 46 characters: with "-graph" the name of a StatefulSet has at most 52, because a label of its pods adds a hash to it. */}}
{{- define "coppice.fullname" -}}
{{- $name := include "coppice.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 46 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 46 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* The services, with the ports of --http. */}}
{{- define "coppice.ports" -}}
graph: 9440
processor: 9441
finalizers: 9442
scanner: 9443
{{- end }}

{{- /* The labels by which services, budgets and policies select the pods of a component. They never change: Kubernetes refuses that. */}}
{{- define "coppice.selector" -}}
app.kubernetes.io/name: {{ include "coppice.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with get . "component" }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- /* The labels of pods. The version of the chart is not among them: it does not restart pods. */}}
{{- define "coppice.podLabels" -}}
{{ include "coppice.selector" . }}
app.kubernetes.io/part-of: coppice
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "coppice.labels" -}}
{{ include "coppice.podLabels" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{- /* The metadata of an object: root, component (or none), name. */}}
{{- define "coppice.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "coppice.labels" . | nindent 2 }}
  {{- with get . "labels" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (get . "annotations" | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "coppice.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "coppice.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "coppice.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* The ports of the NATS servers, from nats.url. */}}
{{- define "coppice.natsPorts" -}}
{{- $ports := list }}
{{- range splitList "," .Values.nats.url }}
{{- $port := regexFind ":[0-9]+$" (trim . | trimSuffix "/") | trimPrefix ":" | default "4222" }}
{{- $ports = append $ports (int $port) }}
{{- end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{- /* The port of the archive, from archive.url; empty if it is not reached by a connection of its own. */}}
{{- define "coppice.archivePort" -}}
{{- if hasPrefix "s3://" .Values.archive.url }}
{{- $endpoint := regexFind "endpoint=[^&]+" .Values.archive.url | trimPrefix "endpoint=" | replace "%3A" ":" | replace "%3a" ":" | replace "%2F" "/" | replace "%2f" "/" }}
{{- $endpoint = regexReplaceAll "^([a-z]+://[^/]*)/.*$" $endpoint "${1}" }}
{{- regexFind ":[0-9]+$" $endpoint | trimPrefix ":" | default (ternary "80" "443" (hasPrefix "http://" $endpoint)) }}
{{- end }}
{{- end }}
