// Package export exports spans as the environment variables of OpenTelemetry say: by OTLP, to a
// collector. Command coppice uses it. Packages that make spans do not: they import package tracing, which
// needs OpenTelemetry's API only.
package export

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

// Config describes the program that exports spans.
type Config struct {
	// Service is the attribute service.name, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has another.
	Service string
	Version string
	// Report is called with the errors of OpenTelemetry: settings that it cannot use, and spans that are lost. There are
	// at most 5, and then one in a minute.
	Report func(error)
	// Getenv returns an environment variable; os.Getenv if nil. The libraries of OpenTelemetry read others from the
	// environment of the process.
	Getenv func(string) string
}

// Provider records spans and exports them.
type Provider struct {
	*sdktrace.TracerProvider
	endpoint string
}

// New returns a provider, or nil if the environment asks for no export:
//
//   - OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none switch it off.
//   - OTEL_TRACES_EXPORTER=otlp, OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT switches it on.
//   - OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, or OTEL_EXPORTER_OTLP_PROTOCOL, is http/protobuf, the default, or grpc.
//
// The sampler, limits, headers and timeouts have the variables and defaults that OpenTelemetry specifies. An exporter or
// a protocol that is not supported is an error. A collector that is not reachable is none: spans are dropped,
// and reported. New sets OpenTelemetry's error handler and logger, of which a process has one.
func New(ctx context.Context, c Config) (*Provider, error) {
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if on, err := c.enabled(); err != nil || !on {
		return nil, err
	}
	reported := rate.Sometimes{First: 5, Interval: time.Minute}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported.Do(func() { c.Report(err) }) }))
	otel.SetLogger(logr.New(logged{}))
	client, endpoint, err := c.client()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	of, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", c.Service), attribute.String("service.version", c.Version)),
		resource.WithFromEnv(),
	)
	if err != nil && of == nil {
		return nil, fmt.Errorf("traces: %w", err)
	} // otherwise an attribute is malformed: it was reported
	return &Provider{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(of)), endpoint}, nil
}

func (c *Config) enabled() (bool, error) {
	if strings.EqualFold(c.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := strings.TrimSpace(c.Getenv("OTEL_TRACES_EXPORTER")); exporter {
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	case "":
		return c.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || c.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER=%s: coppice exports traces by OTLP only; set it to otlp, or to none", exporter)
	}
}

// setting returns a setting of traces, or else that of all signals, and the variable that has it; "" if neither is set.
func (c *Config) setting(what string) (variable, value string) {
	for _, variable = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + what, "OTEL_EXPORTER_OTLP_" + what} {
		if value = c.Getenv(variable); value != "" {
			return variable, value
		}
	}
	return variable, ""
}

// client returns the client of the collector, and where it sends spans.
func (c *Config) client() (of otlptrace.Client, endpoint string, err error) {
	variable, endpoint := c.setting("ENDPOINT")
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, "", fmt.Errorf("%s=%s: write a URL, such as http://collector:4318", variable, endpoint)
		}
	}
	// The libraries read the endpoint from the environment. Without one they would use TLS.
	switch variable, protocol := c.setting("PROTOCOL"); protocol {
	case "", "http/protobuf":
		if endpoint == "" {
			endpoint = "http://localhost:4318"
			return otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(endpoint + "/v1/traces")), endpoint, nil
		}
		return otlptracehttp.NewClient(), endpoint, nil
	case "grpc":
		if endpoint == "" {
			endpoint = "http://localhost:4317"
			return otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(endpoint)), endpoint, nil
		}
		return otlptracegrpc.NewClient(), endpoint, nil
	default:
		return nil, "", fmt.Errorf("%s=%s: set it to http/protobuf, which is the default, or to grpc", variable, protocol)
	}
}

// logged passes errors of OpenTelemetry's log, such as of an endpoint that is no URL, to its error handler, and drops other messages.
type logged struct{}

func (logged) Init(logr.RuntimeInfo)            {}
func (logged) Enabled(int) bool                 { return false }
func (logged) Info(int, string, ...any)         {}
func (l logged) WithValues(...any) logr.LogSink { return l }
func (l logged) WithName(string) logr.LogSink   { return l }
func (logged) Error(err error, text string, _ ...any) {
	otel.Handle(fmt.Errorf("%s: %w", text, err))
}

// closeTime is the longest time for which Close exports spans: a command waits for it.
const closeTime = 3 * time.Second

// Close exports the spans that have ended, for at most 3 s. Those that are left are lost.
func (p *Provider) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		return fmt.Errorf("spans were not exported to %s: %w", p.endpoint, err)
	}
	return nil
}
