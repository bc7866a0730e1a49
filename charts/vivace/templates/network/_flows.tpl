{{/* Who talks to whom within a release. Besides, all ask for names, and anybody may ask a process
whether it works: kubelets cannot be selected. `own`: within one application. */}}
{{- define "vivace.flows" -}}
- {from: [coordinator, driver, executor, site, web], to: zookeeper, ports: [zookeeper]}
- {from: [zookeeper], to: zookeeper, ports: [follow, vote]}
- {from: [executor], to: driver, ports: [driver, blocks], own: true}
- {from: [driver], to: executor, ports: [blocks], own: true}
- {from: [executor, site, web], to: executor, ports: [link]}
- {from: [executor, site, web], to: site, ports: [link]}
# Whoever watches outputs for a client listens at a port of the kernel's choice.
- {from: [executor, site], to: web, ports: [watched]}
- {from: [job], to: web, ports: [web]}
{{- end -}}

{{/* Ports of a rule, by name: (list $ names). */}}
{{- define "vivace.policyPorts" -}}
{{- $ports := include "vivace.ports" (index . 0) | fromYaml -}}
{{- range index . 1 }}
{{- if eq . "watched" }}
- {protocol: TCP, port: 32768, endPort: 60999}
{{- else }}
- {protocol: TCP, port: {{ get $ports . }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* Pods as peers of a rule: (list $ components which). */}}
{{- define "vivace.peers" -}}
{{- $context := . -}}
{{- range index . 1 }}
- podSelector: {matchLabels: {{ include "vivace.selector" (list (index $context 0) . (index $context 2)) }}}
{{- end }}
{{- end -}}

{{/* The policy of a component's pods: a dictionary of root, what, component, which, and further rules
`ingress` and `egress`. */}}
{{- define "vivace.policy" -}}
{{- $root := .root -}}
{{- $component := .component -}}
{{- $which := .which | default "" -}}
{{- $flows := include "vivace.flows" . | fromYamlArray -}}
{{ include "vivace.head" (list $root "networking.k8s.io/v1" "NetworkPolicy" .what $component) }}
spec:
  podSelector: {matchLabels: {{ include "vivace.selector" (list $root $component $which) }}}
  policyTypes: [Ingress, Egress]
  ingress: {{- if eq $component "job" }} []{{ end }}
  {{- if not (has $component (list "zookeeper" "job")) }}
  - ports: {{- include "vivace.policyPorts" (list $root (list "health")) | nindent 4 }}
  {{- end }}
  {{- range $flows }}
  {{- if eq .to $component }}
  - from: {{- include "vivace.peers" (list $root .from (empty .own | ternary "" $which)) | nindent 4 }}
    ports: {{- include "vivace.policyPorts" (list $root .ports) | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with .ingress }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  egress:
  - ports:
    {{- range $root.Values.networkPolicies.dnsPorts }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- range $flows }}
  {{- if has $component .from }}
  {{- if and (eq .to "zookeeper") $root.Values.zookeeper.external }}
  - ports:
    {{- $ports := list }}
    {{- range splitList "," (splitList "/" $root.Values.zookeeper.external | first) }}
    {{- $ports = append $ports (trim . | regexFind ":[0-9]+$" | trimPrefix ":" | default "2181") }}
    {{- end }}
    {{- range uniq $ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- else }}
  - to: {{- include "vivace.peers" (list $root (list .to) (empty .own | ternary "" $which)) | nindent 4 }}
    ports: {{- include "vivace.policyPorts" (list $root .ports) | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- end }}
  {{- with .egress }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if has $component (list "coordinator" "executor" "site") }}
  {{- with $root.Values.networkPolicies.checkpoints }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
{{- end -}}
