//go:build unix

package deploy

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// release is what an installation would hand to Kubernetes, by kind and name.
type release struct {
	deployments map[string]*appsv1.Deployment
	jobs        map[string]*batchv1.Job
	services    map[string]*corev1.Service
	budgets     map[string]*policyv1.PodDisruptionBudget
	scalers     map[string]*autoscalingv2.HorizontalPodAutoscaler
	policies    map[string]*networkingv1.NetworkPolicy
	notes       string
}

// render reads the values as a user gives them (YAML) over the chart's own.
func render(t *testing.T, values string) (release, error) {
	t.Helper()
	chart, err := loader.LoadDir(filepath.Join(deployed, "helm", "onceward"))
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Fatal(err)
	}
	var given map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{Name: "shop", Namespace: "payments", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, given, options, nil)
	if err != nil {
		return release{}, err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), chart, all)
	if err != nil {
		return release{}, err
	}
	r := release{
		deployments: map[string]*appsv1.Deployment{}, jobs: map[string]*batchv1.Job{}, services: map[string]*corev1.Service{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, scalers: map[string]*autoscalingv2.HorizontalPodAutoscaler{},
		policies: map[string]*networkingv1.NetworkPolicy{},
	}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = text
			continue
		}
		for _, document := range regexp.MustCompile(`(?m)^---\s*$`).Split(text, -1) {
			if strings.TrimSpace(document) != "" {
				r.add(t, path.Base(name), document)
			}
		}
	}
	return r, nil
}

func (r release) add(t *testing.T, from, document string) {
	t.Helper()
	var head metav1.PartialObjectMetadata
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		t.Fatalf("%s: %v\n%s", from, err, document)
	}
	switch head.APIVersion + " " + head.Kind {
	case "apps/v1 Deployment":
		take(t, r.deployments, head.Name, document)
	case "batch/v1 Job":
		take(t, r.jobs, head.Name, document)
	case "v1 Service":
		take(t, r.services, head.Name, document)
	case "policy/v1 PodDisruptionBudget":
		take(t, r.budgets, head.Name, document)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		take(t, r.scalers, head.Name, document)
	case "networking.k8s.io/v1 NetworkPolicy":
		take(t, r.policies, head.Name, document)
	default:
		t.Fatalf("%s: an object of kind %s %s is not looked at", from, head.APIVersion, head.Kind)
	}
}

// take reads an object as strictly as an API server that is told to.
func take[T any](t *testing.T, into map[string]*T, name, document string) {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, document)
	}
	if into[name] != nil || name == "" {
		t.Errorf("the name %q comes twice, or is none", name)
	}
	into[name] = object
}

func (r release) pods() map[string]corev1.PodTemplateSpec {
	pods := map[string]corev1.PodTemplateSpec{}
	for name, d := range r.deployments {
		pods[name] = d.Spec.Template
	}
	for name, j := range r.jobs {
		pods[name] = j.Spec.Template
	}
	return pods
}

// everything has every part on that is off by default.
const everything = `
image: {digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullSecrets: [{name: registry}]}
database: {secret: {name: pg, key: uri}, migrationSecret: {name: pg-owner, key: uri}}
operatorToken: {secret: {name: operator, key: token}}
jwt: {secret: {name: jwt, key: key}}
tls: {secret: {name: public-tls, certKey: chain.pem, keyKey: key.pem}}
trustedProxies: {networks: [10.0.0.0/8, "fd00::/8"], header: Forwarded}
publicURL: https://once.example.com
telemetry: {otlpEndpoint: "http://collector.observability:4318"}
api:
  autoscaling: {queue: {enabled: true}}
  extraEnv: [{name: GOGC, value: "300"}]
  podAnnotations: {team: payments}
  nodeSelector: {pool: fast}
  tolerations: [{key: fast, operator: Exists}]
  priorityClassName: high
  service: {annotations: {zone: here}}
worker:
  pollOnly: true
  autoscaling: {enabled: true, queue: {enabled: true}}
  extraEnv: [{name: ONCEWARD_PRUNE_BATCH, value: "10000"}]
networkPolicy:
  apiFrom: [{namespaceSelector: {matchLabels: {ingress: "true"}}}]
  operatorFrom: [{namespaceSelector: {matchLabels: {monitoring: "true"}}}]
  database: {port: 6432, to: [{ipBlock: {cidr: 10.0.0.0/24}}]}
  otlp: {to: [{namespaceSelector: {matchLabels: {observability: "true"}}}]}
`

