package recordings

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/segment"
)

// LogCommand returns the command `coppice log`.
func LogCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "log",
		GroupID: "operate",
		Short:   "Show or verify a recorded log",
		Long: `Show or verify a file that 'coppice record' has written, or a segment of an archive. No
server is needed. A file that is truncated, damaged or no recording is refused, with the
offset at which it cannot be used and the last commit before it.`,
		Args: cli.UnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var output string
	stats := &cobra.Command{
		Use:   "stats FILE",
		Short: "Show what a recorded log has: commits, events, kinds, times",
		Args:  cobra.ExactArgs(1),
		RunE: usable(func(_ context.Context, args []string) error {
			return logStats(a, args[0], output)
		}),
	}
	cat := &cobra.Command{
		Use:   "cat FILE",
		Short: "Print the events of a recorded log, as 'coppice events' does",
		Args:  cobra.ExactArgs(1),
		RunE: usable(func(ctx context.Context, args []string) error {
			return logCat(ctx, a, args[0], output)
		}),
	}
	for _, sub := range []*cobra.Command{stats, cat} {
		sub.Flags().StringVarP(&output, "output", "o", cli.FormatText, "text or json")
		cli.CompleteFlag(sub, "output", cli.TextFormats()...)
		c.AddCommand(sub)
	}
	c.AddCommand(&cobra.Command{
		Use:   "verify FILE",
		Short: "Read a recorded log to its end, and check it",
		Long: `Read a recorded log to its end. Check every checksum, and that the commits continue each
other. It exits with 1 if something is wrong. Authentication codes are not checked: only
graph services have the keys.`,
		Args: cobra.ExactArgs(1),
		RunE: usable(func(_ context.Context, args []string) error { return logVerify(a, args[0]) }),
	})
	return c
}

// usable returns the RunE of a command without a session.
func usable(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return cli.WithCommand(c, do(c.Context(), args))
	}
}

// recordedFile is a recorded log that is read from its beginning, with a progress bar.
type recordedFile struct {
	*os.File
	size int64
	bar  *terminal.Bar
}

func openRecorded(a *cli.App, name, label string) (*recordedFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &recordedFile{File: f, size: info.Size(), bar: a.Bar(label, "")}
	r.bar.Total = r.size
	return r, nil
}

// Read implements io.Reader.
func (r *recordedFile) Read(b []byte) (int, error) {
	n, err := r.File.Read(b)
	r.bar.Add(int64(n))
	return n, err
}

// unusable adds to an error of reading a recorded log the file, and what to do about it.
func unusable(name string, err error) error {
	var damaged *segment.DamagedError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &damaged):
		return fmt.Errorf("%s: %w", name, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: %w. If the file is a recording that was interrupted, repeat its 'coppice record', which continues it", name, err)
	case errors.Is(err, segment.ErrForeign):
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: %w. Record the log again, or take a copy of the file", name, err)
}

func logVerify(a *cli.App, name string) error {
	f, err := openRecorded(a, name, "verifying")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := segment.Verify(f)
	f.bar.Clear()
	if err != nil {
		return unusable(name, err)
	}
	_, err = fmt.Fprintf(a.Stdout, "complete: %s, sequence %d to %d, up to revision %d, %s\nrealm id %x, SHA-256 of the commits %x\n", terminal.Count(int(info.Commits), "commit"),
		info.Before.Sequence+1, info.Last.Sequence, info.Last.Revision, terminal.Bytes(info.Size), info.RealmID, info.Hash)
	return err
}

// logCat prints the events of the commits that can be read.
func logCat(ctx context.Context, a *cli.App, name, output string) error {
	if err := cli.CheckFormat(output, cli.TextFormats()...); err != nil {
		return err
	}
	f, err := openRecorded(a, name, "")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r, failure := segment.Open(f, f.size)
	if failure != nil {
		r, failure = segment.Recover(f, f.size) // what is good is printed
	}
	if r == nil {
		return unusable(name, failure)
	}
	names := history.Names{}
	h, err := history.Open(ctx, history.Recorded(r), names.Resource)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.Stdout)
	w := &history.Writer{W: out, Ink: a.Ink(), JSON: output == cli.FormatJSON, Now: a.Clock, Find: h.Find}
	for c, err := range h.Log.Read(ctx, client.FromSequence(1)) {
		if err != nil {
			failure = err
			break
		}
		names.Learn(c.Commit)
		for _, e := range h.Keep(c.Sequence, c.Commit).Entries() {
			if err := w.Event(ctx, e); err != nil {
				return err
			}
		}
	}
	return errors.Join(out.Flush(), unusable(name, failure))
}

