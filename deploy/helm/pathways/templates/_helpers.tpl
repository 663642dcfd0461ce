{{- /* The names of objects begin with this. */ -}}
{{- define "pathways.base" -}}
{{- if eq .Values.name "default" }}pathways{{ else }}pathways-{{ .Values.name }}{{ end -}}
{{- end -}}

{{- /* Labels that select pods. Takes a list: the chart, the component and, of workers, the island or "". */ -}}
{{- define "pathways.labels" -}}
app.kubernetes.io/name: pathways
app.kubernetes.io/instance: {{ include "pathways.base" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- with index . 2 }}
island: {{ . }}
{{- end }}
{{- end -}}

{{- /* Metadata of an object. Takes a list: the chart, the object's name, the component, the island or "". */ -}}
{{- define "pathways.metadata" -}}
name: {{ index . 1 }}
labels:
  {{- include "pathways.labels" (list (index . 0) (index . 2) (index . 3)) | nindent 2 }}
  app.kubernetes.io/part-of: pathways
{{- end -}}

{{- define "pathways.image" -}}
{{ .Values.image | default (printf "pathways:%s" .Chart.AppVersion) | quote }}
{{- end -}}

{{- define "pathways.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "pathways.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* Copies the files of the Secret into memory, for their owner alone. Takes a list: the chart, the folder. */ -}}
{{- define "pathways.privateCopies" -}}
- name: secrets
  image: {{ include "pathways.image" (index . 0) }}
  command: [sh, -c, "umask 077 && mkdir -p {{ index . 1 }} && cp -L /secrets/* {{ index . 1 }}/"]
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {cpu: "1", memory: 64Mi}
  volumeMounts:
    - {name: private, mountPath: /pathways/identities}
    - {name: secret, mountPath: /secrets, readOnly: true}
  securityContext:
    {{- include "pathways.containerSecurity" . | nindent 4 }}
{{- end -}}

{{- /* A volume that wants the Secret and every key of the list. Takes a list: the Secret's name, the keys. */ -}}
{{- define "pathways.secret" -}}
- name: secret
  secret:
    secretName: {{ index . 0 }}
    optional: false
    defaultMode: 0440
    items:
      {{- range index . 1 }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end -}}