// fewest has every part off that can be.
const fewest = `
api: {autoscaling: {enabled: false}, drainSeconds: 0}
telemetry: {scrapeAnnotations: false}
migration: {enabled: false}
networkPolicy: {enabled: false}
`

func variants() map[string]string {
	return map[string]string{"as it comes": "", "everything": everything, "fewest": fewest}
}

func TestEveryPodOfTheChartIsConfined(t *testing.T) {
	t.Parallel()
	for variant, values := range variants() {
		r, err := render(t, values)
		if err != nil {
			t.Fatalf("%s: %v", variant, err)
		}
		if len(r.deployments) != 2 {
			t.Errorf("%s: %d deployments", variant, len(r.deployments))
		}
		for name, pod := range r.pods() {
			name = variant + ": " + name
			if c := pod.Spec.SecurityContext; c == nil || !*c.RunAsNonRoot || *c.RunAsUser == 0 || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: pod %+v", name, c)
			}
			if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
				t.Errorf("%s has a token of Kubernetes, which it does not use", name)
			}
			for _, c := range pod.Spec.Containers {
				s := c.SecurityContext
				if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("%s: container %+v", name, s)
				}
				if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s has no bound of memory or no claim to CPU: %+v", name, c.Resources)
				}
			}
		}
	}
}

// Each program gets variables that it knows, each once, secrets by reference
// alone, and is asked on a port that it has, where its variables let it listen.
func TestTheProgramsOfTheChartAreStartedAndAskedRight(t *testing.T) {
	t.Parallel()
	for variant, values := range variants() {
		r, err := render(t, values)
		if err != nil {
			t.Fatalf("%s: %v", variant, err)
		}
		for name, pod := range r.pods() {
			name = variant + ": " + name
			c := pod.Spec.Containers[0]
			program := path.Base(c.Command[0])
			var names []string
			ports, scheme := map[int32]bool{}, corev1.URISchemeHTTP
			for _, e := range c.Env {
				if slices.Contains(names, e.Name) {
					t.Errorf("%s: %s comes twice", name, e.Name)
				}
				if e.Name != "POD_NAME" { // which Kubernetes puts into another
					names = append(names, e.Name)
				}
				if e.Name == "ONCEWARD_DATABASE_URL" && (e.Value != "" || e.ValueFrom.SecretKeyRef == nil) {
					t.Errorf("%s: the URL of the database is no reference: %+v", name, e)
				}
				if e.Name == "ONCEWARD_TLS_CERT_FILE" {
					scheme = corev1.URISchemeHTTPS
				}
				if strings.HasSuffix(e.Name, "LISTEN_ADDR") {
					var port int32
					if _, err := fmt.Sscanf(e.Value, ":%d", &port); err != nil {
						t.Errorf("%s: %s=%s", name, e.Name, e.Value)
					}
					ports[port] = true
				}
				if strings.HasSuffix(e.Name, "_FILE") && !mounted(pod, c, e.Value) {
					t.Errorf("%s: %s is %s, where nothing is mounted", name, e.Name, e.Value)
				}
			}
			wantKnown(t, name, program, names)
			if len(r.jobs) > 0 && slices.Equal(c.Command, []string{"/usr/local/bin/api", "migrate", "up"}) {
				continue // nobody asks it
			}
			declared := map[string]int32{}
			for _, p := range c.Ports {
				declared[p.Name] = p.ContainerPort
				if !ports[p.ContainerPort] {
					t.Errorf("%s: nothing listens on %d", name, p.ContainerPort)
				}
			}
			for what, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
				if probe == nil || probe.HTTPGet == nil || declared[probe.HTTPGet.Port.StrVal] == 0 {
					t.Fatalf("%s: the %s probe asks no port: %+v", name, what, probe)
				}
				if want := map[bool]string{true: "/readyz", false: "/healthz"}[what == "readiness"]; probe.HTTPGet.Path != want {
					t.Errorf("%s: the %s probe asks for %s", name, what, probe.HTTPGet.Path)
				}
				if got := probe.HTTPGet.Scheme; got != scheme && (got != "" || scheme != corev1.URISchemeHTTP) {
					t.Errorf("%s: the %s probe speaks %s, the listener %s", name, what, got, scheme)
				}
			}
			if program == "api" && declared[c.LivenessProbe.HTTPGet.Port.StrVal] != 8080 {
				t.Errorf("%s: /healthz is on the public listener alone", name)
			}
		}
	}
}

