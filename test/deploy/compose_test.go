//go:build unix

package deploy

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.yaml.in/yaml/v3"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

// composeFile is what of the Compose specification the file uses: a word that
// is not here is a word misspelt, or one to add.
type composeFile struct {
	Name     string             `yaml:"name"`
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
	Secrets  map[string]struct {
		File string `yaml:"file"`
	} `yaml:"secrets"`

	Onceward service           `yaml:"x-onceward"`
	Database map[string]string `yaml:"x-database"`
	Traces   map[string]string `yaml:"x-traces"`
}

type service struct {
	Image       string             `yaml:"image"`
	Build       map[string]string  `yaml:"build"`
	Restart     string             `yaml:"restart"`
	ReadOnly    bool               `yaml:"read_only"`
	CapDrop     []string           `yaml:"cap_drop"`
	SecurityOpt []string           `yaml:"security_opt"`
	StopGrace   string             `yaml:"stop_grace_period"`
	Logging     any                `yaml:"logging"`
	Entrypoint  []string           `yaml:"entrypoint"`
	Command     []string           `yaml:"command"`
	Environment map[string]string  `yaml:"environment"`
	Secrets     []string           `yaml:"secrets"`
	Volumes     []string           `yaml:"volumes"`
	Ports       []string           `yaml:"ports"`
	SHMSize     string             `yaml:"shm_size"`
	MemLimit    string             `yaml:"mem_limit"`
	DependsOn   map[string]awaited `yaml:"depends_on"`
	Healthcheck *healthcheck       `yaml:"healthcheck"`
}

type awaited struct {
	Condition string `yaml:"condition"`
}

type healthcheck struct {
	Test     []string `yaml:"test"`
	Interval string   `yaml:"interval"`
	Timeout  string   `yaml:"timeout"`
	Retries  int      `yaml:"retries"`
	Disable  bool     `yaml:"disable"`
}

func composed(t *testing.T) composeFile {
	t.Helper()
	return readYAML[composeFile](t, deployed, "compose", "compose.yaml")
}

// ours are the services that run a program of ours, and which.
func (f composeFile) ours() map[string]string {
	programs := map[string]string{}
	for name, s := range f.Services {
		if s.Build == nil {
			continue
		}
		programs[name] = "api"
		if len(s.Entrypoint) > 0 {
			programs[name] = filepath.Base(s.Entrypoint[0])
		}
	}
	return programs
}

func TestEveryServiceOfComposeIsWhole(t *testing.T) {
	t.Parallel()
	file := composed(t)
	for _, name := range []string{"postgres", "migrate", "api", "worker", "otel-collector", "prometheus", "grafana"} {
		if _, ok := file.Services[name]; !ok {
			t.Errorf("there is no service %s", name)
		}
	}
	volume := regexp.MustCompile(`^[a-z]+$`)
	for name, s := range file.Services {
		if !strings.Contains(s.Image, ":") || strings.HasSuffix(s.Image, ":latest") {
			t.Errorf("%s: the image %q has no version", name, s.Image)
		}
		for _, secret := range s.Secrets {
			if _, ok := file.Secrets[secret]; !ok {
				t.Errorf("%s: the secret %s is not declared", name, secret)
			}
		}
		for _, mounted := range s.Volumes {
			source, _, _ := strings.Cut(mounted, ":")
			if volume.MatchString(source) {
				if _, ok := file.Volumes[source]; !ok {
					t.Errorf("%s: the volume %s is not declared", name, source)
				}
				continue
			}
			if info, err := os.Stat(filepath.Join(deployed, "compose", source)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: mounts %s, which is no file: %v", name, source, err)
			}
			if !strings.HasSuffix(mounted, ":ro") {
				t.Errorf("%s: may write %s", name, source)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: the port %s is open to other machines", name, port)
			}
		}
		for other, how := range s.DependsOn {
			awaitedService, ok := file.Services[other]
			if !ok || how.Condition == "service_healthy" && awaitedService.Healthcheck == nil {
				t.Errorf("%s: waits for %s to be %s, which never comes", name, other, how.Condition)
			}
		}
		for variable, value := range s.Environment {
			for _, at := range regexp.MustCompile(`/run/secrets/(\w+)`).FindAllStringSubmatch(value, -1) {
				if !slices.Contains(s.Secrets, at[1]) {
					t.Errorf("%s: %s reads the secret %s, which it is not given", name, variable, at[1])
				}
			}
			if strings.Contains(strings.ToLower(variable), "password") && !strings.HasPrefix(value, "/run/secrets/") {
				t.Errorf("%s: %s is a secret in the file", name, variable)
			}
		}
	}
	context, err := filepath.Rel(root, filepath.Join(deployed, "compose", file.Onceward.Build["context"]))
	if err != nil || context != "." {
		t.Errorf("built from %q: %v", context, err)
	}
	if _, err := os.Stat(filepath.Join(root, file.Onceward.Build["dockerfile"])); err != nil {
		t.Error(err)
	}
}

