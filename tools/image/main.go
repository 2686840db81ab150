// Command image writes Coppice's container image as an OCI archive, without a container engine. deploy/docker/README.md
// says how to use it. deploy/image runs it from the root of the repository:
//
//	go run ./deploy/image -o coppice.tar
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags of the command.
type options struct {
	output    string
	source    string
	platforms []platform
	version   string
	epoch     string // SOURCE_DATE_EPOCH
}

// A platform is what a container runs on.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// supported are the platforms that have images.
var supported = []platform{{"linux", "amd64"}, {"linux", "arm64"}}

// parsePlatforms parses a comma-separated list, and returns it in the order of supported.
func parsePlatforms(list string) ([]platform, error) {
	chosen := map[platform]bool{}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(supported, func(p platform) bool { return p.String() == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("-platform %q: choose from linux/amd64 and linux/arm64", name)
		}
		chosen[supported[i]] = true
	}
	return slices.DeleteFunc(slices.Clone(supported), func(p platform) bool { return !chosen[p] }), nil
}

// created returns the time of all files of the image: SOURCE_DATE_EPOCH, or else the time of the commit.
func (o options) created(commit time.Time) (time.Time, error) {
	if o.epoch == "" {
		return commit, nil
	}
	seconds, err := strconv.ParseInt(o.epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s: want seconds since 1970", o.epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	output := flags.String("o", "coppice.tar", "file of the archive; the bills of materials are next to it")
	list := flags.String("platform", "linux/amd64,linux/arm64", "comma-separated platforms")
	version := flags.String("version", "", "version of the program and the image, such as 1.2.3; empty for the one that Go derives from the commit")
	source := flags.String("source", "../..", "directory of the repository")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	platforms, err := parsePlatforms(*list)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(*source)
	if err != nil {
		return err
	}
	return build(ctx, options{output: *output, source: root, platforms: platforms, version: *version, epoch: os.Getenv("SOURCE_DATE_EPOCH")}, stdout, stderr)
}
