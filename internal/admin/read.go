package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxMetrics is the largest page of metrics that is read, in bytes.
const maxMetrics = 64 << 20

// ReadMetrics returns the metrics of a service by name. base is the URL of its HTTP server, without a path.
func ReadMetrics(ctx context.Context, base *url.URL) (families map[string]*dto.MetricFamily, err error) {
	at := base.JoinPath("metrics")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	reply, err := direct().Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reply.Body.Close()) }()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", at.Redacted(), reply.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err = parser.TextToMetricFamilies(io.LimitReader(reply.Body, maxMetrics))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	return families, nil
}
