{{/* The template of an application's executors: (list $ application). Spark adds what runs in it. */}}
{{- define "vivace.executor" -}}
{{- $root := index . 0 -}}
{{- $application := index . 1 -}}
{{- $values := $root.Values.executors -}}
{{- $own := include "vivace.selector" (list $root "executor" $application.name) | fromYaml -}}
{{- $spread := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" (dict "matchLabels" $own) -}}
{{- $others := dict "matchLabels" (omit $own "vivace-application") "matchExpressions" (list (dict "key" "vivace-application" "operator" "NotIn" "values" (list (get $own "vivace-application")))) -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $others -}}
{{- $apart := dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) -}}
{{- $leave := list "vivace-container" "leave" "--within" (printf "%ds" (sub $values.graceSeconds 5)) -}}
{{- $env := include "vivace.env" $root | fromYaml -}}
{{- $_ := unset $env "VIVACE_CONFIG" -}}
{{- $env = mergeOverwrite $env (dict "VIVACE_RUN" "/run/vivace-host" "VIVACE_PORT" ((include "vivace.ports" $root | fromYaml).link | toString)) -}}
apiVersion: v1
kind: Pod
{{ include "vivace.pod" (dict "root" $root "component" "executor" "which" $application.name
  "own" (dict "affinity" $apart "topologySpreadConstraints" (list $spread))
  "pods" (list $values.pod (include "vivace.placed" $application | fromYaml)) "env" $env
  "mounts" (list "secret" "run") "ports" (list "link" "blocks" "health")
  "container" (dict "lifecycle" (dict "preStop" (dict "exec" (dict "command" $leave))))
  "spec" (dict "terminationGracePeriodSeconds" (int $values.graceSeconds))) }}
{{- end -}}

{{/* Where an application runs: fields of `pods`. */}}
{{- define "vivace.placed" -}}
nodeSelector: {{- merge (dict) (.nodeSelector | default dict) (empty .zone | ternary dict (dict "topology.kubernetes.io/zone" .zone)) | toYaml | nindent 2 }}
tolerations: {{- .tolerations | default list | toYaml | nindent 2 }}
{{- end -}}
