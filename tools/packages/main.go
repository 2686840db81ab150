// Command packages builds the packages of Coppice for Debian and Ubuntu (.deb), and for Fedora, Red Hat and SUSE
// (.rpm), from deploy/packages/nfpm.yaml. The same commit and the same Go release give the same bytes.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	module = "github.com/coppice-gc/coppice"
	config = "deploy/packages/nfpm.yaml"
)

// formats are the formats of nfpm in which packages are built.
var formats = []string{"deb", "rpm"}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

// options are the values of the flags.
type options struct {
	out, arch, binary, version string
}

func run(args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("packages", flag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.StringVar(&o.out, "o", "dist", "`directory` of the packages; a relative one begins at the root of the repository")
	flags.StringVar(&o.arch, "arch", runtime.GOARCH, "`architectures`, as Go names them, separated by commas")
	flags.StringVar(&o.binary, "binary", "", "`file` of the command coppice (default: it is built)")
	flags.StringVar(&o.version, "version", "", "`version` of the packages (default: the version of the binary, which Go takes from the tags of git)")
	flags.Usage = func() {
		fmt.Fprint(stdout, "Build a .deb and a .rpm of Coppice for each architecture:\n\n  go run -C tools/packages . [flags]\n\n"+
			"The files of a package have the time of the commit; SOURCE_DATE_EPOCH sets another one.\n\nFlags:\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: an argument that is no flag", flags.Arg(0))
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil { // the configuration has paths relative to it
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for arch := range strings.SplitSeq(o.arch, ",") {
		if err := build(o, arch, stdout); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	return nil
}

// findRoot returns the root of the repository, above the working directory.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		data, readErr := os.ReadFile(filepath.Join(dir, "go.mod"))
		if readErr == nil && strings.HasPrefix(string(data), "module "+module+"\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("the working directory is not in the repository of Coppice")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// build builds the packages of an architecture.
func build(o options, arch string, stdout io.Writer) error {
	binary := o.binary
	if binary == "" {
		dir, err := os.MkdirTemp("", "coppice-packages")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binary = filepath.Join(dir, "coppice")
		if err := compile(binary, "linux", arch); err != nil {
			return err
		}
	}
	b, err := inspect(binary)
	if err != nil {
		return err
	}
	if b.arch != arch {
		return fmt.Errorf("%s is for %s", binary, b.arch)
	}
	if o.version != "" {
		b.version = o.version
	}
	docs, err := os.MkdirTemp("", "coppice-packages")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(docs) }()
	if err := document(binary, arch, b.time, docs); err != nil {
		return err
	}
	mapping := map[string]string{"BINARY": binary, "ARCH": arch, "VERSION": b.version, "DOCS": docs}
	for _, format := range formats {
		name, err := pack(format, b.time, mapping, o.out)
		if err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		_, _ = fmt.Fprintln(stdout, name)
	}
	return nil
}

// compile builds the command for a system and an architecture. Go records the commit, its time and its tag in it.
func compile(file, system, arch string) error {
	c := exec.Command("go", "build", "-buildvcs=true", "-trimpath", "-o", file, "./cmd/coppice")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// binary is what Go records in a command.
type binary struct {
	arch, version string
	time          time.Time // of the commit, or of SOURCE_DATE_EPOCH
}

func inspect(file string) (b binary, err error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return b, err
	}
	var commit string
	for _, s := range info.Settings {
		switch s.Key {
		case "GOARCH":
			b.arch = s.Value
		case "vcs.time":
			commit = s.Value
		}
	}
	b.version = strings.TrimPrefix(info.Main.Version, "v")
	if b.version == "" || b.version == "(devel)" {
		b.version = "0.1.0-dev" // as 'coppice version' says then
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return b, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		b.time = time.Unix(seconds, 0).UTC()
		return b, nil
	}
	if commit == "" {
		return b, fmt.Errorf("%s does not record the time of its commit: build it with -buildvcs=true, or set SOURCE_DATE_EPOCH", file)
	}
	b.time, err = time.Parse(time.RFC3339, commit)
	return b, err
}

// pack writes a package in a format of nfpm, and returns the name of its file.
func pack(format string, at time.Time, mapping map[string]string, out string) (name string, err error) {
	c, err := nfpm.ParseFileWithEnvMapping(config, func(name string) string { return mapping[name] })
	if err != nil {
		return "", err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	info, err := c.Get(format)
	if err != nil {
		return "", err
	}
	info.MTime = at
	for _, f := range info.Contents { // nfpm takes the time of the source otherwise
		if f.FileInfo == nil {
			return "", fmt.Errorf("%s: %s has no mode", config, f.Destination)
		}
		f.FileInfo.MTime = at
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", err
	}
	name = filepath.Join(out, packager.ConventionalFileName(info))
	file, err := os.Create(name)
	if err != nil {
		return "", err
	}
	if err := errors.Join(packager.Package(info, file), file.Close()); err != nil {
		_ = os.Remove(name)
		return "", err
	}
	return name, nil
}
