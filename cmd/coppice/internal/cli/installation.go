package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/graph"
)

// LoadSecrets returns the secrets of an installation: from the file if its name is not empty,
// otherwise from the environment, otherwise from the data directory. If the directory has no
// secret, LoadSecrets generates one there, unless the directory has a state.
func LoadSecrets(file, data string) (secret.Secrets, error) {
	if file != "" {
		s, err := secret.Load(file)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; generate one with 'coppice secret new %s', and give every graph service a copy", err, file)
		}
		return s, err
	}
	if text := os.Getenv(secret.Env); text != "" {
		s, err := secret.Parse([]byte(text))
		if err != nil {
			err = fmt.Errorf("$%s: %w", secret.Env, err)
		}
		return s, err
	}
	s, err := secret.LoadOrDraw(filepath.Join(data, secret.FileName), graph.Written()...)
	if errors.Is(err, secret.ErrLost) {
		err = fmt.Errorf("%w; if the secret is in another file, name that with --secret", err)
	}
	return s, err
}

// Instance is a name of this process for operators: the host and the process id.
func Instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// maxReplicas is the number of servers that keep a stream at most; NATS refuses more.
const maxReplicas = 5

// CheckReplicas refuses numbers of replicas that no stream can have.
func CheckReplicas(n int) error {
	if n < 1 || n > maxReplicas {
		return fmt.Errorf("--replicas %d: choose 1 to %d", n, maxReplicas)
	}
	return nil
}

// ArchiveDir is the directory of the archive in the data of `coppice up`.
const ArchiveDir = "archive"
