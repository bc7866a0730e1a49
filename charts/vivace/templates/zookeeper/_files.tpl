{{/* The server's configuration, as data of a ConfigMap. A lone server serves alone. */}}
{{- define "vivace.zookeeper.files" -}}
{{- $ports := include "vivace.ports" . | fromYaml -}}
{{- $name := include "vivace.name" (list . "zookeeper") -}}
{{- $domain := printf "%s.%s.svc.%s" (include "vivace.name" (list . "zookeepers")) .Release.Namespace .Values.clusterDomain -}}
zoo.cfg: |
  tickTime=500
  initLimit=40
  syncLimit=20
  minSessionTimeout=1000
  maxSessionTimeout=60000
  dataDir=/data/zookeeper
  clientPort={{ $ports.zookeeper }}
  maxClientCnxns=0
  admin.enableServer=false
  4lw.commands.whitelist=ruok,srvr
  autopurge.snapRetainCount=3
  autopurge.purgeInterval=1
  {{- if gt (int .Values.zookeeper.replicas) 1 }}
  quorumListenOnAllIPs=false
  {{- range $i := until (int .Values.zookeeper.replicas) }}
  server.{{ add1 $i }}={{ $name }}-{{ $i }}.{{ $domain }}:{{ $ports.follow }}:{{ $ports.vote }}
  {{- end }}
  {{- end }}
{{- end -}}
