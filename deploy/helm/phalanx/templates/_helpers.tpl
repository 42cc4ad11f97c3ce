{{- define "phalanx.fullname" -}}
{{- if contains "phalanx" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-phalanx" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Labels that select: never changed in the life of a release. Called with (dict "root" $ "component" NAME). */}}
{{- define "phalanx.selector" -}}
app.kubernetes.io/name: phalanx
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "phalanx.labels" -}}
{{ include "phalanx.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: phalanx
{{- end }}

{{- define "phalanx.meta" -}}
name: {{ include "phalanx.fullname" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels: {{- include "phalanx.labels" . | nindent 2 }}
{{- end }}

{{- define "phalanx.image" -}}
{{ .root.Values.image.registry }}/{{ .image }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "phalanx.natsUrl" -}}
{{- if eq .Values.nats.mode "external" -}}
{{- required "nats.url: with nats.mode external it names the servers" .Values.nats.url -}}
{{- else -}}
{{ ternary "tls" "nats" .Values.security.enabled }}://{{ include "phalanx.fullname" . }}-nats.{{ .Release.Namespace }}.svc:4222
{{- end -}}
{{- end }}

{{/* Environment of everything that connects to the bus, later lists win. Called with (dict "root" $ "settings" MAP "own" MAP). */}}
{{- define "phalanx.env" -}}
{{- $root := .root }}
{{- $env := dict
  "NATS_URL" (include "phalanx.natsUrl" $root)
  "PHALANX_CLUSTER" $root.Values.cluster
  "PHALANX_STREAM_REPLICAS" (toString $root.Values.nats.streamReplicas)
  "PHALANX_STREAM_BYTES_MAX" (printf "%.0f" (float64 $root.Values.streamBytesMax))
  "PHALANX_HTTP_HOST" "0.0.0.0"
  "PHALANX_HTTP_PORT" "8080"
  "PHALANX_LOG_FORMAT" "json"
  "PHALANX_LOG_LEVEL" $root.Values.logLevel }}
{{- if $root.Values.security.enabled }}
{{- $_ := set $env "NATS_TLS_CA" "/etc/phalanx/trust/ca.crt" }}
{{- $_ := set $env "NATS_NKEY_SEED_FILE" "/etc/phalanx/identity/identity.nk" }}
{{- end }}
{{- $env = mergeOverwrite $env (.own | default dict) $root.Values.settings (.settings | default dict) }}
{{- range $name := keys $env | sortAlpha }}
- {name: {{ $name }}, value: {{ get $env $name | toString | quote }}}
{{- end }}
{{- end }}

{{/* What Kubernetes calls "restricted": no root, no capability, nothing to write to. */}}
{{- define "phalanx.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "phalanx.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "phalanx.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 3
  failureThreshold: 40
livenessProbe:
  httpGet: {path: /livez, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- define "phalanx.pullSecrets" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where services, NATS and Valkey run. Called with (dict "root" $ "component" NAME). */}}
{{- define "phalanx.placement" -}}
priorityClassName: {{ .root.Values.priorityClasses.control }}
nodeSelector: {{- toYaml .root.Values.placement.nodeSelector | nindent 2 }}
{{- with .root.Values.placement.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: {{ .root.Values.placement.spread }}
    labelSelector: {matchLabels: {{ include "phalanx.selector" . | fromYaml | toJson }}}
{{- if .root.Values.placement.spreadZones }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {{ include "phalanx.selector" . | fromYaml | toJson }}}
{{- end }}
{{- end }}

{{- define "phalanx.trustVolume" -}}
- name: trust
  configMap: {name: {{ .Values.security.trustConfigMap }}}
{{- end }}

{{- define "phalanx.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata: {{- include "phalanx.meta" . | nindent 2 }}
automountServiceAccountToken: false
{{- end }}

{{- define "phalanx.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{- include "phalanx.meta" . | nindent 2 }}
spec:
  maxUnavailable: 1
  # A pod that is not ready protects nothing: it may always leave.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector: {matchLabels: {{ include "phalanx.selector" . | fromYaml | toJson }}}
{{- end }}
