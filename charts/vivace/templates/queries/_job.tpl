{{/* A Job that asks the API for something: a dictionary of root, what, args, mounts, files, seconds,
and annotations. What it says last is its pod's message. One that fails stays, for its log. */}}
{{- define "vivace.job" -}}
{{- $mounts := concat (list "context" "token") (.mounts | default list) -}}
{{- if .root.Values.web.tls.existing }}{{- $mounts = append $mounts "tls" }}{{- end -}}
{{ include "vivace.head" (list .root "batch/v1" "Job" .what "job") }}
  annotations:
    {{- toYaml .annotations | nindent 4 }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    helm.sh/hook-output-log-policy: hook-failed
spec:
  backoffLimit: 0
  activeDeadlineSeconds: {{ int64 .seconds }}
  ttlSecondsAfterFinished: 604800
  template:
    {{- include "vivace.pod" (dict "root" .root "component" "job" "pods" (list .root.Values.jobs.pod)
      "args" .args "env" (dict "VIVACE_HOME" "/etc/vivace-clients" "HOME" "/tmp") "mounts" $mounts "files" .files
      "resources" .root.Values.jobs.resources "spec" (dict "restartPolicy" "Never")) | nindent 4 }}
{{- end -}}
