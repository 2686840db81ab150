package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/coppice-gc/coppice/services/graph/whatif"
)

// replayWhatIf reports what a recorded log would have become under other settings.
func (a *app) replayWhatIf(ctx context.Context, file string, f replayFlags) (err error) {
	if err := checkFormat(f.output, textFormats()...); err != nil {
		return err
	}
	data, err := os.ReadFile(f.whatIf)
	if err != nil {
		return err
	}
	settings, err := whatif.ReadSettings(f.whatIf, data)
	if err != nil {
		return err
	}
	r, err := a.openRecorded(file, "replaying")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	report, err := whatif.Run(ctx, r, settings, func(uint64) {})
	r.bar.Clear()
	if errors.Is(err, whatif.ErrSettings) {
		return err
	}
	if err != nil {
		return unusable(file, err)
	}
	if f.output == formatJSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	return report.Write(a.stdout)
}
