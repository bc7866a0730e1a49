{{/*
A pod's template, for whatever makes it. Takes a dictionary:

  root, component, which  whose pod it is; `which` site or application, or empty
  own                     what the chart itself says of fields of `pods` that values leave empty
  tolerations             the chart's own, beside those of values
  pods                    values of the component and its parts, in the order in which they win
  args                    what the image's entry point runs
  env                     variables, name: value; a dictionary as value is a `valueFrom`
  mounts                  names of the volumes below
  files                   the ConfigMap with the cluster's files, if it is another one
  ports                   names of ports, as `vivace.ports` has them; or `{name, port}`
  probes                  how it is asked whether it lives and is ready, if not by `health`
  resources, checksum     of what it reads when it starts
  spec, container, labels further fields, which win
*/}}
{{- define "vivace.pod" -}}
{{- $root := .root -}}
{{- $pod := deepCopy $root.Values.pods -}}
{{- range .pods }}{{- $pod = mergeOverwrite $pod (deepCopy .) -}}{{- end -}}
{{- $pod = merge $pod (.own | default dict) -}}
{{- $_ := set $pod "tolerations" (concat (.tolerations | default list) $pod.tolerations) -}}
{{- $container := include "vivace.container" (set . "merged" $pod) | fromYaml -}}
{{- $spec := include "vivace.podSpec" . | fromYaml -}}
metadata:
  labels:
    {{- mergeOverwrite (deepCopy $pod.labels) (include "vivace.selector" (list $root .component (.which | default "")) | fromYaml) (.labels | default dict) | toYaml | nindent 4 }}
  {{- with merge (dict) $pod.annotations (empty .checksum | ternary dict (dict "checksum/config" .checksum)) }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- mergeOverwrite $spec (deepCopy (.spec | default dict)) (dict "containers" (concat (list $container) $pod.sidecars)) | toYaml | nindent 2 }}
{{- end -}}

{{/* All of its specification but the containers. */}}
{{- define "vivace.podSpec" -}}
{{- $pod := .merged -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- mergeOverwrite (deepCopy $pod.securityContext) (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault")) | toYaml | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . | quote }}
{{- end }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" "schedulerName" "runtimeClassName" "initContainers" }}
{{- with get $pod $field }}
{{ $field }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
volumes:
{{- $volumes := include "vivace.volumes" . | fromYaml }}
{{- range prepend .mounts "tmp" }}
{{- with (get $volumes .).volume }}
- {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with $pod.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The container that runs the image. */}}
{{- define "vivace.container" -}}
{{- $pod := .merged -}}
{{- $ports := include "vivace.ports" .root | fromYaml -}}
{{- $volumes := include "vivace.volumes" . | fromYaml -}}
name: {{ .component }}
image: {{ include "vivace.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with .args }}
args: {{- toYaml . | nindent 2 }}
{{- end }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
{{- range $name, $value := .env }}
- name: {{ $name }}
  {{- if kindIs "map" $value }}
  valueFrom: {{- toYaml $value | nindent 4 }}
  {{- else }}
  value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- with $pod.env }}
{{ toYaml . }}
{{- end }}
{{- with $pod.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .ports }}
ports:
{{- range . }}
{{- if kindIs "string" . }}
- {name: {{ . }}, containerPort: {{ get $ports . }}}
{{- else }}
- {name: {{ .name | quote }}, containerPort: {{ .port }}}
{{- end }}
{{- end }}
{{- end }}
{{- with .resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
{{- range prepend .mounts "tmp" }}
- {name: {{ . }}, mountPath: {{ (get $volumes .).path }}}
{{- end }}
{{- with $pod.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- $pages := list (dict "httpGet" (dict "path" "/livez" "port" "health")) (dict "httpGet" (dict "path" "/readyz" "port" "health")) }}
{{- with .probes | default (has "health" (.ports | default list) | ternary $pages list) }}
{{- include "vivace.probes" (prepend . $pod.probes) }}
{{- end }}
{{- with .container }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Probes: (list values whether-it-lives whether-it-is-ready). */}}
{{- define "vivace.probes" -}}
{{- $values := index . 0 }}
{{- $often := pick $values "periodSeconds" "timeoutSeconds" }}
startupProbe: {{- merge (dict "failureThreshold" $values.startupFailureThreshold) $often (index . 1) | toYaml | nindent 2 }}
livenessProbe: {{- merge (dict "failureThreshold" $values.failureThreshold) $often (index . 1) | toYaml | nindent 2 }}
readinessProbe: {{- merge (dict "failureThreshold" 2) $often (index . 2) | toYaml | nindent 2 }}
{{- end -}}

{{/* All volumes that pods choose from by name. One without `volume` is a claim of its StatefulSet. */}}
{{- define "vivace.volumes" -}}
tmp:
  path: /tmp
  volume: {name: tmp, emptyDir: {}}
work:
  path: /vivace
  volume: {name: work, emptyDir: {}}
run:
  path: /run/vivace-host
  volume: {name: run, emptyDir: {}}
config:
  path: /etc/vivace
  volume: {name: config, configMap: {name: {{ include "vivace.name" (list .root (.files | default "cluster")) }}}}
secret:
  path: /run/vivace
  volume:
    name: secret
    secret:
      secretName: {{ include "vivace.secretName" .root | quote }}
      items: [{key: {{ .root.Values.secret.key | quote }}, path: secret}]
token:
  path: /run/vivace-token
  volume:
    name: token
    secret:
      secretName: {{ include "vivace.tokenName" .root | quote }}
      items: [{key: {{ .root.Values.web.token.key | quote }}, path: token}]
tls:
  path: /run/vivace-tls
  volume: {name: tls, secret: {secretName: {{ .root.Values.web.tls.existing | quote }}}}
context:
  path: /etc/vivace-clients
  volume:
    name: context
    configMap:
      name: {{ include "vivace.name" (list .root (.files | default "cluster")) }}
      items:
      - {key: context.json, path: contexts/{{ include "vivace.cluster" .root }}.json}
manifests:
  path: /etc/vivace-queries
  volume:
    name: manifests
    configMap:
      name: {{ include "vivace.name" (list .root "queries") }}
      items:
      {{- range $file, $_ := .root.Values.queries.manifests }}
      - {key: {{ $file | quote }}, path: {{ $file | quote }}}
      {{- end }}
executor:
  path: /etc/vivace-executor
  volume: {name: executor, configMap: {name: {{ include "vivace.name" (list .root (printf "executors-%s" (.which | default ""))) }}}}
zookeeper:
  path: /etc/zookeeper
  volume: {name: zookeeper, configMap: {name: {{ include "vivace.name" (list .root "zookeeper") }}}}
data:
  path: /data
{{- if .scratch }}
  volume: {name: data, emptyDir: {}}
{{- end }}
{{- end -}}

{{/* Variables that all processes have. */}}
{{- define "vivace.env" -}}
HOME: /tmp
VIVACE_CONFIG: /etc/vivace/vivace.yaml
VIVACE_HEALTH: {{ printf "%s:%v" .Values.bind (include "vivace.ports" . | fromYaml).health | quote }}
VIVACE_MACHINE: {fieldRef: {fieldPath: spec.nodeName}}
VIVACE_ADVERTISE: {fieldRef: {fieldPath: status.podIP}}
{{- end -}}

{{/* Rather not on one machine with others of its kind: a list of labels. */}}
{{- define "vivace.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector: {matchLabels: {{ toJson . }}}
{{- end -}}
