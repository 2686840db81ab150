package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// compared has the rates of a cascade in both.
type compared struct {
	name         string
	rows         int
	theirs, ours float64 // a second, medians
}

// shape is a cascade that both can carry out.
type shape struct {
	name string
	size int
	// insert makes the rows below the root, in SQL.
	insert func(n int) string
	args   []string
}

// shapes are the cascades of the comparison. The uid of a row is the md5 of its number,
// so that owners can be named and uids are distributed like random ones.
func shapes() []shape {
	row := func(i, owner string) string {
		return fmt.Sprintf(`select md5('n' || %s)::uuid, md5('n' || %s)::uuid, md5(%s::text), '{"app":"bench","want":"collected"}'::jsonb, repeat('x', 230)`, i, owner, i)
	}
	return []shape{
		{
			name: "wide", size: million, args: []string{"cascade"},
			insert: func(n int) string {
				return fmt.Sprintf(`insert into objects %s from generate_series(1, %d) i;`, row("i", "0"), n)
			},
		},
		{
			name: "tree", size: million, args: []string{"cascade", "--shape", "tree"},
			insert: func(n int) string {
				w := 1
				for (w+1)*(w+1)*(w+1) <= n {
					w++
				}
				return fmt.Sprintf(`insert into objects %s from generate_series(1, %d) i;`, row("i", fmt.Sprintf("((i - 1) / %d)", w)), w+w*w+w*w*w)
			},
		},
		{
			name: "chain", size: 10_000, args: []string{"cascade", "--shape", "chain"},
			insert: func(n int) string {
				return fmt.Sprintf(`insert into objects %s from generate_series(1, %d) i;`, row("i", "(i - 1)"), n)
			},
		},
	}
}

// postgres is a cluster of its own, in a temporary directory.
type postgres struct {
	bin, dir string
	asOwner  []string // what a command is run with that must not be root
}

// comparePostgres runs both in turn, and returns the medians.
func (s *suite) comparePostgres(ctx context.Context) (list []compared, err error) {
	pg, err := startPostgres(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pg.stop()) }()
	for _, sh := range shapes() {
		c := compared{name: sh.name, rows: s.sized(sh.size)}
		var theirs, ours []float64
		for i := range s.rounds {
			t, err := s.kept.rate(fmt.Sprintf("postgres %s of %d, round %d", sh.name, c.rows, i), func() (float64, error) { return pg.cascade(ctx, sh, c.rows) })
			if err != nil {
				return nil, err
			}
			theirs = append(theirs, t)
			o, err := s.kept.rate(fmt.Sprintf("coppice %s of %d, round %d", sh.name, c.rows, i), func() (float64, error) {
				r, err := s.afresh().bench(ctx, nil, append(slices.Clone(sh.args), "--objects", strconv.Itoa(c.rows))...)
				if err != nil {
					return 0, err
				}
				return r.ObjectsPerSecond, nil
			})
			if err != nil {
				return nil, err
			}
			ours = append(ours, o)
		}
		c.theirs, c.ours = median(theirs), median(ours)
		list = append(list, c)
	}
	return list, nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// startPostgres creates a cluster with the default settings, and starts it.
func startPostgres(ctx context.Context, dir string) (*postgres, error) {
	bin, err := postgresBin(ctx)
	if err != nil {
		return nil, err
	}
	pg := &postgres{bin: bin, dir: filepath.Join(dir, "postgres")}
	if err := os.MkdirAll(pg.dir, 0o700); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 { // it refuses to run as root; the package makes a user
		pg.asOwner = []string{"runuser", "-u", "postgres", "--"}
		if out, err := exec.CommandContext(ctx, "chown", "postgres", pg.dir).CombinedOutput(); err != nil { //nolint:gosec // this run's own
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		if err := os.Chmod(dir, 0o755); err != nil { // the directories above are this process's
			return nil, err
		}
	}
	data := filepath.Join(pg.dir, "data")
	if _, err := pg.run(ctx, "", "initdb", "-D", data, "-A", "trust", "-U", "bench", "--no-instructions"); err != nil {
		return nil, err
	}
	_, err = pg.run(ctx, "", "pg_ctl", "-D", data, "-w", "-l", filepath.Join(pg.dir, "log"), "-o", "-c listen_addresses= -k "+pg.dir, "start")
	return pg, err
}

// postgresBin returns the directory of PostgreSQL's programs. It installs Debian's
// package if there is none.
func postgresBin(ctx context.Context) (string, error) {
	find := func() string {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
		if len(found) > 0 {
			return filepath.Dir(found[len(found)-1])
		}
		if path, err := exec.LookPath("initdb"); err == nil {
			return filepath.Dir(path)
		}
		return ""
	}
	if bin := find(); bin != "" {
		return bin, nil
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", "apt-get update -qq && apt-get install -y -qq postgresql")
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if bin := find(); bin != "" {
		return bin, nil
	}
	return "", fmt.Errorf("PostgreSQL is not here, and cannot be installed (%w): %s", err, out)
}

// run runs one of PostgreSQL's programs.
func (pg *postgres) run(ctx context.Context, input string, args ...string) (string, error) {
	args = append([]string{filepath.Join(pg.bin, args[0])}, args[1:]...)
	args = append(slices.Clone(pg.asOwner), args...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // its own programs
	cmd.Dir, cmd.Stdin = pg.dir, strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}

// cascade inserts the rows and deletes the root, and returns the rows that are deleted
// per second.
func (pg *postgres) cascade(ctx context.Context, sh shape, n int) (float64, error) {
	script := `\set ON_ERROR_STOP on
set client_min_messages = warning;
drop table if exists objects;
create table objects (uid uuid primary key, owner uuid references objects (uid) on delete cascade, name text not null, labels jsonb not null, body text not null);
insert into objects values (md5('n' || 0)::uuid, null, 'root', '{}', '');
` + sh.insert(n) + `
create index on objects (owner);
analyze objects;
checkpoint;
select 'before ' || count(*) from objects;
select 'start ' || extract(epoch from clock_timestamp());
delete from objects where owner is null;
select 'end ' || extract(epoch from clock_timestamp());
select 'after ' || count(*) from objects;
`
	out, err := pg.run(ctx, script, "psql", "-h", pg.dir, "-U", "bench", "-d", "postgres", "-qAt")
	if err != nil {
		return 0, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			if values[name], err = strconv.ParseFloat(value, 64); err != nil {
				return 0, fmt.Errorf("psql said %q", out)
			}
		}
	}
	if values["before"] < 2 || values["after"] != 0 {
		return 0, fmt.Errorf("wrong outcome: psql said %q", out)
	}
	return values["before"] / (values["end"] - values["start"]), nil
}

func (pg *postgres) stop() error {
	_, err := pg.run(context.Background(), "", "pg_ctl", "-D", filepath.Join(pg.dir, "data"), "-m", "immediate", "stop")
	return err
}