// The API speaks TLS under a Secret that is there, believes the proxies that it
// is told, and the ports say by their names what is spoken: meshes go by them.
func TestTheAPIOfTheChartSpeaksTLSAndKnowsItsProxies(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]struct {
		port, secret, proxies, header string
	}{
		"":         {"http", "", "", ""},
		everything: {"https", "public-tls", "10.0.0.0/8,fd00::/8", "Forwarded"},
	} {
		r, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		pod := r.deployments["shop-onceward-api"].Spec.Template.Spec
		got := want
		got.secret, got.proxies, got.header = "", "", ""
		for _, v := range pod.Volumes {
			if v.Name != "tls" {
				continue
			}
			got.secret = v.Secret.SecretName
			if diff := cmp.Diff(v.Secret.Items, []corev1.KeyToPath{{Key: "chain.pem", Path: "tls.crt"}, {Key: "key.pem", Path: "tls.key"}}); diff != "" {
				t.Errorf("items (-got +want):\n%s", diff)
			}
		}
		for _, e := range pod.Containers[0].Env {
			switch e.Name {
			case "ONCEWARD_TRUSTED_PROXIES":
				got.proxies = e.Value
			case "ONCEWARD_TRUSTED_PROXY_HEADER":
				got.header = e.Value
			}
		}
		service := r.services["shop-onceward-api"].Spec.Ports[0]
		got.port = pod.Containers[0].Ports[0].Name
		if got != want || service.Name != want.port || service.TargetPort.StrVal != want.port {
			t.Errorf("got %+v and the service's port %+v, want %+v", got, service, want)
		}
		if curl := want.port + "://127.0.0.1:8080/readyz"; !strings.Contains(r.notes, curl) {
			t.Errorf("the notes do not ask %s:\n%s", curl, r.notes)
		}
	}
}

// mounted says whether the file is one of a volume that the container has.
func mounted(pod corev1.PodTemplateSpec, c corev1.Container, file string) bool {
	for _, m := range c.VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			if v.Name != m.Name || path.Dir(file) != m.MountPath || !m.ReadOnly || v.Secret == nil {
				continue
			}
			if slices.ContainsFunc(v.Secret.Items, func(i corev1.KeyToPath) bool { return i.Path == path.Base(file) }) {
				return true
			}
		}
	}
	return false
}

