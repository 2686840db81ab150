// Command coppice runs Coppice's services, and is the command line client of a realm.
//
// This package has the flags and the wiring: commands.go lists all commands. Those that run services, set up an
// installation (secret, nats-config, rebuild, version), measure it (bench) and show it (demo) are here as well. The
// packages in internal have the others:
//
//	cli                                 what all commands share: connections, targets, manifests, formats, errors
//	read, write, deletion               commands about objects
//	realm, archives, recordings, audit  commands about realms and logs
//	operate                             commands of operators
//	lookup, plan                        what commands read about objects, and about deletions that are planned
//	describe, explain, history, changes put it into words
//	terminal, printing, tree            write it
//	recorder                            writes recordings
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

func main() {
	paceCollection()
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Main runs a command, and returns its exit code: 0 when it succeeded, 1 when it
// failed, 2 when it was called wrongly. diff returns 1 when it found differences, and
// 2 when it failed.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := newApp(stdin, stdout, stderr)
	root := rootOf(a)
	root.SetArgs(args)
	err := checkCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	var usage *cli.UsageError
	var code *cli.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code) && code.Err == nil:
		return code.Code
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(stderr, "coppice: %v\nSee 'coppice %s--help'.\n", err, usage.Command)
		return 2
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	for _, e := range cli.Joined(err) {
		if errors.Is(e, cli.ErrReported) {
			continue
		}
		if a.Log.JSON() {
			a.Logger().Error(cli.ErrorText(e))
			continue
		}
		_, _ = fmt.Fprintf(stderr, "coppice: %s\n", cli.ErrorText(e))
	}
	if code != nil {
		return code.Code
	}
	return 1
}
