package admin

import (
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	natsConnected  = prometheus.NewDesc("coppice_nats_connected", "1 while the connection of this user to NATS is open, 0 while it is being made again.", []string{"user"}, nil)
	natsReconnects = prometheus.NewDesc("coppice_nats_reconnects_total", "How often the connection of this user to NATS was made again.", []string{"user"}, nil)
	natsMessages   = prometheus.NewDesc("coppice_nats_messages_total", "Messages on the connection of this user to NATS, by direction: in, out.", []string{"user", "direction"}, nil)
	natsBytes      = prometheus.NewDesc("coppice_nats_bytes_total", "Bytes of messages on the connection of this user to NATS, by direction: in, out.", []string{"user", "direction"}, nil)
)

// connections collects the metrics of connections to NATS.
type connections struct {
	user string
	nc   *nats.Conn
}

// RegisterConnection adds the metrics of the connection of a NATS user.
func RegisterConnection(r prometheus.Registerer, user string, nc *nats.Conn) {
	r.MustRegister(&connections{user, nc})
}

// Describe describes nothing: a process has a collector for each of its connections, and they have the same metrics.
func (c *connections) Describe(chan<- *prometheus.Desc) {}

func (c *connections) Collect(metrics chan<- prometheus.Metric) {
	stats := c.nc.Stats()
	connected := 0.0
	if c.nc.IsConnected() {
		connected = 1
	}
	metrics <- prometheus.MustNewConstMetric(natsConnected, prometheus.GaugeValue, connected, c.user)
	for desc, values := range map[*prometheus.Desc][2]uint64{natsMessages: {stats.InMsgs, stats.OutMsgs}, natsBytes: {stats.InBytes, stats.OutBytes}} {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(values[0]), c.user, "in")
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(values[1]), c.user, "out")
	}
	metrics <- prometheus.MustNewConstMetric(natsReconnects, prometheus.CounterValue, float64(stats.Reconnects), c.user)
}
