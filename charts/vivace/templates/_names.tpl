{{/* Names and labels. Each object is `<fullname>-<what>`. */}}

{{- define "vivace.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name }}
{{- end -}}
{{- end -}}

{{/* Name of an object: (list $ "what"). 52 characters at most, since a StatefulSet's pods bear a
label with its name and a digest. What is cut off, of the release's part if possible, is told apart
by a digest of the whole. */}}
{{- define "vivace.name" -}}
{{- $full := include "vivace.fullname" (index . 0) | replace "." "-" -}}
{{- $whole := printf "%s-%s" $full (index . 1) -}}
{{- $room := sub 42 (len (index . 1)) | int -}}
{{- if le (len $whole) 52 -}}
{{ $whole }}
{{- else if ge $room 8 -}}
{{ printf "%s-%s-%s" (trunc $room $full | trimSuffix "-") (sha256sum $whole | trunc 8) (index . 1) }}
{{- else -}}
{{ printf "%s-%s" (trunc 43 $whole | trimSuffix "-") (sha256sum $whole | trunc 8) }}
{{- end -}}
{{- end -}}

{{/* Name of the cluster. */}}
{{- define "vivace.cluster" -}}
{{ .Values.cluster.name | default .Release.Name }}
{{- end -}}

{{/* A name as the value of a label, as the product writes it (orchestrator/spark/hosts/kubernetes.py). */}}
{{- define "vivace.labelValue" -}}
{{- if gt (len .) 63 -}}
{{ printf "%s-%s" (trunc 46 .) (sha256sum . | trunc 16) }}
{{- else -}}
{{ . }}
{{- end -}}
{{- end -}}

{{/* Labels by which a component's pods are chosen, on one line: (list $ "component" which), where
`which` is a site or an application, or empty. */}}
{{- define "vivace.selector" -}}
{{- $root := index . 0 -}}
{{- $labels := dict "app.kubernetes.io/name" $root.Chart.Name "app.kubernetes.io/instance" $root.Release.Name "app.kubernetes.io/component" (index . 1) -}}
{{- with index . 2 -}}
{{- $_ := set $labels (eq (index $ 1) "site" | ternary "vivace-site" "vivace-application") (include "vivace.labelValue" .) -}}
{{- end -}}
{{ toJson $labels }}
{{- end -}}

{{/* Labels of an object: (list $ "component"). */}}
{{- define "vivace.labels" -}}
{{- $root := index . 0 -}}
{{ include "vivace.selector" (list $root (index . 1) "") | fromYaml | toYaml }}
app.kubernetes.io/part-of: vivace
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Beginning of an object: (list $ "apiVersion" "Kind" "what" "component"). */}}
{{- define "vivace.head" -}}
apiVersion: {{ index . 1 }}
kind: {{ index . 2 }}
metadata:
  name: {{ include "vivace.name" (list (index . 0) (index . 3)) | quote }}
  namespace: {{ (index . 0).Release.Namespace | quote }}
  labels: {{- include "vivace.labels" (list (index . 0) (index . 4)) | nindent 4 }}
{{- end -}}

{{/* Ports that are the same in each cluster. */}}
{{- define "vivace.ports" -}}
zookeeper: 2181
follow: 2888
vote: 3888
driver: 7078
blocks: 7079
link: 9600
health: 9650
web: 8650
{{- end -}}

{{- define "vivace.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}