{{- define "pathways.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "pathways.controllerPod" -}}
{{- $base := include "pathways.base" . -}}
{{- include "pathways.podSecurity" . }}
{{- include "pathways.placement" .Values.controller }}
initContainers:
  {{- include "pathways.privateCopies" (list . (printf "/pathways/identities/%s" .Values.name)) | nindent 2 }}
containers:
  - name: controller
    image: {{ include "pathways.image" . }}
    command: [pathways]
    args:
      - up
      - --foreground
      - --no-workers
      - --name
      - {{ .Values.name | quote }}
      - --islands
      - {{ .Values.islands | quote }}
      - --hosts
      - {{ .Values.hosts | quote }}
      - --listen
      - 0.0.0.0:8470
      - --listen-workers
      - 0.0.0.0:8471
      - --listen-proxy
      - none
      - --advertise
      - {{ $base }}-controller
      {{- range .Values.controller.flags }}
      - {{ . | quote }}
      {{- end }}
    env:
      - {name: PATHWAYS_HOME, value: /pathways}
      - {name: HOME, value: /pathways}
    ports:
      - {name: clients, containerPort: 8470}
      - {name: workers, containerPort: 8471}
    resources:
      requests: {cpu: "1", memory: 2Gi, ephemeral-storage: 1Gi}
      limits: {cpu: "8", memory: 8Gi, ephemeral-storage: 8Gi}
    startupProbe:
      tcpSocket: {port: clients}
      periodSeconds: 5
      failureThreshold: 24
    readinessProbe:
      tcpSocket: {port: clients}
      periodSeconds: 5
    livenessProbe:
      exec: {command: [pathways, status, --name, {{ .Values.name | quote }}]}
      periodSeconds: 60
      timeoutSeconds: 30
      failureThreshold: 5
    volumeMounts:
      - {name: home, mountPath: /pathways}
      - {name: private, mountPath: /pathways/identities}
      - {name: tmp, mountPath: /tmp}
    securityContext:
      {{- include "pathways.containerSecurity" . | nindent 6 }}
volumes:
  - {name: home, emptyDir: {sizeLimit: 4Gi}}
  - {name: private, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
  - {name: tmp, emptyDir: {sizeLimit: 1Gi}}
  {{- include "pathways.secret" (list (printf "%s-identity" $base) (list "authority.crt" "authority.key" "tokens" "operator.token")) | nindent 2 }}
{{- end -}}

{{- define "pathways.workerResources" -}}
{{- $found := dict "cpu" "8" "memory" "64Gi" "ephemeral-storage" "16Gi" -}}
{{- if eq .Values.platform "cpu" }}
{{- $found = dict "cpu" (max 4 (int .Values.devices) | toString) "memory" "16Gi" "ephemeral-storage" "16Gi" }}
{{- end -}}
{{- if eq .Values.platform "cuda" }}{{ $_ := set $found "nvidia.com/gpu" (int .Values.devices) }}{{ end -}}
{{- if not (or (has .Values.platform (list "cpu" "cuda")) .Values.workers.resources) }}
{{- fail "a platform other than cpu and cuda wants its devices among workers.resources, such as {google.com/tpu: 4}" }}
{{- end -}}
{{- toYaml (merge (dict) .Values.workers.resources $found) }}
{{- end -}}

{{- /* Takes a list: the chart, the island. */ -}}
{{- define "pathways.workerPod" -}}
{{- $chart := index . 0 -}}
{{- $island := index . 1 -}}
{{- $base := include "pathways.base" $chart -}}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector:
          matchLabels:
            {{- include "pathways.labels" (list $chart "worker" "") | nindent 12 }}
        topologyKey: kubernetes.io/hostname
{{ include "pathways.podSecurity" . }}
{{- include "pathways.placement" $chart.Values.workers }}
initContainers:
  {{- include "pathways.privateCopies" (list $chart "/pathways/identities/worker") | nindent 2 }}
containers:
  - name: worker
    image: {{ include "pathways.image" $chart }}
    command: [pathways]
    args:
      - worker
      - --join
      - {{ $base }}-controller:8470
      - --island
      - {{ $island }}
      - --host
      - {{ if $chart.Values.jobset }}{{ $island }}-$(HOST_INDEX){{ else }}$(POD_NAME){{ end }}
      - --advertise
      - $(POD_IP)
      - --listen
      - 0.0.0.0:8472
      - --listen-lanes
      - 0.0.0.0:8474
      - --platform
      - {{ $chart.Values.platform | quote }}
      {{- if eq $chart.Values.platform "cpu" }}
      - --devices
      - {{ $chart.Values.devices | quote }}
      {{- else if gt (int $chart.Values.hosts) 1 }}
      - --island-hosts
      - {{ $chart.Values.hosts | quote }}
      {{- end }}
      - --wait
      - "600"
      - --token-file
      - /pathways/identities/worker/worker.token
      {{- range $chart.Values.workers.flags }}
      - {{ . | quote }}
      {{- end }}
    env:
      {{- if $chart.Values.jobset }}
      - name: HOST_INDEX
        valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
      {{- else }}
      - name: POD_NAME
        valueFrom: {fieldRef: {fieldPath: metadata.name}}
      {{- end }}
      - name: POD_IP
        valueFrom: {fieldRef: {fieldPath: status.podIP}}
      - {name: PATHWAYS_HOME, value: /pathways}
      - {name: HOME, value: /cache}
      - {name: XDG_CACHE_HOME, value: /cache}
    ports:
      - {name: data, containerPort: 8472}
      - {name: lanes, containerPort: 8474}
    resources:
      requests:
        {{- include "pathways.workerResources" $chart | nindent 8 }}
      limits:
        {{- include "pathways.workerResources" $chart | nindent 8 }}
    startupProbe:
      tcpSocket: {port: data}
      periodSeconds: 5
      failureThreshold: 132
    readinessProbe:
      tcpSocket: {port: data}
      periodSeconds: 5
    livenessProbe:
      tcpSocket: {port: data}
      periodSeconds: 20
      failureThreshold: 6
    volumeMounts:
      - {name: private, mountPath: /pathways/identities}
      - {name: cache, mountPath: /cache}
      - {name: tmp, mountPath: /tmp}
    securityContext:
      {{- include "pathways.containerSecurity" . | nindent 6 }}
volumes:
  - {name: private, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
  - {name: cache, emptyDir: {sizeLimit: 8Gi}}
  - {name: tmp, emptyDir: {sizeLimit: 4Gi}}
  {{- include "pathways.secret" (list (printf "%s-worker" $base) (list "worker.token")) | nindent 2 }}
{{- end -}}
