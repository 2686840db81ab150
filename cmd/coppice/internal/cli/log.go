package cli

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// LogOptions say what services log, and how.
type LogOptions struct {
	format choice
	level  choice
}

// LogLevelFlag is the name of the flag with the lowest level that is logged.
const LogLevelFlag = "log-level"

// logLevels are the values of the flag.
var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// LogFlags adds the flags of logging. level is the level without a flag.
func (a *App) LogFlags(c *cobra.Command, level slog.Level) {
	a.Log.format = choice{of: TextFormats()}
	a.Log.level = choice{of: []string{"debug", "info", "warn", "error"}}
	add := func(value *choice, name, usage, fallback string) {
		f := c.Flags().VarPF(value, name, "", usage)
		f.DefValue = fallback
		CompleteFlag(c, name, value.of...)
	}
	add(&a.Log.format, "log-format", "`FORMAT` of the log on stderr: text or json", FormatText)
	add(&a.Log.level, LogLevelFlag, "lowest `LEVEL` that is logged: debug, info, warn or error", strings.ToLower(level.String()))
}

// JSON reports whether the log is in JSON.
func (o *LogOptions) JSON() bool { return o.format.value == FormatJSON }

// Logger logs to stderr: what services report, unless a flag says otherwise.
func (a *App) Logger() *slog.Logger { return a.LoggerAt(slog.LevelInfo) }

// QuietLogger logs what a person should look at, unless a flag says otherwise.
func (a *App) QuietLogger() *slog.Logger { return a.LoggerAt(slog.LevelWarn) }

// LoggerAt logs from a level on, unless a flag says otherwise; with --verbose, everything.
func (a *App) LoggerAt(level slog.Level) *slog.Logger {
	if chosen, ok := logLevels[a.Log.level.value]; ok {
		level = chosen
	}
	if a.Verbose {
		level = slog.LevelDebug
	}
	o := &slog.HandlerOptions{Level: level}
	if a.Log.JSON() {
		return slog.New(slog.NewJSONHandler(a.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, o))
}

// Say writes a line for the person who started services, and logs it where the log is in JSON.
func (a *App) Say(line string) {
	if a.Log.JSON() {
		a.Logger().Info(line)
		return
	}
	_, _ = fmt.Fprintln(a.Stderr, line)
}

// SayWarning writes a warning for the person who started services, and logs it where the log is in JSON.
func (a *App) SayWarning(text string) {
	if a.Log.JSON() {
		a.Logger().Warn(text)
		return
	}
	_, _ = fmt.Fprintln(a.Stderr, "warning: "+text)
}

// choice is the value of a flag that is one of a few words; "" until one is chosen.
type choice struct {
	of    []string
	value string
}

func (c *choice) String() string { return c.value }

func (c *choice) Type() string { return "choice" }

func (c *choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return fmt.Errorf("choose %s or %s", strings.Join(c.of[:len(c.of)-1], ", "), c.of[len(c.of)-1])
	}
	c.value = text
	return nil
}
