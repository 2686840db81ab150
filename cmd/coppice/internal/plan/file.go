package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/datadir"
)

// The format of plan files; see docs/formats.md.
const (
	fileFormat  = "coppice.dev/plan-file"
	fileVersion = 3         // 1 and 2 are read, too: they have one deletion, and 1 has no finalizers in its plan
	maxFile     = 256 << 20 // bytes
)

// File is deletions and their plan, for people to review and for 'coppice delete --plan-file'.
type File struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Realm   string    `json:"realm"`
	Time    time.Time `json:"time"`
	// Deletion is the deletion of a file of version 1 or 2.
	Deletion *Deletion `json:"deletion,omitempty"`
	// Deletions are carried out together, in one commit.
	Deletions []Deletion `json:"deletions,omitempty"`
	Plan      JSON       `json:"plan"`
	// Checksum is the SHA-256 of the file's values without it, in hexadecimal.
	Checksum string `json:"checksum,omitempty"`
}

// Deletion is a deletion of a plan file: of objects of one kind in one namespace.
type Deletion struct {
	Resource           string   `json:"resource"`
	Namespace          string   `json:"namespace,omitempty"`
	Objects            []Victim `json:"objects"`
	PropagationPolicy  string   `json:"propagationPolicy"`
	GracePeriodSeconds *int64   `json:"gracePeriodSeconds,omitempty"`
}

// Victim is an object of a Deletion.
type Victim struct {
	Name string `json:"name"`
}

// sum returns the checksum of the file's values.
func (f File) sum() (string, error) {
	f.Checksum = ""
	b, err := json.Marshal(f)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// WriteFile writes the plan of a request of a realm. The file is complete or unchanged.
func WriteFile(name, realm string, now time.Time, r *Request, p *client.Plan, times []history.FinalizerTime) (err error) {
	f := File{Format: fileFormat, Version: fileVersion, Realm: realm, Time: now.UTC().Truncate(time.Second), Plan: JSONOf(p, times)}
	for _, part := range r.Parts {
		of := Deletion{Resource: part.Resource.String(), Namespace: part.Namespace, PropagationPolicy: string(part.Propagation)}
		for _, n := range part.Names {
			of.Objects = append(of.Objects, Victim{n})
		}
		if g := part.GracePeriod; g != nil {
			seconds := int64(*g / time.Second)
			of.GracePeriodSeconds = &seconds
		}
		f.Deletions = append(f.Deletions, of)
	}
	if f.Checksum, err = f.sum(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(f, "", "    ")
	if err != nil {
		return err
	}
	if err := datadir.ReplaceFile(name, append(b, '\n')); err != nil {
		return fmt.Errorf("plan file: %w", err)
	}
	return nil
}

// ReadFile reads a plan file. It refuses other files, files of a newer version, and files
// that were changed.
func ReadFile(name string) (f File, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return f, fmt.Errorf("plan file: %w", err)
	}
	if info.Size() > maxFile {
		return f, fmt.Errorf("%s: it has %d bytes, and a plan file at most %d", name, info.Size(), maxFile)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return f, fmt.Errorf("plan file: %w", err)
	}
	const again = "write it again: coppice plan delete ... --out FILE"
	var is struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if fail := json.Unmarshal(b, &is); fail != nil && !bytes.Contains(b, []byte(fileFormat)) || fail == nil && is.Format != fileFormat {
		return f, fmt.Errorf("%s is not a plan file; %s", name, again)
	} else if fail != nil {
		return f, fmt.Errorf("%s: the plan file is damaged: %w; %s", name, fail, again)
	}
	if is.Version < 1 || is.Version > fileVersion {
		return f, fmt.Errorf("%s: the plan file has format version %d, and this coppice reads versions up to %d; use the coppice that wrote it, or %s", name, is.Version, fileVersion, again)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("%s: the plan file is damaged: %w; %s", name, err, again)
	}
	sum, err := f.sum()
	if err != nil {
		return f, err
	}
	if sum != f.Checksum {
		return f, fmt.Errorf("%s: the plan file was changed or is damaged: its checksum does not match; %s", name, again)
	}
	if f.Deletion != nil {
		f.Deletions = append([]Deletion{*f.Deletion}, f.Deletions...)
	}
	if len(f.Deletions) == 0 {
		return f, fmt.Errorf("%s: the plan file has no deletion; %s", name, again)
	}
	return f, nil
}

// AddFile adds the deletions of a plan file to the request. kinds are those of the realm.
func (r *Request) AddFile(file *File, kinds []client.Kind) error {
	for _, of := range file.Deletions {
		var kind client.Kind
		for _, k := range kinds {
			if client.ResourceOf(k).String() == of.Resource {
				kind = k
			}
		}
		if client.ResourceOf(kind).String() != of.Resource {
			return fmt.Errorf("the kind of %s is not registered any more; plan again", of.Resource)
		}
		var grace *time.Duration
		if of.GracePeriodSeconds != nil {
			period := time.Duration(min(*of.GracePeriodSeconds, math.MaxInt64/int64(time.Second))) * time.Second
			grace = &period
		}
		for _, o := range of.Objects {
			if err := r.Add(Object{kind, of.Namespace, o.Name}, client.PropagationPolicy(of.PropagationPolicy), grace); err != nil {
				return err
			}
		}
	}
	return nil
}

// WrittenTo says where a plan was written, and how to carry it out.
func WrittenTo(file string, p *client.Plan) string {
	return fmt.Sprintf("plan %s written; to do just that: coppice delete --plan-file %s\n", p.GetPlan(), shellWord(terminal.Printable(file)))
}
