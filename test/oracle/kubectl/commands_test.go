package kubectl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coppice-gc/coppice/internal/oracle"
)

// playCommands runs the command lines of scripts, each in two namespaces of its own, here and
// there. The commands of the scripts are
//
//	objects   prints the objects of commands-objects.yaml, which exist in each of the two
//	          namespaces when a command line begins; kubectl is configured for here
//	file NAME a file in the working directory
//	kubectl   runs each line of the input; prints the exit code, the first lines of the
//	          outputs, and which objects have changed
//	flags     prints the flags of each command in the input, with their shorthands
//	recorded  the versions of Kubernetes and kubectl, and the checksum of the script
//
// In command lines and files, $here and $there are the names of the namespaces.
func playCommands(t *testing.T, k *kubernetes, scripts, version string) {
	t.Helper()
	datadriven.Walk(t, scripts, func(t *testing.T, path string) {
		t.Helper()
		own := *k.kubectl
		own.directory = t.TempDir()
		c := &commands{kubernetes: &kubernetes{&own, k.client}, file: scripts + "-objects.yaml", name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}
		var sum oracle.Sum
		done := false
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			if done = d.Cmd == "recorded"; done {
				return sum.Of(version)
			}
			sum.Add(d)
			out, err := c.play(t.Context(), d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
		if !done {
			t.Errorf("%s does not end with 'recorded'", path)
		}
	})
}

// commands plays a script of command lines.
type commands struct {
	*kubernetes
	file    string // the objects
	name    string
	objects []unstructured.Unstructured
	world   int
}

func (c *commands) play(ctx context.Context, d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "objects":
		return c.read()
	case "file":
		return "", os.WriteFile(filepath.Join(c.directory, d.CmdArgs[0].Key), []byte(d.Input), 0o600)
	case "kubectl":
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			out, err := c.line(ctx, strings.TrimSuffix(line, "\n"))
			if err != nil {
				return "", fmt.Errorf("%s: %w", line, err)
			}
			b.WriteString(out)
		}
		return b.String(), nil
	case "flags":
		var b strings.Builder
		for command := range strings.Lines(d.Input) {
			args := strings.Fields(command)
			if args[0] != "options" { // whose output is the help of the global flags
				args = append(args, "--help")
			}
			r, err := c.run(ctx, args...)
			if err != nil {
				return "", err
			}
			for _, m := range flag.FindAllStringSubmatch(r.stdout, -1) {
				fmt.Fprintln(&b, strings.TrimRight(strings.TrimSpace(command)+" --"+m[2]+" "+m[1], " "))
			}
		}
		return b.String(), nil
	}
	return "", fmt.Errorf("there is no command %q", d.Cmd)
}

// read reads the objects that exist in each namespace.
func (c *commands) read() (string, error) {
	raw, err := os.ReadFile(c.file)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw))
	for {
		var o unstructured.Unstructured
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return b.String(), nil
		} else if err != nil {
			return "", fmt.Errorf("%s: %w", c.file, err)
		}
		text, err := o.MarshalJSON()
		if err != nil {
			return "", err
		}
		b.Write(text)
		c.objects = append(c.objects, o)
	}
}

// resources are the kinds of objects that exist.
var resources = map[string]schema.GroupVersionResource{
	"ConfigMap":  {Version: "v1", Resource: "configmaps"},
	"Pod":        {Version: "v1", Resource: "pods"},
	"Deployment": {Group: "apps", Version: "v1", Resource: "deployments"},
	"Widget":     widgets,
}

