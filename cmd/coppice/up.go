package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/run"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

type upFlags struct {
	data       string
	host       string
	port       int
	http       httpFlag
	console    consoleFlag
	realms     []string
	processors int
	auth       bool
	usersFile  string
	profiles   bool
	acceptLoss realmSequences
	restored   realmSequences
	archive    archiveFlag
	history    historyFlag
}

func upCommand(a *cli.App) *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:     "up",
		GroupID: "start",
		Short:   "Run everything in one process, with an embedded NATS server",
		Long: `Run the graph service, a garbage processor, the built-in finalizers and the scanner
in one process, with an embedded NATS server that any NATS client can use. Every
acknowledged write is on disk. SIGINT and SIGTERM stop the process.

Without --auth the server listens on the loopback interface only and needs no
password: every local user of this machine can use the object API. The console, in a
browser, is at the address that is printed; its token lets only you sign in there.

With --auth it refuses clients without a password. The users are contexts of the
nats command, in files that only you can read: set XDG_CONFIG_HOME to the directory
users of --data, and name the user with --context or NATS_CONTEXT, for nats and for
coppice. Each user is an actor, in an account of its own; admin is in the account
of the log.`,
		Example: `  coppice up
  coppice up --auth && XDG_CONFIG_HOME=coppice-data/users NATS_CONTEXT=operator coppice get pods`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(atLeastOne(number{"--processors", f.processors}), checkPort(f.port)); err != nil {
				return cli.NewUsageError(c, err)
			}
			if f.usersFile != "" && !f.auth {
				return cli.NewUsageError(c, errors.New("--users-file goes with --auth: without passwords every client is the same user"))
			}
			losses, err := f.acceptLoss.realms()
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			restored, err := f.restored.realms()
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			location, archiving, err := f.archive.location()
			if err == nil && f.archive.url == "" {
				archiving = true
				location, err = archive.InDirectory(filepath.Join(f.data, cli.ArchiveDir))
			}
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			return runUp(c.Context(), a, f, func(g *graph.Config) {
				g.AcceptLoss, g.Restored, g.Past = losses, restored, f.history.limits()
				if archiving {
					g.Archive, g.ArchiveRetention = openArchive(location, g.Conn, 1), archiveOfUp
				}
			})
		},
	}
	c.Flags().StringVar(&f.data, "data", "./coppice-data", "directory of all data")
	c.Flags().StringVar(&f.host, "host", "127.0.0.1", "address on which NATS listens; without --auth a loopback address")
	c.Flags().IntVar(&f.port, "port", 4222, "port on which NATS listens; -1: any free port")
	f.http.add(c, graphPort)
	f.console.add(c)
	a.LogFlags(c, slog.LevelWarn)
	c.Flags().StringArrayVar(&f.realms, "realm", []string{bus.DefaultRealm}, realmsOfGraph)
	c.Flags().IntVar(&f.processors, "processors", 1, "number of garbage processors")
	c.Flags().BoolVar(&f.auth, "auth", false, "refuse clients without a password; the users are in the directory users of --data")
	c.Flags().StringVar(&f.usersFile, "users-file", "", "file with the users and what each may do, with --auth; it is read when the process starts")
	f.acceptLoss.addAcceptLoss(c)
	f.restored.addRestored(c)
	f.archive.add(c, "default: the directory archive of --data")
	f.history.add(c)
	c.Flags().BoolVar(&f.profiles, "pprof", false, "serve profiles under /debug/pprof/")
	return c
}

// archiveOfUp bounds the archive of each realm that does not set archiveRetention.
var archiveOfUp = lifecycle.Retention{Bytes: 10 << 30, Age: 365 * 24 * time.Hour}

func runUp(ctx context.Context, a *cli.App, f upFlags, graphConfig func(*graph.Config)) error {
	start := time.Now()
	var users *access.File
	if f.usersFile != "" {
		var err error
		if users, err = access.ReadFile(f.usersFile); err != nil {
			return err
		}
	}
	registry := admin.NewRegistry()
	admin.RegisterBuild(registry, version())
	stack, err := allinone.Start(ctx, allinone.Config{
		Dir: f.data, Host: f.host, Port: f.port, Auth: f.auth, Users: users, Realms: f.realms, Processors: f.processors,
		Version: version(), Log: a.QuietLogger(), Registry: registry, TracerProvider: a.Traces,
		Graph: graphConfig,
	})
	if errors.Is(err, natsd.ErrInUse) {
		return fmt.Errorf("%s is in use by another 'coppice up'; end that one, or choose another directory with --data", f.data)
	}
	if errors.Is(err, natsd.ErrNotLoopback) {
		return fmt.Errorf("--host %s is not on the loopback interface, and 'coppice up' asks for no password; use --auth, or run a NATS server with the configuration of 'coppice nats-config', and each service on its own", f.host)
	}
	if err != nil {
		return err
	}
	var g run.Group
	g.Add(func() error {
		<-stack.Ended()
		return stack.Stop()
	}, func(error) { _ = stack.Stop() })
	waiting, stopWaiting := context.WithCancel(ctx)
	g.Add(func() error {
		if err := stack.Await(waiting); err != nil {
			if waiting.Err() != nil {
				return nil //nolint:nilerr // it was asked to end
			}
			return err
		}
		auth := "no auth: loopback only"
		if f.auth {
			auth = "users: XDG_CONFIG_HOME=" + filepath.Join(f.data, allinone.UsersDir)
		}
		a.Say(fmt.Sprintf("ready in %.1fs: %s, realm %s, data %s (%s)",
			time.Since(start).Seconds(), stack.Server().URL(), strings.Join(f.realms, ", "), f.data, auth))
		<-waiting.Done()
		return nil
	}, func(error) { stopWaiting() })
	server, err := f.http.listen(registry, stack.Ready, stack.Status, f.profiles)
	if err != nil {
		return errors.Join(err, stack.Stop())
	}
	if server != nil {
		line := fmt.Sprintf("health and metrics: http://%s/metrics", server.Address())
		if taken := server.Taken(); taken != "" {
			line += " (" + taken + " is in use)"
		}
		a.Say(line)
		serving, stopServing := context.WithCancel(ctx)
		g.Add(func() error { return server.Run(serving) }, func(error) { stopServing() })
	}
	if err := f.console.run(ctx, &g, a, f, stack, registry, server); err != nil {
		return errors.Join(err, stack.Stop())
	}
	return g.Run()
}
