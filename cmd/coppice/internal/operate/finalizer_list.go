package operate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// finalizerJSON is a finalizer in use, for programs.
type finalizerJSON struct {
	Name        string     `json:"name"`
	Objects     uint64     `json:"objects"`
	Terminating uint64     `json:"terminating"`
	Oldest      *time.Time `json:"oldest,omitempty"`
	// Consumer is the state of the program that receives the calls: None, Alive, Busy, Failing,
	// Silent, or Unseen if it cannot be read.
	Consumer  string     `json:"consumer"`
	Process   string     `json:"process,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	Calls     uint64     `json:"calls,omitempty"`
	LastError string     `json:"lastError,omitempty"`
	NextRetry *time.Time `json:"nextRetry,omitempty"`
}

func listFinalizers(ctx context.Context, s *cli.Session, output string) error {
	if err := cli.CheckFormat(output, cli.FormatTable, cli.FormatWide, cli.FormatJSON); err != nil {
		return err
	}
	found, err := s.Client.Operations().Finalizers(ctx)
	if err != nil {
		return err
	}
	consumers := s.Consumers()
	if output == cli.FormatJSON {
		list := []finalizerJSON{}
		for _, f := range found {
			list = append(list, finalizerJSONOf(f, consumers.Finalizer(ctx, f.GetName())))
		}
		return s.WriteJSON(list)
	}
	if len(found) == 0 {
		_, _ = fmt.Fprintln(s.Stderr, "no object has an external finalizer")
		return nil
	}
	t := terminal.Table{W: s.Stdout}
	header := []string{"NAME", "OBJECTS", "TERMINATING", "OLDEST", "CONSUMER"}
	if output == cli.FormatWide {
		header = append(header, "PROCESS", "LAST ERROR")
	}
	if err := t.Text(header...); err != nil {
		return err
	}
	for _, f := range found {
		is := consumers.Finalizer(ctx, f.GetName())
		oldest := "<none>"
		if f.GetOldest() != 0 {
			oldest = terminal.Age(s.Clock().Sub(time.UnixMicro(f.GetOldest())))
		}
		row := []string{f.GetName(), fmt.Sprint(f.GetObjects()), fmt.Sprint(f.GetTerminating()), oldest, is.Word()}
		if output == cli.FormatWide {
			row = append(row, cmp.Or(is.Process, "<none>"), cmp.Or(is.Error, "<none>"))
		}
		if err := t.Text(row...); err != nil {
			return err
		}
	}
	return t.Flush()
}

func finalizerJSONOf(f *client.FinalizerInUse, is lookup.Consumer) finalizerJSON {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	j := finalizerJSON{
		Name: f.GetName(), Objects: f.GetObjects(), Terminating: f.GetTerminating(), Consumer: is.State.String(), Process: is.Process,
		Since: at(is.Since), Calls: is.Calls, LastError: is.Error, NextRetry: at(is.Retry),
	}
	if f.GetOldest() != 0 {
		j.Oldest = at(time.UnixMicro(f.GetOldest()))
	}
	return j
}
