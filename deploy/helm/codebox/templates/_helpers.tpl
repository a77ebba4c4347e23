{{- define "codebox.name" -}}
{{- $name := default .Release.Name .Values.nameOverride -}}
{{- ternary $name (printf "%s-codebox" $name) (contains "codebox" $name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "codebox.boxesNamespace" -}}
{{- default (printf "%s-boxes" .Release.Namespace) .Values.boxes.namespace -}}
{{- end -}}

{{- define "codebox.secretName" -}}
{{- default (include "codebox.name" .) .Values.keys.existingSecret -}}
{{- end -}}

{{- define "codebox.databaseSecretName" -}}
{{- default (printf "%s-database" (include "codebox.name" .)) .Values.database.existingSecret -}}
{{- end -}}

{{- /* The labels of everything in this chart. */ -}}
{{- define "codebox.labels" -}}
app.kubernetes.io/part-of: codebox
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The labels by which the pods of a part are selected: list of the root and the name of the part. */ -}}
{{- define "codebox.selector" -}}
app.kubernetes.io/name: {{ include "codebox.name" (first .) }}-{{ last . }}
app.kubernetes.io/instance: {{ (first .).Release.Name }}
{{- end -}}

{{- /* All labels of a part. */ -}}
{{- define "codebox.partLabels" -}}
{{ include "codebox.selector" . }}
{{ include "codebox.labels" (first .) | replace (printf "app.kubernetes.io/instance: %s\n" (first .).Release.Name) "" }}
{{- end -}}

{{- /* The reference of an image of the values: by digest where there is one. */ -}}
{{- define "codebox.image" -}}
{{- $image := first . -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default (last .).Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{- define "codebox.serviceContainer" -}}
image: {{ include "codebox.image" (list .Values.image .) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{ include "codebox.containerSecurity" . }}
{{- end -}}

{{- define "codebox.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end -}}

{{- /* What the pods of all parts have in common: list of the root, the values of the part and the id of its user. */ -}}
{{- define "codebox.pod" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}{{- $user := index . 2 -}}
# The variables of a Service named `codebox` would be taken for settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $user }}
  runAsGroup: {{ $user }}
  fsGroup: {{ $user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{ range . }}
  - name: {{ . }}{{ end }}
{{- end }}
{{- with $root.Values.hostAliases }}
hostAliases: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $part.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Replicas of a part run on different nodes and in different zones, where there are several. */ -}}
{{- define "codebox.spread" -}}
{{- $root := first . }}
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "codebox.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end -}}

{{- /* Not empty if the files are in a claim that only the pods of one node can use. */ -}}
{{- define "codebox.isOnOneNode" -}}
{{- if not (or .Values.blobs.url .Values.blobs.volume) -}}
{{- if eq .Values.blobs.claim.accessMode "ReadWriteOnce" -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Where pods with the files run: all on one node if their claim requires it. */ -}}
{{- define "codebox.besideFiles" -}}
{{- if include "codebox.isOnOneNode" . }}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: { codebox.dev/files: {{ include "codebox.name" . }} }
{{- end }}
{{- end -}}

{{- /* How many pods of a part may be evicted at once: those that can only move together, all. */ -}}
{{- define "codebox.maxUnavailable" -}}
maxUnavailable: {{ if include "codebox.isOnOneNode" . }}100%{{ else }}1{{ end }}
{{- end -}}

{{- /* The database and the store for files, which gateways and agents need. */ -}}
{{- define "codebox.storeEnv" -}}
DATABASE_URL: { valueFrom: { secretKeyRef: { name: {{ include "codebox.databaseSecretName" . }}, key: {{ .Values.database.existingSecretKey }} } } }
CODEBOX_BLOBS: { value: {{ default "/var/lib/codebox/blobs" .Values.blobs.url | quote }} }
{{- end -}}

{{- /* The variables of a container: list of those of the chart, as a map in YAML, and of the values, which take their place. */ -}}
{{- define "codebox.env" -}}
{{- $env := first . | fromYaml -}}
{{- range $name, $value := last . }}{{ $_ := set $env $name (dict "value" (kindIs "string" $value | ternary $value ($value | toJson))) }}{{ end -}}
env: {{ range $name, $source := $env }}
  - {{ merge (dict "name" $name) $source | toJson }}
{{- end }}
{{- end -}}

{{- /* The secrets that have further settings of a part. */ -}}
{{- define "codebox.envFrom" -}}
envFrom: {{ range . }}
  - secretRef: { name: {{ . }} }{{ end }}
{{- end -}}

{{- define "codebox.storeMounts" -}}
- { name: tmp, mountPath: /tmp }
- { name: data, mountPath: /var/lib/codebox }
{{- if not .Values.blobs.url }}
- { name: blobs, mountPath: /var/lib/codebox/blobs }
{{- end }}
{{- end -}}

{{- define "codebox.storeVolumes" -}}
- { name: tmp, emptyDir: { sizeLimit: 1Gi } }
- { name: data, emptyDir: { sizeLimit: 1Gi } }
{{- if not .Values.blobs.url }}
- name: blobs
{{- if .Values.blobs.volume }} {{- toYaml .Values.blobs.volume | nindent 2 }}
{{- else }}
  persistentVolumeClaim: { claimName: {{ include "codebox.name" . }}-blobs }
{{- end }}
{{- end }}
{{- end -}}

{{- /*
Probes: a start may wait for another gateway that migrates the database. A pod that has started stays in its Service until it stops: what fails
for all replicas at once, such as PostgreSQL, is reported to callers by them, who still reach what works. `/readyz` is for alerts and people.
*/ -}}
{{- define "codebox.probes" -}}
startupProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 2
  failureThreshold: 120
readinessProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
lifecycle:
  # Until this pod is taken out of the load balancers.
  preStop: { exec: { command: [sleep, "5"] } }
{{- end -}}
