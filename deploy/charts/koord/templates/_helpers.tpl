{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* Labels of every object. */ -}}
{{- define "koord.labels" -}}
app.kubernetes.io/part-of: koord
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* A shipped manifest, in the namespace that was asked for. Call: list $ FILE. */ -}}
{{- define "koord.manifest" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (index . 1) | required (printf "the chart has no file %s" (index . 1)) -}}
{{- $text | replace "koordinator-system" $root.Values.installation.namespace -}}
{{- end }}

{{- /* Objects of a shipped manifest but Namespaces, with labels and, on ServiceAccounts, annotations. */ -}}
{{- define "koord.rights" -}}
{{- $root := index . 0 -}}
{{- range regexSplit "(?m)^---$" (include "koord.manifest" .) -1 }}
{{- $object := fromYaml . }}
{{- if and $object (ne $object.kind "Namespace") }}
{{- $_ := set $object.metadata "labels" (include "koord.labels" $root | fromYaml) }}
{{- if and (eq $object.kind "ServiceAccount") $root.Values.serviceAccount.annotations }}
{{- $_ := set $object.metadata "annotations" $root.Values.serviceAccount.annotations }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- /* An image; koord's own in the place of Koordinator's. Call: list $ COMPONENT'S-VALUES. */ -}}
{{- define "koord.image" -}}
{{- $root := index . 0 -}}
{{- $image := (index . 1).image -}}
{{- $given := not (hasPrefix "koordinator-sh/" $image.repository) -}}
{{- $other := hasSuffix "/koordlet" $image.repository | ternary "koord/koordlet" "koord/koord" -}}
{{- with $root.Values.imageRepositoryHost }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $given | ternary $image.repository $other }}:{{ ($given | ternary $image.tag "") | default $root.Chart.AppVersion -}}
{{- end }}

{{- /* The Secret that holds a component's certificate. Call: list $ NAME. */ -}}
{{- define "koord.certificateSecret" -}}
{{- (index . 0).Values.secureMetrics.existingSecret | default (printf "%s-tls" (index . 1)) -}}
{{- end }}

{{- /* Arguments of the secure port. Call: list $ PORT. */ -}}
{{- define "koord.secureArguments" -}}
{{- if (index . 0).Values.secureMetrics.enabled -}}
- --secure-port={{ index . 1 }}
- --tls-cert-file=/certificates/tls.crt
- --tls-private-key-file=/certificates/tls.key
{{- end -}}
{{- end }}

