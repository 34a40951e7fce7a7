{{/* The name of all that belongs to a release, short enough for a suffix. */}}
{{- define "onceward.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a component. Takes (dict "top" $ "component" "api"). */}}
{{- define "onceward.selector" -}}
app.kubernetes.io/name: onceward
app.kubernetes.io/instance: {{ .top.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "onceward.labels" -}}
{{ include "onceward.selector" . }}
app.kubernetes.io/version: {{ .top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .top.Chart.Name .top.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "onceward.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The hull of every pod. Takes the top. */}}
{{- define "onceward.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "onceward.container" -}}
image: {{ include "onceward.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Pods on different nodes and in different zones, where there are some. */}}
{{- define "onceward.spread" -}}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "onceward.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end -}}

{{/* What the API's public listener speaks, http or https: the name of its port, by
which meshes and gateways go. */}}
{{- define "onceward.scheme" -}}
{{- if .Values.tls.secret.name }}https{{ else }}http{{ end -}}
{{- end -}}

{{/* Takes (dict "top" $ "secret" …). */}}
{{- define "onceward.databaseEnv" -}}
- name: ONCEWARD_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .secret.name }}
      key: {{ .secret.key }}
- name: ONCEWARD_LOG_LEVEL
  value: {{ .top.Values.logLevel | quote }}
{{- end -}}

{{/* Takes (dict "top" $ "component" "api"). */}}
{{- define "onceward.telemetryEnv" -}}
{{- with .top.Values.telemetry.otlpEndpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: http/protobuf
- name: OTEL_SERVICE_NAME
  value: onceward-{{ $.component }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: OTEL_RESOURCE_ATTRIBUTES
  value: service.instance.id=$(POD_NAME),k8s.namespace.name={{ $.top.Release.Namespace }}
{{- end }}
{{- end -}}

{{/* Takes (dict "top" $ "port" 8081). */}}
{{- define "onceward.scrape" -}}
{{- if .top.Values.telemetry.scrapeAnnotations }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- end -}}

{{/* Takes (dict "top" $ "component" "api" "of" .Values.api). */}}
{{- define "onceward.scaler" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "onceward.name" .top }}-{{ .component }}
  labels:
    {{- include "onceward.labels" . | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "onceward.name" .top }}-{{ .component }}
  minReplicas: {{ .of.autoscaling.minReplicas }}
  maxReplicas: {{ .of.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ .of.autoscaling.targetCPUPercent }}
    {{- if .of.autoscaling.queue.enabled }}
    - type: Pods
      pods:
        metric:
          name: {{ .of.autoscaling.queue.metric }}
        target:
          type: AverageValue
          averageValue: {{ .of.autoscaling.queue.target | quote }}
    {{- end }}
  behavior:
    scaleDown:
      # A pod that goes takes its replay cache with it.
      stabilizationWindowSeconds: 600
      policies:
        - type: Pods
          value: 1
          periodSeconds: 120
{{- end -}}
