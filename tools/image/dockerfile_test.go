package main

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The image of the archive has the configuration that the Dockerfile gives its image.
func TestConfigEqualsDockerfile(t *testing.T) {
	data, err := os.ReadFile("../../deploy/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	want := dockerConfig(t, strings.NewReplacer("${VERSION}", "1.2.3", "${REVISION}", "abc").Replace(string(data)))
	got := config("1.2.3", "abc")
	if !reflect.DeepEqual(got, want) {
		a, _ := json.MarshalIndent(got, "", " ")
		b, _ := json.MarshalIndent(want, "", " ")
		t.Errorf("the archive has the configuration\n%s\nthe Dockerfile has\n%s", a, b)
	}
	dir, err := unpacked()
	if err != nil {
		t.Fatal(err)
	}
	for name, img := range images(t, dir) {
		c, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		labels := c.Config.Labels
		if want := config(labels["org.opencontainers.image.version"], labels["org.opencontainers.image.revision"]); !reflect.DeepEqual(c.Config, want) {
			t.Errorf("%s has the configuration %+v, want %+v", name, c.Config, want)
		}
	}
}

var (
	continued = regexp.MustCompile(`\\\n\s*`)
	pair      = regexp.MustCompile(`([A-Za-z_.]+)=("[^"]*"|\S+)`)
)

// dockerConfig returns the configuration that the last stage of a Dockerfile gives its image. It knows the instructions
// that ours has, and fails the test at others.
func dockerConfig(t *testing.T, text string) v1.Config {
	t.Helper()
	c := v1.Config{Volumes: map[string]struct{}{}, ExposedPorts: map[string]struct{}{}, Labels: map[string]string{}}
	stage := text[strings.LastIndex(text, "\nFROM ")+1:]
	for line := range strings.SplitSeq(continued.ReplaceAllString(stage, " "), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "FROM":
			if rest != "scratch" {
				t.Errorf("the last stage is from %s", rest)
			}
		case "", "#", "ARG", "COPY":
		case "USER":
			c.User = rest
		case "WORKDIR":
			c.WorkingDir = rest
		case "ENTRYPOINT":
			c.Entrypoint = list(t, rest)
		case "VOLUME":
			for _, v := range list(t, rest) {
				c.Volumes[v] = struct{}{}
			}
		case "EXPOSE":
			for _, port := range strings.Fields(rest) {
				c.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case "ENV":
			c.Env = append(c.Env, strings.Fields(rest)...)
		case "LABEL":
			for _, m := range pair.FindAllStringSubmatch(rest, -1) {
				c.Labels[m[1]] = strings.Trim(m[2], `"`)
			}
		case "HEALTHCHECK":
			c.Healthcheck = health(t, rest)
		default:
			t.Errorf("%s: this test does not know the instruction", line)
		}
	}
	return c
}

// list parses the exec form of an instruction.
func list(t *testing.T, text string) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		t.Errorf("%s is not in exec form, and there is no shell: %v", text, err)
	}
	return words
}

func health(t *testing.T, text string) *v1.HealthConfig {
	t.Helper()
	flags, command, ok := strings.Cut(text, " CMD ")
	if !ok {
		t.Fatalf("HEALTHCHECK %s has no CMD", text)
	}
	h := &v1.HealthConfig{Test: append([]string{"CMD"}, list(t, command)...)}
	for flag := range strings.FieldsSeq(flags) {
		name, value, _ := strings.Cut(flag, "=")
		var err error
		switch name {
		case "--interval":
			h.Interval, err = time.ParseDuration(value)
		case "--timeout":
			h.Timeout, err = time.ParseDuration(value)
		case "--start-period":
			h.StartPeriod, err = time.ParseDuration(value)
		case "--retries":
			h.Retries, err = strconv.Atoi(value)
		default:
			t.Errorf("HEALTHCHECK has the flag %s, which this test does not know", flag)
		}
		if err != nil {
			t.Error(err)
		}
	}
	return h
}

// The Dockerfile builds with the release of Go that go.mod has.
func TestGoOfDockerfile(t *testing.T) {
	docker, err := os.ReadFile("../../deploy/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	image := regexp.MustCompile(`(?m)^ARG GO_IMAGE=\S+/golang:(\d+\.\d+)$`).FindSubmatch(docker)
	release := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if image == nil || release == nil || string(image[1]) != string(release[1]) {
		t.Errorf("the Dockerfile takes Go %s, go.mod %s", image, release)
	}
}
