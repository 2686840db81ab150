package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// What TestMain builds: packages of this commit, and packages of a later version whose settings of coppice-processor
// and coppice-graph have one line more.
var (
	root             string
	oldDeb, newDeb   string
	oldRPM, newRPM   string
	program          string // the command coppice
	natsServer       string
	changedInUpgrade = []string{"deploy/systemd/env/processor.env", "deploy/systemd/env/graph.env"}
)

const (
	added   = "# A line of the new version."
	version = "9999.0.0"
)

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "coppice-packages")
	if err == nil {
		err = prepare(dir)
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func prepare(dir string) (err error) {
	if root, err = findRoot(); err != nil {
		return err
	}
	natsServer, program = filepath.Join(dir, "nats-server"), filepath.Join(dir, "coppice")
	build := exec.Command("go", "build", "-o", natsServer, "github.com/nats-io/nats-server/v2")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("nats-server: %w: %s", err, out)
	}
	if oldDeb, oldRPM, err = packages(root, filepath.Join(dir, "old")); err != nil {
		return err
	}
	if out, err := exec.Command("sh", "-c", `dpkg-deb --fsys-tarfile "$1" | tar -x -O ./usr/bin/coppice > "$2" && chmod +x "$2"`, "extract", oldDeb, program).CombinedOutput(); err != nil {
		return fmt.Errorf("coppice: %w: %s", err, out)
	}
	changed := filepath.Join(dir, "repository")
	if err := os.CopyFS(filepath.Join(changed, "deploy"), os.DirFS(filepath.Join(root, "deploy"))); err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "go.mod"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(changed, name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range changedInUpgrade {
		file, err := os.OpenFile(filepath.Join(changed, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(file, added)
		if err := file.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	newDeb, newRPM, err = packages(changed, filepath.Join(dir, "new"), "-binary", program, "-version", version)
	return err
}

// packages builds the packages of a repository.
func packages(repository, out string, args ...string) (deb, rpm string, err error) {
	before, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	if err := os.Chdir(repository); err != nil {
		return "", "", err
	}
	var stdout bytes.Buffer
	err = run(append(args, "-o", out), &stdout)
	if back := os.Chdir(before); err == nil {
		err = back
	}
	names := strings.Fields(stdout.String())
	if err == nil && (len(names) != 2 || filepath.Ext(names[0]) != ".deb" || filepath.Ext(names[1]) != ".rpm") {
		err = fmt.Errorf("the packages are %q", names)
	}
	if err != nil {
		return "", "", err
	}
	return names[0], names[1], nil
}

// output returns what a program prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	return string(out)
}

// A second build of the same commit gives the same bytes.
func TestReproducible(t *testing.T) {
	deb, rpm, err := packages(root, t.TempDir())
	succeed(t, err)
	for _, p := range [][2]string{{deb, oldDeb}, {rpm, oldRPM}} {
		if filepath.Base(p[0]) != filepath.Base(p[1]) {
			t.Errorf("a second build is called %s, and the first %s", filepath.Base(p[0]), filepath.Base(p[1]))
		}
		a, err := os.ReadFile(p[0])
		succeed(t, err)
		b, err := os.ReadFile(p[1])
		succeed(t, err)
		if !bytes.Equal(a, b) {
			t.Errorf("a second build of %s has other bytes", filepath.Base(p[0]))
		}
	}
}

// files are the files of both packages, with their modes.
const files = `
drwxr-xr-x /etc/coppice
-rw------- /etc/coppice/coppice.env
drwx------ /etc/coppice/credentials
-rw------- /etc/coppice/finalizers.env
-rw------- /etc/coppice/graph.env
-rw------- /etc/coppice/processor.env
-rw------- /etc/coppice/scanner.env
-rw------- /etc/coppice/up.env
-rwxr-xr-x /usr/bin/coppice
-rw-r--r-- /usr/lib/systemd/system/coppice-finalizers.service
-rw-r--r-- /usr/lib/systemd/system/coppice-graph.service
-rw-r--r-- /usr/lib/systemd/system/coppice-processor.service
-rw-r--r-- /usr/lib/systemd/system/coppice-scanner.service
-rw-r--r-- /usr/lib/systemd/system/coppice-up.service
-rw-r--r-- /usr/lib/sysusers.d/coppice.conf
-rw-r--r-- /usr/lib/tmpfiles.d/coppice.conf
-rw-r--r-- /usr/share/bash-completion/completions/coppice
-rw-r--r-- /usr/share/doc/coppice/README.md
-rw-r--r-- /usr/share/doc/coppice/copyright
-rw-r--r-- /usr/share/doc/coppice/examples/nats-server.service
-rw-r--r-- /usr/share/doc/coppice/examples/realm-settings.yaml
-rw-r--r-- /usr/share/fish/vendor_completions.d/coppice.fish
-rw-r--r-- /usr/share/zsh/vendor-completions/_coppice
`

// withoutPages returns a list of files without the manual pages, which must be those that the command writes.
func withoutPages(t *testing.T, list string) string {
	t.Helper()
	dir := t.TempDir()
	output(t, program, "man", dir)
	pages, err := os.ReadDir(dir)
	succeed(t, err)
	var others []string
	found := map[string]bool{}
	for line := range strings.Lines(list) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "-rw-r--r-- /usr/share/man/man1/"); ok {
			found[name] = true
		} else {
			others = append(others, strings.TrimSpace(line))
		}
	}
	for _, page := range pages {
		if !found[page.Name()+".gz"] {
			t.Errorf("the package does not have the manual page %s", page.Name())
		}
	}
	if len(found) != len(pages) || len(pages) < 60 {
		t.Errorf("the package has %d manual pages, and the command writes %d", len(found), len(pages))
	}
	slices.Sort(others)
	slices.SortFunc(others, func(a, b string) int { return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):]) })
	return strings.Join(others, "\n")
}

