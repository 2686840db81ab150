package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
)

// passwordsFile is the file with the passwords of all users, which a configuration of NATS includes. No user
// has this name: names have no dots.
const passwordsFile = "passwords.conf"

// writePasswords generates the passwords of users that have none in a directory, and writes the file with all.
func writePasswords(dir string, roles []bus.Role) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	passwords := map[string]string{}
	for _, r := range roles {
		var err error
		if passwords[r.Name], err = passwordIn(filepath.Join(dir, r.Name)); err != nil {
			return err
		}
	}
	var all bytes.Buffer
	if err := natsconf.Passwords(&all, roles, func(user string) string { return passwords[user] }); err != nil {
		return err
	}
	return written(dir, all.Bytes(), func(file string) error { return os.Rename(file, filepath.Join(dir, passwordsFile)) })
}

// written writes a complete file of mode 0600 into a directory, and calls place to give it its name.
func written(dir string, data []byte, place func(file string) error) error {
	f, err := os.CreateTemp(dir, ".password-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = place(f.Name())
	}
	if fail := os.Remove(f.Name()); !errors.Is(fail, fs.ErrNotExist) {
		err = errors.Join(err, fail)
	}
	return err
}

// passwordIn returns the password in a file, which is generated if it does not exist.
func passwordIn(file string) (string, error) {
	password, err := dial.ReadPassword(file)
	if errors.Is(err, fs.ErrNotExist) {
		if password, err = natsd.NewPassword(); err != nil {
			return "", err
		}
		// A link fails if another process has created the file meanwhile, whose password then counts.
		err = written(filepath.Dir(file), []byte(password+"\n"), func(complete string) error { return os.Link(complete, file) })
		if !errors.Is(err, fs.ErrExist) {
			return password, err
		}
		password, err = dial.ReadPassword(file)
	}
	if err == nil && strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		err = fmt.Errorf("password: %s has a character that is not a letter, a digit or a sign of ASCII, or is \" or \\: choose another password", file)
	}
	return password, err
}