// line runs a command line, with new objects.
func (c *commands) line(ctx context.Context, line string) (string, error) {
	args, err := oracle.Arguments(line)
	if err != nil {
		return "", err
	}
	c.world++
	here, there := fmt.Sprintf("%s-%d-here", c.name, c.world), fmt.Sprintf("%s-%d-there", c.name, c.world)
	names := strings.NewReplacer(here, "here", there, "there", c.directory+"/", "")
	for _, namespace := range []string{here, there} {
		if err := c.fill(ctx, namespace); err != nil {
			return "", err
		}
	}
	if err := c.use(here); err != nil {
		return "", err
	}
	before, err := c.stored(ctx, here, there)
	if err != nil {
		return "", err
	}
	actual := strings.NewReplacer("$here", here, "$there", there)
	for i := range args {
		args[i] = actual.Replace(args[i])
	}
	files, err := c.substitute(actual)
	if err != nil {
		return "", err
	}
	r, err := c.run(ctx, args...)
	if err != nil {
		return "", err
	}
	if err := files(); err != nil {
		return "", err
	}
	after, err := c.stored(ctx, here, there)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "$ kubectl %s\nexit %d\n", line, r.code)
	b.WriteString(lines("out", names.Replace(r.stdout)))
	b.WriteString(lines("err", names.Replace(r.stderr)))
	for _, effect := range oracle.Effects(before, after) {
		fmt.Fprintln(&b, names.Replace(effect))
	}
	return b.String(), nil
}

// fill creates a namespace with the objects.
func (c *commands) fill(ctx context.Context, namespace string) error {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	if _, err := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, o := range c.objects {
		resource, known := resources[o.GetKind()]
		if !known {
			return fmt.Errorf("there are no objects of kind %q", o.GetKind())
		}
		if _, err := c.client.Resource(resource).Namespace(namespace).Create(ctx, &o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// use makes a namespace that of kubectl's configuration.
func (c *commands) use(namespace string) error {
	config, err := clientcmd.LoadFromFile(c.config())
	if err != nil {
		return err
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	return clientcmd.WriteToFile(*config, c.config())
}

// substitute replaces $here and $there in the files of the working directory, until the
// function that it returns is called.
func (c *commands) substitute(actual *strings.Replacer) (restore func() error, err error) {
	names, err := filepath.Glob(filepath.Join(c.directory, "*"))
	if err != nil {
		return nil, err
	}
	were := map[string][]byte{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		were[name] = raw
		if err := os.WriteFile(name, []byte(actual.Replace(string(raw))), 0o600); err != nil {
			return nil, err
		}
	}
	return func() error {
		for name, raw := range were {
			if err := os.WriteFile(name, raw, 0o600); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// stored returns the resource versions of the objects of some namespaces.
func (c *commands) stored(ctx context.Context, namespaces ...string) (map[string]string, error) {
	all := map[string]string{}
	for _, resource := range resources {
		for _, namespace := range namespaces {
			list, err := c.client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for _, o := range list.Items {
				if o.GetName() != "kube-root-ca.crt" {
					all[namespace+"/"+resource.Resource+"/"+o.GetName()] = o.GetResourceVersion()
				}
			}
		}
	}
	return all, nil
}

var (
	log = regexp.MustCompile(`^([IWEF])\d{4} [0-9:.]+ +\d+ [a-z_]+\.go:\d+\] `)
	// flag is a flag in a help.
	flag = regexp.MustCompile(`(?m)^ +(?:(-\w), )?--([a-z0-9-]+)=.*:$`)
)

// most is the number of lines that are recorded of an output.
const most = 6

// lines describes an output, without what differs between runs.
func lines(stream, output string) string {
	var b bytes.Buffer
	count := 0
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		line = log.ReplaceAllString(line, "$1 ")
		if line == "" || strings.HasPrefix(line, "map[") || strings.HasPrefix(line, "I ") {
			continue // nothing, a whole object in Go's syntax, or what kubectl logs about its connection
		}
		if count++; count <= most {
			fmt.Fprintf(&b, "%s: %s\n", stream, oracle.Columns(line))
		}
	}
	if count > most {
		fmt.Fprintf(&b, "%s: and %d more lines\n", stream, count-most)
	}
	return b.String()
}