// logSummary is what `log stats` shows.
type logSummary struct {
	Version       uint32                  `json:"version"`
	RealmID       string                  `json:"realmID"`
	Commits       uint64                  `json:"commits"`
	FirstSequence uint64                  `json:"firstSequence"`
	LastSequence  uint64                  `json:"lastSequence"`
	FirstRevision uint64                  `json:"firstRevision"`
	LastRevision  uint64                  `json:"lastRevision"`
	FirstTime     time.Time               `json:"firstTime"`
	LastTime      time.Time               `json:"lastTime"`
	Bytes         int64                   `json:"bytes"`
	MessageBytes  int64                   `json:"messageBytes"`
	Blocks        int                     `json:"blocks"`
	SHA256        string                  `json:"sha256"`
	Events        map[string]uint64       `json:"events"`
	Kinds         map[string]*kindSummary `json:"kinds"`
	Commands      map[string]uint64       `json:"commands"`
}

type kindSummary struct {
	Created uint64 `json:"created"`
	Deleted uint64 `json:"deleted"`
}

func logStats(a *cli.App, name, output string) error {
	if err := cli.CheckFormat(output, cli.TextFormats()...); err != nil {
		return err
	}
	f, err := openRecorded(a, name, "reading")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	s := &logSummary{Events: map[string]uint64{}, Kinds: map[string]*kindSummary{}, Commands: map[string]uint64{}}
	scanner, names := segment.NewScanner(f), history.Names{}
	for c, err := range scanner.Commits() {
		if err == nil {
			err = s.add(&c, names)
		}
		if err != nil {
			f.bar.Clear()
			return unusable(name, err)
		}
	}
	f.bar.Clear()
	s.complete(scanner.Info())
	if output == cli.FormatJSON {
		enc := json.NewEncoder(a.Stdout)
		enc.SetIndent("", "    ")
		return enc.Encode(s)
	}
	return s.write(a.Stdout)
}

// add counts a commit.
func (s *logSummary) add(c *segment.Commit, names history.Names) error {
	commit, err := history.Decode(*c)
	if err != nil {
		return err
	}
	s.MessageBytes += int64(len(c.Message))
	for _, command := range commit.GetCommands() {
		s.Commands[command.GetVerb()]++
	}
	names.Learn(commit)
	for _, e := range client.Events(commit, names.Resource) {
		s.Events[e.Type]++
		k := s.Kinds[e.Resource]
		if k == nil {
			k = &kindSummary{}
			s.Kinds[e.Resource] = k
		}
		switch e.Type {
		case "ObjectCreated":
			k.Created++
		case "ObjectDeleted":
			k.Deleted++
		}
	}
	return nil
}

// complete adds what the header and the footer of the file contain.
func (s *logSummary) complete(info segment.Info) {
	s.Version, s.RealmID, s.Commits = info.Version, fmt.Sprintf("%x", info.RealmID), info.Commits
	s.FirstSequence, s.LastSequence = info.Before.Sequence+1, info.Last.Sequence
	s.FirstRevision, s.LastRevision = info.Before.Revision+1, info.Last.Revision
	s.FirstTime, s.LastTime = time.UnixMicro(info.First.Time).UTC(), info.Last.Time.Time()
	s.Bytes, s.Blocks, s.SHA256 = info.Size, info.Blocks, fmt.Sprintf("%x", info.Hash)
}

func (s *logSummary) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, `format     version %d, %s
realm id   %s
commits    %d, sequence %d to %d
revisions  %d to %d
time       %s to %s
size       %s, of %s in the log
SHA-256    %s
`, s.Version, terminal.Count(s.Blocks, "block"), s.RealmID, s.Commits, s.FirstSequence, s.LastSequence, s.FirstRevision, s.LastRevision,
		s.FirstTime.Format(time.RFC3339), s.LastTime.Format(time.RFC3339), terminal.Bytes(s.Bytes), terminal.Bytes(s.MessageBytes), s.SHA256)
	if err != nil {
		return err
	}
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	table := func(rows [][]string) error {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		t := terminal.Table{W: w}
		for _, row := range rows {
			if err := t.Text(row...); err != nil {
				return err
			}
		}
		return t.Flush()
	}
	events, kinds, commands := [][]string{{"EVENT", "COUNT"}}, [][]string{{"RESOURCE", "CREATED", "DELETED"}}, [][]string{{"COMMAND", "COUNT"}}
	for _, name := range slices.Sorted(maps.Keys(s.Events)) {
		events = append(events, []string{name, number(s.Events[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Kinds)) {
		kinds = append(kinds, []string{name, number(s.Kinds[name].Created), number(s.Kinds[name].Deleted)})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Commands)) {
		commands = append(commands, []string{name, number(s.Commands[name])})
	}
	for _, rows := range [][][]string{events, kinds, commands} {
		if err := table(rows); err != nil {
			return err
		}
	}
	return nil
}
