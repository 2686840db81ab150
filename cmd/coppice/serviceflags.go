package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/services/graph/past"
)

// serviceFlags are those of all services.
type serviceFlags struct {
	realms   []string
	about    string // what realms are for
	http     httpFlag
	port     int // the default port of the HTTP server
	profiles bool
}

func (f *serviceFlags) add(a *cli.App, c *cobra.Command) {
	a.Dial.Flags(c.Flags())
	c.Flags().StringArrayVar(&f.realms, "realm", []string{bus.DefaultRealm}, f.about)
	f.http.add(c, f.port)
	a.LogFlags(c, slog.LevelInfo)
	c.Flags().BoolVar(&f.profiles, "pprof", false, "serve profiles under /debug/pprof/")
}

// What --realm means for graph services, and for services that follow the list of realms.
const (
	realmsOfGraph   = "realm that is created if it does not exist and was not deleted; may be repeated. All realms are served: see 'coppice realm'"
	realmsOfWorkers = "realm to work in until the list of realms is known; may be repeated. The service works in all realms: see 'coppice realm'"
)

// realmSequences is the value of a flag that names a sequence for each of some realms.
type realmSequences struct {
	name  string
	texts []string
}

func (f *realmSequences) add(c *cobra.Command, name, usage string) {
	f.name = name
	c.Flags().StringArrayVar(&f.texts, name, nil, usage)
}

// addAcceptLoss adds the flag for losses that must not prevent a start.
func (f *realmSequences) addAcceptLoss(c *cobra.Command) {
	f.add(c, "accept-loss", "`REALM@SEQUENCE`, as the error at the start names it: continue without commits that the log has lost, and record the loss in the log; may be repeated")
}

// addRestored adds the flag for logs that were restored from a backup.
func (f *realmSequences) addRestored(c *cobra.Command) {
	f.add(c, "restored", "`REALM@SEQUENCE`: the log was restored from a backup, and its stream ended at this sequence; revisions continue higher, so that clients that know later ones list again; may be repeated")
}

// realms returns the sequences by realm.
func (f *realmSequences) realms() (map[string]uint64, error) {
	of := map[string]uint64{}
	for _, text := range f.texts {
		realm, number, _ := strings.Cut(text, "@")
		sequence, err := strconv.ParseUint(number, 10, 64)
		if bus.CheckRealm(realm) != nil || err != nil || sequence == 0 {
			return nil, fmt.Errorf("--%s %s: write REALM@SEQUENCE", f.name, text)
		}
		of[realm] = sequence
	}
	return of, nil
}

// answersFlags are the credentials of the graph service's connection for replies.
type answersFlags struct{ user, password, passwordFile, creds, nkey, context string }

func (f *answersFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.user, "answers-user", "", "user of the connection that answers requests (default: "+bus.RoleAnswers+", if there is a --user)")
	c.Flags().StringVar(&f.password, "answers-password", "", "password of --answers-user")
	c.Flags().StringVar(&f.passwordFile, "answers-password-file", "", "file with the password of --answers-user")
	c.Flags().StringVar(&f.creds, "answers-creds", "", "file of user credentials for this connection")
	c.Flags().StringVar(&f.nkey, "answers-nkey", "", "file of a user's nkey for this connection")
	c.Flags().StringVar(&f.context, "answers-context", "", "context of the nats command for this connection")
}

// of returns the configuration of the connection for replies: that of the main connection
// with these credentials. It fails if only the main connection has credentials.
func (f *answersFlags) of(main *dial.Config) (*dial.Config, error) {
	c := *main
	c.User, c.Password, c.Creds, c.NKey, c.Context, c.InboxPrefix, c.Actor = f.user, f.password, f.creds, f.nkey, f.context, "", bus.RoleAnswers
	if f.passwordFile != "" {
		if c.Password != "" {
			return nil, errors.New("--answers-password and --answers-password-file are both set: choose one")
		}
		var err error
		if c.Password, err = dial.ReadPassword(f.passwordFile); err != nil {
			return nil, err
		}
	}
	if f.user != "" || f.creds != "" || f.nkey != "" || f.context != "" {
		return &c, nil
	}
	switch {
	case main.User != "" && c.Password != "":
		c.User = bus.RoleAnswers
	case main.User != "":
		return nil, errors.New("requests are answered on a connection with a user of its own, which may publish to inboxes only: give the password of " +
			bus.RoleAnswers + " with $COPPICE_ANSWERS_PASSWORD or --answers-password-file, or name another user with --answers-user, --answers-creds, --answers-nkey or --answers-context")
	case main.Creds != "" || main.NKey != "" || main.Context != "":
		return nil, errors.New("requests are answered on a connection with a user of its own, which may publish to inboxes only: name it with --answers-user, --answers-creds, --answers-nkey or --answers-context (coppice nats-config calls it " + bus.RoleAnswers + ")")
	}
	return &c, nil
}

// archiveFlag is the flag with the URL of the archive of a graph service.
type archiveFlag struct{ url string }

// noArchive is the value of the flag for no archive.
const noArchive = "none"

// add adds the flag. fallback says what its default is.
func (f *archiveFlag) add(c *cobra.Command, fallback string) {
	c.Flags().StringVar(&f.url, "archive", "", "URL of the archive of the logs: file:///dir, nats://bucket or s3://bucket/prefix?endpoint=URL; credentials of S3 are in the environment; "+noArchive+" for no archive ("+fallback+")")
}

// location parses the URL. ok is false if there is no archive.
func (f *archiveFlag) location() (l archive.Location, ok bool, err error) {
	if f.url == "" || f.url == noArchive {
		return l, false, nil
	}
	l, err = archive.ParseLocation(f.url)
	return l, err == nil, err
}

// openArchive returns the archive at a location, which is opened when it is used first. An
// object store is reached over nc, and created with a number of replicas.
func openArchive(l archive.Location, nc *nats.Conn, replicas int) archive.Store {
	o := stores.Opener{Replicas: replicas, JetStream: func(context.Context) (jetstream.JetStream, error) { return jetstream.New(nc) }}
	return o.Lazy(l)
}

// historyFlag is the flag with the size of the cache for states of the past.
type historyFlag struct{ mib uint32 }

func (f *historyFlag) add(c *cobra.Command) {
	c.Flags().Uint32Var(&f.mib, "history-cache", 2048, "MiB on disk for states of the past, which --at reads, in all realms of this process")
}

func (f *historyFlag) limits() past.Limits { return past.Limits{Bytes: int64(f.mib) << 20} }
