{{/* What no schema can tell: conditions across values. Each fails with a sentence. */}}

{{- define "vivace.refuse" -}}
{{- fail (printf "%s: %s" (index . 0) (index . 1)) -}}
{{- end -}}

{{- define "vivace.checks" -}}
{{- include "vivace.checks.names" . -}}
{{- include "vivace.checks.queries" . -}}
{{- include "vivace.checks.web" . -}}
{{- include "vivace.checks.release" . -}}
{{- end -}}

{{- define "vivace.checks.names" -}}
{{- if eq .Values.image.tag "latest" -}}
{{- include "vivace.refuse" (list "image.tag" "`latest` names another image each day, and its pods would differ; name a version") -}}
{{- end -}}
{{- $cluster := include "vivace.cluster" . -}}
{{- if not (regexMatch "^[a-z0-9]+(-[a-z0-9]+)*$" $cluster) -}}
{{- include "vivace.refuse" (list "cluster.name" (printf "the release's name %q is no name of a cluster; give one of small letters, digits and single hyphens" $cluster)) -}}
{{- end -}}
{{- $unit := get (dict "k" 1 "m" 1024 "g" 1048576) (regexFind "[kmg]$" .Values.executors.memory) -}}
{{- if lt (mul $unit (regexFind "^[0-9]+" .Values.executors.memory)) (mul 480 1024) -}}
{{- include "vivace.refuse" (list "executors.memory" (printf "%s is less than Spark needs for an executor; give it 480m or more" .Values.executors.memory)) -}}
{{- end -}}
{{- $fullname := include "vivace.fullname" . -}}
{{- if not (regexMatch "^[a-z]" $fullname) -}}
{{- include "vivace.refuse" (list "fullnameOverride" (printf "the release's name %q begins with a digit, and no name of a Service may; give names another beginning" $fullname)) -}}
{{- end -}}
{{- $seen := dict -}}
{{- $applications := dict -}}
{{- $zones := 0 -}}
{{- range $i, $application := .Values.applications -}}
{{- if hasKey $applications .name -}}
{{- include "vivace.refuse" (list (printf "applications[%d].name" $i) (printf "%q is there twice" .name)) -}}
{{- end -}}
{{- $_ := set $applications .name true -}}
{{- if .zone }}{{- $zones = add1 $zones -}}{{- end -}}
{{- range include "vivace.nodes" (list $application) | fromYamlArray -}}
{{- if hasKey $seen .name -}}
{{- include "vivace.refuse" (list (printf "applications[%d].nodes" $i) (printf "the node %q is there twice" .name)) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- end -}}
{{- if lt (len $seen) 2 -}}
{{- include "vivace.refuse" (list "applications" "there is one node, but a query needs two: one for its primary, one for its secondary") -}}
{{- end -}}
{{- if and $zones (ne $zones (len .Values.applications)) -}}
{{- include "vivace.refuse" (list "applications" "some have a zone and some have none; give every application one, or none") -}}
{{- end -}}
{{- range $i, $site := .Values.sites -}}
{{- if hasKey $seen .name -}}
{{- include "vivace.refuse" (list (printf "sites[%d].name" $i) (printf "%q is the name of another site or node" .name)) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- $ports := dict -}}
{{- $names := dict "link" true "health" true -}}
{{- range .ports -}}
{{- if hasKey $names .name -}}
{{- include "vivace.refuse" (list (printf "sites[%d].ports" $i) (printf "the name %q is there twice, or the host's own; choose another one" .name)) -}}
{{- end -}}
{{- $_ := set $names .name true -}}
{{- $port := toString .port -}}
{{- if hasKey $ports $port -}}
{{- include "vivace.refuse" (list (printf "sites[%d].ports" $i) (printf "the port %s is there twice" $port)) -}}
{{- end -}}
{{- if has $port (list "9600" "9650") -}}
{{- include "vivace.refuse" (list (printf "sites[%d].ports" $i) (printf "the port %s is the host's own; choose another one" $port)) -}}
{{- end -}}
{{- $_ := set $ports $port true -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "vivace.checks.queries" -}}
{{- $queries := false -}}
{{- range $name, $text := .Values.queries.manifests -}}
{{- if not (regexMatch "^[-._a-zA-Z0-9]+\\.ya?ml$" $name) -}}
{{- include "vivace.refuse" (list (printf "queries.manifests[%s]" $name) "is no name of a manifest; take letters and digits, and let it end with .yaml") -}}
{{- end -}}
{{- if regexMatch "(?m)^kind:\\s*Cluster\\s*$" $text -}}
{{- include "vivace.refuse" (list (printf "queries.manifests[%s]" $name) "has a manifest of kind Cluster, which the chart makes itself from `cluster`, `applications` and `sites`") -}}
{{- end -}}
{{- if regexMatch "(?m)^kind:\\s*Query\\s*$" $text }}{{- $queries = true -}}{{- end -}}
{{- end -}}
{{- if and $queries (eq (len .Values.applications) 1) (not .Values.queries.singleApplication) -}}
{{- include "vivace.refuse" (list "applications" "there is one, and no query keeps its recovery bound when its driver dies; add another one, or set queries.singleApplication") -}}
{{- end -}}
{{- if and .Values.queries.manifests (not .Values.web.enabled) -}}
{{- include "vivace.refuse" (list "web.enabled" "queries.manifests are applied over the HTTP API; enable it, or apply them yourself") -}}
{{- end -}}
{{- if and (not (has .Values.queries.from (list "now" "beginning"))) (not .Values.cluster.settings.state) -}}
{{- include "vivace.refuse" (list "queries.from" (printf "%q is looked for in the folder of checkpoints, and there is none; name one in cluster.settings.state, or say now or beginning" .Values.queries.from)) -}}
{{- end -}}
{{- end -}}

