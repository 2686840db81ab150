package recordings

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/services/graph/whatif"
)

// replayWhatIf reports what a recorded log would have become under other settings.
func replayWhatIf(ctx context.Context, a *cli.App, file string, f replayFlags) (err error) {
	if err := cli.CheckFormat(f.output, cli.TextFormats()...); err != nil {
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
	r, err := openRecorded(a, file, "replaying")
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
	if f.output == cli.FormatJSON {
		enc := json.NewEncoder(a.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	return report.Write(a.Stdout)
}
