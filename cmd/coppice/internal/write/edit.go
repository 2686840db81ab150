package write

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// EditCommand returns the command `coppice edit`.
func EditCommand(a *cli.App) *cobra.Command {
	var w cli.Where
	c := &cobra.Command{
		Use:     "edit TYPE NAME | TYPE/NAME",
		GroupID: "objects",
		Short:   "Edit an object in an editor",
		Long: `Open the manifest of an object in an editor, and replace the object by the saved
manifest. The edit is refused if the object has changed meanwhile; then the edited
file is kept, and the error names it. The status of the object is not changed.

The editor is $COPPICE_EDITOR, $KUBE_EDITOR, $VISUAL or $EDITOR, otherwise vi. It
is run by the shell, and may have arguments.`,
		Example:           `  EDITOR='code --wait' coppice edit deploy/web -n shop`,
		ValidArgsFunction: a.CompleteTargets(&w),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return editObject(ctx, s, args, w)
		}),
	}
	w.Flags(c, false)
	a.ClientFlags(c)
	return c
}

func editObject(ctx context.Context, s *cli.Session, args []string, w cli.Where) error {
	k, name, err := s.OneObject(args)
	if err != nil {
		return err
	}
	objects := s.Objects(k, w.NamespaceOf(k))
	o, err := objects.Get(ctx, name, client.IncludeUninitialized(true))
	if err != nil {
		return s.IfImplicit(ctx, k, name, err)
	}
	before, err := manifestfile.ToYAML(o)
	if err != nil {
		return err
	}
	path, after, err := inEditor(ctx, s, before)
	if err != nil {
		return fmt.Errorf("edit %s: %w", printing.Key(k, name), err)
	}
	done, err := replaceEdited(ctx, s, objects, o, path, before, after)
	if err != nil {
		return fmt.Errorf("edit %s: %w; the edited manifest is in %s", printing.Key(k, name), err, path)
	}
	_ = os.Remove(path)
	_, err = fmt.Fprintf(s.Stdout, "%s %s\n", terminal.Printable(printing.Key(k, name)), done)
	return err
}

// inEditor has a text edited, and returns it with the file that has it.
func inEditor(ctx context.Context, s *cli.Session, text []byte) (path string, edited []byte, err error) {
	f, err := os.CreateTemp("", "coppice-edit-*.yaml")
	if err != nil {
		return "", nil, err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, err
	}
	editor := cmp.Or(os.Getenv("COPPICE_EDITOR"), os.Getenv("KUBE_EDITOR"), os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	run := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", f.Name()) //nolint:gosec // the user names the editor
	run.Stdin, run.Stdout, run.Stderr = s.Stdin, s.Stdout, s.Stderr
	if err := run.Run(); err != nil {
		return "", nil, fmt.Errorf("the editor %q failed: %w; the object is unchanged", editor, err)
	}
	edited, err = os.ReadFile(f.Name())
	return f.Name(), edited, err
}

// replaceEdited replaces an object by its edited manifest, and says what happened.
func replaceEdited(ctx context.Context, s *cli.Session, objects client.ResourceClient, o *coppicev1.Object, path string, before, after []byte) (string, error) {
	if bytes.Equal(before, after) {
		return "not edited", nil
	}
	entries, err := manifestfile.Read(path, after)
	switch {
	case err != nil:
		return "", err
	case len(entries) != 1:
		return "", fmt.Errorf("the file has %d objects; it must have the one that was edited", len(entries))
	case entries[0].Err != nil:
		return "", entries[0].Err
	case entries[0].Foreign != nil:
		return "", entries[0].Foreign
	}
	edited, was := entries[0].Object, o.GetMetadata()
	is := edited.GetMetadata()
	if edited.GetKind() != o.GetKind() || is.GetName() != was.GetName() || is.GetNamespace() != was.GetNamespace() {
		return "", errors.New("kind, name and namespace of an object cannot be edited; create another object")
	}
	var reply client.Reply
	r, err := objects.Update(ctx, edited, client.ReplyInto(&reply))
	if err != nil {
		return "", err
	}
	if accepted(s.App, entries[0].At, r, reply.Warnings) {
		return deleted, nil
	}
	if r.GetMetadata().GetResourceVersion() == was.GetResourceVersion() {
		return "not edited", nil
	}
	return "edited", nil
}
