// Command finalizer answers each call of a finalizer with an error that does not pass, so that its work is parked. Tests of the
// console start it: finalizer SERVER FINALIZER ERROR.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(server, finalizer, why string, out io.Writer) error {
	nc, err := nats.Connect(server)
	if err != nil {
		return err
	}
	defer nc.Close()
	if _, err := fmt.Fprintln(out, "answers", finalizer); err != nil {
		return err
	}
	return client.New(nc, client.WithActor("finalizer")).RunFinalizer(context.Background(), finalizer, func(context.Context, *client.Call) error {
		return client.Permanent(errors.New(why))
	})
}
