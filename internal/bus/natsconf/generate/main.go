// Command generate writes deploy/nats/coppice.conf.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/coppice-gc/coppice/internal/bus/natsconf"
)

func main() {
	var b bytes.Buffer
	err := natsconf.Write(&b, natsconf.DefaultRoles(), "")
	if err == nil {
		err = os.WriteFile(os.Args[1], b.Bytes(), 0o644) //nolint:gosec // go generate names the file
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