{{- define "vivace.checks.web" -}}
{{- with .Values.web -}}
{{- if and (not .enabled) (or .ingress.enabled .httpRoute.enabled) -}}
{{- include "vivace.refuse" (list "web.enabled" "an Ingress or HTTPRoute is wanted for an API that is not there; enable it, or leave them out") -}}
{{- end -}}
{{- if and (not .enabled) (or $.Values.monitoring.serviceMonitor.enabled) -}}
{{- include "vivace.refuse" (list "monitoring.serviceMonitor.enabled" "metrics come from the HTTP API; enable web, or leave it out") -}}
{{- end -}}
{{- if and .ingress.enabled (not .ingress.host) -}}
{{- include "vivace.refuse" (list "web.ingress.host" "is empty; name the host under which the API is reached") -}}
{{- end -}}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) -}}
{{- include "vivace.refuse" (list "web.httpRoute.parentRefs" "is empty; name a Gateway") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What an installation has fixed. Renderers without a cluster find nothing, and compare nothing. */}}
{{- define "vivace.checks.release" -}}
{{- $place := .Release.Namespace -}}
{{- if not .Values.zookeeper.external -}}
{{- with lookup "apps/v1" "StatefulSet" $place (include "vivace.name" (list . "zookeeper")) -}}
{{- if ne (int .spec.replicas) (int $.Values.zookeeper.replicas) -}}
{{- include "vivace.refuse" (list "zookeeper.replicas" (printf "the ensemble is of %d, and an upgrade cannot change that; install a release beside this one, apply the queries there, and remove this one" (int .spec.replicas))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with lookup "v1" "ConfigMap" $place (include "vivace.name" (list . "cluster")) -}}
{{- $before := (index .data "cluster.yaml" | fromYaml).name -}}
{{- if ne $before (include "vivace.cluster" $) -}}
{{- include "vivace.refuse" (list "cluster.name" (printf "the cluster's name is %q, under which the store keeps its records; an upgrade cannot change it" $before)) -}}
{{- end -}}
{{- end -}}
{{- include "vivace.checks.secret" . -}}
{{- end -}}

{{/* The store's records open with the secret that they were written with. */}}
{{- define "vivace.checks.secret" -}}
{{- $place := .Release.Namespace -}}
{{- $existing := .Values.secret.existing -}}
{{- $name := include "vivace.name" (list . "secret") -}}
{{- $drawn := include "vivace.drawn" (list . "secret") -}}
{{- $before := $drawn -}}
{{- with lookup "apps/v1" "Deployment" $place (include "vivace.name" (list . "coordinator")) -}}
{{- range .spec.template.spec.volumes -}}
{{- if eq .name "secret" -}}
{{- $name = .secret.secretName -}}
{{- $before = include "vivace.kept" (list $ .secret.secretName (first .secret.items).key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $before -}}
{{- if and (not $existing) (ne $before $drawn) -}}
{{- include "vivace.refuse" (list "secret.existing" (printf "the release runs with the secret in %q, and another one would be drawn; name that" $name)) -}}
{{- end -}}
{{- if and $existing (ne $before (include "vivace.kept" (list . $existing .Values.secret.key))) -}}
{{- include "vivace.refuse" (list "secret.existing" (printf "%q holds another secret than the one in %q that this release has, and the store's records open with that one only; copy it there" $existing $name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
