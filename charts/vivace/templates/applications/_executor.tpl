{{/* The template of an application's executors: (list $ application). Spark adds what runs in it. */}}
{{- define "vivace.executor" -}}
{{- $root := index . 0 -}}
{{- $application := index . 1 -}}
{{- $values := $root.Values.executors -}}
{{- $own := include "vivace.selector" (list $root "executor" $application.name) | fromYaml -}}
{{- $spread := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" (dict "matchLabels" $own) -}}
{{- $leave := list "vivace-container" "leave" "--within" (printf "%ds" (sub $values.graceSeconds 5)) -}}
{{- $env := include "vivace.env" $root | fromYaml -}}
{{- $_ := unset $env "VIVACE_CONFIG" -}}
{{- $env = mergeOverwrite $env (dict "VIVACE_RUN" "/run/vivace-host" "VIVACE_PORT" ((include "vivace.ports" $root | fromYaml).link | toString)) -}}
apiVersion: v1
kind: Pod
{{ include "vivace.pod" (dict "root" $root "component" "executor" "which" $application.name
  "own" (dict "affinity" (include "vivace.strangers" (list $root $application) | fromYaml) "topologySpreadConstraints" (list $spread))
  "pods" (list $values.pod (include "vivace.placed" $application | fromYaml)) "env" $env
  "mounts" (list "secret" "run") "ports" (list "link" "blocks" "health")
  "container" (dict "lifecycle" (dict "preStop" (dict "exec" (dict "command" $leave))))
  "spec" (dict "terminationGracePeriodSeconds" (int $values.graceSeconds))) }}
{{- end -}}

{{/* Where an application runs: fields of `pods`. */}}
{{- define "vivace.placed" -}}
nodeSelector: {{- merge (dict) (.nodeSelector | default dict) (empty .zone | ternary dict (dict "topology.kubernetes.io/zone" .zone)) | toYaml | nindent 2 }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Rather not on one machine with drivers and executors of other applications, since a machine that
has both may end both replicas of a fragment (docs/placement.md#failure-domains): (list $ application). */}}
{{- define "vivace.strangers" -}}
{{- $labels := include "vivace.selector" (list (index . 0) "driver" (index . 1).name) | fromYaml -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels: {{ omit $labels "app.kubernetes.io/component" "vivace-application" | toJson }}
        matchExpressions:
        - {key: app.kubernetes.io/component, operator: In, values: [driver, executor]}
        - {key: vivace-application, operator: NotIn, values: [{{ get $labels "vivace-application" | quote }}]}
{{- end -}}