// The manual pages are ones that mandoc has nothing to say about, and have the date of the commit. bash completes the command.
func TestDocumentation(t *testing.T) {
	dir := t.TempDir()
	output(t, "dpkg-deb", "--extract", oldDeb, dir)
	pages, err := filepath.Glob(filepath.Join(dir, "usr/share/man/man1/*.gz"))
	succeed(t, err)
	output(t, "gzip", append([]string{"--decompress"}, pages...)...)
	for i, page := range pages {
		pages[i] = strings.TrimSuffix(page, ".gz")
	}
	if said := output(t, "mandoc", append([]string{"-Tlint", "-Wwarning"}, pages...)...); said != "" {
		t.Errorf("mandoc says: %s", said)
	}
	page, err := os.ReadFile(filepath.Join(dir, "usr/share/man/man1/coppice-delete.1"))
	succeed(t, err)
	if date := strings.TrimSpace(output(t, "git", "-C", root, "log", "-1", "--date=format-local:%Y-%m-%d", "--format=%cd")); !strings.Contains(string(page), date) {
		t.Errorf("the page does not have the date %s: %.100s", date, page)
	}
	if said := output(t, "bash", "--norc", "-c", "source "+dir+"/usr/share/bash-completion/completions/coppice && complete -p coppice"); !strings.Contains(said, "coppice") {
		t.Errorf("bash says %q", said)
	}
}

// configuration are the files that an upgrade does not replace.
const configuration = `
/etc/coppice/coppice.env
/etc/coppice/finalizers.env
/etc/coppice/graph.env
/etc/coppice/processor.env
/etc/coppice/scanner.env
/etc/coppice/up.env
`

func TestContents(t *testing.T) {
	var listed []string
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", oldDeb)) {
		f := strings.Fields(line)
		if name := strings.TrimSuffix(strings.TrimPrefix(f[5], "."), "/"); f[0] != "drwxr-xr-x" || name == "/etc/coppice" {
			listed = append(listed, f[0]+" "+name)
		}
		if f[1] != "root/root" {
			t.Errorf("the .deb has a file of %s: %s", f[1], f[5])
		}
	}
	equal(t, "the files of the .deb", withoutPages(t, strings.Join(listed, "\n")), files)
	equal(t, "the files of the .rpm", withoutPages(t, output(t, "rpm", "-qp", "--queryformat", `[%{FILEMODES:perms} %{FILENAMES}\n]`, oldRPM)),
		strings.Replace(files, "/zsh/vendor-completions/", "/zsh/site-functions/", 1)) // where each distribution has them
	if owners := output(t, "rpm", "-qp", "--queryformat", `[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]`, oldRPM); strings.ReplaceAll(owners, "root:root\n", "") != "" {
		t.Errorf("the .rpm has files of other users than root: %s", owners)
	}
	equal(t, "the configuration files of the .deb", output(t, "dpkg-deb", "--info", oldDeb, "conffiles"), configuration)
	equal(t, "the configuration files of the .rpm", output(t, "rpm", "-qpc", oldRPM), configuration)
	if flags := output(t, "rpm", "-qp", "--queryformat", `[%{FILEFLAGS:fflags} %{FILENAMES}\n]`, oldRPM); strings.Count(flags, "cn /etc/coppice/") != strings.Count(configuration, ".env") {
		t.Errorf("the .rpm has configuration files that it replaces:\n%s", flags)
	}
}

// The packages have the scripts of deploy/packages, their name, and what they need.
func TestDescription(t *testing.T) {
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		want, err := os.ReadFile(filepath.Join(root, "deploy/packages/deb", script))
		succeed(t, err)
		equal(t, script+" of the .deb", output(t, "dpkg-deb", "--info", oldDeb, script), string(want))
	}
	for script, tag := range map[string]string{"postinstall": "POSTIN", "preremove": "PREUN", "postremove": "POSTUN"} {
		want, err := os.ReadFile(filepath.Join(root, "deploy/packages/rpm", script))
		succeed(t, err)
		equal(t, script+" of the .rpm", output(t, "rpm", "-qp", "--queryformat", "%{"+tag+"}", oldRPM), string(want))
	}
	equal(t, "the .deb", output(t, "dpkg-deb", "--field", newDeb, "Package", "Version", "Depends"),
		"Package: coppice\nVersion: "+version+"-1\nDepends: systemd (>= 250)")
	equal(t, "the .rpm", output(t, "rpm", "-qp", "--queryformat", `%{NAME} %{VERSION}-%{RELEASE} %{LICENSE}`, newRPM), "coppice "+version+"-1 Apache-2.0")
	if needs := output(t, "rpm", "-qpR", newRPM); !strings.Contains(needs, "systemd >= 250\n") {
		t.Errorf("the .rpm needs %s", needs)
	}
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%s:\n%s\nexpected:\n%s", what, got, want)
	}
}

// Mistakes are named.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"all"}, "all: an argument that is no flag"},
		{[]string{"-binary", program, "-arch", map[bool]string{true: "arm64", false: "amd64"}[runtime.GOARCH == "amd64"]}, program + " is for " + runtime.GOARCH},
		{[]string{"-binary", "go.mod"}, "go.mod"},
		{[]string{"-arch", "vax"}, "unsupported GOOS/GOARCH pair linux/vax"},
	} {
		if _, _, err := packages(root, t.TempDir(), c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v; expected is %q", c.args, err, c.says)
		}
	}
}
