// Command dashboards writes the Grafana dashboards of deploy/monitoring/dashboards:
//
//	go run -C tools/dashboards . ../../deploy/monitoring/dashboards
//
// It is a module of its own, so that the SDK of Grafana is no dependency of Coppice. The panels are in panels.go; here is
// how they look.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range pages {
		d, err := p.dashboard()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		data, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.name+".json"), append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// page is a dashboard.
type page struct {
	name, title, about string
	// metric is one that has the values of the variables.
	metric string
	// variables are labels that a reader chooses.
	variables []string
	rows      []row
}

type row struct {
	title  string
	panels []panel
}

// panel shows expressions over time, or, if it is now, their last values.
type panel struct {
	title, about, unit string
	now                bool
	lines              []line
	// bad is the value from which a panel is red; 0 for none.
	bad float64
}

type line struct{ legend, expr string }

// Grafana's grid has 24 columns.
const (
	columns     = 24
	panelHeight = 8
	nowHeight   = 4
)

var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

func (p *page) dashboard() (dashboard.Dashboard, error) {
	b := dashboard.NewDashboardBuilder(p.title).
		Uid("coppice-"+p.name).Description(p.about).Tags([]string{"coppice"}).
		Time("now-3h", "now").Refresh("30s").Timezone("browser").Readonly().Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	for _, label := range p.variables {
		query := fmt.Sprintf("label_values(%s, %s)", p.metric, label)
		b.WithVariable(dashboard.NewQueryVariableBuilder(label).Label(label).
			Query(dashboard.StringOrMap{String: &query}).Datasource(source).
			Multi(true).IncludeAll(true).AllValue(".*").
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc))
	}
	for _, r := range p.rows {
		b.WithRow(dashboard.NewRowBuilder(r.title))
		for _, one := range r.panels {
			b.WithPanel(one.builder(uint32(columns / max(2, min(len(r.panels), 4)))))
		}
	}
	return b.Build()
}

func (p *panel) builder(width uint32) cog.Builder[dashboard.Panel] {
	thresholds := dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute)
	steps := []dashboard.Threshold{{Color: "green"}}
	if p.bad != 0 {
		steps = append(steps, dashboard.Threshold{Color: "red", Value: &p.bad})
	}
	thresholds.Steps(steps)
	if p.now {
		b := stat.NewPanelBuilder().Title(p.title).Description(p.about).Datasource(source).Unit(p.unit).
			Height(nowHeight).Span(width).Thresholds(thresholds).GraphMode(common.BigValueGraphModeArea)
		for i, l := range p.lines {
			b.WithTarget(l.query(i))
		}
		return b
	}
	b := timeseries.NewPanelBuilder().Title(p.title).Description(p.about).Datasource(source).Unit(p.unit).
		Height(panelHeight).Span(width).Thresholds(thresholds).FillOpacity(10)
	for i, l := range p.lines {
		b.WithTarget(l.query(i))
	}
	return b
}

func (l *line) query(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(l.expr).LegendFormat(l.legend).RefId(string(rune('A' + i))).Datasource(source).Range()
}
