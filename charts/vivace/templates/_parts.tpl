{{/* Parts that several components have. */}}

{{/* A PodDisruptionBudget that lets one pod of several go: (list $ "what" selector). */}}
{{- define "vivace.budget" -}}
{{ include "vivace.head" (list (index . 0) "policy/v1" "PodDisruptionBudget" (index . 1) (index . 1)) }}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {{ index . 2 }}}
{{- end -}}

{{/* The claim of a StatefulSet's volume, of its values. */}}
{{- define "vivace.claim" -}}
- metadata: {name: data}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .class }}
    storageClassName: {{ . | quote }}
    {{- end }}
    resources: {requests: {storage: {{ .size | quote }}}}
{{- end -}}