// What selects pods selects those of its own component, and all of them.
func TestTheObjectsOfTheChartFindTheirPods(t *testing.T) {
	t.Parallel()
	for variant, values := range variants() {
		r, err := render(t, values)
		if err != nil {
			t.Fatalf("%s: %v", variant, err)
		}
		want := func(kind, name string, selector map[string]string) {
			found := []string{}
			for pod, spec := range r.pods() {
				if covers(spec.Labels, selector) {
					found = append(found, pod)
				}
			}
			if !slices.Equal(found, []string{name}) {
				t.Errorf("%s: the %s %s selects the pods of %v", variant, kind, name, found)
			}
		}
		for name, d := range r.deployments {
			want("Deployment", name, d.Spec.Selector.MatchLabels)
			keys := []string{}
			for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
				want("spread of", name, c.LabelSelector.MatchLabels)
				keys = append(keys, c.TopologyKey)
			}
			if !slices.Equal(keys, []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}) {
				t.Errorf("%s: %s spreads over %v", variant, name, keys)
			}
			if r.budgets[name] == nil {
				t.Errorf("%s: %s has no disruption budget", variant, name)
			}
			if scaler := r.scalers[name]; (scaler == nil) == (d.Spec.Replicas == nil) {
				t.Errorf("%s: %s is scaled by two, or by none", variant, name)
			}
		}
		for name, b := range r.budgets {
			want("PodDisruptionBudget", name, b.Spec.Selector.MatchLabels)
		}
		for name, s := range r.services {
			want("Service", name, s.Spec.Selector)
		}
		for name, p := range r.policies {
			want("NetworkPolicy", name, p.Spec.PodSelector.MatchLabels)
		}
		for name, s := range r.scalers {
			if r.deployments[s.Spec.ScaleTargetRef.Name] == nil || s.Spec.ScaleTargetRef.Name != name {
				t.Errorf("%s: %s scales %s", variant, name, s.Spec.ScaleTargetRef.Name)
			}
		}
		if wantPolicies := len(r.pods()); variant != "fewest" && len(r.policies) != wantPolicies {
			t.Errorf("%s: %d network policies for %d kinds of pods", variant, len(r.policies), wantPolicies)
		}
	}
}

func covers(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

func TestTheMigrationRunsBeforeThePodsWithItsOwnSecret(t *testing.T) {
	t.Parallel()
	r, err := render(t, everything)
	if err != nil {
		t.Fatal(err)
	}
	job := r.jobs["shop-onceward-migration"]
	if job == nil {
		t.Fatalf("jobs: %v", r.jobs)
	}
	if got := job.Annotations["helm.sh/hook"]; got != "pre-install,pre-upgrade" {
		t.Errorf("hook %q", got)
	}
	container := job.Spec.Template.Spec.Containers[0]
	if !slices.Equal(container.Command, []string{"/usr/local/bin/api", "migrate", "up"}) || job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("runs %v, restarts %s", container.Command, job.Spec.Template.Spec.RestartPolicy)
	}
	if ref := container.Env[0].ValueFrom.SecretKeyRef; ref.Name != "pg-owner" || ref.Key != "uri" {
		t.Errorf("reads %+v", ref)
	}
	if ref := r.deployments["shop-onceward-api"].Spec.Template.Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef; ref.Name != "pg" {
		t.Errorf("the API reads %+v", ref)
	}
}

func TestTheNetworkLetsInWhomItIsTold(t *testing.T) {
	t.Parallel()
	ports := func(rules ...[]networkingv1.NetworkPolicyPort) (list []int32) {
		for _, rule := range rules {
			for _, p := range rule {
				list = append(list, p.Port.IntVal)
			}
		}
		return list
	}
	for _, c := range []struct {
		values, policy  string
		ingress, egress []int32
	}{
		{"", "api", []int32{8080}, []int32{53, 53, 5432}},
		{"", "worker", nil, []int32{53, 53, 5432}},
		{"", "migration", nil, []int32{53, 53, 5432}},
		{everything, "api", []int32{8080, 8081}, []int32{53, 53, 6432, 4318}},
		{everything, "worker", []int32{8082}, []int32{53, 53, 6432, 4318}},
		{everything, "migration", nil, []int32{53, 53, 6432}},
	} {
		r, err := render(t, c.values)
		if err != nil {
			t.Fatal(err)
		}
		p := r.policies["shop-onceward-"+c.policy]
		var in, out []int32
		for _, rule := range p.Spec.Ingress {
			in = append(in, ports(rule.Ports)...)
			if open := len(rule.From) == 0; open != (c.values == "") {
				t.Errorf("%s: %v is open to everybody: %t", c.policy, ports(rule.Ports), open)
			}
		}
		for _, rule := range p.Spec.Egress {
			out = append(out, ports(rule.Ports)...)
		}
		if !slices.Equal(in, c.ingress) || !slices.Equal(out, c.egress) || len(p.Spec.PolicyTypes) != 2 {
			t.Errorf("%s: in %v, out %v, types %v; want %v, %v", c.policy, in, out, p.Spec.PolicyTypes, c.ingress, c.egress)
		}
	}
}