{{- /*
A Deployment that runs as nobody with nothing to write but /tmp, its disruption budget, the Service of
its metrics and what follows from these.

Call: dict "root" $ "name" NAME "program" PROGRAM "account" SERVICE-ACCOUNT "values" COMPONENT'S-VALUES
"arguments" LIST "health" PORT "ports" (dict NAME PORT) "configuration" KEY, text of a file below
/config or nothing.
*/ -}}
{{- define "koord.deployment" -}}
{{- $root := .root }}
{{- $values := .values }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Values.installation.namespace }}
  labels:
    koord-app: {{ .name }}
    {{- include "koord.labels" $root | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  minReadySeconds: 3
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 100%, maxUnavailable: 0}
  selector:
    matchLabels:
      koord-app: {{ .name }}
  template:
    metadata:
      labels:
        koord-app: {{ .name }}
        app.kubernetes.io/part-of: koord
        app.kubernetes.io/instance: {{ $root.Release.Name }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .program }}
        {{- with .configuration }}
        koord.sh/configuration: {{ sha256sum . }}
        {{- end }}
    spec:
      serviceAccountName: {{ .account }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      hostNetwork: {{ $values.hostNetwork }}
      {{- if $values.hostNetwork }}
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      terminationGracePeriodSeconds: 10
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
      # Named as in Koordinator's chart: an installation over one of its Deployments leaves one container.
      - name: {{ trimPrefix "koord-" .program }}
        image: {{ include "koord.image" (list $root $values) | quote }}
        imagePullPolicy: {{ $root.Values.imagePullPolicy }}
        command: [{{ .program }}]
        args:
        {{- range .arguments }}
        - {{ . | quote }}
        {{- end }}
        - --v={{ $values.log.level }}
        {{- with include "koord.secureArguments" (list $root $values.securePort) }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- range $values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        env:
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        {{- with .ports.webhook }}
        - name: WEBHOOK_PORT
          value: {{ . | quote }}
        {{- end }}
        ports:
        {{- range $port, $number := .ports }}
        - name: {{ $port }}
          containerPort: {{ $number }}
        {{- end }}
        {{- if $root.Values.secureMetrics.enabled }}
        - name: https-metrics
          containerPort: {{ $values.securePort }}
        {{- end }}
        # Caches of a large cluster take their time: a start is given ten minutes.
        startupProbe:
          httpGet: {path: /healthz, port: health}
          periodSeconds: 2
          failureThreshold: 300
        readinessProbe:
          httpGet: {path: /readyz, port: health}
          periodSeconds: 2
          timeoutSeconds: 5
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          periodSeconds: 10
          timeoutSeconds: 10
          failureThreshold: 6
        resources:
          {{- toYaml $values.resources | nindent 10 }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- if $root.Values.secureMetrics.enabled }}
        - {name: certificates, mountPath: /certificates, readOnly: true}
        {{- end }}
        {{- if .configuration }}
        - {name: configuration, mountPath: /config, readOnly: true}
        {{- end }}
      volumes:
      - name: tmp
        emptyDir: {sizeLimit: 64Mi}
      {{- if $root.Values.secureMetrics.enabled }}
      - name: certificates
        secret:
          secretName: {{ include "koord.certificateSecret" (list $root .name) }}
          defaultMode: 0440
      {{- end }}
      {{- if .configuration }}
      - name: configuration
        configMap: {name: {{ .name }}-config}
      {{- end }}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm:
              topologyKey: kubernetes.io/hostname
              labelSelector: {matchLabels: {koord-app: {{ .name }}}}
        {{- with $values.nodeAffinity }}
        nodeAffinity:
          {{- toYaml . | nindent 10 }}
        {{- end }}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {koord-app: {{ .name }}}}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- with .configuration }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.name }}-config
  namespace: {{ $root.Values.installation.namespace }}
  labels:
    {{- include "koord.labels" $root | nindent 4 }}
