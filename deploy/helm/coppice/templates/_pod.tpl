{{- /* The variable that names the file of a NATS user: method, file, and the name of the variable for each method. */}}
{{- define "coppice.credentials" -}}
{{- with get .names .method -}}
- name: {{ . }}
  value: /etc/coppice/nats/{{ $.file }}
{{- end }}
{{- end }}

{{- /* The template of a pod: root, component, values, port, env. Secrets are files, which their owner and group may read: Coppice refuses
a secret that all users may read. */}}
{{- define "coppice.pod" -}}
{{- $ := .root }}
{{- $auth := $.Values.nats.auth }}
{{- $graph := eq .component "graph" }}
{{- $selector := include "coppice.selector" . | fromYaml -}}
metadata:
  labels:
    {{- include "coppice.podLabels" . | nindent 4 }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge (dict) .values.podAnnotations $.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "coppice.serviceAccountName" $ }}
  automountServiceAccountToken: false
  # The variables of service links would begin with COPPICE_, as those of flags do.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with $.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "coppice.image" $ | quote }}
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      args:
        - {{ .component }}
        {{- with .values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        - name: NATS_URL
          value: {{ $.Values.nats.url | quote }}
        {{- if eq $auth.method "password" }}
        - name: NATS_USER
          value: {{ .component }}
        {{- end }}
        {{- with include "coppice.credentials" (dict "method" $auth.method "file" "user" "names" (dict "password" "NATS_PASSWORD_FILE" "creds" "NATS_CREDS" "nkey" "NATS_NKEY")) }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- if $graph }}
        {{- with include "coppice.credentials" (dict "method" $auth.method "file" "answers" "names" (dict "password" "COPPICE_ANSWERS_PASSWORD_FILE" "creds" "COPPICE_ANSWERS_CREDS" "nkey" "COPPICE_ANSWERS_NKEY")) }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- end }}
        {{- if $.Values.nats.tls.caSecret }}
        - name: NATS_CA
          value: /etc/coppice/ca/ca.crt
        {{- end }}
        {{- if $.Values.nats.tls.clientSecret }}
        - name: NATS_CERT
          value: /etc/coppice/tls/tls.crt
        - name: NATS_KEY
          value: /etc/coppice/tls/tls.key
        {{- end }}
        - name: COPPICE_HTTP
          value: ":{{ .port }}"
        - name: COPPICE_LOG_FORMAT
          value: {{ $.Values.log.format }}
        - name: COPPICE_LOG_LEVEL
          value: {{ $.Values.log.level }}
        - name: COPPICE_REALM
          value: {{ join "," $.Values.realms | quote }}
        {{- .env | trim | nindent 8 }}
        {{- with .values.goMemoryLimit }}
        - name: GOMEMLIMIT
          value: {{ . | quote }}
        {{- end }}
        {{- with .values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if and $graph $.Values.archive.credentialsSecret }}
      envFrom:
        - secretRef:
            name: {{ $.Values.archive.credentialsSecret | quote }}
      {{- end }}
      ports:
        - name: metrics
          containerPort: {{ .port }}
          protocol: TCP
      # No probe that restarts the container asks /readyz: a service waits for NATS as long as it takes.
      startupProbe:
        httpGet:
          path: /healthz
          port: metrics
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 60
      readinessProbe:
        httpGet:
          path: /readyz
          port: metrics
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      livenessProbe:
        httpGet:
          path: /healthz
          port: metrics
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        {{- if $graph }}
        - name: data
          mountPath: /var/lib/coppice
        - name: tmp
          mountPath: /tmp
        - name: secret
          mountPath: /etc/coppice/secret
          readOnly: true
        {{- if .values.usersFile.configMap }}
        - name: users
          mountPath: /etc/coppice/users
          readOnly: true
        {{- end }}
        {{- end }}
        {{- if ne $auth.method "none" }}
        - name: nats
          mountPath: /etc/coppice/nats
          readOnly: true
        {{- end }}
        {{- if $.Values.nats.tls.caSecret }}
        - name: ca
          mountPath: /etc/coppice/ca
          readOnly: true
        {{- end }}
        {{- if $.Values.nats.tls.clientSecret }}
        - name: tls
          mountPath: /etc/coppice/tls
          readOnly: true
        {{- end }}
        {{- with .values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if $graph }}
    - name: tmp
      emptyDir:
        sizeLimit: {{ .values.tmp.sizeLimit }}
    - name: secret
      secret:
        secretName: {{ $.Values.installationSecret.name | quote }}
        defaultMode: 288 # 0440
        items:
          - key: {{ $.Values.installationSecret.key }}
            path: coppice.secret
    {{- with .values.usersFile.configMap }}
    - name: users
      configMap:
        name: {{ . | quote }}
        items:
          - key: {{ $.Values.graph.usersFile.key }}
            path: users.yaml
    {{- end }}
    {{- end }}
    {{- if ne $auth.method "none" }}
    - name: nats
      secret:
        secretName: {{ $auth.secret | quote }}
        defaultMode: 288 # 0440
        items:
          - key: {{ get $auth.keys .component }}
            path: user
          {{- if $graph }}
          - key: {{ $auth.keys.answers }}
            path: answers
          {{- end }}
    {{- end }}
    {{- with $.Values.nats.tls.caSecret }}
    - name: ca
      secret:
        secretName: {{ . | quote }}
        defaultMode: 288 # 0440
        items:
          - key: ca.crt
            path: ca.crt
    {{- end }}
    {{- with $.Values.nats.tls.clientSecret }}
    - name: tls
      secret:
        secretName: {{ . | quote }}
        defaultMode: 288 # 0440
        items:
          - key: tls.crt
            path: tls.crt
          - key: tls.key
            path: tls.key
    {{- end }}
    {{- with .values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if .values.affinity }}
  affinity:
    {{- toYaml .values.affinity | nindent 4 }}
  {{- else if ne .values.podAntiAffinity "none" }}
  affinity:
    podAntiAffinity:
      {{- if eq .values.podAntiAffinity "required" }}
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- toYaml $selector | nindent 14 }}
      {{- else }}
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- toYaml $selector | nindent 16 }}
      {{- end }}
  {{- end }}
  {{- with .values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{- merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $selector)) | toYaml | nindent 6 }}
    {{- end }}
  {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
{{- end }}
