package natsd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/coppice-gc/coppice/internal/datadir"
)

// addSums stores the checksums of configurations of streams that lack one. nats-server 2.15.2 stores a new stream's
// configuration, then its checksum, and never adds the checksum later: it leaves out a stream without one at each start, also if the
// stream was created again and has messages since. A checksum that differs is left as it is, because the
// configuration may be damaged.
// What fails is logged: the server leaves out such a stream, and serves the others.
func addSums(dir string, logf func(format string, v ...any)) {
	for _, account := range directories(filepath.Join(dir, server.JetStreamStoreDir), logf) {
		for _, stream := range directories(filepath.Join(account, "streams"), logf) {
			if err := addSum(stream); err != nil {
				logf("the checksum of the configuration of the stream in %s is missing, and cannot be stored: %v", stream, err)
			}
		}
	}
}

// directories returns the paths of the directories in one.
func directories(dir string, logf func(format string, v ...any)) (list []string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		logf("%s cannot be read: %v", dir, err)
	}
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

func addSum(stream string) error {
	sum := filepath.Join(stream, server.JetStreamMetaFileSum)
	if _, err := os.Stat(sum); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	meta, err := os.ReadFile(filepath.Join(stream, server.JetStreamMetaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	name := filepath.Base(stream)
	var c server.FileStreamInfo
	if complete := json.Unmarshal(meta, &c) == nil && c.Name == name; !complete {
		return nil
	}
	key := sha256.Sum256([]byte(name))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return err
	}
	_, _ = hash.Write(meta) // never fails
	return datadir.ReplaceFile(sum, []byte(hex.EncodeToString(hash.Sum(nil))))
}
