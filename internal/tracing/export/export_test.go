package export

import (
	"strings"
	"testing"
)

// Spans are exported only if a variable asks for it.
func TestEnabled(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318"
	for variables, want := range map[string]string{
		"":                                     "off",
		"OTEL_SERVICE_NAME=x":                  "off",
		endpoint:                               "on",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=x": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=x: write a URL",
		"OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4318":                                                "OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4318: write a URL",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://c:1/v1/traces OTEL_EXPORTER_OTLP_ENDPOINT=x":    "on",
		"OTEL_TRACES_EXPORTER=otlp":                                                                 "on",
		"OTEL_TRACES_EXPORTER=none " + endpoint:                                                     "off",
		"OTEL_SDK_DISABLED=TRUE " + endpoint:                                                        "off",
		"OTEL_SDK_DISABLED=no " + endpoint:                                                          "on",
		"OTEL_TRACES_EXPORTER=console":                                                              "OTEL_TRACES_EXPORTER=console: coppice exports traces by OTLP only",
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                              "on",
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf":                                     "on",
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=http/json":                                         "OTEL_EXPORTER_OTLP_PROTOCOL=http/json: set it to http/protobuf",
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json": "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json: set it to",
	} {
		set := map[string]string{}
		for _, v := range strings.Fields(variables) {
			name, value, _ := strings.Cut(v, "=")
			set[name] = value
		}
		c := Config{Getenv: func(name string) string { return set[name] }}
		got := "off"
		on, err := c.enabled()
		if on {
			got = "on"
			_, _, err = c.client()
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", variables, got, want)
		}
	}
}