func TestOurServicesOfComposeRunConfinedWithVariablesThatTheyKnow(t *testing.T) {
	t.Parallel()
	file := composed(t)
	programs := file.ours()
	if len(programs) != 3 {
		t.Fatalf("our services: %v", programs)
	}
	for name, program := range programs {
		s := file.Services[name]
		wantKnown(t, name, program, slices.Collect(maps.Keys(s.Environment)))
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not confined: %+v", name, s)
		}
		if s.Healthcheck != nil && !s.Healthcheck.Disable && !slices.Equal(s.Healthcheck.Test, []string{"CMD", "/usr/local/bin/" + program, "probe"}) {
			t.Errorf("%s: health check %v", name, s.Healthcheck.Test)
		}
	}
	if file.Services["worker"].Healthcheck == nil {
		t.Error("the worker is asked as the API is")
	}
}

// What is laid over for TLS concerns the API alone, with variables that it knows
// and files that are mounted, as a folder.
func TestComposeCanHaveTheAPISpeakTLS(t *testing.T) {
	t.Parallel()
	over := readYAML[composeFile](t, deployed, "compose", "compose.tls.yaml")
	api := over.Services["api"]
	if len(over.Services) != 1 || len(api.Volumes) != 1 {
		t.Fatalf("laid over: %+v", over.Services)
	}
	wantKnown(t, "compose.tls.yaml", "api", slices.Collect(maps.Keys(api.Environment)))
	folder := regexp.MustCompile(`^\$\{\w+:-\./\w+\}:(/[\w/]+):ro$`).FindStringSubmatch(api.Volumes[0])
	if folder == nil {
		t.Fatalf("mounts %s", api.Volumes[0])
	}
	for _, variable := range []string{"ONCEWARD_TLS_CERT_FILE", "ONCEWARD_TLS_KEY_FILE"} {
		if !strings.HasPrefix(api.Environment[variable], folder[1]+"/") {
			t.Errorf("%s is %q, and %s is mounted", variable, api.Environment[variable], folder[1])
		}
	}
	if public := api.Environment["ONCEWARD_PUBLIC_URL"]; !strings.Contains(public, ":-https://") {
		t.Errorf("the API calls itself %s", public)
	}
}

