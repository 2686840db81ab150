package allinone

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/datadir"
)

// UsersDir is the subdirectory of Config.Dir with a file for each user. The files are contexts
// of the nats command, if this directory is its configuration directory (XDG_CONFIG_HOME).
const UsersDir = "users"

// user is the file of a user: a context of the nats command.
type user struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	User        string `json:"user"`
	Password    string `json:"password"`
	InboxPrefix string `json:"inbox_prefix"`
}

func userFile(dir, name string) string {
	return filepath.Join(dir, UsersDir, "nats", "context", name+".json")
}

// passwords reads the passwords of users from their files, and draws those of the
// users that have none.
func passwords(dir string, roles []bus.Role) (map[string]string, error) {
	m := map[string]string{}
	for _, r := range roles {
		if r.Login != (bus.Login{}) {
			continue
		}
		data, err := os.ReadFile(userFile(dir, r.Name))
		var u user
		switch {
		case err == nil:
			if err := json.Unmarshal(data, &u); err != nil || u.Password == "" {
				return nil, fmt.Errorf("user %s: %s has no password (%w): remove it, and another is drawn", r.Name, userFile(dir, r.Name), err)
			}
			m[r.Name] = u.Password
		case errors.Is(err, os.ErrNotExist):
			if m[r.Name], err = natsd.NewPassword(); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("user %s: %w", r.Name, err)
		}
	}
	return m, nil
}

// writeUsers writes the files of users, which only their owner may read.
func writeUsers(dir, url string, roles []bus.Role, passwords map[string]string) error {
	if err := datadir.Own(filepath.Join(dir, UsersDir)); err != nil {
		return err
	}
	if err := datadir.Make(filepath.Dir(userFile(dir, ""))); err != nil {
		return err
	}
	for _, r := range roles {
		if r.Login != (bus.Login{}) {
			continue
		}
		data, err := json.MarshalIndent(user{r.About, url, r.Name, passwords[r.Name], bus.InboxPrefix(r.Name)}, "", "  ") //nolint:gosec // the file that has the password
		if err != nil {
			return err
		}
		if err := datadir.WriteFile(userFile(dir, r.Name), append(data, '\n')); err != nil {
			return err
		}
	}
	return nil
}
