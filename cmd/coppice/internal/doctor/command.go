package doctor

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

// examination is what checks need.
type examination struct {
	*cli.Session
	findings
	js jetstream.JetStream
	// http asks services and monitoring ports.
	http     http.Client
	services []*url.URL
	monitors []*url.URL
	// streamsUnknown: the user may not ask for streams.
	streamsUnknown bool
	// usersFiles are the digests of users files by graph service; "" for none.
	usersFiles map[string]string
}

// Flags of the command.
type flags struct {
	services, monitors []string
	output             string
	all                bool
}

// Command returns the command `coppice doctor`. defaults are the URLs of services that are asked without --service, if
// they are there; parse parses a URL of --service.
func Command(a *cli.App, defaults []*url.URL, parse func(string) (*url.URL, error)) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:     "doctor",
		GroupID: "operate",
		Short:   "Examine the installation, and say what needs attention",
		Long: `Examine the installation: the NATS servers, the streams of all realms, the realms, and
the services. For each finding that needs attention the command says what to do. The exit
code is 1 if there is one. Nothing is changed.

Connect as an operator. The streams of realms are examined only for users of the account
of the log, as the user admin. Services on this machine are asked on their default ports;
--service names others. Whether the NATS servers sync is known from their monitoring ports
(http_port in their configuration), which --monitor names.`,
		Example: `  coppice doctor
  coppice doctor --user admin --password-file passwords/admin --service http://10.0.0.7:9440 --monitor http://10.0.0.7:8222`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cli.CheckFormat(f.output, cli.TextFormats()...); err != nil {
				return cli.NewUsageError(c, err)
			}
			x := &examination{http: http.Client{Timeout: a.Dial.Timeout, Transport: &http.Transport{DisableKeepAlives: true}}}
			for texts, into := range map[*[]string]*[]*url.URL{&f.services: &x.services, &f.monitors: &x.monitors} {
				for _, text := range *texts {
					u, err := parse(text)
					if err != nil {
						return cli.NewUsageError(c, err)
					}
					*into = append(*into, u)
				}
			}
			return cli.WithCommand(c, run(c.Context(), a, x, &f, defaults))
		},
	}
	a.Dial.Flags(c.Flags()) // without --realm: all realms are examined
	a.ActorFlag(c)
	c.Flags().StringArrayVar(&f.services, "service", nil, "`URL` of the HTTP server of a service, or its address; may be repeated")
	c.Flags().StringArrayVar(&f.monitors, "monitor", nil, "`URL` of the monitoring port of a NATS server; may be repeated")
	c.Flags().BoolVar(&f.all, "all", false, "show also what is as it should be")
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatText, "text or json")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	return c
}

func run(ctx context.Context, a *cli.App, x *examination, f *flags, defaults []*url.URL) error {
	session, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer session.Conn.Close()
	x.Session = session
	if x.js, err = jetstream.New(session.Conn); err != nil {
		return err
	}
	x.examineServers(ctx)
	x.examineRealms(ctx)
	x.examineServices(ctx, defaults)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f.output == cli.FormatJSON {
		err = a.WriteJSON(x.findings)
	} else {
		err = x.write(a, f.all)
	}
	if err == nil && x.needAttention() {
		return &cli.ExitError{Code: 1}
	}
	return err
}

// limited returns a context for one check.
func (x *examination) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, x.Dial.Timeout)
}

// in returns a session of a realm.
func (x *examination) in(realm string) *cli.Session {
	return x.NewSession(client.New(x.Conn, client.WithRealm(realm), client.WithActor(x.Dial.Actor), client.WithTimeout(x.Dial.Timeout), client.WithRetryTimeout(x.Dial.Timeout)), x.Conn)
}

// old is the age from which pending work needs attention.
const old = time.Hour