data:
  {{ $.program }}.yaml: |
    {{- . | nindent 4 }}
{{- end }}
{{- if and $root.Values.podDisruptionBudgets.enabled (gt (int $values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $root.Values.installation.namespace }}
  labels:
    {{- include "koord.labels" $root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      koord-app: {{ .name }}
{{- end }}
{{- include "koord.metrics" (dict "root" $root "name" .name "port" $values.securePort "monitor" $values.monitorEnabled "path" .metricsPath) }}
{{- if $root.Values.networkPolicies.enabled }}
---
# Who may connect: API servers and kubelets come from addresses that no selector names, so that ports
# are what is narrowed. What may be asked there each port decides by itself.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ $root.Values.installation.namespace }}
  labels:
    {{- include "koord.labels" $root | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      koord-app: {{ .name }}
  policyTypes: [Ingress]
  ingress:
  - ports:
    {{- range $port, $number := .ports }}
    - {protocol: TCP, port: {{ $number }}}
    {{- end }}
    {{- if $root.Values.secureMetrics.enabled }}
    - {protocol: TCP, port: {{ $values.securePort }}}
    {{- end }}
{{- end }}
{{- end }}

{{- /*
The Service of a component's metrics, the certificate of its secure port and its ServiceMonitor.
Call: dict "root" $ "name" NAME "port" PORT "monitor" BOOL "path" PATH.
*/ -}}
{{- define "koord.metrics" -}}
{{- $root := .root }}
{{- $host := printf "%s-metrics.%s.svc" .name $root.Values.installation.namespace }}
{{- if $root.Values.secureMetrics.enabled }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}-metrics
  namespace: {{ $root.Values.installation.namespace }}
  labels:
    koord-app: {{ .name }}
    {{- include "koord.labels" $root | nindent 4 }}
spec:
  clusterIP: None
  selector:
    koord-app: {{ .name }}
  ports:
  - {name: https-metrics, port: {{ .port }}, targetPort: https-metrics}
{{- if not $root.Values.secureMetrics.existingSecret }}
{{- $name := include "koord.certificateSecret" (list $root .name) }}
{{- $found := lookup "v1" "Secret" $root.Values.installation.namespace $name }}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ $name }}
  namespace: {{ $root.Values.installation.namespace }}
  labels:
    {{- include "koord.labels" $root | nindent 4 }}
type: kubernetes.io/tls
data:
  {{- if and $found $found.data }}
  tls.crt: {{ index $found.data "tls.crt" }}
  tls.key: {{ index $found.data "tls.key" }}
  {{- else }}
  {{- $made := genSelfSignedCert $host nil (list $host "localhost") 3650 }}
  tls.crt: {{ $made.Cert | b64enc }}
  tls.key: {{ $made.Key | b64enc }}
  {{- end }}
{{- end }}
{{- if .monitor }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name }}
  namespace: {{ $root.Values.installation.namespace }}
  labels:
    {{- include "koord.labels" $root | nindent 4 }}
spec:
  # So that alerts and dashboards know a component by its name.
  jobLabel: koord-app
  selector:
    matchLabels:
      koord-app: {{ .name }}
  endpoints:
  - port: https-metrics
    scheme: https
    path: {{ .path | default "/metrics" }}
    bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
    tlsConfig:
      serverName: {{ $host }}
      ca:
        secret:
          name: {{ include "koord.certificateSecret" (list $root .name) }}
          key: {{ $root.Values.secureMetrics.existingSecret | ternary "ca.crt" "tls.crt" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Names of the components that the release has, and their secure ports, as YAML. */ -}}
{{- define "koord.securePorts" -}}
{{- with .Values.scheduler }}{{ if .enabled }}
koord-scheduler: {{ .securePort }}
{{- end }}{{ end }}
{{- with .Values.manager }}{{ if .enabled }}
koord-manager: {{ .securePort }}
{{- end }}{{ end }}
{{- with .Values.descheduler }}{{ if .enabled }}
koord-descheduler: {{ .securePort }}
{{- end }}{{ end }}
{{- with .Values.webhookConfiguration }}{{ if and .enabled .standalone.enabled }}
koord-webhook: {{ .standalone.securePort }}
{{- end }}{{ end }}
{{- with .Values.koordlet }}{{ if .enabled }}
koordlet: {{ .securePort }}
{{- end }}{{ end }}
{{- end }}

{{- /* A line for each value that was given and has no effect, or not the one that it seems to have. */ -}}
{{- define "koord.warnings" -}}
{{- $values := .Values }}
{{- $without := list
  (list "installation.roleListGroups" "koord's roles name what each component lists")
  (list "deviceDaemon" "koordlet reports devices itself")
  (list "scheduler.compatible122FeatureGates" "koord needs Kubernetes 1.25 or newer")
  (list "scheduler.compatibleBelow122FeatureGates" "koord needs Kubernetes 1.25 or newer")
  (list "scheduler.enableJobPreemption" "preemption of gangs is decided by the plugin Coscheduling's arguments, in scheduler.config")
  (list "scheduler.deviceShare" "arguments of plugins stand in scheduler.config")
  (list "koordlet.hostDirs.koordletTSDBDir" "samples are kept in memory")
  (list "koordlet.hostDirs.podResourcesProxyPath" "koord does not stand between pods and the kubelet's list of resources")
}}
{{- range $without }}
{{- $value := $values }}
{{- range splitList "." (first .) }}
{{- $value = kindIs "map" $value | ternary (get ($value | default dict) .) "" }}
{{- end }}
{{- if $value }}
  {{ first . }} has no effect: {{ last . }}
{{- end }}
{{- end }}
{{- range $name := list "scheduler" "manager" "descheduler" "koordlet" }}
{{- if hasPrefix "koordinator-sh/" (get $values $name).image.repository }}
  {{ $name }}.image has no effect: it names Koordinator's image, koord's is taken
{{- end }}
{{- end }}
{{- if and .Values.koordlet.enabled (eq .Values.koordlet.podsFrom "auto") (not .Values.koordlet.rights.nodesProxy) (semverCompare "<1.33.0-0" .Capabilities.KubeVersion.Version) }}
  koordlet takes pods from the API server: kubelets of Kubernetes {{ .Capabilities.KubeVersion.Version }} would tell them to nobody without nodes/proxy
{{- end }}
{{- if .Values.koordlet.rights.nodesProxy }}
  koordlet.rights.nodesProxy: with it a stolen token of koordlet runs commands in every pod of the cluster
{{- end }}
{{- end }}
