package natsd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
func addSums(dir string) error {
	streams, err := filepath.Glob(filepath.Join(dir, server.JetStreamStoreDir, "*", "streams", "*"))
	if err != nil {
		return err
	}
	for _, stream := range streams {
		if err := addSum(stream); err != nil {
			return fmt.Errorf("the checksum of the configuration of the stream in %s: %w", stream, err)
		}
	}
	return nil
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
