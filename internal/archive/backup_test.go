package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// recorded is the manifest in testdata/backup-1, which is never changed.
func recorded() archive.Backup {
	return archive.Backup{
		ID: [8]byte{0x1f, 0x2e, 7: 0x99}, At: time.Date(2026, 2, 3, 4, 5, 6, 789000000, time.UTC), By: "node-1", Coppice: "1.2.3",
		Realms: []archive.BackupRealm{
			{Name: "default", ID: [16]byte{0xc0, 15: 0x99}, Sequence: 12, Revision: 1 << 41},
			{Name: "shop", ID: [16]byte{0xc1, 15: 0x98}, Sequence: 3, Revision: 40, Paused: true},
		},
	}
}

const recordedName = "backup/20260203t040506.789000z-1f2e000000000099"

// A manifest of each version stays readable, and is written as it was.
func TestRecordedBackup(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	written, err := dirstore.Open(t.TempDir())
	must.Succeed(t, err)
	want := recorded()
	must.Succeed(t, archive.PutBackup(ctx, written, want))
	if want.Name() != recordedName || !archive.IsBackup(recordedName) || archive.IsOfRealm(recordedName) {
		t.Errorf("its name is %s", want.Name())
	}
	list, err := archive.Backups(ctx, written)
	if err != nil || len(list) != 1 || list[0].Name != recordedName {
		t.Fatalf("%v, %v", list, err)
	}
	in, err := written.Open(ctx, recordedName, 0, list[0].Size)
	must.Succeed(t, err)
	var b bytes.Buffer
	_, err = b.ReadFrom(in)
	must.Succeed(t, errors.Join(err, in.Close()))
	file, err := os.ReadFile("testdata/backup-1")
	must.Succeed(t, err)
	if !bytes.Equal(file, b.Bytes()) {
		t.Errorf("it is written as %s", b.Bytes())
	}

	read := func(content []byte) (archive.Backup, error) {
		s, err := dirstore.Open(t.TempDir())
		must.Succeed(t, err)
		must.Succeed(t, s.Put(ctx, recordedName, bytes.NewReader(content), int64(len(content))))
		return archive.ReadBackup(ctx, s, archive.Entry{Name: recordedName, Size: int64(len(content))})
	}
	got, err := read(file)
	if err != nil || got.ID != want.ID || !got.At.Equal(want.At) || got.By != want.By || got.Coppice != want.Coppice || !slices.Equal(got.Realms, want.Realms) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 1
		if _, err := read(damaged); !archive.IsDamaged(err) {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
	sealed := func(line string) []byte {
		return fmt.Appendf(nil, "%s\n%08x\n", line, crc32.ChecksumIEEE([]byte(line)))
	}
	line, _, _ := strings.Cut(string(file), "\n")
	var version *archive.VersionError
	if _, err := read(sealed(strings.Replace(line, `"format":1`, `"format":2`, 1))); !errors.As(err, &version) || version.Format != 2 {
		t.Errorf("a later version: %v", err)
	}
	if _, err := read(sealed(strings.Replace(line, `"by"`, `"later":1,"by"`, 1))); err != nil {
		t.Errorf("an unknown member: %v", err)
	}
	if _, err := read(sealed(strings.Replace(line, "1f2e", "1f2f", 1))); !archive.IsDamaged(err) {
		t.Errorf("the manifest of another name: %v", err)
	}
	for _, name := range []string{"backup/", "backup/x", recordedName + "0", strings.ToUpper(recordedName), "backup/20260203t040506.789000z-1f2e", "other/" + recordedName} {
		if archive.IsBackup(name) {
			t.Errorf("%s counts as a manifest", name)
		}
	}
}
