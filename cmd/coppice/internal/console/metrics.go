package console

import "github.com/prometheus/client_golang/prometheus"

// metrics are those of the server.
type metrics struct {
	signIns *prometheus.CounterVec
	tabs    prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coppice_console_sign_ins_total", Help: "Attempts to sign in, by result: accepted or refused."}, []string{"result"}),
		tabs:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "coppice_console_tabs", Help: "Tabs of browsers that receive news."}),
	}
}

func (m *metrics) register(r prometheus.Registerer, s *Server) {
	for _, result := range []string{"accepted", "refused"} {
		m.signIns.WithLabelValues(result)
	}
	r.MustRegister(m.signIns, m.tabs,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coppice_console_sessions", Help: "Sessions of browsers."}, func() float64 { return float64(s.sessions.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coppice_console_users", Help: "Users who are signed in, each with a connection to NATS."}, func() float64 { return float64(s.users.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coppice_console_graphs", Help: "Graphs that pages follow."}, func() float64 { return float64(len(s.graphs)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "coppice_console_mirrored_objects", Help: "Objects in the mirrors of all users and realms."}, func() float64 { return float64(s.mirrored()) }),
	)
}

// mirrored is the number of objects in all mirrors.
func (s *Server) mirrored() (n uint64) {
	s.users.each(func(u *user) { n += u.mirrored() })
	return n
}