func TestThePodsAreScaledByCPUAndByTheirQueue(t *testing.T) {
	t.Parallel()
	r, err := render(t, everything)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"shop-onceward-api": "onceward_queue_length", "shop-onceward-worker": "onceward_analytics_pending_rows"} {
		scaler := r.scalers[name]
		if scaler == nil || len(scaler.Spec.Metrics) != 2 {
			t.Fatalf("%s: %+v", name, scaler)
		}
		cpu, queue := scaler.Spec.Metrics[0], scaler.Spec.Metrics[1]
		if cpu.Resource.Name != corev1.ResourceCPU || *cpu.Resource.Target.AverageUtilization < 1 {
			t.Errorf("%s: %+v", name, cpu)
		}
		if queue.Pods.Metric.Name != want || queue.Pods.Target.AverageValue.IsZero() {
			t.Errorf("%s: %+v", name, queue.Pods)
		}
	}
}

func TestAPodHasTimeToEnd(t *testing.T) {
	t.Parallel()
	r, err := render(t, "api: {drainSeconds: 20, shutdownSeconds: 60}")
	if err != nil {
		t.Fatal(err)
	}
	spec := r.deployments["shop-onceward-api"].Spec.Template.Spec
	if got := spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds; got != 20 {
		t.Errorf("drains for %d s", got)
	}
	if *spec.TerminationGracePeriodSeconds < 20+60+8 { // 8 s are for what ends after the requests while the database is away
		t.Errorf("is killed after %d s", *spec.TerminationGracePeriodSeconds)
	}
}

func TestValuesThatAreWrongAreRefused(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"api: {replica: 3}":                               "replica",
		"worker: {dbMaxConns: 2}":                         "dbMaxConns",
		"logLevel: loud":                                  "logLevel",
		"publicURL: once.example.com":                     "publicURL",
		"database: {secret: {name: ''}}":                  "database",
		"tls: {secret: {name: Not_A_Name}}":               "tls",
		"trustedProxies: {networks: [everybody]}":         "trustedProxies",
		"trustedProxies: {header: X-Real-IP}":             "header",
		"image: {digest: abc}":                            "digest",
		"image: {pullPolicy: Sometimes}":                  "pullPolicy",
		"networkPolicy: {database: {port: 70000}}":        "port",
		"api: {podDisruptionBudget: {maxUnavailable: 0}}": "maxUnavailable",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// The schema knows every value that the chart has.
func TestTheSchemaOfTheValuesIsWhole(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(read(t, deployed, "helm", "onceward", "values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(read(t, deployed, "helm", "onceward", "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	var walk func(where string, values, schema map[string]any)
	walk = func(where string, values, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for name, value := range values {
			property, ok := properties[name].(map[string]any)
			if !ok {
				if schema["additionalProperties"] == false {
					t.Errorf("values.schema.json does not know %s%s", where, name)
				}
				continue
			}
			if below, ok := value.(map[string]any); ok {
				walk(where+name+".", below, property)
			}
		}
		if schema["additionalProperties"] == false {
			for name := range properties {
				if _, ok := values[name]; !ok && name != "global" && name != "claims" {
					t.Errorf("values.yaml does not show %s%s", where, name)
				}
			}
		}
	}
	walk("", values, schema)
}