// The script makes every secret, in forms that the programs take, keeps what is
// there, and shows nothing.
func TestTheSecretsOfComposeAreMadeAndTaken(t *testing.T) {
	t.Parallel()
	file := composed(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "secrets.sh")
	if err := os.WriteFile(script, read(t, deployed, "compose", "secrets.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	contents := func() map[string]string {
		out, err := exec.CommandContext(t.Context(), "sh", script).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Fatalf("secrets.sh: %v: %s", err, out)
		}
		texts := map[string]string{}
		for name, secret := range file.Secrets {
			texts[name] = string(read(t, dir, secret.File))
		}
		return texts
	}
	first := contents()
	for name, text := range contents() {
		if text != first[name] || text == "" {
			t.Errorf("the secret %s was made anew, or is empty", name)
		}
	}

	for name, program := range file.ours() {
		environ := []string{}
		for variable, value := range file.Services[name].Environment {
			value = strings.ReplaceAll(value, "/run/secrets/", dir+"/secrets/")
			value = regexp.MustCompile(`\$\{\w+:-([^}]*)\}`).ReplaceAllString(value, "$1")
			environ = append(environ, variable+"="+value)
			if variable != "ONCEWARD_DATABASE_URL" {
				continue
			}
			config, err := pgxpool.ParseConfig(value)
			if err != nil {
				t.Fatal(err)
			}
			if got := config.ConnConfig.Password; got == "" || got != first["postgres_password"] {
				t.Errorf("%s: the password file holds another password than PostgreSQL's", name)
			}
		}
		if program != "api" {
			continue
		}
		config := exec.CommandContext(t.Context(), filepath.Join(processtest.BinFolder(), program), "config")
		config.Env = environ
		if out, err := config.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// The settings exist, and PostgreSQL would take their values.
func TestTheSettingsOfComposesDatabaseAreSettings(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	settings := map[string]string{}
	for _, argument := range composed(t).Services["postgres"].Command[1:] {
		name, value, ok := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if !ok || !strings.HasPrefix(argument, "--") {
			t.Errorf("the argument %q is no setting", argument)
		}
		settings[name] = value
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if settings[name] != "on" {
			t.Errorf("%s is %q: what is acknowledged could be lost", name, settings[name])
		}
	}
	for name, value := range settings {
		var kind string
		var words []string
		err := pool.QueryRow(t.Context(), "select vartype, coalesce(enumvals, '{}') from pg_settings where name = $1", name).Scan(&kind, &words)
		if errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("there is no setting %s", name)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		number := regexp.MustCompile(`^\d+(\.\d+)?(kB|MB|GB|ms|s|min|h)?$`).MatchString(value)
		if ok := map[string]bool{
			"bool": value == "on" || value == "off", "enum": slices.Contains(words, value), "integer": number, "real": number, "string": true,
		}[kind]; !ok {
			t.Errorf("%s=%s is no %s %v", name, value, kind, words)
		}
	}
}

// Grafana finds its data sources and dashboards, Prometheus its rules, where
// they are mounted; the collector's pipelines name what it has.
func TestWhatComposeMountsFitsTogether(t *testing.T) {
	t.Parallel()
	file := composed(t)
	targets := map[string]string{} // host's file by the container's
	for _, name := range []string{"prometheus", "grafana", "otel-collector"} {
		for _, mounted := range file.Services[name].Volumes {
			if parts := strings.Split(mounted, ":"); len(parts) == 3 {
				targets[parts[1]] = filepath.Join(deployed, "compose", parts[0])
			}
		}
	}
	scrape := readYAML[struct {
		Global    map[string]string `yaml:"global"`
		RuleFiles []string          `yaml:"rule_files"`
		Scrapes   []struct {
			Job string `yaml:"job_name"`
			DNS []struct {
				Names   []string `yaml:"names"`
				Type    string   `yaml:"type"`
				Port    int      `yaml:"port"`
				Refresh string   `yaml:"refresh_interval"`
			} `yaml:"dns_sd_configs"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}](t, targets["/etc/prometheus/prometheus.yaml"])
	for _, rules := range scrape.RuleFiles {
		if targets[rules] == "" {
			t.Errorf("Prometheus reads %s, which is not mounted", rules)
		}
	}
	for _, s := range scrape.Scrapes {
		for _, dns := range s.DNS {
			for _, host := range dns.Names {
				port := map[string]int{"api": 8081, "worker": 8082}[file.ours()[host]]
				if port == 0 || dns.Port != port {
					t.Errorf("Prometheus asks %s:%d, want %d", host, dns.Port, port)
				}
			}
		}
		for _, static := range s.Static {
			for _, target := range static.Targets {
				host, _, _ := strings.Cut(target, ":")
				if _, ok := file.Services[host]; !ok {
					t.Errorf("Prometheus asks %s, which is no service", target)
				}
			}
		}
	}

	var collector struct {
		Receivers, Processors, Exporters map[string]any
		Service                          struct {
			Pipelines map[string]map[string][]string
		}
	}
	if err := yaml.Unmarshal(read(t, targets["/etc/otelcol/config.yaml"]), &collector); err != nil {
		t.Fatal(err)
	}
	if len(collector.Service.Pipelines) != 3 {
		t.Errorf("pipelines %v", collector.Service.Pipelines)
	}
	for signal, pipeline := range collector.Service.Pipelines {
		for part, has := range map[string]map[string]any{"receivers": collector.Receivers, "processors": collector.Processors, "exporters": collector.Exporters} {
			for _, name := range pipeline[part] {
				if _, ok := has[name]; !ok {
					t.Errorf("the collector's pipeline of %s has no %s %s", signal, part, name)
				}
			}
		}
	}

	var sources struct {
		Datasources []struct {
			UID, Type, URL string
			SecureJSONData map[string]string `yaml:"secureJsonData"`
		}
	}
	if err := yaml.Unmarshal(read(t, targets["/etc/grafana/provisioning/datasources/onceward.yaml"]), &sources); err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, source := range sources.Datasources {
		types[source.Type] = true
		host, _, _ := strings.Cut(strings.TrimPrefix(source.URL, "http://"), ":")
		if _, ok := file.Services[host]; !ok {
			t.Errorf("Grafana asks %s, which is no service", source.URL)
		}
		for _, secret := range source.SecureJSONData {
			name, _ := strings.CutPrefix(strings.TrimSuffix(secret, "}"), "$__file{/run/secrets/")
			if !slices.Contains(file.Services["grafana"].Secrets, name) {
				t.Errorf("Grafana reads the secret %s, which it is not given", secret)
			}
		}
	}
	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	if err := yaml.Unmarshal(read(t, targets["/etc/grafana/provisioning/dashboards/onceward.yaml"]), &providers); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"service.json", "tenant.json"} {
		if targets[providers.Providers[0].Options.Path+"/"+name] == "" {
			t.Errorf("the dashboard %s is not mounted below %s", name, providers.Providers[0].Options.Path)
		}
		for _, v := range dashboardOf(t, name).Templating.List {
			if v.Type == "datasource" && !types[v.query(t)] {
				t.Errorf("%s asks a %s, and there is none", name, v.query(t))
			}
		}
	}
}
