{{/* What processes are told of the cluster. */}}

{{/* An application's nodes as a list: (list application). Counted ones are `<application>-<number>`. */}}
{{- define "vivace.nodes" -}}
{{- $application := index . 0 -}}
{{- $nodes := list -}}
{{- if kindIs "slice" $application.nodes -}}
{{- range $application.nodes -}}
{{- $nodes = append $nodes (merge (dict "region" (.region | default $application.region | default .name)) .) -}}
{{- end -}}
{{- else -}}
{{- range $number := untilStep 1 (int $application.nodes | add1 | int) 1 -}}
{{- $name := printf "%s-%d" $application.name $number -}}
{{- $nodes = append $nodes (dict "name" $name "region" ($application.region | default $application.name)) -}}
{{- end -}}
{{- end -}}
{{ toYaml $nodes }}
{{- end -}}

{{/* Settings of the cluster that are no matter of where something runs. */}}
{{- define "vivace.settings" -}}
executorMemory: {{ .Values.executors.memory | quote }}
{{- with .Values.cluster.latencies }}
latencies: latencies.csv
{{- end }}
{{- range $name, $value := .Values.cluster.settings }}
{{- if and (eq $name "admission") (not (kindIs "invalid" $value)) }}
{{- /* YAML's versions differ on whether these two words are texts; the product takes them bare. */}}
admission: {{ kindIs "bool" $value | ternary (ternary "on" "off" (eq (toString $value) "true")) $value }}
{{- else if not (kindIs "invalid" $value) }}
{{ $name }}: {{ toJson $value }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The Cluster manifest. */}}
{{- define "vivace.manifest" -}}
kind: Cluster
name: {{ include "vivace.cluster" . | quote }}
{{ include "vivace.settings" . }}
nodes:
{{- range .Values.applications }}
{{ include "vivace.nodes" (list .) }}
{{- end }}
applications:
{{- range .Values.applications }}
- name: {{ .name | quote }}
  nodes:
  {{- range include "vivace.nodes" (list .) | fromYamlArray }}
  - {{ .name | quote }}
  {{- end }}
  {{- with .zone }}
  zone: {{ . | quote }}
  {{- end }}
{{- end }}
sites:
{{- range .Values.sites }}
- name: {{ .name | quote }}
  region: {{ .region | default .name | quote }}
{{- end }}
{{- end -}}

{{/* How many processes there are that take turns. */}}
{{- define "vivace.turns" -}}
{{ add (len .Values.applications) (len .Values.sites) }}
{{- end -}}

{{/* How long a process that leaves may take. Each pod of an application or a site has it, and so
restarts where it changes. */}}
{{- define "vivace.grace" -}}
{{ mul .Values.turnSeconds (max .Values.turns (include "vivace.turns" .)) }}
{{- end -}}

{{- define "vivace.zookeeper" -}}
{{- $port := (include "vivace.ports" . | fromYaml).zookeeper -}}
{{ .Values.zookeeper.external | default (printf "%s.%s.svc.%s:%v" (include "vivace.name" (list . "zookeeper")) .Release.Namespace .Values.clusterDomain $port) }}
{{- end -}}

{{/* The configuration of all processes (docs/processes.md). */}}
{{- define "vivace.config" -}}
manifest: cluster.yaml
zookeeper: {{ include "vivace.zookeeper" . | quote }}
secretFile: /run/vivace/secret
bind: {{ .Values.bind | quote }}
work: /vivace/work
sparkMaster: k8s://https://kubernetes.default.svc
sparkSettings:
  {{- $image := include "vivace.image" . }}
  {{- with .Values.executors }}
  spark.kubernetes.container.image: {{ $image | quote }}
  spark.kubernetes.container.image.pullPolicy: {{ $.Values.image.pullPolicy }}
  spark.kubernetes.executor.podTemplateFile: /etc/vivace-executor/executor.yaml
  spark.kubernetes.executor.request.cores: {{ .cpu.request | quote }}
  spark.kubernetes.executor.limit.cores: {{ .cpu.limit | quote }}
  spark.executor.memoryOverhead: {{ .overhead | quote }}
  {{- range $name, $value := .sparkSettings }}
  {{ $name }}: {{ $value | quote }}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* How clients in the cluster reach it: a context of `vivace`. */}}
{{- define "vivace.context" -}}
{{- $tls := .Values.web.tls.existing -}}
{{- $port := (include "vivace.ports" . | fromYaml).web -}}
{{- $api := printf "%s://%s.%s.svc:%v" (ternary "https" "http" (ne $tls "")) (include "vivace.name" (list . "web")) .Release.Namespace $port -}}
{{- $context := dict "api" $api "token_file" "/run/vivace-token/token" -}}
{{- if $tls }}{{- $_ := set $context "ca_file" "/run/vivace-tls/ca.crt" }}{{- end -}}
{{ toJson $context }}
{{- end -}}

{{/* Files of the cluster, as data of a ConfigMap. */}}
{{- define "vivace.clusterFiles" -}}
cluster.yaml: | {{- include "vivace.manifest" . | nindent 2 }}
{{- with .Values.cluster.latencies }}
{{ toYaml (dict "latencies.csv" .) }}
{{- end }}
context.json: {{ include "vivace.context" . | quote }}
{{- end -}}

{{/* What a Secret of the platform holds, in base64: (list $ "name" "key"). Empty: nothing there. */}}
{{- define "vivace.kept" -}}
{{- $data := (lookup "v1" "Secret" (index . 0).Release.Namespace (index . 1) | default dict).data | default dict -}}
{{ get $data (index . 2) }}
{{- end -}}

{{/* What this chart has drawn before, whatever its key was then: (list $ "what"). */}}
{{- define "vivace.drawn" -}}
{{- $found := lookup "v1" "Secret" (index . 0).Release.Namespace (include "vivace.name" .) | default dict -}}
{{ $found.data | default dict | values | first | default "" }}
{{- end -}}

{{/* Name of the Secret with the cluster's secret, and of that with the API's token. */}}
{{- define "vivace.secretName" -}}
{{ .Values.secret.existing | default (include "vivace.name" (list . "secret")) }}
{{- end -}}
{{- define "vivace.tokenName" -}}
{{ .Values.web.token.existing | default (include "vivace.name" (list . "token")) }}
{{- end -}}
