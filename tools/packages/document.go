package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// document has the command write its manual pages and completions into a directory: man/*.gz, and bash, zsh and fish. A command for
// another architecture does not run here; then the one of this machine is built.
func document(binary, arch string, at time.Time, dir string) error {
	if arch != runtime.GOARCH || runtime.GOOS != "linux" {
		binary = filepath.Join(dir, "coppice")
		if err := compile(binary, runtime.GOOS, runtime.GOARCH); err != nil {
			return err
		}
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	output := func(args ...string) ([]byte, error) {
		c := exec.Command(binary, args...) //nolint:gosec // the command of this repository
		c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(at.Unix(), 10))
		out, err := c.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		if err != nil {
			return nil, fmt.Errorf("coppice %v: %w", args, err)
		}
		return out, nil
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := output("completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, shell), script, 0o600); err != nil {
			return err
		}
	}
	man := filepath.Join(dir, "man")
	if _, err := output("man", man); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := compress(page); err != nil {
			return err
		}
	}
	return nil
}

// compress replaces a file by one that gzip has compressed, without a name and a time in it.
func compress(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(file+".gz", compressed.Bytes(), 0o600), os.Remove(file))
}
